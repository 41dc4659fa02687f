//! Bringing differential pages into bases and parity, and making room in the logs.

use super::chunk::PageKey;
use super::record::{Content, HEAD_BYTES_MAX, Head, SEGMENT_HEADER_BYTES};
use super::{Chunk, Delayed, Journal};
use crate::encoding::{Due, StripeId};
use crate::label::StoreMask;
use crate::stripes::{MERGE_PAGES_MAX, PAGE_BYTES, PageWrite, Result, StripeError};
use parity::Shard;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far past pages that cannot be merged the others are looked for, in pages of the budget.
const LOOK_AHEAD: usize = 16;

/// What a merge did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MergeReport {
    /// Pages that are in base and parity now.
    pub merged: u64,
    /// Pages that were written meanwhile and stay.
    pub again: u64,
    /// Calls of [`crate::stripes::Stripes::merge`].
    pub merges: u64,
    /// Pages that would be due, and a store that takes part is away or lacks a write.
    pub waiting: u64,
    /// Stripes whose pages could not be merged for damage: a scrub is due.
    pub stuck: Vec<StripeId>,
    /// Pages that were written again at the end of the logs, to free their beginning.
    pub moved: u64,
}

impl Delayed {
    /// Merges, the least recently written first, once there are more pages than the limit and
    /// until there are as few as the low mark; at most `budget` pages in one call. Then frees what
    /// the logs need no more.
    ///
    /// # Errors
    /// A store failed: it is to leave.
    pub fn merge_some(&self, budget: usize) -> Result<MergeReport> {
        let mut down = self.merging.lock();
        let mut report = MergeReport::default();
        let due = self.due(&mut down, budget, &mut report);
        self.merge_all(due, &mut report)?;
        self.make_room(budget, &mut report)?;
        Ok(report)
    }

    /// Merges all pages of a stripe, as before it is given up or scrubbed.
    ///
    /// # Errors
    /// As [`Delayed::merge_some`].
    pub fn merge_stripe(&self, id: StripeId) -> Result<MergeReport> {
        let _one = self.merging.lock();
        let mut report = MergeReport::default();
        let due: Vec<Due<PageKey>> = {
            let pages = self.pages.lock();
            let all = pages.oldest_first();
            all.filter(|due| due.page.stripe == id).collect()
        };
        self.merge_all(due, &mut report)?;
        self.make_room(0, &mut report)?;
        Ok(report)
    }

    fn due(&self, down: &mut bool, budget: usize, report: &mut MergeReport) -> Vec<Due<PageKey>> {
        let pages = self.pages.lock();
        *down |= pages.len() > pages.limit();
        let above = pages.len().saturating_sub(self.options.low_pages);
        *down &= above > 0;
        if !*down {
            return Vec::new();
        }
        let most = budget.min(usize::try_from(above).unwrap_or(usize::MAX));
        let present = self.stripes.present();
        let chunks = self.chunks.read();
        let mut due = Vec::new();
        let look = most.saturating_mul(LOOK_AHEAD);
        for page in pages.oldest_first().take(look) {
            let chunk = chunks.get(&(page.page.stripe, page.page.shard));
            let ready = chunk.is_some_and(|chunk| chunk.copies.iter().all(|s| present.has(*s)));
            if ready {
                due.push(page);
            } else {
                report.waiting += 1;
            }
            if due.len() >= most {
                break;
            }
        }
        due
    }

    fn merge_all(&self, due: Vec<Due<PageKey>>, report: &mut MergeReport) -> Result<()> {
        let mut stripes: BTreeMap<StripeId, Vec<Due<PageKey>>> = BTreeMap::new();
        for page in due {
            stripes.entry(page.page.stripe).or_default().push(page);
        }
        for (id, due) in stripes {
            for batch in due.chunks(MERGE_PAGES_MAX) {
                match self.merge_batch(id, batch, report) {
                    Ok(()) => {}
                    Err(error) if error.failed().is_some() => return Err(error),
                    // Somebody gave it up, or a store left, meanwhile.
                    Err(StripeError::NoStripe(_) | StripeError::Away(_)) => {
                        report.waiting += batch.len() as u64;
                    }
                    Err(error) => {
                        tracing::error!(stripe = id.0, %error, "differential pages stay");
                        report.stuck.push(id);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn merge_batch(
        &self,
        id: StripeId,
        batch: &[Due<PageKey>],
        report: &mut MergeReport,
    ) -> Result<()> {
        let mut contents = Vec::with_capacity(batch.len());
        let mut stores = StoreMask::default();
        for due in batch {
            let PageKey { shard, page, .. } = due.page;
            let chunk = self.chunks.read().get(&(id, shard)).cloned();
            let Some(chunk) = chunk else { continue };
            let state = chunk.state.read();
            let Some(pieces) = state.pages.get(&page) else {
                continue;
            };
            if state.holds.count() != chunk.copies.len() {
                // A log that lacks a write must not outlive it: an older record would come back
                // over the base that has it. Its store has to leave and join.
                report.waiting += 1;
                continue;
            }
            let mut bytes = vec![0; PAGE_BYTES];
            self.compose(&chunk, page, pieces, &mut bytes)?;
            stores = stores.with_all(state.holds);
            drop(state);
            contents.push((*due, chunk, bytes));
        }
        #[cfg(test)]
        if self.planted == super::tests::Planted::ClearsBeforeCommit {
            self.clear(&contents, &mut MergeReport::default());
            self.make_room(0, report)?;
        }
        // Else a crash could bring back an older record of a part of a page, over a base that has
        // a newer write merged: half of that write would be there.
        #[cfg(test)]
        let syncs = self.planted != super::tests::Planted::MergesUnsynced;
        #[cfg(not(test))]
        let syncs = true;
        for store in stores.iter().filter(|_| syncs) {
            self.journal(store)?.sync_all()?;
        }
        if contents.is_empty() {
            return Ok(());
        }
        let writes = contents.iter().map(|(due, _, bytes)| PageWrite {
            shard: Shard(due.page.shard),
            page: due.page.page,
            bytes,
        });
        let writes: Vec<PageWrite<'_>> = writes.collect();
        self.stripes.merge(id, &writes)?;
        report.merges += 1;
        self.clear(&contents, report);
        Ok(())
    }

    fn clear(&self, merged: &[(Due<PageKey>, Arc<Chunk>, Vec<u8>)], report: &mut MergeReport) {
        for (due, chunk, _) in merged {
            let mut state = chunk.state.write();
            if self.pages.lock().merged(*due) {
                state.pages.remove(&due.page.page);
                report.merged += 1;
            } else {
                report.again += 1;
            }
        }
    }

    /// Frees segments of which nothing counts, makes the next ahead, and where a log is mostly dead,
    /// writes what counts of its oldest segment again at its end.
    fn make_room(&self, budget: usize, report: &mut MergeReport) -> Result<()> {
        #[cfg(test)]
        let syncs = self.planted != super::tests::Planted::TrimsUnsynced;
        #[cfg(not(test))]
        let syncs = true;
        let journals: Vec<Arc<Journal>> = self.journals.read().values().cloned().collect();
        for journal in journals {
            journal.trim(syncs)?;
            while report.moved < budget as u64 {
                let (bytes, live) = journal.bytes();
                let most = 2 * live + 4 * u64::from(self.options.segment_bytes);
                if bytes <= most || !self.move_oldest(&journal, report)? {
                    break;
                }
                journal.trim(syncs)?;
            }
            match journal.prepare() {
                Ok(()) => {}
                Err(error) => {
                    // Writes go on without, and find out themselves what is wrong.
                    tracing::warn!(%error, "no segment of differentials could be made ahead");
                }
            }
        }
        Ok(())
    }

    /// Writes again what counts of a log's oldest segment; whether all of it could be.
    fn move_oldest(&self, journal: &Journal, report: &mut MergeReport) -> Result<bool> {
        let Some(oldest) = journal.oldest() else {
            return Ok(false);
        };
        let io = || StripeError::io(journal.store, "reading differentials");
        let key = journal.key(oldest.number);
        let mut at = u64::from(SEGMENT_HEADER_BYTES);
        while at < oldest.end() {
            let mut bytes = [0; HEAD_BYTES_MAX];
            let there = bytes.len().min((oldest.end() - at) as usize);
            let read = oldest.disk.read_at(at, &mut bytes[..there]);
            read.map_err(io())?;
            let Ok((head, _)) = Head::open(&key, at as u32, &bytes[..there]) else {
                // Damaged: what counts of it is merged when its turn comes.
                return Ok(false);
            };
            at += u64::from(head.content.bytes());
            let Content::Write(span) = head.content else {
                continue;
            };
            let chunk = self
                .chunks
                .read()
                .get(&(span.stripe, span.shard.0))
                .cloned();
            let Some(chunk) = chunk else { continue };
            for part in span.parts() {
                let mut state = chunk.state.write();
                let pieces = state.pages.get(&part.page);
                let counts = pieces.is_some_and(|pieces| {
                    let places = pieces.iter().flat_map(|piece| &piece.places);
                    let mut places = places;
                    places.any(|place| Arc::ptr_eq(&place.segment, &oldest))
                });
                if counts {
                    self.rewrite(&chunk, &mut state, part.page)?;
                    report.moved += 1;
                }
            }
        }
        Ok(true)
    }
}
