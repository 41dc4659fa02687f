//! What a log says of bytes that are not what it wrote, of files that are gone, and of a disk that
//! fails.

use super::model::{Database, History, ID, State, create, directories, options};
use crate::{Directory, Vlog, VlogError, VlogId};
use codec::{Identity, kind};
use env::errno::{Errno, ErrorKind};
use env::sim::{Effect, Operation, Trouble, World};
use env::{Dir as _, Open};

const DIRS: [&str; 2] = ["one", "two"];

/// A log with files that were appended to, compacted ones, kills and groups, closed in good order,
/// and what is in it.
fn closed() -> (World, State) {
    let world = World::new(3);
    let mut rng = world.rng();
    create(&world);
    for _ in 0..3 {
        let mut database = Database::open(&world, 2, None).unwrap();
        for _ in 0..60 {
            let step = database.choose(&mut rng);
            database.make(&step, &mut rng).unwrap();
        }
        while database.log.compact(60).unwrap().is_some() {}
        database.log.close().unwrap();
    }
    let state = Database::open(&world, 2, None).unwrap().state();
    assert!(state.len() > 5);
    (world, state)
}

fn files(world: &World) -> Vec<(&'static str, String)> {
    let of = |dir: &'static str| {
        let names = world.dir(dir).list().unwrap().into_iter();
        names
            .filter(|name| !name.ends_with(".lock"))
            .map(move |name| (dir, name))
    };
    DIRS.into_iter().flat_map(of).collect()
}

fn names_file(error: &VlogError, dir: &str, file: &str) -> bool {
    error.to_string().contains(&format!("/{dir}/{file}"))
}

#[test]
fn a_flipped_bit_in_any_file_is_named_or_changes_nothing() {
    let (world, state) = closed();
    let mut named = 0;
    for (dir, file) in files(&world) {
        let length = world.dir(dir).read(&file).unwrap().len() as u64;
        for offset in (0..length).step_by(3) {
            assert!(world.rot(dir, &file, offset, (offset % 8) as u8));
            let before = world.dir(dir).list().unwrap();
            match Database::open(&world, 2, None) {
                Err(error) => {
                    assert!(names_file(&error, dir, &file), "{dir}/{file}: {error}");
                    assert_ne!(error.kind(), ErrorKind::Fatal, "{error}");
                    assert_eq!(world.dir(dir).list().unwrap(), before, "{error}");
                    named += 1;
                    assert!(world.rot(dir, &file, offset, (offset % 8) as u8));
                }
                Ok(database) => {
                    // Between two writes, or behind what counts. The open wrote a manifest.
                    assert_eq!(database.state(), state, "{dir}/{file} at {offset}");
                    assert!(file.ends_with(".segment"), "{file} at {offset}");
                }
            }
        }
    }
    assert!(named > 1000, "{named}");
}

#[test]
fn damage_below_a_later_durable_block_is_named_in_a_log_that_was_not_closed() {
    let world = World::new(5);
    create(&world);
    let (log, _) = Vlog::open_all("db", directories(&world), options(1)).unwrap();
    for value in 0..5u8 {
        let (_, receipt) = log.append(0, &[value; 100], None).unwrap();
        log.durable(receipt).unwrap();
    }
    drop(log);
    let file = "db.0000000000000001.segment";
    // Four blocks of one sector each have a later one that vouches for them.
    for block in 1..=4u64 {
        for byte in [0, 5, 9, 13, 17, 30, 70, 150] {
            let offset = block * 512 + byte;
            assert!(world.rot("one", file, offset, 2));
            let error = Vlog::open_all("db", directories(&world), options(1))
                .map(|(_, records)| records)
                .unwrap_err();
            let VlogError::Corrupt { corruption, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(corruption.offset / 512, block, "{error}");
            assert!(world.rot("one", file, offset, 2));
        }
    }
    // The last has nobody behind it: it looks like a write that a crash cut.
    assert!(world.rot("one", file, 5 * 512 + 100, 2));
    let (_log, records) = Vlog::open_all("db", directories(&world), options(1)).unwrap();
    assert_eq!(records.len(), 4);
}

#[test]
fn a_file_that_is_gone_is_named_and_put_back_it_is_whole_again() {
    let (world, state) = closed();
    for (dir, file) in files(&world) {
        let content = world.dir(dir).read(&file).unwrap();
        world.dir(dir).remove(&file).unwrap();
        let error = Database::open(&world, 2, None).map(|_| ()).unwrap_err();
        assert!(names_file(&error, dir, &file), "{dir}/{file}: {error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        world.dir(dir).replace(&file, &content).unwrap();
    }
    assert_eq!(Database::open(&world, 2, None).unwrap().state(), state);
}

#[test]
fn files_of_a_newer_version_are_left_alone() {
    let (world, _) = closed();
    for (dir, file) in files(&world) {
        let content = world.dir(dir).read(&file).unwrap();
        let kind = codec::object_kind(&content).unwrap();
        let end = match kind {
            kind::VLOG_SEGMENT => 512,
            _ => content.len(),
        };
        let object = codec::open_object(&content[..end], kind, None).unwrap();
        let mut newer = codec::seal_object(kind, 2, &object.identity, object.payload);
        newer.resize(end, 0);
        newer.extend_from_slice(&content[end..]);
        world.dir(dir).replace(&file, &newer).unwrap();
        let error = Database::open(&world, 2, None).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, VlogError::Version { found: 2, .. }),
            "{error}"
        );
        assert!(names_file(&error, dir, &file), "{error}");
        world.dir(dir).replace(&file, &content).unwrap();
    }
    Database::open(&world, 2, None).unwrap();
}

#[test]
fn a_log_is_open_once_at_a_time_and_only_with_its_own_directories() {
    let (world, _) = closed();
    let fail = |directories: Vec<Directory>| {
        let opened = Vlog::open_all("db", directories, options(1));
        opened.map(|_| ()).unwrap_err()
    };
    let database = Database::open(&world, 2, None).unwrap();
    assert!(matches!(
        fail(directories(&world)),
        VlogError::Busy { file } if file == "/one/db.lock"
    ));
    drop(database);
    let swapped = directories(&world).into_iter().rev().collect();
    assert!(matches!(
        fail(swapped),
        VlogError::Lost { .. } | VlogError::Missing { .. }
    ));
    let one = directories(&world).into_iter().take(1).collect();
    assert!(matches!(
        fail(one),
        VlogError::Directories {
            expected: 2,
            found: 1
        }
    ));
    let other = |name: &str| Directory {
        dir: world.dir(name),
        path: format!("/{name}"),
    };
    Vlog::create("db", vec![other("three"), other("four")], VlogId(9)).unwrap();
    let mixed = vec![directories(&world).remove(0), other("four")];
    assert!(matches!(
        fail(mixed),
        VlogError::Foreign { file } if file == "/four/db.directory"
    ));
    let again = Vlog::create("db", vec![other("four")], VlogId(10)).unwrap_err();
    assert!(matches!(again, VlogError::Exists { .. }), "{again}");
    assert!(matches!(
        fail(vec![other("five")]),
        VlogError::Missing { .. }
    ));
}

#[test]
fn a_disk_that_fails_loses_nothing_that_was_promised() {
    let mut stopped = 0;
    for seed in 0..300 {
        let world = World::new(seed);
        let mut rng = world.rng();
        create(&world);
        let lanes = 1 + rng.below(3) as u32;
        let mut database = Database::open(&world, lanes, None).unwrap();
        let mut history = History {
            lanes,
            ..History::default()
        };
        let operations = [
            Operation::Write,
            Operation::Sync,
            Operation::Replace,
            Operation::Create,
            Operation::SyncDir,
            Operation::Remove,
        ];
        let errno = [Errno::IO, Errno::NOSPC][rng.index(2)];
        let operation = operations[rng.index(operations.len())];
        let trouble = Trouble::new(operation, Effect::Fail(errno));
        world.plan(trouble.after(rng.below(40)).times(1 + rng.below(3)));
        for _ in 0..150 {
            let step = database.choose(&mut rng);
            let made = match database.make(&step, &mut rng) {
                Ok(receipt) => {
                    history.steps.push(step);
                    history.promised.push(false);
                    if rng.chance(1, 4) && receipt.chunk > 0 {
                        let durable = database.log.durable(receipt);
                        if durable.is_ok() {
                            *history.promised.last_mut().unwrap() = true;
                        }
                        durable
                    } else {
                        Ok(())
                    }
                }
                Err(error) => Err(error),
            };
            let compacted = match rng.chance(1, 8) {
                true => database.log.compact(30).map(|_| ()),
                false => Ok(()),
            };
            let failed = made.and(compacted).err();
            match failed.map(|error| (error.kind(), error)) {
                None | Some((ErrorKind::NoSpace, _)) => {
                    // The application waits for room, and tries what was appended again.
                    for lane in 0..lanes {
                        let _ = database.log.flush(lane);
                    }
                }
                Some((ErrorKind::Fatal, _)) => {
                    stopped += 1;
                    let (_, receipt) = match database.log.append(0, b"more", None) {
                        Ok(made) => made,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
                            break;
                        }
                    };
                    panic!("seed {seed}: it goes on with {receipt:?}");
                }
                Some((_, error)) => panic!("seed {seed}: {error}"),
            }
        }
        drop(database);
        world.calm();
        if rng.chance(1, 2) {
            world.crash();
        } else {
            world.kill();
        }
        let database = Database::open(&world, 2, None)
            .unwrap_or_else(|error| panic!("seed {seed} {operation:?} {errno}: {error}"));
        history
            .allows(&database.state())
            .unwrap_or_else(|why| panic!("seed {seed} {operation:?} {errno}: {why}"));
    }
    assert!(stopped > 50, "{stopped}");
}

#[test]
fn a_full_disk_refuses_appends_keeps_what_waits_and_goes_on_with_room() {
    let world = World::new(1);
    create(&world);
    let (log, _) = Vlog::open_all("db", directories(&world), options(1)).unwrap();
    let mut last = None;
    let mut count = 0u32;
    world.set_capacity(Some(64 << 10));
    let refused = loop {
        assert!(count < 1000, "it never fills");
        let bytes = [count as u8; 900];
        let made = log.append(0, &bytes, None).and_then(|(_, receipt)| {
            count += 1;
            last = Some(receipt);
            log.flush(0)
        });
        if let Err(error) = made {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert!(refused.to_string().contains("make room"), "{refused}");
    let again = log.append(0, b"x", None).map(|_| ()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NoSpace, "{again}");
    assert!(log.status().refuses.is_some());
    world.set_capacity(None);
    log.flush(0).unwrap();
    log.append(0, b"x", None).unwrap();
    log.durable(last.unwrap()).unwrap();
    assert_eq!(log.status().refuses, None);
    drop(log);
    world.crash();
    let (_, records) = Vlog::open_all("db", directories(&world), options(1)).unwrap();
    assert!(records.len() >= count as usize, "{count}");
}

#[test]
fn space_comes_back_on_a_full_disk_by_killing() {
    let world = World::new(2);
    create(&world);
    let (log, _) = Vlog::open_all("db", directories(&world), options(1)).unwrap();
    let mut positions = Vec::new();
    for _ in 0..40 {
        positions.push(log.append(0, &[7; 900], None).unwrap().0);
    }
    log.flush(0).unwrap();
    for position in positions.drain(..) {
        log.kill(0, position).unwrap();
    }
    log.flush(0).unwrap();
    let files = log.status().files;
    let used = self::files(&world)
        .into_iter()
        .map(|(dir, file)| world.dir(dir).read(&file).unwrap().len() as u64);
    // Room for new small files, not for a copy of a record.
    world.set_capacity(Some(used.sum::<u64>() + 700));
    log.compact(100).unwrap().expect("all of it is dead");
    assert!(log.status().files < files);
}

#[test]
fn a_compaction_stops_at_damage_and_the_log_goes_on() {
    let (world, _) = closed();
    let segment = files(&world)
        .into_iter()
        .rfind(|(_, file)| file.ends_with(".segment"))
        .unwrap();
    let mut database = Database::open(&world, 2, None).unwrap();
    assert!(world.rot(segment.0, &segment.1, 600, 1));
    let entries = std::mem::take(&mut database.entries);
    for ((stream, _), (position, _)) in entries {
        database.log.kill(stream, position).unwrap();
    }
    let mut damaged = None;
    for _ in 0..20 {
        match database.log.compact(1) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                damaged = Some(error);
                break;
            }
        }
    }
    let damaged = damaged.expect("it reads every file");
    assert!(names_file(&damaged, segment.0, &segment.1), "{damaged}");
    let (_, receipt) = database.log.append(0, b"more", None).unwrap();
    database.log.durable(receipt).unwrap();
}

#[test]
fn a_directory_of_another_log_is_told_by_its_id() {
    let (world, _) = closed();
    let label = "db.directory";
    let content = world.dir("two").read(label).unwrap();
    let object = codec::open_object(&content, kind::VLOG_DIRECTORY, None).unwrap();
    assert_eq!(object.identity.set, ID.0.to_le_bytes());
    let identity = Identity {
        set: [9; 16],
        ..object.identity
    };
    let other = codec::seal_object(kind::VLOG_DIRECTORY, 1, &identity, object.payload);
    world.dir("two").replace(label, &other).unwrap();
    let error = Database::open(&world, 2, None).map(|_| ()).unwrap_err();
    assert!(matches!(&error, VlogError::Foreign { file } if file == "/two/db.directory"));
    let disk = world.dir("two").open(label, Open::Read).unwrap();
    assert_eq!(disk.len().unwrap(), other.len() as u64);
}
