//! `holdfast torture redundancy`: concurrent writers on a real mount, while the process is
//! killed and stores fail, and every byte is compared.
//!
//! Each writer has a ledger of its own files, with the versions that the model of
//! `redundancy` allows. After each disturbance the writers stand still and the mount is compared
//! with the ledgers; at the end the plain files of the stores are, too.

use super::{Plan, Report, Torture};
use anyhow::{Context, Result, ensure};
use clap::{Arg, ArgMatches, Command, ValueEnum};
use env::Rng;
use ledger::Ledger;
use parking_lot::{Mutex, RwLock};
use scene::{Scene, wait_until};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

mod ledger;
mod scene;
mod writer;

/// Its entry in the registry.
pub const TORTURE: Torture = Torture {
    name: "redundancy",
    about: "Kill the process and fail stores under concurrent writers; compare every byte",
    options,
    run,
};

const WRITERS: usize = 4;
const STORES: usize = 3;
const COPIES: usize = 2;
/// Broken promises after which a run ends.
const BROKEN_MAX: usize = 20;

fn options(command: Command) -> Command {
    let encode = Arg::new("encode")
        .long("encode")
        .action(clap::ArgAction::SetTrue)
        .help("Let copies give way to parity all the while, in chunks of 16 KiB");
    let ill = Arg::new("ill")
        .long("ill")
        .value_name("HOW")
        .value_delimiter(',')
        .value_parser(clap::value_parser!(Ill))
        .help("What happens to stores [default: all of it]");
    command.arg(encode).arg(ill).arg(
        Arg::new("plant")
            .long("plant")
            .value_name("BUG")
            .value_parser(["corrupt-copies"])
            .help("Damage both copies of a file at the end: the run must report it"),
    )
}

/// What the writers and the main thread share.
struct Field {
    /// Held for reading during each call, for writing while everything stands still.
    still: RwLock<()>,
    ledgers: Vec<Mutex<Ledger>>,
    shared: PathBuf,
    /// The process is, or may be, dead: errors are expected, and no call begins.
    down: AtomicBool,
    /// A store is full: ENOSPC is expected.
    full: AtomicBool,
    stop: Arc<AtomicBool>,
    checked: AtomicU64,
    broken: Mutex<Vec<String>>,
}

impl Field {
    fn report(&self, what: String) {
        eprintln!("BROKEN: {what}");
        let mut broken = self.broken.lock();
        broken.push(what);
        if broken.len() >= BROKEN_MAX {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One writer, until the end.
    fn write(&self, who: usize, mut rng: Rng) {
        while !self.stops() {
            let still = self.still.read();
            let mut ledger = self.ledgers[who].lock();
            if self.down.load(Ordering::SeqCst) || ledger.uncertain.is_some() {
                drop((ledger, still));
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            let result = if rng.chance(1, 6) {
                writer::churn(&self.shared, who, &mut rng)
            } else {
                writer::operate(&mut ledger, &mut rng)
            };
            self.checked.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = result {
                let full = error.kind() == std::io::ErrorKind::StorageFull;
                let expected =
                    self.down.load(Ordering::SeqCst) || full && self.full.load(Ordering::SeqCst);
                if !expected {
                    self.report(format!("writer {who} got an error from the mount: {error}"));
                }
            }
        }
    }

    /// Compares everything. The caller has made all stand still.
    fn compare(&self) -> Result<()> {
        for ledger in &self.ledgers {
            let (objects, broken) = ledger.lock().compare()?;
            self.checked.fetch_add(objects, Ordering::Relaxed);
            broken.into_iter().for_each(|what| self.report(what));
        }
        let (count, broken) = writer::compare_shared(&self.shared)?;
        self.checked.fetch_add(count, Ordering::Relaxed);
        broken.into_iter().for_each(|what| self.report(what));
        Ok(())
    }
}

/// What happens to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Ill {
    /// Its directory is moved away, and back
    MovedAway,
    /// Its directory is moved away, and an empty one comes in its place
    Replaced,
    /// Its file system is unmounted under the process, and mounted again
    Unmounted,
    /// Its file system turns read-only, as after an error of its own
    ReadOnly,
    /// Its file system has no room
    Full,
}

struct Run<'a> {
    scene: Scene,
    field: &'a Field,
    rng: Rng,
    ills: Vec<Ill>,
    faults: u64,
}

impl Run<'_> {
    /// Lets the writers go on for a while.
    fn work(&mut self, most_ms: u64) -> Result<()> {
        let end = Instant::now() + Duration::from_millis(100 + self.rng.below(most_ms));
        while Instant::now() < end && !self.field.stops() {
            ensure!(
                !self.scene.has_died()?,
                "the process ended by itself: {}",
                self.scene.log_tail()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn compare(&self) -> Result<()> {
        let _still = self.field.still.write();
        self.field.compare()
    }

    /// Kills the process in the middle of whatever it does, and starts it again.
    fn kill(&mut self) -> Result<()> {
        self.faults += 1;
        self.field.down.store(true, Ordering::SeqCst);
        self.scene.kill()?;
        let field = self.field;
        let _still = field.still.write();
        self.scene.up()?;
        field.compare()?;
        field.down.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until every file has all its copies; the writers go on.
    fn redundant(&mut self) -> Result<()> {
        let scene = &mut self.scene;
        let field = self.field;
        wait_until("redundancy", || {
            ensure!(
                !scene.has_died()?,
                "the process ended by itself: {}",
                scene.log_tail()
            );
            Ok(field.stops() || scene.status()?.redundant)
        })
        .with_context(|| format!("{}\n{}", scene.details(), scene.log_tail()))
    }

    /// One store falls ill, the tree is compared without it, it comes back, and redundancy must.
    fn ail(&mut self) -> Result<()> {
        self.redundant()?;
        let index = self.rng.index(self.scene.disks());
        let ill = self.ills[self.rng.index(self.ills.len())];
        self.faults += 1;
        eprintln!("store {index}: {ill:?}");
        match ill {
            Ill::MovedAway | Ill::Replaced => self.scene.move_store(index, true)?,
            Ill::Unmounted => self.scene.unmount_disk(index)?,
            Ill::ReadOnly => self.scene.set_read_only(index, true)?,
            Ill::Full => {
                self.field.full.store(true, Ordering::SeqCst);
                self.scene.fill(index, true)?;
            }
        }
        self.work(2000)?;
        self.compare()?;
        if self.rng.chance(1, 3) {
            self.kill()?;
            self.work(1000)?;
        }
        eprintln!("store {index} comes back");
        match ill {
            Ill::MovedAway => self.scene.move_store(index, false)?,
            Ill::Replaced => self.scene.replace_store(index)?,
            Ill::Unmounted => self.scene.remount_disk(index)?,
            Ill::ReadOnly => self.scene.set_read_only(index, false)?,
            Ill::Full => self.scene.fill(index, false)?,
        }
        self.work(1000)?;
        if self.rng.chance(1, 4) {
            self.kill()?;
        }
        self.redundant()?;
        self.compare()?;
        self.field.full.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn disturb(&mut self, until: Instant) -> Result<()> {
        while Instant::now() < until && !self.field.stops() {
            self.work(1500)?;
            if self.rng.chance(1, 2) {
                eprintln!("kill -9");
                self.kill()?;
            } else {
                self.ail()?;
            }
        }
        Ok(())
    }

    /// Everything ends in good order, and each copy is right by itself.
    fn finish(&mut self, plant: bool) -> Result<()> {
        self.field.stop.store(false, Ordering::Relaxed);
        self.redundant()?;
        self.field.compare()?;
        if self.scene.encodes() {
            // Each copy is looked at by itself below, so all get their bytes back.
            self.scene.down()?;
            self.scene.stop_encoding();
            self.scene.up()?;
            let scene = &mut self.scene;
            wait_until("copies in the place of parity", || {
                let encoding = scene.status()?.encoding;
                Ok(encoding.is_none_or(|encoding| encoding.stripes == 0))
            })
            .with_context(|| scene.log_tail())?;
            self.field.compare()?;
        }
        self.scene.down()?;
        self.scene
            .check()?
            .into_iter()
            .for_each(|what| self.field.report(what));
        let data = self.scene.data();
        for ledger in &self.field.ledgers {
            for what in ledger.lock().compare_plain(&data, COPIES)? {
                self.field.report(what);
            }
        }
        if plant {
            let path = self.victim().context("no file to damage: run for longer")?;
            let count = self.scene.corrupt(&path)?;
            ensure!(
                count >= COPIES,
                "{} is in {count} stores only",
                path.display()
            );
            self.scene.up()?;
            self.field.compare()?;
            self.scene.down()?;
        }
        Ok(())
    }

    /// A file with content, as a path below a store's `data`.
    fn victim(&self) -> Option<PathBuf> {
        let ledger = self.field.ledgers.first()?.lock();
        let top = PathBuf::from(ledger.root.file_name()?);
        ledger.dirs.iter().find_map(|(dir, below)| {
            let (name, _) = ledger.tree.entries(*dir).find(|(_, ino)| {
                let object = ledger.tree.object(*ino);
                object.is_some_and(|o| !o.content.now().is_empty())
            })?;
            Some(top.join(below).join(name))
        })
    }
}

/// Runs it.
///
/// # Errors
/// The run could not be made: no loop devices, no FUSE, a process that does not start.
pub fn run(plan: &Plan, options: &ArgMatches) -> Result<Report> {
    let plant = options.get_one::<String>("plant").is_some();
    let mut rng = Rng::new(plan.seed);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let encodes = options.get_flag("encode");
    let mut scene = Scene::new(plan.dir.as_deref(), STORES, COPIES, encodes)?;
    scene.up()?;
    let mount = scene.mount();
    let shared = mount.join("shared");
    std::fs::create_dir(&shared)?;
    let ledgers = (0..WRITERS)
        .map(|who| Ledger::create(mount.join(format!("w{who}"))).map(Mutex::new))
        .collect::<Result<_>>()?;
    let field = Field {
        still: RwLock::new(()),
        ledgers,
        shared,
        down: AtomicBool::new(false),
        full: AtomicBool::new(false),
        stop,
        checked: AtomicU64::new(0),
        broken: Mutex::new(Vec::new()),
    };
    let until = Instant::now() + plan.duration;
    let mut run = Run {
        scene,
        field: &field,
        rng: rng.fork(),
        ills: match options.get_many("ill") {
            Some(ills) => ills.copied().collect(),
            None => Ill::value_variants().to_vec(),
        },
        faults: 0,
    };
    let outcome = std::thread::scope(|scope| {
        for who in 0..WRITERS {
            let rng = rng.fork();
            let field = &field;
            scope.spawn(move || field.write(who, rng));
        }
        let outcome = run.disturb(until);
        // The writers must end whatever happened, or the scope never does.
        field.stop.store(true, Ordering::Relaxed);
        if outcome.is_err() {
            // Calls on a mount that nobody serves would wait for ever.
            run.scene.kill().and(outcome)
        } else {
            outcome
        }
    });
    let broken_early = !field.broken.lock().is_empty();
    let outcome = outcome.and_then(|()| {
        if broken_early {
            return Ok(());
        }
        run.finish(plant)
    });
    if !plant && (outcome.is_err() || !field.broken.lock().is_empty()) {
        eprintln!("{}", run.scene.log_tail());
        match run.scene.keep_log(plan.seed) {
            Ok(path) => eprintln!("all that the process said is kept in {}", path.display()),
            Err(error) => eprintln!("what the process said is lost: {error:#}"),
        }
    }
    outcome?;
    let faults = run.faults;
    drop(run);
    Ok(Report {
        torture: TORTURE.name.to_owned(),
        seed: plan.seed,
        checked: field.checked.load(Ordering::Relaxed),
        faults,
        broken: field.broken.into_inner(),
    })
}
