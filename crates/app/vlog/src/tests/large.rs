//! Groups as large as a whole database.

use crate::{Change, Directory, Options, Position, Vlog, VlogId};

/// More than a million: a database that is emptied is one group.
const RECORDS: usize = (1 << 20) + 1;

#[test]
fn one_group_kills_more_than_a_million_records() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_str().unwrap().to_owned();
    let directories = || vec![Directory::open(&path).unwrap()];
    let options = Options {
        threads: false,
        ..Options::default()
    };
    Vlog::create("large", directories(), VlogId(1)).unwrap();
    let log = Vlog::open("large", directories(), options.clone(), &|_| {}).unwrap();
    let append = Change::Append {
        stream: 0,
        payload: b"x",
        replaces: None,
    };
    let mut positions: Vec<Position> = Vec::with_capacity(RECORDS);
    log.group(&vec![append; RECORDS], &mut positions).unwrap();
    let kills: Vec<Change<'_>> = positions
        .iter()
        .map(|position| Change::Kill {
            stream: 0,
            position: *position,
        })
        .collect();
    log.group(&kills, &mut Vec::new()).unwrap();
    log.flush(0).unwrap();
    log.sync(0).unwrap();
    // A crash of the process: the kills are read from their block.
    drop(log);
    let (_, found) = Vlog::open_all("large", directories(), options).unwrap();
    assert!(found.is_empty(), "{} records are live", found.len());
}
