//! What a mounted volume does beside its requests: cleaning, checkpoints, and times.

use crate::failure::{Failure, Outcome};
use ::volume::directory::Tree;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the volume is asked whether it needs cleaning while nobody waits for that.
const LOOK: Duration = Duration::from_millis(200);

/// How long a time of a file may be in memory alone.
const TIMES: Duration = Duration::from_secs(5);

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
    pub(super) fn start(tree: Arc<Tree>) -> Outcome<Upkeep> {
        let rest = Arc::<Rest>::default();
        let shared = rest.clone();
        let thread = std::thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(move || run(&tree, &shared))
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

fn run(tree: &Tree, rest: &Rest) {
    let mut written = Instant::now();
    loop {
        let mut stopping = rest.stopping.lock();
        if *stopping {
            return;
        }
        rest.changed.wait_for(&mut stopping, LOOK);
        drop(stopping);
        if let Err(error) = tree.settle_writes(LOOK) {
            tracing::debug!(%error, "writes wait");
        }
        let mut worked = tree.volume().maintain();
        while let Ok(true) = worked {
            if *rest.stopping.lock() {
                return;
            }
            worked = tree.volume().maintain();
        }
        if written.elapsed() >= TIMES {
            written = Instant::now();
            if let Err(error) = tree.write_times() {
                tracing::debug!(%error, "times of files wait for room");
            }
        }
        if let Err(error) = worked {
            tracing::error!(%error, "the volume takes no more writes");
            return;
        }
    }
}
