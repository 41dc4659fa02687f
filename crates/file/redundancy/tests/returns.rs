//! How stores leave and come back, and what the status says of it.

use anyhow::{Context, Result, anyhow, ensure};
use holdfast_redundancy::label::StoreIndex;
use holdfast_redundancy::status::StoreState;
use holdfast_redundancy::store::Store;
use holdfast_redundancy::store::local::LocalStore;
use holdfast_redundancy::store::sim::{Fault, Power, SimStore};
use holdfast_redundancy::{Attach, Candidate, Engine, EngineOptions};
use mount::{Caller, Errno, Ino, Layer, NewObject};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const USER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    umask: 0,
};

fn options(seed: u64) -> EngineOptions {
    EngineOptions {
        background: false,
        reserve_bytes: 0,
        seed: Some(seed),
        ..EngineOptions::default()
    }
}

fn open(stores: &[Arc<SimStore>], seed: u64) -> Result<Arc<Engine>> {
    let candidates = stores.iter().enumerate().map(|(index, store)| Candidate {
        path: format!("sim-{index}"),
        store: Ok(store.clone()),
    });
    Ok(Engine::open(candidates.collect(), &options(seed))?)
}

fn three() -> Vec<Arc<SimStore>> {
    let power = Power::new();
    (1..=3).map(|seed| SimStore::new(seed, &power)).collect()
}

fn make(engine: &Engine, dir: Ino, name: &str, object: NewObject<'_>) -> Result<Ino> {
    let made = engine.make(&USER, dir, OsStr::new(name), object, 0o755);
    Ok(made.with_context(|| name.to_owned())?.0)
}

/// Files `first..` with a few bytes each, synced.
fn write_files(engine: &Engine, dir: Ino, numbers: std::ops::Range<u32>) -> Result<()> {
    for number in numbers {
        let file = make(engine, dir, &format!("f{number}"), NewObject::File)?;
        engine.write(file, 0, &[number as u8; 100])?;
        engine.sync(file, false)?;
    }
    Ok(())
}

fn differences(engine: &Engine) -> Result<u64> {
    let report = engine.check(&mut |_| true)?;
    for shown in &report.shown {
        println!("{}: {}", shown.path.display(), shown.detail);
    }
    Ok(report.differences)
}

/// Makes every segment of a store's journal unreadable.
fn spoil_journal(store: &SimStore) -> Result<()> {
    let system = store.system();
    let segments = system.list()?;
    let segments: Vec<_> = segments
        .iter()
        .filter(|n| n.starts_with("intent."))
        .collect();
    ensure!(!segments.is_empty(), "there is a journal");
    for name in segments {
        system.replace(name, &[0x5A; 100])?;
    }
    Ok(())
}

/// Changes a file on the stores that do not decide for it, behind the engine's back: a difference
/// that no journal names. Returns how many copies changed.
fn differ(stores: &[Arc<SimStore>], name: &str) -> Result<usize> {
    let mut changed = 0;
    for (index, store) in stores.iter().enumerate() {
        let Ok(found) = store.lookup(&store.root()?, OsStr::new(name)) else {
            continue;
        };
        if found.label.context("a label")?.home != StoreIndex(index as u8) {
            store.open(&found.node, true)?.write_at(0, b"other")?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// Starts a set again whose copies differ in what no journal names, after `spoiled` journals
/// became unreadable; the differences that are left.
fn left_after_start(spoiled: usize) -> Result<u64> {
    let stores = three();
    let engine = open(&stores, 1)?;
    write_files(&engine, Ino::ROOT, 0..12)?;
    engine.shutdown()?;
    drop(engine);
    for store in &stores {
        store.kill();
    }
    let stores: Vec<_> = stores.iter().map(|s| s.reopen()).collect();
    let mut changed = 0;
    for number in 0..12 {
        changed += differ(&stores, &format!("f{number}"))?;
    }
    ensure!(changed > 0, "something differs");
    for store in stores.iter().take(spoiled) {
        spoil_journal(store)?;
    }
    let engine = open(&stores, 2)?;
    ensure!(engine.members().count() == 3);
    let left = differences(&engine)?;
    engine.shutdown()?;
    Ok(left)
}

#[test]
fn with_no_readable_journal_everything_is_compared() -> Result<()> {
    assert_eq!(left_after_start(3)?, 0);
    Ok(())
}

#[test]
fn one_readable_journal_is_enough() -> Result<()> {
    // What the journal does not name is not compared: the planted differences stay.
    assert!(left_after_start(2)? > 0);
    Ok(())
}

#[test]
fn a_store_between_tries_says_why_and_when() -> Result<()> {
    let stores = three();
    let engine = open(&stores, 1)?;
    write_files(&engine, Ino::ROOT, 0..6)?;
    engine.detach(StoreIndex(1))?;
    let power = Power::new();
    let empty = SimStore::new(9, &power);
    engine.attach("sim-1", empty.clone(), Attach::Empty)?;
    empty.fail_after(Fault::WriteError, 0);
    engine.resync_now();
    let status = engine.status();
    assert_eq!(status.stores[1].state, StoreState::Fenced);
    let detail = &status.stores[1].detail;
    assert!(
        detail.starts_with("bringing it up to date failed"),
        "{detail}"
    );
    assert!(detail.contains("; next try in "), "{detail}");
    assert_eq!(status.stores[1].last_rebuild, None);

    // The next try succeeds, and says what it did.
    engine.attach("sim-1", empty, Attach::Return)?;
    engine.resync_now();
    let status = engine.status();
    assert_eq!(status.stores[1].state, StoreState::InSync);
    assert_eq!(status.stores[1].detail, "");
    let last = status.stores[1]
        .last_rebuild
        .context("a finished rebuild")?;
    assert!(last.bytes_written > 0 && last.objects > 0, "{last:?}");
    assert_eq!(differences(&engine)?, 0);
    Ok(engine.shutdown()?)
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_from_being_rebuilt() -> Result<()> {
    let stores = three();
    let engine = open(&stores, 1)?;
    write_files(&engine, Ino::ROOT, 0..6)?;
    engine.detach(StoreIndex(1))?;
    let empty = SimStore::new(9, &Power::new());
    engine.attach("sim-1", empty.clone(), Attach::Empty)?;
    for member in [0, 2] {
        stores[member].fail_after(Fault::ReadError, 0);
    }
    engine.resync_now();
    let status = engine.status();
    assert_eq!(status.stores[1].state, StoreState::Fenced);
    let detail = &status.stores[1].detail;
    assert!(
        detail.contains(" of the files to be copied, the others are copied"),
        "{detail}"
    );
    // The members stay: what they alone have is worth more than a store without a bad sector.
    assert_eq!(engine.members().count(), 2);
    let mut written = 0;
    for number in 0..6 {
        let name = format!("f{number}");
        if let Ok(found) = empty.lookup(&empty.root()?, OsStr::new(&name)) {
            let mut content = [0; 100];
            empty.open(&found.node, false)?.read_at(0, &mut content)?;
            written += usize::from(content == [number as u8; 100]);
        }
    }
    ensure!(written > 0, "the others are there");

    engine.attach("sim-1", empty, Attach::Return)?;
    engine.resync_now();
    assert!(engine.status().redundant);
    assert_eq!(differences(&engine)?, 0);
    Ok(engine.shutdown()?)
}

#[test]
fn a_store_that_files_need_is_not_detached() -> Result<()> {
    let stores = three();
    let engine = open(&stores, 1)?;
    write_files(&engine, Ino::ROOT, 0..3)?;
    engine.detach(StoreIndex(2))?;
    assert_eq!(engine.detach(StoreIndex(1)), Err(Errno::BUSY));
    assert_eq!(engine.detach(StoreIndex(9)), Err(Errno::INVAL));
    let status = engine.status();
    assert!(status.writable);
    assert_eq!(status.stores[1].state, StoreState::InSync);
    write_files(&engine, Ino::ROOT, 3..5)?;

    // One that is offered and not yet in is let go of.
    engine.attach("sim-2", stores[2].clone(), Attach::Return)?;
    engine.detach(StoreIndex(2))?;
    engine.resync_now();
    assert_eq!(engine.status().stores[2].state, StoreState::Fenced);
    engine.attach("sim-2", stores[2].clone(), Attach::Return)?;
    engine.resync_now();
    assert!(engine.status().redundant);
    assert_eq!(differences(&engine)?, 0);
    Ok(engine.shutdown()?)
}

/// Three stores in directories of a real file system.
struct LocalSet {
    place: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl LocalSet {
    fn new() -> Result<LocalSet> {
        let place = tempfile::tempdir()?;
        let paths: Vec<_> = (0..3).map(|i| place.path().join(format!("s{i}"))).collect();
        for path in &paths {
            std::fs::create_dir(path)?;
        }
        Ok(LocalSet { place, paths })
    }

    fn open(&self, seed: u64) -> Result<Arc<Engine>> {
        let candidates = self.paths.iter().map(|p| Candidate::local(p)).collect();
        Ok(Engine::open(candidates, &options(seed))?)
    }

    /// Takes a store out; its directory is kept under another name.
    fn take(&self, engine: &Engine, index: u8) -> Result<()> {
        engine.detach(StoreIndex(index))?;
        let taken = self.place.path().join(format!("taken-{index}"));
        Ok(std::fs::rename(&self.paths[usize::from(index)], taken)?)
    }

    fn attach(&self, engine: &Engine, index: u8, how: Attach) -> Result<()> {
        let path = &self.paths[usize::from(index)];
        if how == Attach::Empty {
            std::fs::create_dir(path)?;
        }
        let store = Arc::new(LocalStore::open_exclusive(path)?);
        engine.attach(&path.display().to_string(), store, how)?;
        Ok(())
    }
}

/// Brings stores up to date while files keep coming, so that the directory is being changed when
/// one joins; the number of the next file.
fn write_while_a_store_joins(engine: &Engine, dir: Ino, first: u32) -> Result<u32> {
    let joined = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let joined = &joined;
        let writer = scope.spawn(move || -> Result<u32> {
            let (mut next, mut after) = (first, 0);
            while after < 20 && next < 10_000 {
                after += u32::from(joined.load(Ordering::Acquire));
                write_files(engine, dir, next..next + 1)?;
                next += 1;
            }
            Ok(next)
        });
        engine.resync_now();
        joined.store(true, Ordering::Release);
        writer.join().map_err(|_| anyhow!("the writer panicked"))?
    })
}

/// What was written down while a store was away does not lead to it, and it is the one that decides
/// when another is replaced. Needs root.
#[test]
fn a_store_is_replaced_after_another_one_was_away() -> Result<()> {
    let set = LocalSet::new()?;
    let engine = set.open(1)?;
    let dir = make(&engine, Ino::ROOT, "d", NewObject::Dir)?;
    write_files(&engine, dir, 0..6)?;
    engine.checkpoint()?;
    engine.detach(StoreIndex(1))?;
    write_files(&engine, dir, 6..12)?;
    set.attach(&engine, 1, Attach::Return)?;
    let next = write_while_a_store_joins(&engine, dir, 12)?;
    ensure!(engine.status().redundant, "{:?}", engine.status().stores);
    set.take(&engine, 0)?;
    set.attach(&engine, 0, Attach::Empty)?;
    write_while_a_store_joins(&engine, dir, next)?;
    ensure!(engine.status().redundant, "{:?}", engine.status().stores);
    assert_eq!(differences(&engine)?, 0);
    Ok(engine.shutdown()?)
}

/// What is noted down of the old store leads into its directory still, which is on the same file
/// system and has a directory with the same id. Needs root.
#[test]
fn a_store_replaced_on_its_file_system_is_not_taken_for_the_old_one() -> Result<()> {
    let set = LocalSet::new()?;
    let engine = set.open(1)?;
    let dir = make(&engine, Ino::ROOT, "d", NewObject::Dir)?;
    write_files(&engine, dir, 0..6)?;
    engine.checkpoint()?;
    // The directory is in every journal, with the old store's handle.
    write_files(&engine, dir, 6..12)?;
    set.take(&engine, 0)?;
    set.attach(&engine, 0, Attach::Empty)?;
    let written = write_while_a_store_joins(&engine, dir, 12)?;
    ensure!(engine.status().redundant, "{:?}", engine.status().stores);

    // The process ends here without a word: nothing is checkpointed.
    drop(engine);
    let engine = set.open(2)?;
    assert_eq!(engine.members().count(), 3);
    assert_eq!(differences(&engine)?, 0);
    let (dir, _) = engine.lookup(Ino::ROOT, OsStr::new("d"))?;
    for number in 0..written {
        let (file, _) = engine.lookup(dir, OsStr::new(&format!("f{number}")))?;
        let mut content = [0; 101];
        assert_eq!(engine.read(file, 0, &mut content)?, 100);
        assert_eq!(content[..100], [number as u8; 100]);
    }
    Ok(engine.shutdown()?)
}

/// As an administrator who replaces disk after disk does, under a database with unlinked temporary
/// files. Needs root.
#[test]
fn an_open_file_without_a_name_outlives_every_store_that_held_it() -> Result<()> {
    let set = LocalSet::new()?;
    let engine = set.open(1)?;
    let file = make(&engine, Ino::ROOT, "temporary", NewObject::File)?;
    let mut expected = vec![0; 3 << 20];
    expected[..5000].fill(1);
    engine.write(file, 0, &expected)?;
    engine.set_xattr(file, OsStr::new("user.kind"), b"sort", 0)?;
    engine.unlink(Ino::ROOT, OsStr::new("temporary"))?;
    let caller_mode = engine.attr(file)?.perm;
    for index in 0..3 {
        set.take(&engine, index)?;
        // Changed while the store is away, too.
        let at = (usize::from(index) + 1) << 19;
        expected[at..at + 9].fill(7);
        engine.write(file, at as u64, &expected[at..at + 9])?;
        set.attach(&engine, index, Attach::Empty)?;
        engine.resync_now();
        ensure!(engine.status().redundant, "{:?}", engine.status().stores);
        let mut content = vec![0xee; expected.len()];
        assert_eq!(engine.read(file, 0, &mut content)?, expected.len());
        assert!(content == expected, "after store {index}");
        assert_eq!(engine.attr(file)?.perm, caller_mode);
        assert_eq!(engine.xattr(file, OsStr::new("user.kind"))?, b"sort");
        let aside = set.paths[usize::from(index)].join(".holdfast/aside");
        assert_eq!(std::fs::read_dir(aside)?.count(), 0, "it has no name there");
    }
    assert_eq!(differences(&engine)?, 0);
    Ok(engine.shutdown()?)
}
