//! What a log says of bytes that are not what it wrote.

use env::sim::World;
use env::{Dir, Disk, Open};
use holdfast_log::{Log, LogError, LogId, Options, Record, Sequence};
use std::sync::Arc;

const ID: LogId = LogId(9);
const OPTIONS: Options = Options {
    segment_bytes: 32 << 10,
};

fn open(world: &World) -> Result<Vec<Record>, LogError> {
    Log::open(world.dir("store"), "j", ID, OPTIONS).map(|(_, records)| records)
}

/// A log of `count` records of 100 bytes, `per_commit` in each device write.
fn written(count: u64, per_commit: u64) -> World {
    let world = World::new(1);
    let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
    for i in 1..=count {
        let sequence = log.append(3, &[i as u8; 100]).unwrap();
        if i % per_commit == 0 {
            log.commit(sequence).unwrap();
        }
    }
    world
}

/// Segment files, oldest first.
fn segments(world: &World) -> Vec<String> {
    let names = world.dir("store").list().unwrap();
    names
        .into_iter()
        .filter(|name| name.ends_with(".segment"))
        .collect()
}

fn file(world: &World, name: &str) -> Arc<dyn Disk> {
    world.dir("store").open(name, Open::Write).unwrap()
}

#[test]
fn damage_below_a_later_committed_write_is_reported_wherever_it_is() {
    // Five records, each in its own block: blocks 1 to 5 of the only segment.
    let whole = open(&written(5, 1)).unwrap();
    assert_eq!(whole.len(), 5);
    for block in 1..5u64 {
        for byte in [0, 4, 8, 16, 20, 24, 28, 31, 32, 80, 131] {
            let world = written(5, 1);
            let name = segments(&world).remove(0);
            assert!(world.rot("store", &name, block * 4096 + byte, 3));
            let error = open(&world).expect_err("committed records follow");
            let LogError::Corrupt { file, corruption } = &error else {
                panic!("{error}");
            };
            assert_eq!(*file, name);
            assert_eq!(corruption.offset / 4096, block, "{error}");
        }
    }
}

#[test]
fn damage_in_the_last_write_is_taken_for_a_torn_tail() {
    for byte in (0..132).filter(|byte| *byte != 100) {
        let world = written(5, 1);
        let name = segments(&world).remove(0);
        world.rot("store", &name, 5 * 4096 + byte, 0);
        assert_eq!(open(&world).unwrap().len(), 4, "byte {byte}");
    }
}

#[test]
fn within_one_write_the_records_before_the_damage_are_kept_and_no_later_one() {
    // Frames of 136 bytes; all five in one write.
    for damaged in 0..5u64 {
        let world = written(5, 5);
        let name = segments(&world).remove(0);
        world.rot("store", &name, 4096 + damaged * 136 + 40, 1);
        let found = open(&world).unwrap();
        assert_eq!(found.len() as u64, damaged);
    }
}

#[test]
fn what_a_torn_write_left_is_never_taken_for_a_later_record() {
    let world = written(5, 5);
    let name = segments(&world).remove(0);
    // Record 3 did not reach the medium; 4 and 5 of the same write did.
    world.rot("store", &name, 4096 + 2 * 136 + 40, 1);
    let (log, found) = Log::open(world.dir("store"), "j", ID, OPTIONS).unwrap();
    assert_eq!(found.len(), 2);
    let sequence = log.append(3, &[77; 100]).unwrap();
    assert_eq!(sequence, Sequence(3));
    log.commit(sequence).unwrap();
    drop(log);
    let found = open(&world).unwrap();
    let contents: Vec<u8> = found.iter().map(|record| record.payload[0]).collect();
    assert_eq!(contents, [1, 2, 77]);
}

#[test]
fn garbage_and_zeros_behind_the_end_are_ignored() {
    for fill in [0, 0xff, b'H'] {
        let world = written(5, 1);
        let name = segments(&world).remove(0);
        file(&world, &name)
            .write_at(6 * 4096, &vec![fill; 2 * 4096])
            .unwrap();
        assert_eq!(open(&world).unwrap().len(), 5);
    }
}

#[test]
fn stale_frames_of_a_recycled_segment_are_not_taken_for_new_ones() {
    let world = World::new(1);
    let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
    // Fill and recycle: every segment file has held frames of an earlier use.
    for i in 0..60u8 {
        let sequence = log.append(1, &[i; 100]).unwrap();
        log.commit(sequence).unwrap();
        log.truncate_before(sequence).unwrap();
    }
    let held = log.held();
    drop(log);
    let found = open(&world).unwrap();
    assert_eq!(found.last().unwrap().sequence, Sequence(60));
    assert_eq!(found.first().unwrap().sequence, held.first);
    for record in found {
        assert_eq!(u64::from(record.payload[0]) + 1, record.sequence.0);
    }
}

#[test]
fn a_missing_a_swapped_and_a_shortened_segment_are_reported() {
    let corrupt = |harm: fn(&World, &[String])| {
        let world = written(40, 1);
        let names = segments(&world);
        assert!(names.len() >= 4, "{names:?}");
        harm(&world, &names);
        let error = open(&world).expect_err("harmed");
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    };
    corrupt(|world, names| world.dir("store").remove(&names[1]).unwrap());
    corrupt(|world, names| {
        let dir = world.dir("store");
        let content = dir.read(&names[0]).unwrap();
        dir.replace(&names[1], &content).unwrap();
    });
    corrupt(|world, names| {
        let dir = world.dir("store");
        let mut content = dir.read(&names[1]).unwrap();
        content.truncate(16 << 10);
        dir.replace(&names[1], &content).unwrap();
    });
    corrupt(|world, names| {
        let dir = world.dir("store");
        dir.replace(&names[2], b"").unwrap();
    });
    corrupt(|world, names| {
        world.rot("store", &names[3], 70, 0);
    });
}

#[test]
fn the_end_of_a_full_segment_is_damaged_where_the_next_one_says_that_more_was_there() {
    let world = written(40, 1);
    let names = segments(&world);
    // The last record of the first segment: block 7 of 8.
    world.rot("store", &names[0], 7 * 4096 + 40, 0);
    let error = open(&world).expect_err("the next segment begins later");
    assert!(
        matches!(&error, LogError::Corrupt { file, .. } if *file == names[0]),
        "{error}"
    );
}

#[test]
fn a_misdirected_write_is_found() {
    use env::sim::{Effect, Operation, Trouble};
    let world = World::new(1);
    let log = Log::create(world.dir("store"), "j", ID, OPTIONS).unwrap();
    for i in 0..4u8 {
        if i == 2 {
            world.plan(Trouble::new(Operation::Write, Effect::Misdirect(-4096)));
        }
        let sequence = log.append(1, &[i; 100]).unwrap();
        log.commit(sequence).unwrap();
    }
    assert!(matches!(open(&world), Err(LogError::Corrupt { .. })));
}

#[test]
fn a_disk_that_cannot_be_read_fails_the_open_and_changes_nothing() {
    use env::errno::{Errno, ErrorKind};
    use env::sim::{Effect, Operation, Trouble};
    for passed in 0..6 {
        let world = written(40, 1);
        let read = Trouble::new(Operation::Read, Effect::Fail(Errno::IO)).named("segment");
        world.plan(read.after(2 * passed + 1));
        assert_eq!(
            open(&world).expect_err("unreadable").kind(),
            ErrorKind::Fatal
        );
        assert_eq!(open(&world).unwrap().len(), 40);
    }
}

#[test]
fn a_segment_is_printed_for_people() {
    let world = written(3, 1);
    let name = segments(&world).remove(0);
    let bytes = world.dir("store").read(&name).unwrap();
    let text = codec::text(&holdfast_log::inspect(&bytes).unwrap());
    assert!(
        text.contains("record 2       kind 3, 100 bytes, ends a write\n"),
        "{text}"
    );
    assert!(text.contains("open tail"), "{text}");
}
