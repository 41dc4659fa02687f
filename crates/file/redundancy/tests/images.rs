//! Images of a store, such as a snapshot or a copy, that are put in its place. Needs root.

extern crate holdfast_redundancy as redundancy;

use anyhow::{Context, Result, ensure};
use mount::{Caller, Errno, Ino, Layer, NewObject};
use redundancy::label::StoreIndex;
use redundancy::store::local::LocalStore;
use redundancy::{Attach, Candidate, Engine, EngineOptions, OpenError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const USER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    umask: 0,
};

/// Three stores, copies of each file on two.
struct Place {
    home: tempfile::TempDir,
    seed: u64,
}

impl Place {
    fn new() -> Result<Place> {
        let home = tempfile::tempdir()?;
        for index in 0..3 {
            std::fs::create_dir(home.path().join(format!("s{index}")))?;
        }
        Ok(Place { home, seed: 0 })
    }

    fn store(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("s{index}"))
    }

    fn start(&mut self) -> Result<Arc<Engine>, OpenError> {
        self.seed += 1;
        let options = EngineOptions {
            background: false,
            reserve_bytes: 0,
            seed: Some(self.seed),
            ..EngineOptions::default()
        };
        let stores = (0..3).map(|index| Candidate::local(&self.store(index)));
        Engine::open(stores.collect(), &options)
    }

    /// Copies a store with all that is known of its files.
    fn copy(&self, index: usize) -> Result<PathBuf> {
        let image = self.home.path().join(format!("image-{index}"));
        let copied = Command::new("cp")
            .arg("-a")
            .args([&self.store(index), &image])
            .status()?;
        ensure!(copied.success());
        Ok(image)
    }

    /// Puts an image in the place of a store.
    fn put(&self, index: usize, image: &Path) -> Result<()> {
        let taken = self.home.path().join(format!("taken-{index}"));
        std::fs::rename(self.store(index), taken)?;
        Ok(std::fs::rename(image, self.store(index))?)
    }
}

/// Writes the same bytes into each of nine files, so that every store has some of them.
fn write(engine: &Engine, byte: u8) -> Result<()> {
    for number in 0..9 {
        let name = format!("f{number}");
        let file = match engine.lookup(Ino::ROOT, OsStr::new(&name)) {
            Ok((file, _)) => file,
            Err(Errno::NOENT) => {
                let object = NewObject::File;
                let made = engine.make(&USER, Ino::ROOT, OsStr::new(&name), object, 0o644);
                made.context(name)?.0
            }
            Err(errno) => return Err(errno.into()),
        };
        engine.write(file, 0, &[byte; 5000])?;
        engine.sync(file, false)?;
        engine.forget(file);
    }
    Ok(())
}

/// What the files hold, and what a comparison of all copies finds.
fn ensure_equal(engine: &Engine, byte: u8) -> Result<()> {
    for number in 0..9 {
        let (file, _) = engine.lookup(Ino::ROOT, OsStr::new(&format!("f{number}")))?;
        let mut content = [0; 5001];
        let length = engine.read(file, 0, &mut content)?;
        ensure!(length == 5000, "f{number} has {length} bytes");
        ensure!(content[..5000] == [byte; 5000], "f{number}: {}", content[0]);
    }
    let report = engine.check(&mut |_| true)?;
    ensure!(report.differences == 0, "{:?}", report.shown);
    Ok(())
}

/// A store that was put back is left out, and is what it should be after it was compared.
fn ensure_noticed(engine: &Engine, index: usize, byte: u8) -> Result<()> {
    let status = engine.status();
    ensure!(engine.members().count() == 2, "{:?}", status.stores);
    let detail = &status.stores[index].detail;
    ensure!(detail.contains("an older image"), "{detail}");
    ensure_equal(engine, byte)?;
    let store = LocalStore::open_exclusive(Path::new(&status.stores[index].path))?;
    engine.attach(&status.stores[index].path, Arc::new(store), Attach::Return)?;
    engine.resync_now();
    ensure!(engine.status().redundant, "{:?}", engine.status().stores);
    ensure_equal(engine, byte)
}

#[test]
fn an_image_from_before_a_clean_stop_is_not_taken_for_the_store() -> Result<()> {
    for index in 0..3 {
        let mut place = Place::new()?;
        let engine = place.start()?;
        write(&engine, 1)?;
        let image = place.copy(index)?;
        write(&engine, 2)?;
        engine.shutdown()?;
        drop(engine);
        place.put(index, &image)?;
        let engine = place.start()?;
        ensure_noticed(&engine, index, 2).with_context(|| format!("store {index}"))?;
        engine.shutdown()?;
        drop(engine);
        let engine = place.start()?;
        assert_eq!(engine.members().count(), 3);
        ensure_equal(&engine, 2)?;
    }
    Ok(())
}

#[test]
fn an_image_from_two_checkpoints_before_a_crash_is_not_taken_for_the_store() -> Result<()> {
    let mut place = Place::new()?;
    let engine = place.start()?;
    write(&engine, 1)?;
    let image = place.copy(0)?;
    write(&engine, 2)?;
    engine.checkpoint()?;
    write(&engine, 3)?;
    engine.checkpoint()?;
    drop(engine);
    place.put(0, &image)?;
    let engine = place.start()?;
    ensure_noticed(&engine, 0, 3)
}

#[test]
fn an_image_from_after_the_stop_is_the_store() -> Result<()> {
    let mut place = Place::new()?;
    let engine = place.start()?;
    write(&engine, 1)?;
    engine.shutdown()?;
    drop(engine);
    let image = place.copy(1)?;
    place.put(1, &image)?;
    let engine = place.start()?;
    assert_eq!(engine.members().count(), 3);
    ensure_equal(&engine, 1)
}

#[test]
fn with_images_in_the_place_of_most_stores_the_set_does_not_start() -> Result<()> {
    let mut place = Place::new()?;
    let engine = place.start()?;
    write(&engine, 1)?;
    let images = [place.copy(0)?, place.copy(2)?];
    write(&engine, 2)?;
    engine.shutdown()?;
    drop(engine);
    for (index, image) in [0, 2].into_iter().zip(&images) {
        place.put(index, image)?;
    }
    match place.start() {
        Err(OpenError::Images { paths }) => {
            let expected = [0, 2].map(|index| place.store(index).display().to_string());
            assert_eq!(paths, expected);
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
    // The store itself is back in the place of one of them.
    std::fs::remove_dir_all(place.store(2))?;
    std::fs::rename(place.home.path().join("taken-2"), place.store(2))?;
    let engine = place.start()?;
    ensure_noticed(&engine, 0, 2)
}

/// What is recorded of a store that is away begins where it left: an image from before lacks more.
#[test]
fn an_image_from_before_a_store_left_is_compared_in_whole() -> Result<()> {
    for restarts in [false, true] {
        let mut place = Place::new()?;
        let mut engine = place.start()?;
        write(&engine, 1)?;
        let image = place.copy(0)?;
        write(&engine, 2)?;
        engine.checkpoint()?;
        engine.checkpoint()?;
        engine.detach(StoreIndex(0))?;
        place.put(0, &image)?;
        engine.checkpoint()?;
        if restarts {
            engine.shutdown()?;
            drop(engine);
            engine = place.start()?;
        }
        let path = place.store(0);
        let shown = path.display().to_string();
        // At a start the keeper holds on to it.
        if !restarts {
            let store = LocalStore::open_exclusive(&path)?;
            engine.attach(&shown, Arc::new(store), Attach::Return)?;
        }
        engine.resync_now();
        ensure!(engine.status().redundant, "{:?}", engine.status().stores);
        ensure_equal(&engine, 2).with_context(|| format!("restarts: {restarts}"))?;
    }
    Ok(())
}
