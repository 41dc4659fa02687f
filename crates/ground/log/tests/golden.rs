//! Logs as earlier versions left them on disk, and the same ones damaged.
//!
//! `golden/v1`: segments of 12 KiB, record N (1 to 9) of kind N holds 300 N bytes N; device writes
//! ended behind 2, 3, 5, 6, 8 and 9; truncated before 5.

use env::Dir;
use env::sim::World;
use holdfast_log::{Log, LogError, LogId, Options, Record, Sequence};

const ID: LogId = LogId(0x601de2);
const OPTIONS: Options = Options {
    segment_bytes: 12288,
};

/// A world with the files of a golden directory.
fn loaded(version: &str) -> World {
    let path = format!("{}/tests/golden/{version}", env!("CARGO_MANIFEST_DIR"));
    let world = World::new(1);
    let dir = world.dir("store");
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap();
        let content = std::fs::read(file.path()).unwrap();
        dir.replace(file.file_name().to_str().unwrap(), &content)
            .unwrap();
    }
    world
}

fn open(world: &World) -> Result<(Log, Vec<Record>), LogError> {
    Log::open(world.dir("store"), "golden", ID, OPTIONS)
}

#[test]
fn a_log_of_version_1_opens_and_goes_on() {
    let world = loaded("v1");
    let (log, records) = open(&world).unwrap();
    let sequences: Vec<u64> = records.iter().map(|record| record.sequence.0).collect();
    assert_eq!(sequences, [4, 5, 6, 7, 8, 9]);
    for record in &records {
        let number = record.sequence.0;
        assert_eq!(u64::from(record.kind), number);
        assert_eq!(record.payload, vec![number as u8; number as usize * 300]);
    }
    let next = log.append(10, b"more").unwrap();
    log.commit(next).unwrap();
    drop(log);
    assert_eq!(open(&world).unwrap().1.len(), 7);
    let spares = world.dir("store").list().unwrap();
    assert!(
        !spares.iter().any(|name| name.ends_with("1.spare")),
        "used again: {spares:?}"
    );
}

#[test]
fn damaged_logs_of_version_1_are_named_and_left_alone() {
    // File, damaged byte, what is said of it.
    let cases = [
        (
            "2.segment",
            20,
            "header checksum at byte 60: expected 0x6108f3b1, found 0x159d78e",
        ),
        (
            "2.segment",
            4096 + 100,
            "payload checksum at byte 4120: expected 0x9201ca, found 0x2a36e6bf",
        ),
        (
            "3.segment",
            4096,
            "magic at byte 4096: expected 0x43455248, found 0x43455249",
        ),
        (
            "4.segment",
            64,
            "payload checksum at byte 56: expected 0x9899c128, found 0x6a95ccd6",
        ),
    ];
    for (file, byte, message) in cases {
        let file = format!("golden.000000000000000{file}");
        let world = loaded("v1");
        assert!(world.rot("store", &file, byte, 0));
        let before = world.dir("store").list().unwrap();
        let error = open(&world).map(drop).expect_err(message);
        assert_eq!(error.to_string(), format!("{file} is corrupt: {message}"));
        assert_eq!(world.dir("store").list().unwrap(), before);
    }
}

#[test]
fn damage_in_the_last_write_of_version_1_looks_like_a_torn_one() {
    let world = loaded("v1");
    let file = "golden.0000000000000004.segment";
    assert!(world.rot("store", file, 4096 + 40, 0));
    let (log, records) = open(&world).unwrap();
    assert_eq!(records.last().unwrap().sequence, Sequence(8));
    assert_eq!(log.next_sequence(), Sequence(9));
}
