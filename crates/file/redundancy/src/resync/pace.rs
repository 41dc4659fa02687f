//! Progress of a pass and the rate it is held to.

use crate::label::StoreIndex;
use crate::status::Progress;
use env::errno::Errno;
use mount::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest single pause of a paced pass, so that it can be stopped.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Counts, paces and stops a pass.
pub(crate) struct Pace {
    stop: Arc<AtomicBool>,
    bytes_per_s: AtomicU64,
    started: Instant,
    objects: AtomicU64,
    bytes: AtomicU64,
    written: AtomicU64,
    total: AtomicU64,
    phase: Mutex<&'static str>,
    window: Mutex<(Instant, u64, u64)>,
    unreadable: Mutex<Option<(StoreIndex, u64)>>,
}

impl Pace {
    pub(crate) fn new(stop: Arc<AtomicBool>, bytes_per_s: u64) -> Pace {
        let now = Instant::now();
        Pace {
            stop,
            bytes_per_s: AtomicU64::new(bytes_per_s),
            started: now,
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
            total: AtomicU64::new(0),
            phase: Mutex::new("comparing"),
            window: Mutex::new((now, 0, 0)),
            unreadable: Mutex::new(None),
        }
    }

    pub(crate) fn unlimited(stop: Arc<AtomicBool>) -> Pace {
        Pace::new(stop, 0)
    }

    /// From now on without a limit: the last part runs while changes wait.
    pub(crate) fn lift(&self) {
        self.bytes_per_s.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_phase(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }

    pub(crate) fn set_total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// EINTR where the pass is to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Acquire) {
            Err(Errno::INTR)
        } else {
            Ok(())
        }
    }

    pub(crate) fn object(&self) {
        self.objects.fetch_add(1, Ordering::Relaxed);
    }

    /// A file cannot be read from `store`, which is copied from.
    pub(crate) fn unreadable(&self, store: StoreIndex) {
        let mut unreadable = self.unreadable.lock();
        let files = unreadable.map_or(0, |(_, files)| files);
        *unreadable = Some((store, files + 1));
    }

    /// Whether some file could not be read.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.unreadable.lock().is_some()
    }

    /// The last store that files could not be read from, and how many there were.
    pub(crate) fn unreadable_files(&self) -> Option<(StoreIndex, u64)> {
        *self.unreadable.lock()
    }

    /// Counts bytes compared and waits until the rate allows more.
    pub(crate) fn bytes(&self, compared: u64, written: u64) -> Result<()> {
        let done = self.bytes.fetch_add(compared, Ordering::Relaxed) + compared;
        self.written.fetch_add(written, Ordering::Relaxed);
        loop {
            self.check()?;
            let rate = self.bytes_per_s.load(Ordering::Relaxed);
            if rate == 0 {
                return Ok(());
            }
            let due = Duration::from_secs_f64(done as f64 / rate as f64);
            let wait = due.saturating_sub(self.started.elapsed());
            if wait.is_zero() {
                return Ok(());
            }
            std::thread::sleep(wait.min(PAUSE_MAX));
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let total = match self.total.load(Ordering::Relaxed) {
            0 => None,
            known => Some(known.max(bytes)),
        };
        let mut window = self.window.lock();
        let elapsed = window.0.elapsed();
        if elapsed > Duration::from_secs(1) {
            let rate = (bytes.saturating_sub(window.1)) as f64 / elapsed.as_secs_f64();
            *window = (Instant::now(), bytes, rate as u64);
        }
        let average = bytes as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        let rate = if window.2 > 0 {
            window.2
        } else {
            average as u64
        };
        Progress {
            phase: (*self.phase.lock()).to_string(),
            objects_done: self.objects.load(Ordering::Relaxed),
            bytes_done: bytes,
            bytes_total: total,
            bytes_written: self.written.load(Ordering::Relaxed),
            bytes_per_s: rate,
            eta_s: total.map(|t| ((t - bytes) as f64 / average.max(1.0)) as u64),
        }
    }
}
