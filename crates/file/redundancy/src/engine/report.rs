//! What the engine says of itself.

use super::{Engine, Slot};
use crate::label::StoreIndex;
use crate::status::{Status, StoreState, StoreStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Slot {
    /// Why the store is not in sync, and when it is tried again where that is known.
    fn detail_now(&self, state: StoreState) -> String {
        let detail = self.detail.lock().clone();
        if state != StoreState::Fenced || self.refused.load(Ordering::Acquire) {
            return detail;
        }
        let due = self.retry.lock().0;
        match due.saturating_duration_since(Instant::now()) {
            Duration::ZERO => detail,
            wait => format!("{detail}; next try in {} s", wait.as_secs() + 1),
        }
    }
}

impl Engine {
    /// The state of the set.
    pub fn status(&self) -> Status {
        let members = self.members();
        let (header, dirty) = {
            let membership = self.membership.lock();
            let dirty: Vec<_> = membership
                .dirty
                .iter()
                .map(|(s, d)| (*s, d.len() as u64))
                .collect();
            (membership.header.clone(), dirty)
        };
        let stores: Vec<_> = self
            .slots
            .iter()
            .enumerate()
            .map(|(place, slot)| {
                let index = StoreIndex(place as u8);
                let rebuild = slot.progress.lock().as_ref().map(|pace| pace.progress());
                let state = if members.has(index) {
                    StoreState::InSync
                } else if rebuild.is_some() {
                    StoreState::Rebuilding
                } else {
                    StoreState::Fenced
                };
                let space = *slot.space.lock();
                StoreStatus {
                    index: index.0,
                    path: slot.path.lock().clone(),
                    id: format!("{:032x}", header.stores[place].0.0),
                    state,
                    detail: slot.detail_now(state),
                    total_bytes: space.total_bytes,
                    free_bytes: space.available_bytes,
                    dirty_entries: dirty
                        .iter()
                        .find(|(s, _)| *s == index)
                        .map_or(0, |(_, d)| *d),
                    errors: slot.errors.load(Ordering::Relaxed),
                    rebuild,
                    last_rebuild: *slot.last_rebuild.lock(),
                }
            })
            .collect();
        let away = self.slots.len() - members.count();
        Status {
            set: format!("{:032x}", self.set.0),
            mount: self.mounted_at.lock().clone(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            copies: self.copy_count,
            generation: self.generation(),
            redundant: away == 0,
            may_lose: usize::from(self.copy_count).saturating_sub(1 + away) as u8,
            writable: !self.is_read_only.load(Ordering::Acquire),
            active_entries: self.journal.len() as u64,
            known_inodes: self.inodes.len() as u64,
            last_scrub: self.last_scrub.lock().clone(),
            stores,
        }
    }

    /// Says where the set is mounted, for the status.
    pub fn set_mounted_at(&self, path: &str) {
        *self.mounted_at.lock() = path.to_string();
    }

    /// Why the set takes no writes, where it does not.
    pub fn read_only_reason(&self) -> Option<String> {
        self.read_only.lock().clone()
    }
}
