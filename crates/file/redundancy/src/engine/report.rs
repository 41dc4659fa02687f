//! What the engine says of itself.

use super::{Engine, Slot};
use crate::label::StoreIndex;
use crate::status::{
    EncodingShares, EncodingStatus, Status, StoreEncodingStatus, StoreState, StoreStatus,
};
use crate::stripes::Stripe;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

type OfStores = BTreeMap<StoreIndex, StoreEncodingStatus>;

/// Adds a stripe to what its stores have.
fn count(stripe: &Stripe, stores: &mut OfStores) {
    let (layout, chunk) = (&stripe.layout, stripe.layout.chunk.get());
    for (shard, slot) in layout.shards() {
        let Some(store) = slot.store() else { continue };
        let of = stores.entry(store).or_default();
        of.metadata_bytes += stripe.metadata_bytes();
        let Some(base) = stripe.base(shard) else {
            of.parity_bytes += chunk;
            continue;
        };
        of.base_bytes += chunk;
        for (store, _) in &base.copies {
            stores.entry(*store).or_default().freed_bytes += chunk;
        }
    }
}

/// Shares by what the files had in the last round; `None` where that was nothing, or less than is
/// encoded by now.
fn shares(
    status: &EncodingStatus,
    user_bytes: u64,
    copies: f64,
    expansion: f64,
) -> Option<EncodingShares> {
    if user_bytes == 0 || status.bytes > user_bytes {
        return None;
    }
    let user = user_bytes as f64;
    let beside = status.metadata_bytes + status.differential_log_bytes + status.parity_bytes;
    let kept = user * copies + beside as f64 - status.freed_bytes as f64;
    let encoded = status.bytes as f64 / user;
    Some(EncodingShares {
        capacity_efficiency: user / kept,
        capacity_formula: 1.0 / ((1.0 - encoded) * copies + encoded * expansion),
        metadata: status.metadata_bytes as f64 / kept,
        differential: status.differential_bytes as f64 / user,
    })
}

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
        let (encoding, of_stores) = self.encoding_status().unzip();
        let of_stores = of_stores.unwrap_or_default();
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
                    encoding: encoding
                        .as_ref()
                        .and(Some(of_stores.get(&index)))
                        .map(|of| of.copied().unwrap_or_default()),
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
            encoding,
            scrub: self.scrub_status(),
            last_scrub: self.last_scrub.lock().clone(),
            stores,
        }
    }

    fn encoding_status(&self) -> Option<(EncodingStatus, OfStores)> {
        let stripes = self.encoded.stripes()?;
        let mut status = EncodingStatus {
            chunks: self.encoded.len() as u64,
            lost_chunks: self.lost_chunks(),
            ..EncodingStatus::default()
        };
        let mut stores = OfStores::new();
        for stripe in stripes.all() {
            status.stripes += 1;
            count(&stripe, &mut stores);
        }
        for store in stores.values() {
            status.bytes += store.base_bytes;
            status.freed_bytes += store.freed_bytes;
            status.parity_bytes += store.parity_bytes;
            status.metadata_bytes += store.metadata_bytes;
        }
        if let Some(delayed) = self.encoded.delayed() {
            let differential = delayed.status();
            let page = crate::stripes::PAGE_BYTES as u64;
            status.differential_bytes = differential.pages * page;
            status.differential_limit_bytes = differential.limit_pages * page;
            status.differential_log_bytes = differential.logs.values().map(|log| log.0).sum();
            for (store, (bytes, _)) in differential.logs {
                let store = StoreIndex(store);
                stores.entry(store).or_default().differential_log_bytes = bytes;
            }
        }
        if let Some(counters) = &self.counters {
            status.counter_bytes = counters.bytes() as u64;
        }
        let last = self.last_round.lock();
        if let Some((round, loads)) = &*last {
            status.encoded_share = Some(round.encoded_share);
            status.load_share = Some(round.load_share);
            for (store, load) in loads {
                stores.entry(*store).or_default().load_share = Some(*load);
            }
        }
        if let Some(encoding) = &self.options.encoding {
            let geometry = encoding.geometry;
            let (data, parity) = (geometry.data(), geometry.parity());
            status.code = format!("{data}+{parity}");
            let expansion = (data + parity) as f64 / data as f64;
            let user = last.as_ref().map_or(0, |(round, _)| round.user_bytes);
            status.shares = shares(&status, user, f64::from(self.copy_count), expansion);
        }
        Some((status, stores))
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
