//! Calls that meet on the same objects, as the kernel lets them: changes of names hold the
//! directories concerned, changes of content the file, and whoever asks for attributes, reads or
//! syncs holds nothing. All stores are sound, so none may be fenced for what it answered.

use anyhow::{Context, Result, ensure};
use env::Rng;
use holdfast_redundancy::encoding::{ChunkBytes, Geometry, Parameters, ReadWeight, Share};
use holdfast_redundancy::label::StoreIndex;
use holdfast_redundancy::store::sim::{Power, SimStore};
use holdfast_redundancy::{Attach, Candidate, Engine, EngineOptions};
use mount::{Caller, Errno, Ino, Kind, Layer, NewObject, RenameFlags, SetAttr};
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

const USER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    umask: 0,
};
const NO_PANIC: &str = "no thread panics here";
const NAMES: u64 = 6;
const CHUNK: u64 = 4096;
/// How often a store leaves and returns, after which nothing of it is known; with
/// `HOLDFAST_SOAK` (minutes) it goes on for that long.
const RETURNS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(150);

fn open(stores: &[Arc<SimStore>]) -> Result<Arc<Engine>> {
    let options = EngineOptions {
        copies: 2,
        background: false,
        reserve_bytes: 1 << 20,
        encoding: Some(Parameters {
            chunk: ChunkBytes::new(CHUNK)?,
            geometry: Geometry::new(2, 1, 2, 3)?,
            read_weight: ReadWeight::new(0.0)?,
            load_limit: Share::ALL,
            target_rate: Share::ALL,
            differential: Share::NONE,
            at_once: false,
            interval: Duration::from_secs(1),
        }),
        ..EngineOptions::default()
    };
    let candidates = stores.iter().enumerate().map(|(index, store)| Candidate {
        path: format!("sim-{index}"),
        store: Ok(store.clone()),
    });
    Ok(Engine::open(candidates.collect(), &options)?)
}

/// One directory that a thread changes, and what everybody may ask about.
struct Field {
    engine: Arc<Engine>,
    /// Inodes and whether they are directories; locked for reading while one is used.
    known: RwLock<Vec<(Ino, bool)>>,
    stop: AtomicBool,
    calls: AtomicU64,
}

impl Field {
    fn know(&self, ino: Ino, is_dir: bool) {
        let mut known = self.known.write().expect(NO_PANIC);
        known.push((ino, is_dir));
    }

    /// The last name of an inode went, and nobody has it open any more.
    fn forget(&self, ino: Ino) {
        let mut known = self.known.write().expect(NO_PANIC);
        known.retain(|(known, _)| *known != ino);
        self.engine.forget(ino);
    }

    fn with_any(
        &self,
        rng: &mut Rng,
        act: impl FnOnce(&mut Rng, Ino, bool) -> mount::Result<()>,
    ) -> mount::Result<()> {
        let known = self.known.read().expect(NO_PANIC);
        if known.is_empty() {
            return Ok(());
        }
        let (ino, is_dir) = known[rng.index(known.len())];
        act(rng, ino, is_dir)
    }

    fn until_the_end(&self, seed: u64, mut act: impl FnMut(&mut Rng) -> Result<()>) -> Result<()> {
        let mut rng = Rng::new(seed);
        while !self.stop.load(Ordering::Relaxed) {
            act(&mut rng)?;
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A file of some chunks, durable, so that it can be encoded.
    fn make_file(&self, dir: Ino, name: &OsStr, rng: &mut Rng) -> mount::Result<()> {
        let engine = &self.engine;
        let (ino, _) = engine.make(&USER, dir, name, NewObject::File, 0o644)?;
        let chunks = 1 + rng.below(4);
        engine.write(ino, 0, &vec![7; (chunks * CHUNK) as usize])?;
        engine.sync(ino, false)?;
        self.know(ino, false);
        Ok(())
    }

    /// Changes names in the two directories that are its own.
    fn change_names(&self, dirs: [Ino; 2], rng: &mut Rng) -> mount::Result<()> {
        let engine = &self.engine;
        let dir = dirs[rng.index(2)];
        let name = |n: u64| format!("n{n}");
        let (from, to) = (name(rng.below(NAMES)), name(rng.below(NAMES)));
        let (from, to) = (OsStr::new(&from), OsStr::new(&to));
        let other = dirs[rng.index(2)];
        // The kernel looks first, and asks only for what can be.
        let found = engine.lookup(dir, from);
        let kind = rng.below(10);
        match (kind, &found) {
            (0..7, Err(errno)) => return Err(*errno),
            (7.., Ok(_)) => return Err(Errno::EXIST),
            _ => {}
        }
        match kind {
            0..4 => {
                let target = engine.lookup(other, to).ok();
                engine.rename(dir, from, other, to, RenameFlags::empty())?;
                let replaced =
                    target.filter(|(ino, _)| found.is_ok_and(|(moved, _)| moved != *ino));
                replaced.into_iter().for_each(|(ino, _)| self.forget(ino));
                Ok(())
            }
            4 => engine.rename(dir, from, other, to, RenameFlags::EXCHANGE),
            5 | 6 => {
                let (ino, attr) = found?;
                match attr.kind {
                    Kind::Dir => engine.remove_dir(dir, from)?,
                    _ => engine.unlink(dir, from)?,
                }
                self.forget(ino);
                Ok(())
            }
            7 => {
                let (ino, _) = engine.make(&USER, dir, from, NewObject::Dir, 0o755)?;
                self.know(ino, true);
                Ok(())
            }
            _ => self.make_file(dir, from, rng),
        }
    }

    /// Asks about anything, as who has it open can.
    fn ask(&self, rng: &mut Rng) -> mount::Result<()> {
        let engine = &self.engine;
        self.with_any(rng, |rng, ino, is_dir| match rng.below(3) {
            0 if is_dir => engine.list(ino).map(drop),
            0 => {
                let at = rng.below(4) * CHUNK;
                engine.read(ino, at, &mut [0; 512]).map(drop)
            }
            1 => engine.sync(ino, rng.chance(1, 2)),
            _ => engine.attr(ino).map(drop),
        })
    }

    /// Changes the content of any file; one thread does.
    fn change_content(&self, rng: &mut Rng) -> mount::Result<()> {
        self.with_any(rng, |rng, ino, is_dir| {
            let at = rng.below(5) * CHUNK;
            let change = SetAttr {
                size: Some(at),
                ..SetAttr::default()
            };
            match rng.below(2) {
                _ if is_dir => Ok(()),
                0 => self.engine.write(ino, at, &[9; 700]),
                _ => self.engine.set_attr(&USER, ino, &change).map(drop),
            }
        })
    }

    /// What the keeper does, and tries again where it cannot.
    fn tend(&self) -> Result<()> {
        let engine = &self.engine;
        let does = [
            engine.checkpoint(),
            engine.encode_round().map(drop),
            engine.merge_all(Duration::from_millis(5)),
        ];
        for done in does {
            match done {
                Ok(()) | Err(Errno::IO | Errno::AGAIN) => {}
                Err(errno) => return Err(errno).context("what the keeper does"),
            }
        }
        Ok(())
    }

    /// All stores are members, and none has answered what it should not.
    fn all_there(&self) -> Result<()> {
        let status = self.engine.status();
        let lines = status.stores.iter();
        let lines = lines.map(|s| format!("{}: {:?} {}", s.index, s.state, s.detail));
        ensure!(
            self.engine.members().count() == status.stores.len(),
            "a store was fenced after {} calls: {}",
            self.calls.load(Ordering::Relaxed),
            lines.collect::<Vec<_>>().join("; ")
        );
        Ok(())
    }

    /// A store leaves and comes back, again and again.
    fn come_and_go(&self, stores: &[Arc<SimStore>], rng: &mut Rng) -> Result<()> {
        let minutes = std::env::var("HOLDFAST_SOAK").ok();
        let soak = minutes.and_then(|minutes| minutes.parse::<u64>().ok());
        let until = soak.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
        for turn in 0u32.. {
            if until.map_or(turn == RETURNS, |until| Instant::now() > until) {
                break;
            }
            let end = Instant::now() + BETWEEN;
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
                self.all_there()?;
            }
            let index = rng.index(stores.len());
            self.engine.detach(StoreIndex(index as u8))?;
            std::thread::sleep(Duration::from_millis(5));
            let path = format!("sim-{index}");
            self.engine
                .attach(&path, stores[index].clone(), Attach::Return)?;
            let until = Instant::now() + Duration::from_secs(30);
            while self.engine.members().count() < stores.len() {
                ensure!(Instant::now() < until, "store {index} does not come back");
                self.engine.resync_now();
            }
        }
        Ok(())
    }
}

/// What the kernel's caller may be told where somebody else was first.
fn expected(answer: mount::Result<()>) -> Result<()> {
    match answer {
        Ok(()) | Err(Errno::NOENT | Errno::EXIST | Errno::STALE) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR | Errno::INVAL) => Ok(()),
        Err(errno) => {
            Err(errno).context("a call was answered with an error that is none of its own")
        }
    }
}

#[test]
fn no_store_is_fenced_for_what_others_change_meanwhile() -> Result<()> {
    let power = Power::new();
    let stores: Vec<_> = (1..=3).map(|seed| SimStore::new(seed, &power)).collect();
    let engine = open(&stores)?;
    let dir = |name: &str| -> Result<Ino> {
        let made = engine.make(&USER, Ino::ROOT, OsStr::new(name), NewObject::Dir, 0o755);
        Ok(made?.0)
    };
    let (a, b) = ([dir("a")?, dir("b")?], [dir("c")?, dir("d")?]);
    let field = Field {
        engine: engine.clone(),
        known: RwLock::default(),
        stop: AtomicBool::new(false),
        calls: AtomicU64::new(0),
    };
    let field = &field;
    std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| field.until_the_end(1, |rng| expected(field.change_names(a, rng)))),
            scope.spawn(|| field.until_the_end(2, |rng| expected(field.change_names(b, rng)))),
            scope.spawn(|| field.until_the_end(3, |rng| expected(field.ask(rng)))),
            scope.spawn(|| field.until_the_end(4, |rng| expected(field.ask(rng)))),
            scope.spawn(|| field.until_the_end(5, |rng| expected(field.change_content(rng)))),
            scope.spawn(|| field.until_the_end(6, |_| field.tend())),
        ];
        let outcome = field.come_and_go(&stores, &mut Rng::new(7));
        field.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a thread panicked")?;
        }
        outcome
    })
}
