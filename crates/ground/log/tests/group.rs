//! Group commit, with a disk whose writes wait until the test lets them go.

use env::errno::Errno;
use env::sim::World;
use env::{Dir, Disk, Open, Result};
use holdfast_log::{Log, LogError, LogId, Options, Sequence};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ID: LogId = LogId(3);
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts the writes and creations that start and holds them while it is shut.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    shut: bool,
    fails: bool,
    started: usize,
}

impl Gate {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        while !condition(&state) {
            assert!(!self.changed.wait_until(&mut state, end).timed_out());
        }
    }

    fn pass(&self) -> Result<()> {
        self.set(|state| state.started += 1);
        self.wait_until(|state| !state.shut);
        if self.state.lock().fails {
            Err(Errno::IO)
        } else {
            Ok(())
        }
    }
}

struct GatedDir(Arc<dyn Dir>, Arc<Gate>);
struct GatedDisk(Arc<dyn Disk>, Arc<Gate>);

impl Dir for GatedDir {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        if matches!(how, Open::Create(_)) {
            self.1.pass().map_err(|_| Errno::NOSPC)?;
        }
        let disk = self.0.open(name, how)?;
        Ok(Arc::new(GatedDisk(disk, self.1.clone())))
    }
    fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.0.read(name)
    }
    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        self.0.replace(name, content)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}

impl Disk for GatedDisk {
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.1.pass()?;
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.0.discard(offset, length)
    }
}

/// One caller is in its device write; nine more have appended and commit.
fn crowd(fails: bool) -> (Vec<core::result::Result<(), LogError>>, usize, Log) {
    let gate = Arc::new(Gate::default());
    let dir = GatedDir(World::new(1).dir("store"), gate.clone());
    let options = Options {
        segment_bytes: 1 << 20,
    };
    let log = Log::create(Arc::new(dir), "j", ID, options).unwrap();
    gate.set(|state| (state.shut, state.started) = (true, 0));
    let results = std::thread::scope(|scope| {
        let commit = || {
            let sequence = log.append(1, b"record").unwrap();
            log.commit(sequence)
        };
        let leader = scope.spawn(commit);
        gate.wait_until(|state| state.started == 1);
        let others: Vec<_> = (0..9).map(|_| scope.spawn(commit)).collect();
        let end = Instant::now() + PATIENCE;
        while log.next_sequence() < Sequence(11) {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
        gate.set(|state| (state.shut, state.fails) = (false, fails));
        let all = std::iter::once(leader).chain(others);
        all.map(|thread| thread.join().unwrap()).collect()
    });
    let started = gate.state.lock().started;
    (results, started, log)
}

#[test]
fn callers_who_commit_during_a_device_write_share_the_next_one() {
    let (results, writes, log) = crowd(false);
    assert!(results.iter().all(core::result::Result::is_ok));
    assert_eq!(writes, 2);
    assert_eq!(log.durable_sequence(), Sequence(11));
}

#[test]
fn when_the_shared_write_fails_every_caller_hears_of_it_and_nobody_tries_again() {
    let (results, writes, log) = crowd(true);
    assert!(results.iter().all(core::result::Result::is_err));
    assert_eq!(writes, 1);
    assert_eq!(log.durable_sequence(), Sequence(1));
}

#[test]
fn records_appended_while_the_disk_turns_out_full_wait_behind_those_of_that_write() {
    let gate = Arc::new(Gate::default());
    let world = World::new(1);
    let dir = || -> Arc<dyn Dir> { Arc::new(GatedDir(world.dir("store"), gate.clone())) };
    let options = Options {
        segment_bytes: 8192,
    };
    let log = Log::create(dir(), "j", ID, options).unwrap();
    let first = log.append(1, &[1; 4000]).unwrap();
    log.commit(first).unwrap();
    // The segment is full: the next commit creates another, and finds no room.
    gate.set(|state| (state.shut, state.fails, state.started) = (true, true, 0));
    std::thread::scope(|scope| {
        let full = scope.spawn(|| {
            let second = log.append(2, b"second").unwrap();
            log.commit(second)
        });
        gate.wait_until(|state| state.started == 1);
        log.append(3, b"third").unwrap();
        gate.set(|state| state.shut = false);
        let error = full.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), env::errno::ErrorKind::NoSpace);
    });
    gate.set(|state| state.fails = false);
    log.commit(Sequence(3)).expect("there is room now");
    drop(log);
    let (_, records) = Log::open(dir(), "j", ID, options).unwrap();
    let kinds: Vec<u16> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [1, 2, 3]);
}
