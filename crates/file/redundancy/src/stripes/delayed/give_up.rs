//! Giving a stripe up that has differentials.
//!
//! The caller fills the copies with what [`Delayed::read`] gives, then has it noted that they are
//! filled, writes what is in differentials into the bases, removes the stripe, and has its
//! differentials forgotten. After a crash a stripe that is noted is gone on with from there: its
//! bases may be half written, so nothing is decoded from it any more.

use super::chunk::{Chunk, runs};
use super::journal::{Journal, Place};
use super::record::Content;
use super::{Delayed, PAGE_BYTES};
use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use crate::stripes::{Result, Slot};
use parity::Shard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// More shards than a stripe can have: each is on another store.
const SHARDS_MAX: u8 = crate::config::STORES_MAX as u8;

impl Delayed {
    /// Takes no more writes to a stripe; whether the logs have anything of it.
    ///
    /// # Errors
    /// There is no such stripe.
    pub fn close_stripe(&self, id: StripeId) -> Result<bool> {
        let stripe = self.stripes.get(id)?;
        let mut written = false;
        for (shard, slot) in stripe.layout.shards() {
            if matches!(slot, Slot::Data { .. }) {
                let chunk = self.chunk(id, shard)?;
                let mut state = chunk.state.write();
                state.gone = true;
                written |= state.written;
            }
        }
        Ok(written)
    }

    /// Takes writes to a stripe again: it is not given up.
    pub fn reopen_stripe(&self, id: StripeId) {
        for chunk in self.chunks_of(id) {
            chunk.state.write().gone = false;
        }
    }

    /// Notes, durably and with all that was written before, that the copies of stripes' chunks have
    /// their bytes. From here on they are to be given up to the end.
    ///
    /// # Errors
    /// A store failed, and is to leave; it may be asked again.
    pub fn note_given_up(&self, ids: &[StripeId]) -> Result<()> {
        let mut notes = Vec::with_capacity(ids.len());
        for id in ids {
            let mut stores = StoreMask::default();
            for chunk in self.chunks_of(*id) {
                let mut state = chunk.state.write();
                if state.written {
                    stores = chunk.copies.iter().copied().fold(stores, StoreMask::with);
                }
                state.in_base = true;
            }
            notes.push((stores, Content::GiveUp(*id)));
        }
        self.note(&notes)
    }

    /// What is in differentials of a data shard, for its base: the place in the shard, and the
    /// bytes.
    ///
    /// # Errors
    /// Those of `each`; a page that no store has right.
    pub fn each_run<E: From<crate::stripes::StripeError>>(
        &self,
        id: StripeId,
        shard: Shard,
        mut each: impl FnMut(u64, &[u8]) -> core::result::Result<(), E>,
    ) -> core::result::Result<(), E> {
        let Some(chunk) = self.chunks.read().get(&(id, shard.0)).cloned() else {
            return Ok(());
        };
        let state = chunk.state.read();
        let mut pages: Vec<u32> = state.pages.keys().copied().collect();
        pages.sort_unstable();
        let mut bytes = [0; PAGE_BYTES];
        for page in pages {
            let Some(pieces) = state.pages.get(&page) else {
                continue;
            };
            chunk.overlay(page, pieces, &mut bytes)?;
            for (start, end) in runs(pieces) {
                let offset = u64::from(page) * PAGE_BYTES as u64 + u64::from(start);
                each(offset, &bytes[usize::from(start)..usize::from(end)])?;
            }
        }
        Ok(())
    }

    /// Stripes are given up: their differentials are not wanted any more. The caller has durably
    /// what it needs of them. Also for stripes that [`super::Found::unknown`] names.
    ///
    /// # Errors
    /// A store failed; the others know of it.
    pub fn forget(&self, ids: &[StripeId]) -> Result<()> {
        let notes = ids
            .iter()
            .map(|id| (self.drop_stripe(*id), Content::Forget(*id)));
        let notes: Vec<_> = notes.collect();
        self.note(&notes)
    }

    /// Lets go of what is known of a stripe; the stores whose logs have something of it.
    fn drop_stripe(&self, id: StripeId) -> StoreMask {
        let gone: Vec<Arc<Chunk>> = {
            let mut chunks = self.chunks.write();
            let shards = 0..SHARDS_MAX;
            shards
                .filter_map(|shard| chunks.remove(&(id, shard)))
                .collect()
        };
        let mut stores = StoreMask::default();
        for chunk in &gone {
            let mut state = chunk.state.write();
            if state.written {
                stores = chunk.copies.iter().copied().fold(stores, StoreMask::with);
            }
            state.gone = true;
            let mut pages = self.pages.lock();
            for (page, _) in state.pages.drain() {
                pages.forget(chunk.key(page));
            }
        }
        if let Some(places) = self.orphans.lock().remove(&id) {
            let of = places.iter().map(Place::store);
            stores = of.fold(stores, StoreMask::with);
        }
        stores
    }

    fn chunks_of(&self, id: StripeId) -> Vec<Arc<Chunk>> {
        let chunks = self.chunks.read();
        let shards = 0..SHARDS_MAX;
        shards
            .filter_map(|shard| chunks.get(&(id, shard)).cloned())
            .collect()
    }

    /// Writes records to logs, durably; the first failure, after all were tried.
    fn note(&self, notes: &[(StoreMask, Content)]) -> Result<()> {
        let journals: Vec<(StoreIndex, Arc<Journal>)> = {
            let journals = self.journals.read();
            let all = journals.iter();
            all.map(|(store, journal)| (*store, journal.clone()))
                .collect()
        };
        let mut first = Ok(());
        for (store, journal) in journals {
            let mine = notes.iter().filter(|(stores, _)| stores.has(store));
            let mut last = None;
            let noted = mine.map(|(_, content)| {
                let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
                last = Some(journal.append_plain(sequence, *content)?.1);
                Ok(())
            });
            let noted = noted.collect::<Result<()>>();
            let synced = noted.and_then(|()| last.map_or(Ok(()), |last| journal.sync(last)));
            first = first.and(synced);
        }
        first
    }
}
