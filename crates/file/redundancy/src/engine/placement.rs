//! Where a new file goes, and how much room there is.

use super::Engine;
use crate::label::{StoreIndex, StoreMask};
use mount::{Result, Space};
use std::sync::atomic::Ordering;

/// Stores whose free space differs by less than this share of the largest take turns.
const EVEN_SHARE: u64 = 20;

impl Engine {
    /// Home and copies of a new file: the members with the most free space, taking turns where
    /// they have about the same; stores in `full` and those under the reserve only where nothing
    /// else is left. Where there are fewer members than copies the rest go to stores that are
    /// away, and get there when they return.
    pub(crate) fn choose(&self, full: StoreMask) -> (StoreIndex, StoreMask) {
        let turn = self.rotation.fetch_add(1, Ordering::Relaxed) as usize;
        let count = self.slots.len();
        let members = self.members();
        let free: Vec<u64> = self
            .slots
            .iter()
            .map(|s| s.space.lock().available_bytes)
            .collect();
        let step = free.iter().max().copied().unwrap_or(0) / EVEN_SHARE + 1;
        let reserve = self.options.reserve_bytes;
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|i| {
            let index = StoreIndex(*i as u8);
            let away = !members.has(index);
            let tight = full.has(index) || free[*i] < reserve;
            (
                away,
                tight,
                u64::MAX - free[*i] / step,
                (i + count - turn % count) % count,
            )
        });
        let copies = usize::from(self.copy_count).min(count);
        let chosen = &order[..copies];
        let mask = chosen
            .iter()
            .fold(StoreMask::default(), |m, i| m.with(StoreIndex(*i as u8)));
        (StoreIndex(chosen[0] as u8), mask)
    }

    /// Asks every member for its free space.
    pub(crate) fn refresh_space(&self) {
        for (index, store) in self.member_stores() {
            match store.space() {
                Ok(space) => *self.slots[usize::from(index.0)].space.lock() = space,
                Err(errno) => {
                    // Going below half leaves the set read-only, which is recorded there.
                    let _ = self.fence_for(index, errno);
                }
            }
        }
    }

    /// Room as users see it: what the members' file systems (each counted once) hold, over the
    /// number of copies.
    pub(crate) fn user_space(&self) -> Result<Space> {
        let mut devices = Vec::new();
        let mut sum = Space::default();
        for (index, store) in self.member_stores() {
            let space = store.space()?;
            *self.slots[usize::from(index.0)].space.lock() = space;
            sum.name_max = space.name_max;
            sum.block_bytes = space.block_bytes;
            if devices.contains(&store.device()) {
                continue;
            }
            devices.push(store.device());
            sum.total_bytes += space.total_bytes;
            sum.free_bytes += space.free_bytes;
            sum.available_bytes += space.available_bytes;
            sum.files += space.files;
            sum.files_free += space.files_free;
        }
        let copies = u64::from(self.copy_count);
        sum.total_bytes /= copies;
        sum.free_bytes /= copies;
        sum.available_bytes /= copies;
        sum.files /= copies;
        sum.files_free /= copies;
        Ok(sum)
    }
}
