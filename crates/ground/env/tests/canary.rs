//! The canary of the crash harness: toy logs with planted bugs. A harness that lets one of them
//! pass proves nothing about the real ones.

use holdfast_env::sim::World;
use holdfast_env::sim::crash::{Failure, Options, Report, search};
use holdfast_env::{Dir, Disk, Open, Request};
use std::sync::Arc;

const SLOT_BYTES: u64 = 1536;
const SLOTS: u64 = 8;

/// What is wrong with a toy log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// The record is acknowledged before it is synced.
    ForgetsSync,
    /// The file's name is never synced.
    ForgetsDirSync,
    /// Recovery looks at the first byte of a record and not at the rest.
    AcceptsTorn,
    /// Recovery goes on behind a record that is not there.
    SkipsHoles,
    /// Recovery repairs in place, in two steps that a second crash can part.
    RepairsHalf,
}

/// A record: number `n` from 1, in slot `n - 1`, all bytes `n`.
fn append(disk: &dyn Disk, number: u8, bug: Bug) {
    let offset = (u64::from(number) - 1) * SLOT_BYTES;
    disk.write_at(offset, &[number; SLOT_BYTES as usize])
        .unwrap();
    if bug != Bug::ForgetsSync {
        disk.sync().unwrap();
    }
}

fn recover(dir: &dyn Dir, bug: Bug) -> Vec<Vec<u8>> {
    let Ok(content) = dir.read("log") else {
        return Vec::new();
    };
    let slots = content.chunks(SLOT_BYTES as usize).enumerate();
    let whole = |(index, slot): &(usize, &[u8])| {
        let checked = if bug == Bug::AcceptsTorn {
            &slot[..1]
        } else {
            slot
        };
        checked.iter().all(|byte| usize::from(*byte) == index + 1)
    };
    let found: Vec<Vec<u8>> = if bug == Bug::SkipsHoles {
        slots.filter(whole).map(|(_, slot)| slot.to_vec()).collect()
    } else {
        slots
            .take_while(whole)
            .map(|(_, slot)| slot.to_vec())
            .collect()
    };
    if bug == Bug::RepairsHalf {
        repair(dir, &found);
    }
    found
}

/// Moves the records through a second file, but lets go of the first before the second is safe.
fn repair(dir: &dyn Dir, records: &[Vec<u8>]) {
    dir.remove("log").unwrap();
    dir.sync().unwrap();
    dir.replace("log", &records.concat()).unwrap();
}

fn run(bug: Bug) -> Result<Report, Failure> {
    run_with(bug, &Options::new(0xca9a))
}

fn run_with(bug: Bug, options: &Options) -> Result<Report, Failure> {
    let workload = |world: &World, done: &holdfast_env::sim::crash::Notes<u8>| {
        let dir = world.dir("d");
        let disk: Arc<dyn Disk> = dir.open("log", Open::Create(SLOTS * SLOT_BYTES)).unwrap();
        if bug != Bug::ForgetsDirSync {
            dir.sync().unwrap();
        }
        for number in 1..=SLOTS as u8 {
            append(disk.as_ref(), number, bug);
            done.note(number);
        }
    };
    search(options, workload, |world, done| {
        let found = recover(world.dir("d").as_ref(), bug);
        let committed = done.last().copied().unwrap_or(0);
        if found.len() < usize::from(committed) {
            return Err(format!("{committed} committed, {} found", found.len()));
        }
        for (index, record) in found.iter().enumerate() {
            if record.iter().any(|byte| usize::from(*byte) != index + 1) {
                return Err(format!("record {} is torn or misplaced", index + 1));
            }
        }
        Ok(())
    })
}

#[test]
fn a_correct_log_passes() {
    let report = run(Bug::None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.events > 20 && report.images > 60, "{report:?}");
}

#[test]
fn every_planted_bug_is_found() {
    for bug in [
        Bug::ForgetsSync,
        Bug::ForgetsDirSync,
        Bug::AcceptsTorn,
        Bug::RepairsHalf,
    ] {
        let failure = run(bug).expect_err(&format!("{bug:?} was not found"));
        println!("{bug:?}: {failure}");
    }
}

#[test]
fn a_bug_of_ordering_needs_two_unsynced_writes_and_is_found_then() {
    let workload = |world: &World, _: &holdfast_env::sim::crash::Notes<u8>| {
        let dir = world.dir("d");
        let disk = dir.open("log", Open::Create(SLOTS * SLOT_BYTES)).unwrap();
        dir.sync().unwrap();
        for number in 1..=SLOTS as u8 {
            append(disk.as_ref(), number, Bug::ForgetsSync);
        }
        disk.sync().unwrap();
    };
    let search = |bug| {
        search(&Options::new(2), workload, |world, _| {
            let found = recover(world.dir("d").as_ref(), bug);
            let wrong = found
                .iter()
                .enumerate()
                .any(|(index, record)| usize::from(record[0]) != index + 1);
            if wrong {
                Err("a hole".to_owned())
            } else {
                Ok(())
            }
        })
    };
    assert!(search(Bug::None).is_ok());
    assert!(search(Bug::SkipsHoles).is_err());
}

#[test]
fn a_failure_replays_from_what_it_printed() {
    for bug in [Bug::ForgetsSync, Bug::AcceptsTorn, Bug::RepairsHalf] {
        let failure = run(bug).unwrap_err();
        assert_eq!(run(bug).unwrap_err(), failure);
        let mut options = Options::new(failure.seed);
        options.only = Some((failure.cut, failure.sample));
        assert_eq!(run_with(bug, &options).unwrap_err(), failure);
    }
}

/// A disk whose batches run their syncs before the writes that these should cover.
struct Uncovered(Arc<dyn Disk>);

impl Disk for Uncovered {
    fn len(&self) -> holdfast_env::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> holdfast_env::Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> holdfast_env::Result<()> {
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> holdfast_env::Result<()> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> holdfast_env::Result<()> {
        self.0.discard(offset, length)
    }
    fn submit(&self, batch: &mut [Request<'_>]) -> Vec<holdfast_env::Result<()>> {
        batch.sort_by_key(|request| !matches!(request, Request::Sync));
        self.0.submit(batch)
    }
}

/// Two records a batch and behind them their count, which may reach the medium only after them:
/// that takes the sync in the middle.
fn run_batches(uncovered: bool, middle_sync: bool) -> Result<Report, Failure> {
    const COUNT_AT: u64 = SLOTS * SLOT_BYTES;
    let workload = |world: &World, done: &holdfast_env::sim::crash::Notes<u8>| {
        let dir = world.dir("d");
        let disk = dir.open("log", Open::Create(COUNT_AT + 512)).unwrap();
        dir.sync().unwrap();
        let disk: Arc<dyn Disk> = if uncovered {
            Arc::new(Uncovered(disk))
        } else {
            disk
        };
        for number in (1..=SLOTS as u8).step_by(2) {
            let records = [number, number + 1].map(|number| [number; SLOT_BYTES as usize]);
            let count = [number + 1; 1];
            let offset = (u64::from(number) - 1) * SLOT_BYTES;
            let mut batch = vec![
                Request::Write {
                    offset: offset + SLOT_BYTES,
                    data: &records[1],
                },
                Request::Write {
                    offset,
                    data: &records[0],
                },
            ];
            if middle_sync {
                batch.push(Request::Sync);
            }
            batch.push(Request::Write {
                offset: COUNT_AT,
                data: &count,
            });
            batch.push(Request::Sync);
            assert!(disk.submit(&mut batch).iter().all(Result::is_ok));
            done.note(number + 1);
        }
    };
    search(&Options::new(0xba7c), workload, |world, done| {
        let Ok(content) = world.dir("d").read("log") else {
            return done.last().map_or(Ok(()), |_| Err("no log".to_owned()));
        };
        let count = content.get(COUNT_AT as usize).copied().unwrap_or(0);
        let committed = done.last().copied().unwrap_or(0);
        if count < committed {
            return Err(format!("{committed} committed, {count} counted"));
        }
        let slots = content.chunks(SLOT_BYTES as usize).take(count.into());
        for (index, record) in slots.enumerate() {
            if record.iter().any(|byte| usize::from(*byte) != index + 1) {
                return Err(format!("record {} is not whole", index + 1));
            }
        }
        Ok(())
    })
}

#[test]
fn a_log_that_writes_in_batches_passes() {
    let report = run_batches(false, true).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.events > 20 && report.images > 60, "{report:?}");
}

#[test]
fn a_batch_whose_sync_does_not_cover_its_writes_is_found() {
    let failure = run_batches(true, true).expect_err("syncs before writes");
    println!("{failure}");
    let failure = run_batches(false, false).expect_err("trusts the order without a sync");
    println!("{failure}");
}
