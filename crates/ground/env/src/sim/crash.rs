//! The crash harness: every crash that a workload could have met, recovered and checked.
//!
//! [`enumerate`] runs a workload once on a recorded [`World`]. Then, for each prefix of what it did
//! to the storage, it rebuilds what a crash there may leave (nothing of the unsynced, all of it,
//! and samples of it, torn at 512 bytes), hands the machine to a check that recovers and compares
//! with a model, and does so once more after a crash in the middle of that recovery.
//!
//! ```
//! # use holdfast_env as env;
//! use env::{Dir, sim::crash::{Options, enumerate}};
//! let report = enumerate(
//!     &Options::new(1),
//!     |world, done| {
//!         for number in 0..3u8 {
//!             world.dir("store").replace("state", &[number]).unwrap();
//!             done.note(number);
//!         }
//!     },
//!     |world, done| match (world.dir("store").read("state"), done.last()) {
//!         (Ok(content), Some(last)) if content[0] < *last => Err("went back".to_owned()),
//!         (Err(_), Some(_)) => Err("lost".to_owned()),
//!         _ => Ok(()),
//!     },
//! );
//! assert!(report.images > 6);
//! ```

use super::World;
use super::file::Fate;
use super::image::{Event, Image};
use crate::Rng;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The environment variable that sets the seed, as `SEED` (decimal or 0x...), or replays one
/// image, as `SEED:CUT:SAMPLE`.
pub const SEED_VARIABLE: &str = "HOLDFAST_SEED";

/// How thoroughly to look.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides the workload's and the crashes' chances.
    pub seed: u64,
    /// Random images per cut, besides "all lost" and "all kept".
    pub samples_per_cut: u32,
    /// Most cuts looked at; where a workload has more, the seed picks which.
    pub cuts_max: usize,
    /// Whether to crash recovery itself too.
    pub crash_in_recovery: bool,
    /// Only this cut and sample.
    pub only: Option<(usize, u32)>,
}

impl Options {
    /// With `seed`, unless [`SEED_VARIABLE`] says otherwise.
    ///
    /// # Panics
    /// Where the variable cannot be understood.
    pub fn new(seed: u64) -> Options {
        let mut options = Options {
            seed,
            samples_per_cut: 4,
            cuts_max: 2000,
            crash_in_recovery: true,
            only: None,
        };
        if let Ok(text) = std::env::var(SEED_VARIABLE) {
            options.set(&text).unwrap_or_else(|| {
                panic!("{SEED_VARIABLE}={text}: want SEED or SEED:CUT:SAMPLE");
            });
        }
        options
    }

    fn set(&mut self, text: &str) -> Option<()> {
        let mut parts = text.split(':');
        let seed = parts.next()?;
        self.seed = match seed.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => seed.parse().ok()?,
        };
        if let Some(cut) = parts.next() {
            self.only = Some((cut.parse().ok()?, parts.next()?.parse().ok()?));
        }
        parts.next().is_none().then_some(())
    }
}

/// Where a workload notes what it has been promised (and, if its check wants that, what it has
/// begun). A check sees the notes that were made before the crash.
pub struct Notes<N> {
    world: World,
    notes: Arc<Mutex<Vec<(usize, N)>>>,
}

impl<N> Notes<N> {
    /// From here on this holds.
    pub fn note(&self, note: N) {
        let at = self.world.recorded();
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push((at, note));
    }
}

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Events of the workload.
    pub events: usize,
    /// Images recovered and checked.
    pub images: usize,
    /// Of these, images of a crash during recovery.
    pub recovery_images: usize,
}

/// A crash that the check did not accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Events before the crash.
    pub cut: usize,
    /// Which image of that cut.
    pub sample: u32,
    /// What the check said.
    pub complaint: String,
    /// The last event before the crash.
    pub last_event: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            seed, cut, sample, ..
        } = self;
        write!(
            f,
            "crash after event {cut} ({}): {}\nreplay with {SEED_VARIABLE}={seed:#x}:{cut}:{sample}",
            self.last_event, self.complaint
        )
    }
}

impl std::error::Error for Failure {}

/// As [`search`].
///
/// # Panics
/// With the failure, where the check does not accept an image.
pub fn enumerate<N: Clone>(
    options: &Options,
    workload: impl FnOnce(&World, &Notes<N>),
    check: impl FnMut(&World, &[N]) -> Result<(), String>,
) -> Report {
    match search(options, workload, check) {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    }
}

/// Runs `workload` once and `check` on every image that a crash may leave. The check recovers
/// from the [`World`] that it is given and compares with the notes made before the crash; it is to
/// do nothing else to the storage.
///
/// # Errors
/// The first image that the check did not accept.
pub fn search<N: Clone>(
    options: &Options,
    workload: impl FnOnce(&World, &Notes<N>),
    mut check: impl FnMut(&World, &[N]) -> Result<(), String>,
) -> Result<Report, Failure> {
    let world = World::new(options.seed);
    world.record();
    let notes = Notes {
        world: world.clone(),
        notes: Arc::default(),
    };
    workload(&world, &notes);
    let trace = world.take_trace();
    let notes = notes
        .notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();

    let mut report = Report {
        events: trace.len(),
        ..Report::default()
    };
    let mut image = Image::default();
    let mut choice = Rng::new(options.seed);
    for cut in 0..=trace.len() {
        let last_event = cut.checked_sub(1).and_then(|index| trace.get(index));
        if let Some(event) = last_event {
            image.apply(event);
        }
        let looked_at = choice.chance(options.cuts_max as u64, trace.len() as u64 + 1);
        let samples = match options.only {
            Some((only, sample)) if only == cut => sample..sample + 1,
            Some(_) => continue,
            None if !looked_at => continue,
            None if image.is_settled() => 0..1,
            None => 0..options.samples_per_cut + 2,
        };
        let before = notes.partition_point(|(at, _)| *at <= cut);
        let seen: Vec<N> = notes
            .iter()
            .take(before)
            .map(|(_, note)| note.clone())
            .collect();
        for sample in samples {
            let place = Place {
                seed: options.seed,
                cut,
                sample,
                last_event,
            };
            let guard = SayWhere(&place);
            let outcome = check_image(options, &place, &image, &seen, &mut check, &mut report);
            std::mem::forget(guard);
            outcome.map_err(|complaint| place.failure(complaint))?;
        }
    }
    Ok(report)
}

/// Which image is being checked.
struct Place<'a> {
    seed: u64,
    cut: usize,
    sample: u32,
    last_event: Option<&'a Event>,
}

impl Place<'_> {
    fn failure(&self, complaint: String) -> Failure {
        let mut last_event = self.last_event.map_or("the start".to_owned(), Event::shown);
        last_event.truncate(300);
        Failure {
            seed: self.seed,
            cut: self.cut,
            sample: self.sample,
            complaint,
            last_event,
        }
    }

    fn rng(&self) -> Rng {
        let mix = (self.cut as u64) << 32 | u64::from(self.sample);
        Rng::new(self.seed ^ mix.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Says where it was when a check panics.
struct SayWhere<'a>(&'a Place<'a>);

impl Drop for SayWhere<'_> {
    fn drop(&mut self) {
        eprintln!("{}", self.0.failure("the check panicked".to_owned()));
    }
}

fn check_image<N>(
    options: &Options,
    place: &Place<'_>,
    image: &Image,
    notes: &[N],
    check: &mut impl FnMut(&World, &[N]) -> Result<(), String>,
    report: &mut Report,
) -> Result<(), String> {
    let mut rng = place.rng();
    let fate = match place.sample {
        0 => Fate::Lost,
        1 => Fate::Kept,
        _ => Fate::Mixed(&mut rng),
    };
    let found = image.after_crash(fate);
    let world = World::with_image(found.clone(), rng.next_u64());
    world.record();
    report.images += 1;
    check(&world, notes)?;
    let recovery = world.take_trace();
    if !options.crash_in_recovery || recovery.is_empty() {
        return Ok(());
    }
    let mut image = found;
    let cut = rng.index(recovery.len() + 1);
    recovery
        .iter()
        .take(cut)
        .for_each(|event| image.apply(event));
    let found = image.after_crash(Fate::Mixed(&mut rng));
    report.images += 1;
    report.recovery_images += 1;
    check(&World::with_image(found, rng.next_u64()), notes)
        .map_err(|complaint| format!("after a second crash in recovery: {complaint}"))
}

impl Event {
    /// For people: without the bytes.
    fn shown(&self) -> String {
        match self {
            Event::Write {
                inode,
                offset,
                data,
                ..
            } => format!("write of {} bytes at {offset} to file {inode}", data.len()),
            Event::Put { dir, name, .. } => format!("new content for {dir}/{name}"),
            other => format!("{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_variable_is_read_in_both_forms() {
        let mut options = Options {
            seed: 0,
            samples_per_cut: 0,
            cuts_max: 0,
            crash_in_recovery: false,
            only: None,
        };
        assert_eq!(options.set("0x1f:3:2"), Some(()));
        assert_eq!((options.seed, options.only), (31, Some((3, 2))));
        assert_eq!(options.set("7"), Some(()));
        for wrong in ["", "x", "1:2", "1:2:3:4"] {
            assert_eq!(options.set(wrong), None, "{wrong}");
        }
    }
}
