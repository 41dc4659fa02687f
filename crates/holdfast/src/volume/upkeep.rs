//! What a volume that is served does beside its requests: cleaning, checkpoints, and times.

use crate::failure::{Failure, Outcome};
use ::volume::Volume;
use ::volume::directory::Tree;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the volume is asked whether it needs cleaning while nobody waits for that.
const LOOK: Duration = Duration::from_millis(200);

/// How long a time of a file may be in memory alone.
const TIMES: Duration = Duration::from_secs(5);

/// What is kept in order.
pub(super) trait Kept: Send + Sync + 'static {
    /// The volume below it.
    fn volume(&self) -> &Volume;
    /// Writes what has waited for company for so long.
    fn settle(&self, _age: Duration) {}
    /// Writes what may be in memory alone for a while only.
    fn write_late(&self) {}
}

impl Kept for Volume {
    fn volume(&self) -> &Volume {
        self
    }
}

impl Kept for Tree {
    fn volume(&self) -> &Volume {
        Tree::volume(self)
    }

    fn settle(&self, age: Duration) {
        if let Err(error) = self.settle_writes(age) {
            tracing::debug!(%error, "writes wait");
        }
    }

    fn write_late(&self) {
        if let Err(error) = self.write_times() {
            tracing::debug!(%error, "times of files wait for room");
        }
    }
}

#[derive(Default)]
struct Rest {
    stopping: Mutex<bool>,
    changed: Condvar,
}

/// A thread that keeps a volume in order.
pub(super) struct Upkeep {
    rest: Arc<Rest>,
    thread: JoinHandle<()>,
}

impl Upkeep {
    pub(super) fn start(kept: Arc<impl Kept>) -> Outcome<Upkeep> {
        let rest = Arc::<Rest>::default();
        let shared = rest.clone();
        let thread = std::thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(move || run(kept.as_ref(), &shared))
            .map_err(|error| Failure::unexpected("starting a thread", &error))?;
        Ok(Upkeep { rest, thread })
    }

    pub(super) fn stop(self) {
        *self.rest.stopping.lock() = true;
        self.rest.changed.notify_all();
        // A panic there has been reported on its own thread.
        let _panicked = self.thread.join();
    }
}

fn run(kept: &impl Kept, rest: &Rest) {
    let mut written = Instant::now();
    loop {
        let mut stopping = rest.stopping.lock();
        if *stopping {
            return;
        }
        rest.changed.wait_for(&mut stopping, LOOK);
        drop(stopping);
        kept.settle(LOOK);
        let mut worked = kept.volume().maintain();
        while let Ok(true) = worked {
            if *rest.stopping.lock() {
                return;
            }
            worked = kept.volume().maintain();
        }
        if written.elapsed() >= TIMES {
            written = Instant::now();
            kept.write_late();
        }
        if let Err(error) = worked {
            tracing::error!(%error, "the volume takes no more writes");
            return;
        }
    }
}
