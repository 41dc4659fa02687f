//! What the engine answers about attributes without asking a store, and how equal it keeps the
//! copies' times.

use anyhow::{Context as _, Result, ensure};
use holdfast_redundancy::store::Store;
use holdfast_redundancy::store::sim::{Power, SimStore};
use holdfast_redundancy::{Candidate, Engine, EngineOptions};
use mount::{Caller, Errno, Ino, Layer as _, NewObject, Timestamp};
use std::ffi::OsStr;
use std::sync::Arc;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    umask: 0o022,
};

struct Set {
    engine: Arc<Engine>,
    stores: [Arc<SimStore>; 2],
}

fn set() -> Result<Set> {
    let power = Power::new();
    let stores = [SimStore::new(1, &power), SimStore::new(2, &power)];
    let options = EngineOptions {
        background: false,
        reserve_bytes: 0,
        seed: Some(1),
        ..EngineOptions::default()
    };
    let candidates = stores.iter().enumerate().map(|(index, store)| Candidate {
        path: format!("sim-{index}"),
        store: Ok(Arc::clone(store) as Arc<dyn Store>),
    });
    let engine = Engine::open(candidates.collect(), &options)?;
    Ok(Set { engine, stores })
}

impl Set {
    fn make(&self, name: &str) -> Result<Ino> {
        let made = self
            .engine
            .make(&CALLER, Ino::ROOT, OsStr::new(name), NewObject::File, 0o644);
        Ok(made.context("make")?.0)
    }

    fn times(&self, name: &str) -> Result<[Timestamp; 2]> {
        let time = |store: &SimStore| -> Result<Timestamp> {
            let found = store.lookup(&store.root()?, OsStr::new(name))?;
            Ok(found.attr.mtime)
        };
        Ok([time(&self.stores[0])?, time(&self.stores[1])?])
    }
}

#[test]
fn a_capability_that_is_set_is_seen() -> Result<()> {
    let set = set()?;
    let name = OsStr::new("security.capability");
    let ino = set.make("tool")?;
    ensure!(set.engine.xattr(ino, name) == Err(Errno::NODATA));
    set.engine.set_xattr(ino, name, b"value", 0)?;
    ensure!(set.engine.xattr(ino, name)? == b"value");
    set.engine.remove_xattr(ino, name)?;
    ensure!(set.engine.xattr(ino, name) == Err(Errno::NODATA));
    Ok(())
}

#[test]
fn a_time_that_was_seen_is_on_both_copies_after_a_sync() -> Result<()> {
    let set = set()?;
    let ino = set.make("file")?;
    set.engine.write(ino, 0, b"one")?;
    let seen = set.engine.attr(ino)?.mtime;
    set.engine.sync(ino, false)?;
    ensure!(set.times("file")? == [seen, seen]);
    Ok(())
}

#[test]
fn a_time_that_nobody_saw_is_on_both_copies_after_a_checkpoint() -> Result<()> {
    let set = set()?;
    let ino = set.make("file")?;
    set.engine.write(ino, 0, b"one")?;
    set.engine.sync(ino, false)?;
    set.engine.checkpoint()?;
    let [first, second] = set.times("file")?;
    ensure!(first == second);
    Ok(())
}
