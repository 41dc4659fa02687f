//! What the engine says of itself.

use super::{Engine, Slot};
use crate::label::StoreIndex;
use crate::status::{EncodingStatus, Status, StoreState, StoreStatus};
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
            encoding: self.encoding_status(),
            scrub: self.scrub_status(),
            last_scrub: self.last_scrub.lock().clone(),
            stores,
        }
    }

    fn encoding_status(&self) -> Option<EncodingStatus> {
        let stripes = self.encoded.stripes()?;
        let mut status = EncodingStatus {
            chunks: self.encoded.len() as u64,
            ..EncodingStatus::default()
        };
        for stripe in stripes.all() {
            let (layout, chunk) = (&stripe.layout, stripe.layout.chunk.get());
            let bases = layout.shards().filter_map(|(shard, _)| stripe.base(shard));
            let (held, given_up) = bases.fold((0, 0), |(held, given_up), base| {
                (held + chunk, given_up + chunk * base.copies.len() as u64)
            });
            status.stripes += 1;
            status.bytes += held;
            status.freed_bytes += given_up;
            status.parity_bytes += chunk * u64::from(layout.geometry.parity());
        }
        if let Some(delayed) = self.encoded.delayed() {
            let differential = delayed.status();
            let page = crate::stripes::PAGE_BYTES as u64;
            status.differential_bytes = differential.pages * page;
            status.differential_limit_bytes = differential.limit_pages * page;
            status.differential_log_bytes = differential.logs.values().map(|log| log.0).sum();
        }
        if let Some(encoding) = &self.options.encoding {
            let geometry = encoding.geometry;
            status.code = format!("{}+{}", geometry.data(), geometry.parity());
        }
        if let Some(counters) = &self.counters {
            status.counter_bytes = counters.bytes() as u64;
        }
        let round = *self.last_round.lock();
        status.encoded_share = round.map(|round| round.encoded_share);
        status.load_share = round.map(|round| round.load_share);
        Some(status)
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
