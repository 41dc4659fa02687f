//! Delayed parity: a write to an encoded chunk goes to a log on `m + 1` stores, and reaches chunk
//! and parity later (\[F\] section 5.2; why a log: `docs/decisions/0013-differential-log.md`).
//!
//! # Promise
//! After kill -9 every write is there that was answered; after a power cut every one that
//! [`Delayed::sync`] has covered, and of the others each is there or not, as a whole where it lies
//! in one record (256 KiB) and the same for all who ask. Any `m` stores of a stripe may be lost at
//! any moment, also inside a merge. Bytes that cannot be returned right are an error.
//!
//! # What it rests on
//! [`Stripes`] for bases and merges. The stores that are given as present have what they
//! acknowledged; one that was away comes in by [`Delayed::join`] only.
//!
//! # Invariants
//! - a page is its base, and over it its pieces by rising sequence
//! - the records of one chunk stand in each log by rising sequence
//! - a log loses segments only at its old end, and only when what replaced their content is
//!   durable in that log, or in base and parity: no older record comes back over a newer byte
//! - what is merged is in all logs that are to have it, and durable there, before the merge begins
//! - when [`Delayed::open`] returns, all copies of what counts are equal and durable
//!
//! # On disk
//! `docs/formats/differential.md`.
//!
//! # How it is tested
//! Crashes at points that a seed picks, of writes, syncs, merges, trims, leaving and joining
//! stores, and recovery itself, each followed by the loss of up to `m` stores; planted bugs that
//! this has to find; flipped bytes; kill -9 on a real file system.

mod chunk;
mod give_up;
pub mod inspect;
mod journal;
mod merge;
mod method;
mod record;
mod recover;
mod scan;

pub use merge::MergeReport;
pub use method::Method;
pub use recover::Found;

use super::{PAGE_BYTES, Result, StripeError, Stripes};
use crate::encoding::{DifferentialPages, StripeId};
use crate::label::{StoreIndex, StoreMask};
use chunk::{Chunk, ChunkState, PageKey, Piece, Pieces, is_whole, put, runs};
use env::Dir;
use env::errno::Errno;
use journal::{Journal, Place, Ticket};
use parity::Shard;
use parking_lot::{Mutex, RwLock};
use record::{CONTENT_BYTES_MAX, Content, HEAD_BYTES, Span};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces of one page above which it is written anew as one.
const PIECES_MAX: usize = 16;

/// Pages that count as what may stay at least, where a backlog is measured: 1 MiB.
const BACKLOG_PAGES_MIN: u64 = 256;

/// How differentials are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What becomes of a write.
    pub method: Method,
    /// Pages that may stay: B of the capacity.
    pub limit_pages: u64,
    /// Where a merge that has begun stops.
    pub low_pages: u64,
    /// Bytes of a segment of a log, 64 KiB to 1 GiB; a record has at most a quarter of it.
    pub segment_bytes: u32,
    /// Whether the stores are media of their own, which are synced at the same time.
    pub parallel: bool,
}

impl Options {
    /// Up to `limit` pages, merged down to three quarters.
    pub fn new(limit_pages: u64) -> Options {
        Options {
            method: Method::Delayed,
            limit_pages,
            low_pages: limit_pages - limit_pages / 4,
            segment_bytes: 16 << 20,
            parallel: false,
        }
    }

    fn record_bytes(&self) -> usize {
        CONTENT_BYTES_MAX.min(self.segment_bytes as usize / 4)
    }
}

/// Where a store keeps its log.
pub struct LogSite {
    /// Which store it is.
    pub store: StoreIndex,
    /// A directory for the log, used by nothing else.
    pub dir: Arc<dyn Dir>,
}

/// What there is of differentials, for people and machines.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Status {
    /// Pages in differentials.
    pub pages: u64,
    /// Pages that may stay.
    pub limit_pages: u64,
    /// By store: bytes of its log, and how many of them count.
    pub logs: BTreeMap<u8, (u64, u64)>,
}

/// The differentials of a set's stripes.
pub struct Delayed {
    stripes: Arc<Stripes>,
    options: Options,
    journals: RwLock<BTreeMap<StoreIndex, Arc<Journal>>>,
    chunks: RwLock<HashMap<(StripeId, u8), Arc<Chunk>>>,
    /// All pages by their last write. Taken inside a chunk's lock, never around it.
    pages: Mutex<DifferentialPages<PageKey>>,
    /// The number of the next record.
    sequence: AtomicU64,
    /// One merge at a time; whether it is on its way down.
    merging: Mutex<bool>,
    /// What logs have of stripes that do not stand and were not forgotten.
    orphans: Mutex<BTreeMap<StripeId, Vec<Place>>>,
    parity_log: method::ParityLog,
    #[cfg(test)]
    planted: tests::Planted,
}

impl std::fmt::Debug for Delayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delayed")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Delayed {
    /// Writes to a data shard of a stripe, at any place and of any length. After this it survives
    /// kill -9, after [`Delayed::sync`] a power cut.
    ///
    /// # Errors
    /// [`StripeError::NoStripe`], also while it is being given up; [`StripeError::NotWritten`] where
    /// no store took it. Where a store failed: the others have it and reads give it; the caller
    /// tells by [`Delayed::leave`], and may write again.
    pub fn write(&self, id: StripeId, shard: Shard, offset: u64, bytes: &[u8]) -> Result<()> {
        let chunk = self.chunk(id, shard)?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > chunk.bytes) {
            return Err(StripeError::Misuse("a range beyond the shard"));
        }
        match self.options.method {
            Method::Delayed => {}
            Method::Naive => return self.write_at_once(&chunk, offset, bytes),
            Method::ParityLogging => return self.write_parity_log(&chunk, offset, bytes),
        }
        let mut at = offset;
        for part in bytes.chunks(self.options.record_bytes()) {
            let mut state = chunk.state.write();
            if state.gone {
                return Err(StripeError::NoStripe(id));
            }
            let span = Span {
                stripe: id,
                shard,
                offset: at as u32,
                length: part.len() as u32,
            };
            self.put(&chunk, &mut state, span, part, true)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes one record to all copies, and shows it to readers. `touch`: it is a write of the
    /// user's, that makes its pages the newest.
    fn put(
        &self,
        chunk: &Chunk,
        state: &mut ChunkState,
        span: Span,
        bytes: &[u8],
        touch: bool,
    ) -> Result<()> {
        let content = Content::Write(span);
        let head_bytes = content.head_bytes();
        let mut record = vec![0; content.bytes() as usize];
        let mut sums: SmallVec<[u32; 4]> = SmallVec::new();
        for part in span.parts() {
            let at = part.at as usize;
            sums.push(chunk.sum(part.page, &bytes[at..at + part.bytes()]));
        }
        for (into, sum) in record[HEAD_BYTES..head_bytes]
            .chunks_exact_mut(4)
            .zip(&sums)
        {
            into.copy_from_slice(&sum.to_le_bytes());
        }
        record[head_bytes..head_bytes + bytes.len()].copy_from_slice(bytes);
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut places: SmallVec<[Place; 2]> = SmallVec::new();
        let mut failed = None;
        let before = state.holds;
        {
            let journals = self.journals.read();
            for store in &chunk.copies {
                let Some(journal) = journals.get(store).filter(|_| state.holds.has(*store)) else {
                    continue;
                };
                match journal.append(sequence, content, &mut record) {
                    Ok((place, ticket)) => {
                        state.note(*store, ticket);
                        places.push(place);
                    }
                    Err(error) => {
                        // It lacks something now.
                        state.holds = state.holds.without(*store);
                        failed = failed.or(Some(error));
                    }
                }
            }
        }
        if places.is_empty() {
            // Nobody has it, so nobody lacks it.
            state.holds = before;
            return Err(StripeError::NotWritten {
                stripe: chunk.stripe,
                shard: chunk.shard,
                errno: failed.and_then(|e| e.errno()).unwrap_or(Errno::IO),
            });
        }
        state.written = true;
        for (part, sum) in span.parts().zip(sums) {
            let piece = Piece {
                sequence,
                start: part.start,
                end: part.end,
                sum,
                places: places
                    .iter()
                    .map(|place| place.part(part.at, part.bytes() as u32))
                    .collect(),
            };
            put(state.pages.entry(part.page).or_default(), piece);
            if touch {
                self.pages.lock().write(chunk.key(part.page));
            }
        }
        let crowded = |page: &u32| {
            let pieces = state.pages.get(page);
            pieces.is_some_and(|pieces| pieces.len() > PIECES_MAX)
        };
        let crowded: SmallVec<[u32; 2]> = span.parts().map(|p| p.page).filter(crowded).collect();
        for page in crowded {
            self.rewrite(chunk, state, page)?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes a page's pieces anew, those that touch as one: needs no base. What is written does
    /// not overlap, so its order does not matter.
    fn rewrite(&self, chunk: &Chunk, state: &mut ChunkState, page: u32) -> Result<()> {
        let pieces = state.pages.get(&page).map_or(&[][..], Pieces::as_slice);
        let mut bytes = [0; PAGE_BYTES];
        chunk.overlay(page, pieces, &mut bytes)?;
        let mut runs = runs(pieces);
        if runs.len() > PIECES_MAX / 2 {
            self.compose(chunk, page, pieces, &mut bytes)?;
            runs = std::iter::once((0, PAGE_BYTES as u16)).collect();
        }
        for (start, end) in runs {
            let span = Span {
                stripe: chunk.stripe,
                shard: chunk.shard,
                offset: page * PAGE_BYTES as u32 + u32::from(start),
                length: (end - start).into(),
            };
            let bytes = &bytes[usize::from(start)..usize::from(end)];
            self.put(chunk, state, span, bytes, false)?;
        }
        Ok(())
    }

    /// What a page is: the base, and its pieces over it.
    fn compose(
        &self,
        chunk: &Chunk,
        page: u32,
        pieces: &[Piece],
        page_bytes: &mut [u8],
    ) -> Result<()> {
        let mut base = |offset: u64, bytes: &mut [u8]| {
            self.stripes.read(chunk.stripe, chunk.shard, offset, bytes)
        };
        compose_over(chunk, page, pieces, page_bytes, &mut base)
    }

    /// Reads from a data shard: differential pages where there are any, else its base.
    ///
    /// # Errors
    /// As [`Stripes::read`]; [`StripeError::Lost`] where no copy of a differential page can be
    /// read right.
    pub fn read(&self, id: StripeId, shard: Shard, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut base = |offset: u64, bytes: &mut [u8]| self.stripes.read(id, shard, offset, bytes);
        self.read_over(id, shard, (offset, buffer), &mut base)
    }

    /// As [`Delayed::read`], with the base's bytes from the caller, who is given the place in the
    /// shard and what to fill. No merge of the shard ends meanwhile, so it may be read in place.
    ///
    /// # Errors
    /// Those of `base`; [`StripeError::Lost`] where no copy of a differential page can be read
    /// right.
    pub fn read_over(
        &self,
        id: StripeId,
        shard: Shard,
        (offset, buffer): (u64, &mut [u8]),
        base: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let chunk = self.chunks.read().get(&(id, shard.0)).cloned();
        let Some(chunk) = chunk else {
            return base(offset, buffer);
        };
        let end = offset.checked_add(buffer.len() as u64);
        let Some(end) = end.filter(|end| *end <= chunk.bytes) else {
            return Err(StripeError::Misuse("a range beyond the shard"));
        };
        let state = chunk.state.read();
        let page_bytes = PAGE_BYTES as u64;
        let mut at = offset;
        while at < end {
            let page = (at / page_bytes) as u32;
            let range = |from: u64, to: u64| -> Range<usize> {
                (from - offset) as usize..(to - offset) as usize
            };
            let Some(pieces) = state.pages.get(&page) else {
                // The base, up to the next differential page.
                let mut to = page + 1;
                while u64::from(to) * page_bytes < end && !state.pages.contains_key(&to) {
                    to += 1;
                }
                let to = end.min(u64::from(to) * page_bytes);
                base(at, &mut buffer[range(at, to)])?;
                at = to;
                continue;
            };
            let to = end.min((u64::from(page) + 1) * page_bytes);
            let into = &mut buffer[range(at, to)];
            if into.len() == PAGE_BYTES {
                compose_over(&chunk, page, pieces, into, base)?;
            } else {
                let mut whole = [0; PAGE_BYTES];
                compose_over(&chunk, page, pieces, &mut whole, base)?;
                let from = (at % page_bytes) as usize;
                into.copy_from_slice(&whole[from..from + into.len()]);
            }
            at = to;
        }
        Ok(())
    }

    /// Whether nothing of a data shard is in differentials: its base is what it is.
    pub fn is_plain(&self, id: StripeId, shard: Shard) -> bool {
        let chunk = self.chunks.read().get(&(id, shard.0)).cloned();
        chunk.is_none_or(|chunk| chunk.state.read().pages.is_empty())
    }

    /// Whether the logs have anything of a data shard, merged or not.
    pub fn is_logged(&self, id: StripeId, shard: Shard) -> bool {
        let chunk = self.chunks.read().get(&(id, shard.0)).cloned();
        chunk.is_some_and(|chunk| chunk.state.read().written)
    }

    /// Whether there are no differential pages at all.
    pub fn is_empty(&self) -> bool {
        self.pages.lock().is_empty()
    }

    /// Whether a data shard has differentials, and no store that is there has all of them.
    pub fn is_lost(&self, id: StripeId, shard: Shard) -> bool {
        let chunk = self.chunks.read().get(&(id, shard.0)).cloned();
        chunk.is_some_and(|chunk| {
            let state = chunk.state.read();
            state.holds.is_empty() && !state.pages.is_empty()
        })
    }

    /// Makes all writes to a data shard that were answered durable, on every copy that is there.
    ///
    /// # Errors
    /// A store failed: it is to leave. The others were synced. [`StripeError::Away`] where no
    /// store that has them is there.
    pub fn sync(&self, id: StripeId, shard: Shard) -> Result<()> {
        let chunk = self.chunks.read().get(&(id, shard.0)).cloned();
        let Some(chunk) = chunk else { return Ok(()) };
        let tickets = {
            let state = chunk.state.read();
            if state.holds.is_empty() && !state.pages.is_empty() {
                let store = chunk.copies.first().copied().unwrap_or(StoreIndex(0));
                return Err(StripeError::Away(store));
            }
            state.tickets.clone()
        };
        self.sync_to(&tickets)
    }

    fn sync_to(&self, tickets: &[(StoreIndex, Ticket)]) -> Result<()> {
        let journals: Vec<(StoreIndex, (Arc<Journal>, Ticket))> = {
            let journals = self.journals.read();
            let there = tickets.iter().filter_map(|(store, ticket)| {
                Some((*store, (journals.get(store)?.clone(), *ticket)))
            });
            there.collect()
        };
        self.start_syncs(journals.iter().map(|(_, (journal, _))| journal));
        let synced = crate::fanout::fanout(
            &journals,
            self.options.parallel,
            |_, (journal, ticket): &(Arc<Journal>, Ticket)| {
                #[cfg(test)]
                if self.planted == tests::Planted::SyncsOneCopy
                    && journals.first().is_some_and(|(s, _)| *s != journal.store)
                {
                    return Ok(());
                }
                journal.sync(*ticket)
            },
        );
        synced.into_iter().try_for_each(|(_, answer)| answer)
    }

    /// The logs that wait for their turn are on their way meanwhile.
    fn start_syncs<'a>(&self, journals: impl Iterator<Item = &'a Arc<Journal>>) {
        if !self.options.parallel {
            journals.skip(1).for_each(|journal| journal.start_sync());
        }
    }

    /// Makes all writes that were answered durable, on every copy that is there.
    ///
    /// # Errors
    /// A store failed: it is to leave. The others were synced.
    pub fn sync_all(&self) -> Result<()> {
        let journals: Vec<(StoreIndex, Arc<Journal>)> = {
            let journals = self.journals.read();
            let all = journals.iter();
            all.map(|(store, journal)| (*store, journal.clone()))
                .collect()
        };
        self.start_syncs(journals.iter().map(|(_, journal)| journal));
        let synced = crate::fanout::fanout(&journals, self.options.parallel, |_, journal| {
            journal.sync_all()
        });
        synced.into_iter().try_for_each(|(_, answer)| answer)
    }

    /// Makes everything durable, and says so in the logs, so that the next start need not look at
    /// the bytes.
    ///
    /// # Errors
    /// A store failed.
    pub fn close(&self) -> Result<()> {
        let journals: Vec<Arc<Journal>> = self.journals.read().values().cloned().collect();
        journals.iter().try_for_each(|journal| {
            let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
            journal.mark(sequence)
        })
    }

    /// A store is gone: nothing is asked of it until it joins again.
    pub fn leave(&self, store: StoreIndex) {
        self.journals.write().remove(&store);
        let chunks: Vec<Arc<Chunk>> = self.chunks.read().values().cloned().collect();
        for chunk in chunks {
            let mut state = chunk.state.write();
            state.holds = state.holds.without(store);
            state.tickets.retain(|(s, _)| *s != store);
            for piece in state.pages.values_mut().flatten() {
                piece.places.retain(|place| place.store() != store);
            }
        }
        for places in self.orphans.lock().values_mut() {
            places.retain(|place| place.store() != store);
        }
    }

    /// What there is.
    pub fn status(&self) -> Status {
        let pages = self.pages.lock();
        let (count, limit) = (pages.len(), pages.limit());
        drop(pages);
        let journals = self.journals.read();
        Status {
            pages: count,
            limit_pages: limit,
            logs: journals
                .iter()
                .map(|(store, journal)| (store.0, journal.bytes()))
                .collect(),
        }
    }

    /// How many times as many pages wait as may stay, rounded down.
    pub fn backlog(&self) -> u64 {
        let pages = self.pages.lock();
        pages.len() / pages.limit().max(BACKLOG_PAGES_MIN)
    }

    /// The chunk of a data shard; the first write makes it.
    fn chunk(&self, id: StripeId, shard: Shard) -> Result<Arc<Chunk>> {
        if let Some(chunk) = self.chunks.read().get(&(id, shard.0)) {
            return Ok(chunk.clone());
        }
        let stripe = self.stripes.get(id)?;
        let mut chunks = self.chunks.write();
        if let Some(chunk) = chunks.get(&(id, shard.0)) {
            return Ok(chunk.clone());
        }
        let present = self.present();
        let chunk = Chunk::new(self.stripes.set, id, &stripe.layout, shard, present)?;
        let chunk = Arc::new(chunk);
        chunks.insert((id, shard.0), chunk.clone());
        Ok(chunk)
    }

    /// Stores whose logs are in use.
    pub fn present(&self) -> StoreMask {
        let journals = self.journals.read();
        let stores = journals.keys().copied();
        stores.fold(StoreMask::default(), StoreMask::with)
    }

    fn journal(&self, store: StoreIndex) -> Result<Arc<Journal>> {
        let journals = self.journals.read();
        journals
            .get(&store)
            .cloned()
            .ok_or(StripeError::Away(store))
    }
}

/// What a page is: the base, which `base` reads by the place in the shard, and its pieces over it.
fn compose_over(
    chunk: &Chunk,
    page: u32,
    pieces: &[Piece],
    page_bytes: &mut [u8],
    base: &mut dyn FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    if !is_whole(pieces) {
        base(u64::from(page) * PAGE_BYTES as u64, page_bytes)?;
    }
    chunk.overlay(page, pieces, page_bytes)
}

#[cfg(test)]
mod tests;
