//! What all threads of an open log share.

use crate::cut::Progress;
use crate::error::{Result, VlogError};
use crate::lane::Lane;
use crate::options::{Options, Sync};
use crate::store::Store;
use crate::table::Table;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rules that tests leave out, to see that it is found.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// Dead bits reach the disk before the records that killed.
    BitsBeforeKillers,
    /// Kills are dropped, and no validity file has their bits.
    KillsDropped,
    /// A compaction's file is installed before it is synced.
    InstalledUnsynced,
    /// The files that were read are removed before the new one is in the manifest.
    RemovedFirst,
    /// Lanes say what is durable as if there were no groups.
    DurableWithoutGroups,
    /// Recovery keeps parts of groups.
    TornGroups,
    /// The next file of a lane is written before the one in front of it is durable.
    RolledUnsynced,
}

/// Counters of an opening.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) appended: AtomicU64,
    pub(crate) killed: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compacted_read_bytes: AtomicU64,
    pub(crate) compacted_written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) store: Store,
    pub(crate) table: Table,
    pub(crate) lanes: Vec<Lane>,
    /// Locked behind the lanes' and the manifest's locks, never before one.
    pub(crate) progress: Mutex<Progress>,
    /// More is durable, or the log has stopped.
    pub(crate) advanced: Condvar,
    pub(crate) next_number: AtomicU64,
    pub(crate) opening: u64,
    pub(crate) counters: Counters,
    /// Held by the compaction that runs.
    pub(crate) compacting: Mutex<()>,
    /// Wakes the thread that compacts.
    pub(crate) compact: (Mutex<bool>, Condvar),
    pub(crate) ending: AtomicBool,
    /// Of each lane, whether somebody waits for a sync.
    wanted: Vec<AtomicBool>,
    pub(crate) compaction_failed: Mutex<Option<VlogError>>,
    stopped: Mutex<Option<VlogError>>,
    is_stopped: AtomicBool,
    #[cfg(test)]
    pub(crate) plant: Mutex<Option<Plant>>,
}

impl Shared {
    pub(crate) fn new(options: Options, store: Store, table: Table, opening: u64) -> Shared {
        let lanes = (0..options.lanes).map(|_| Lane::default()).collect();
        let wanted = (0..options.lanes).map(|_| AtomicBool::new(false)).collect();
        let next_number = AtomicU64::new(store.books.lock().manifest.next_number);
        Shared {
            progress: Mutex::new(Progress::new(options.lanes as usize)),
            options,
            store,
            table,
            lanes,
            advanced: Condvar::new(),
            next_number,
            opening,
            counters: Counters::default(),
            compacting: Mutex::new(()),
            compact: (Mutex::new(false), Condvar::new()),
            ending: AtomicBool::new(false),
            wanted,
            compaction_failed: Mutex::new(None),
            stopped: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
            #[cfg(test)]
            plant: Mutex::new(None),
        }
    }

    #[cfg(test)]
    pub(crate) fn planted(&self, plant: Plant) -> bool {
        *self.plant.lock() == Some(plant)
    }

    pub(crate) fn lane_of(&self, stream: u32) -> usize {
        (stream % self.options.lanes) as usize
    }

    /// Has the threads of all lanes sync soon. With [`Sync::Always`] they do so anyway.
    pub(crate) fn ask_for_sync(&self) {
        if self.options.sync == Sync::Always {
            return;
        }
        for (lane, wanted) in self.lanes.iter().zip(&self.wanted) {
            if !wanted.swap(true, Ordering::AcqRel) {
                let mut buffer = lane.buffer.lock();
                buffer.parked = false;
                drop(buffer);
                lane.work.notify_all();
            }
        }
    }

    pub(crate) fn sync_wanted(&self, lane: usize) -> bool {
        let wanted = self.wanted.get(lane);
        wanted.is_some_and(|wanted| wanted.load(Ordering::Acquire))
    }

    pub(crate) fn take_sync_wanted(&self, lane: usize) -> bool {
        let wanted = self.wanted.get(lane);
        wanted.is_some_and(|wanted| wanted.swap(false, Ordering::AcqRel))
    }

    /// The error of the failure that stopped the log, if one did.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.stopped.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Passes on an error of writing. But for want of room the log stops: what is on the medium is
    /// not known, and everybody who waits is told.
    pub(crate) fn failed(&self, error: VlogError) -> VlogError {
        if error.is_no_space() {
            return error.into_full();
        }
        if let VlogError::Io { doing, file, errno } = error.clone() {
            let stopped = VlogError::Stopped { doing, file, errno };
            self.stopped.lock().get_or_insert(stopped);
            self.is_stopped.store(true, Ordering::Release);
            for lane in &self.lanes {
                let _buffer = lane.buffer.lock();
                lane.room.notify_all();
                lane.work.notify_all();
            }
            let _progress = self.progress.lock();
            self.advanced.notify_all();
        }
        error
    }
}
