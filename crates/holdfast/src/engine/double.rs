//! A set without stores: it only remembers what it was asked.

use super::{CheckReport, Comparing, Engine, Event, OnEvent, OnProgress};
use crate::failure::Outcome;
use parking_lot::Mutex;
use redundancy::status::{Progress, Status, StoreState, StoreStatus};
use std::path::Path;

/// The double.
pub(crate) struct Double {
    pub(crate) status: Mutex<Status>,
    pub(crate) busy: Mutex<bool>,
    pub(crate) stopped: Mutex<bool>,
    pub(crate) on_event: OnEvent,
}

impl Double {
    pub(crate) fn new(on_event: OnEvent) -> Double {
        Double {
            status: Mutex::new(status()),
            busy: Mutex::new(false),
            stopped: Mutex::new(false),
            on_event,
        }
    }
}

/// A healthy set of three.
pub(crate) fn status() -> Status {
    let store = |index: u8| StoreStatus {
        index,
        path: format!("/var/lib/holdfast/store-{}", index + 1),
        id: format!("{index:032x}"),
        state: StoreState::InSync,
        detail: String::new(),
        total_bytes: 270_000_000_000,
        free_bytes: 86_007_719_731,
        dirty_entries: 0,
        errors: 0,
        rebuild: None,
        last_rebuild: None,
        encoding: None,
    };
    Status {
        encoding: None,
        set: "5f0c2f6a8a1d4f43b2a7e6c9d0f1a2b3".to_owned(),
        mount: "/srv/holdfast".to_owned(),
        pid: 4711,
        uptime_s: 11_520,
        copies: 2,
        generation: 3,
        redundant: true,
        may_lose: 1,
        writable: true,
        active_entries: 12,
        known_inodes: 345,
        scrub: None,
        last_scrub: None,
        stores: (0..3).map(store).collect(),
    }
}

impl Engine for Double {
    fn status(&self) -> Status {
        self.status.lock().clone()
    }

    fn start(&self, mount: &Path) -> Outcome<()> {
        self.status.lock().mount = mount.display().to_string();
        Ok(())
    }

    fn stop(&self, force: bool) -> Outcome<()> {
        if *self.busy.lock() && !force {
            return Err(crate::up::busy(
                Path::new("/srv/holdfast"),
                &["bash (17)".to_owned()],
            ));
        }
        *self.stopped.lock() = true;
        Ok(())
    }

    fn attach(&self, path: &Path) -> Outcome<u8> {
        let text = format!("{} is back", path.display());
        (self.on_event)(Event::Store { index: 2, text });
        Ok(2)
    }

    fn detach(&self, index: u8) -> Outcome<()> {
        let mut status = self.status.lock();
        status.stores[usize::from(index)].state = StoreState::Fenced;
        Ok(())
    }

    fn check(&self, _: Comparing, on_progress: OnProgress<'_>) -> Outcome<CheckReport> {
        let progress = Progress {
            phase: "comparing".to_owned(),
            ..Progress::default()
        };
        assert!(on_progress(&progress), "nobody asked it to stop");
        Ok(CheckReport {
            objects: 7,
            ..CheckReport::default()
        })
    }
}
