//! The canary of the log's own crash tests: directories that break one promise each. The log
//! relies on every one of them, so the tests must find each.

use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use env::sim::{SimDir, World};
use env::{Dir, Disk, Open, Result};
use holdfast_log::{Log, LogId, Options, Sequence};
use std::sync::Arc;

const ID: LogId = LogId(0xca);
const OPTIONS: Options = Options {
    segment_bytes: 16 << 10,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// Durable writes are ordinary ones: the log forgets its sync.
    WritesAreNotDurable,
    /// Renames are a write of the new name and a removal, neither durable.
    RenamesAreNotDurable,
}

struct Careless {
    dir: Arc<SimDir>,
    bug: Bug,
}

impl Dir for Careless {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        match (self.bug, how) {
            (Bug::WritesAreNotDurable, Open::WriteDurable) => self.dir.open(name, Open::Write),
            _ => self.dir.open(name, how),
        }
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.dir.read(name)
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.dir.replace(name, content)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        if self.bug != Bug::RenamesAreNotDurable {
            return self.dir.rename(from, to);
        }
        let content = self.dir.read(from)?;
        let disk = self.dir.open(to, Open::Create(content.len() as u64))?;
        disk.write_at(0, &content)?;
        disk.sync()?;
        self.dir.remove(from)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.dir.remove(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.dir.list()
    }

    fn sync(&self) -> Result<()> {
        self.dir.sync()
    }
}

fn careless(world: &World, bug: Bug) -> Arc<dyn Dir> {
    Arc::new(Careless {
        dir: world.dir("store"),
        bug,
    })
}

fn run(bug: Bug) -> std::result::Result<Report, Failure> {
    let workload = |world: &World, done: &Notes<Sequence>| {
        let log = Log::create(careless(world, bug), "j", ID, OPTIONS).unwrap();
        for i in 0..12u8 {
            let last = log.append(1, &[i; 1500]).unwrap();
            log.commit(last).unwrap();
            done.note(last);
        }
    };
    search(&Look::new(3), workload, |world, done| {
        let committed = done.last().map_or(0, |last| last.0);
        match Log::open(careless(world, bug), "j", ID, OPTIONS) {
            Ok((log, _)) if log.next_sequence().0 > committed => Ok(()),
            Err(_) if committed == 0 => Ok(()),
            Ok((log, _)) => Err(format!(
                "{committed} committed, next {:?}",
                log.next_sequence()
            )),
            Err(error) => Err(error.to_string()),
        }
    })
}

#[test]
fn an_honest_directory_passes() {
    run(Bug::None).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_broken_promise_is_found() {
    for bug in [Bug::WritesAreNotDurable, Bug::RenamesAreNotDurable] {
        let failure = run(bug).expect_err(&format!("{bug:?} was not found"));
        println!("{bug:?}: {failure}");
    }
}
