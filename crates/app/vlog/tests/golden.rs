//! Logs as earlier versions left them on disk.
//!
//! `golden/v1`: two directories, two lanes, segments of 4 KiB, stream and payload of the live records in
//! `records.txt`. It was made by a database of five streams that set, deleted, grouped and
//! compacted; the last opening was not closed, and the end of one file was cut.

use env::Dir as _;
use env::sim::World;
use holdfast_vlog::{Directory, Options, Vlog};

fn loaded(version: &str) -> World {
    let home = format!("{}/tests/golden/{version}", env!("CARGO_MANIFEST_DIR"));
    let world = World::new(1);
    for dir in ["one", "two"] {
        for file in std::fs::read_dir(format!("{home}/{dir}")).unwrap() {
            let file = file.unwrap();
            let content = std::fs::read(file.path()).unwrap();
            let name = file.file_name();
            world
                .dir(dir)
                .replace(name.to_str().unwrap(), &content)
                .unwrap();
        }
    }
    world
}

fn records(world: &World) -> String {
    let directories = ["one", "two"].map(|name| Directory {
        dir: world.dir(name),
        path: format!("/{name}"),
    });
    let options = Options {
        threads: false,
        ..Options::default()
    };
    let (log, records) = Vlog::open_all("db", directories.to_vec(), options).unwrap();
    log.close().unwrap();
    records
        .iter()
        .map(|record| {
            let hex = record.payload.iter().map(|byte| format!("{byte:02x}"));
            format!("{} {}\n", record.stream, hex.collect::<String>())
        })
        .collect()
}

#[test]
fn golden_a_log_of_version_1_is_read() {
    let world = loaded("v1");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/records.txt");
    let expected = std::fs::read_to_string(path).unwrap();
    assert!(expected.lines().count() > 5);
    assert_eq!(records(&world), expected);
    // Also after it was written again by this version.
    assert_eq!(records(&world), expected);
}
