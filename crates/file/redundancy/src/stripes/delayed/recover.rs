//! Opening the logs, and a store that comes back.

use super::chunk::{Piece, copies};
use super::journal::{Journal, Place};
use super::record::{Content, Span, name, parse};
use super::scan::{Record, Scan};
use super::{Chunk, ChunkState, Delayed, HEAD_BYTES, LogSite, Options, PageKey};
use crate::encoding::{DifferentialPages, StripeId};
use crate::label::{StoreIndex, StoreMask};
use crate::stripes::{PAGE_BYTES, Result, StripeError, Stripes};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a start, or a store that joins, brought.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Differential pages.
    pub pages: u64,
    /// Pages whose copies differed and were made equal.
    pub mended: u64,
    /// Stripes that were being given up, whether or not they stand: what is in differentials of
    /// them is to be written into the bases, before they are forgotten.
    pub given_up: Vec<StripeId>,
    /// Stripes that do not stand, nor were being given up, and have differentials that were not
    /// forgotten: what they hold is kept until [`Delayed::forget`].
    pub unknown: Vec<StripeId>,
    /// Logs that were damaged, and made anew from the others.
    pub renewed: Vec<StoreIndex>,
    /// Pages that no store has right.
    pub lost: u64,
}

impl Delayed {
    /// Opens the logs of the stores that are members and there, the same as those of `stripes`.
    /// Until it returns nothing may be read.
    ///
    /// # Errors
    /// A store that failed: it is to be left out. [`StripeError::DamagedLog`].
    pub fn open(
        stripes: Arc<Stripes>,
        sites: impl IntoIterator<Item = LogSite>,
        options: Options,
    ) -> Result<(Delayed, Found)> {
        if !(64 << 10..=1 << 30).contains(&options.segment_bytes) {
            return Err(StripeError::Misuse("segments have 64 KiB to 1 GiB"));
        }
        let delayed = Delayed {
            stripes,
            options,
            journals: RwLock::default(),
            chunks: RwLock::default(),
            pages: Mutex::new(DifferentialPages::new(options.limit_pages)),
            sequence: AtomicU64::new(1),
            merging: Mutex::new(false),
            orphans: Mutex::default(),
            parity_log: super::method::ParityLog::default(),
            #[cfg(test)]
            planted: super::tests::planted(),
        };
        let found = delayed.recover(sites)?;
        Ok((delayed, found))
    }

    fn recover(&self, sites: impl IntoIterator<Item = LogSite>) -> Result<Found> {
        let scans = sites.into_iter();
        let scans = scans.map(|site| Ok((site.store, Scan::of(self.stripes.set, site)?)));
        let scans: BTreeMap<StoreIndex, Scan> = scans.collect::<Result<_>>()?;
        let (damaged, sound): (Vec<_>, Vec<_>) = scans
            .into_iter()
            .partition(|(_, scan)| scan.damage().is_some());
        let trusted = sound.iter().map(|(store, _)| *store);
        let trusted = trusted.fold(StoreMask::default(), StoreMask::with);
        for (store, scan) in &damaged {
            let spot = scan.damage().unwrap_or_default();
            tracing::error!(
                store = store.0,
                segment = spot.segment,
                offset = spot.offset,
                "a log of differentials is damaged"
            );
            if !self.others_have_all(*store, trusted) {
                return Err(StripeError::DamagedLog {
                    store: *store,
                    segment: spot.segment,
                    offset: spot.offset,
                });
            }
        }
        let mut records = Vec::new();
        for (store, mut scan) in sound {
            scan.settle(self.believes())?;
            let (journal, found) = scan.into_journal(self.options.segment_bytes);
            self.journals.write().insert(store, Arc::new(journal));
            records.extend(found);
        }
        let mut found = Found {
            given_up: self.index(records),
            ..Found::default()
        };
        found.mended = self.make_equal()?;
        for journal in self.journals.read().values() {
            journal.sync_all()?;
        }
        found.pages = self.pages.lock().len();
        found.unknown = self.orphans.lock().keys().copied().collect();
        found.unknown.retain(|id| !found.given_up.contains(id));
        for (store, scan) in damaged {
            found.lost += self.join(scan.into_site())?.lost;
            found.renewed.push(store);
        }
        Ok(found)
    }

    #[cfg(test)]
    fn believes(&self) -> bool {
        self.planted == super::tests::Planted::BelievesTornRecords
    }

    #[cfg(not(test))]
    fn believes(&self) -> bool {
        false
    }

    /// Whether for each chunk whose differentials `store` has, another of these has them too.
    fn others_have_all(&self, store: StoreIndex, trusted: StoreMask) -> bool {
        self.stripes.all().iter().all(|stripe| {
            let data = stripe.layout.geometry.data_shards();
            data.into_iter().all(|shard| {
                let Ok(copies) = copies(&stripe.layout, shard) else {
                    return true;
                };
                !copies.contains(&store) || copies.iter().any(|copy| trusted.has(*copy))
            })
        })
    }

    /// Builds what is in memory from all records of all logs; the stripes that were being given up.
    fn index(&self, mut records: Vec<Record>) -> Vec<StripeId> {
        records.sort_by_key(|record| (record.head.sequence, record.segment.store));
        let last = records.last().map_or(0, |record| record.head.sequence);
        self.sequence.store(last + 1, Ordering::Relaxed);
        let mut forgotten: HashMap<StripeId, u64> = HashMap::new();
        for record in &records {
            if let Content::Forget(stripe) = record.head.content {
                forgotten.insert(stripe, record.head.sequence);
            }
        }
        for record in &records {
            let Content::Write(span) = record.head.content else {
                continue;
            };
            let later = forgotten.get(&span.stripe);
            if later.is_none_or(|later| *later < record.head.sequence) {
                self.index_one(record, span);
            }
        }
        let mut given_up: Vec<StripeId> = Vec::new();
        for record in &records {
            if let Content::GiveUp(stripe) = record.head.content
                && forgotten
                    .get(&stripe)
                    .is_none_or(|later| *later < record.head.sequence)
                && !given_up.contains(&stripe)
            {
                given_up.push(stripe);
            }
        }
        for id in &given_up {
            for (_, chunk) in self.chunks.read().iter().filter(|(key, _)| key.0 == *id) {
                let mut state = chunk.state.write();
                (state.gone, state.in_base) = (true, true);
            }
        }
        let mut newest: Vec<(u64, PageKey)> = Vec::new();
        for chunk in self.chunks.read().values() {
            let state = chunk.state.read();
            let pages = state.pages.iter();
            newest.extend(pages.filter_map(|(page, pieces)| {
                let last = pieces.last()?;
                Some((last.sequence, chunk.key(*page)))
            }));
        }
        newest.sort_unstable_by_key(|(sequence, _)| *sequence);
        let mut pages = self.pages.lock();
        for (_, page) in newest {
            pages.write(page);
        }
        given_up
    }

    fn index_one(&self, record: &Record, span: Span) {
        let place = Place::new(&record.segment, record.content_at(), span.length);
        let Ok(chunk) = self.chunk(span.stripe, span.shard) else {
            let mut orphans = self.orphans.lock();
            orphans.entry(span.stripe).or_default().push(place);
            return;
        };
        let end = u64::from(span.offset) + u64::from(span.length);
        if end > chunk.bytes || !chunk.copies.contains(&place.store()) {
            tracing::error!(
                store = place.store().0,
                segment = record.segment.number,
                offset = record.at,
                "a record of differentials does not fit its stripe"
            );
            return;
        }
        let mut state = chunk.state.write();
        state.written = true;
        for (part, sum) in span.parts().zip(&record.sums) {
            let pieces = state.pages.entry(part.page).or_default();
            let place = place.part(part.at, part.bytes() as u32);
            let same = pieces.iter_mut().find(|piece| {
                (piece.sequence, piece.start, piece.end, piece.sum)
                    == (record.head.sequence, part.start, part.end, *sum)
            });
            if let Some(piece) = same {
                let rank = |store| chunk.copies.iter().position(|copy| *copy == store);
                piece.places.push(place);
                piece.places.sort_by_key(|place| rank(place.store()));
                continue;
            }
            let piece = Piece {
                sequence: record.head.sequence,
                start: part.start,
                end: part.end,
                sum: *sum,
                places: std::iter::once(place).collect(),
            };
            super::put(pieces, piece);
        }
    }

    /// Writes every page again of which some copy lacks a record; how many.
    fn make_equal(&self) -> Result<u64> {
        #[cfg(test)]
        if self.planted == super::tests::Planted::LeavesCopiesUnequal {
            return Ok(0);
        }
        let chunks: Vec<Arc<Chunk>> = self.chunks.read().values().cloned().collect();
        let mut mended = 0;
        for chunk in chunks {
            let mut state = chunk.state.write();
            if state.in_base {
                // It is about to be given up, and was durable on all when that began.
                continue;
            }
            let holds = state.holds;
            let pages = state.pages.iter();
            let unequal = |piece: &Piece| piece.stores() != holds;
            let unequal = pages.filter(|(_, pieces)| pieces.iter().any(unequal));
            let mut unequal: Vec<u32> = unequal.map(|(page, _)| *page).collect();
            unequal.sort_unstable();
            for page in unequal {
                match self.rewrite(&chunk, &mut state, page) {
                    Ok(()) => mended += 1,
                    // It stays an error for who reads it.
                    Err(error @ StripeError::Lost { .. }) => tracing::error!(%error),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(mended)
    }

    /// A store that was away is there again. Its old log says nothing any more and is thrown
    /// away; it gets what counts from the others, and is one of them when this returns.
    ///
    /// # Errors
    /// The store failed: it stays away.
    pub fn join(&self, site: LogSite) -> Result<Found> {
        let store = site.store;
        self.leave(store);
        let joined = self.try_join(site);
        if joined.is_err() {
            self.leave(store);
        }
        joined
    }

    fn try_join(&self, site: LogSite) -> Result<Found> {
        let (store, set) = (site.store, self.stripes.set);
        #[cfg(test)]
        if self.planted == super::tests::Planted::KeepsStaleLog {
            let mut scan = Scan::of(set, site)?;
            scan.settle(false)?;
            let (journal, records) = scan.into_journal(self.options.segment_bytes);
            self.journals.write().insert(store, Arc::new(journal));
            for record in records {
                if let Content::Write(span) = record.head.content {
                    self.index_one(&record, span);
                }
            }
            for chunk in self.chunks.read().values() {
                let mut state = chunk.state.write();
                if chunk.copies.contains(&store) {
                    state.holds = state.holds.with(store);
                }
            }
            return Ok(Found::default());
        }
        wipe(&site)?;
        let journal = Journal::new(
            (set, store),
            site.dir,
            self.options.segment_bytes,
            VecDeque::new(),
            Default::default(),
        );
        let journal = Arc::new(journal);
        self.journals.write().insert(store, journal.clone());
        let chunks: Vec<Arc<Chunk>> = self.chunks.read().values().cloned().collect();
        let mut found = Found::default();
        for chunk in chunks.iter().filter(|chunk| chunk.copies.contains(&store)) {
            let mut state = chunk.state.write();
            found.pages += state.pages.len() as u64;
            found.lost += self.copy_to(&journal, chunk, &mut state)?;
            state.holds = state.holds.with(store);
        }
        journal.sync_all()?;
        Ok(found)
    }

    /// Gives a log all pieces of a chunk; how many nobody has.
    fn copy_to(&self, journal: &Journal, chunk: &Chunk, state: &mut ChunkState) -> Result<u64> {
        let mut lost = 0;
        let mut order: Vec<(u64, u32)> = Vec::new();
        for (page, pieces) in &state.pages {
            order.extend(pieces.iter().map(|piece| (piece.sequence, *page)));
        }
        order.sort_unstable();
        for (sequence, page) in order {
            let pieces = state.pages.get_mut(&page);
            let piece = pieces.and_then(|p| p.iter_mut().find(|p| p.sequence == sequence));
            let Some(piece) = piece.filter(|piece| !piece.stores().has(journal.store)) else {
                continue;
            };
            let content = Content::Write(Span {
                stripe: chunk.stripe,
                shard: chunk.shard,
                offset: page * PAGE_BYTES as u32 + u32::from(piece.start),
                length: piece.bytes() as u32,
            });
            let mut record = vec![0; content.bytes() as usize];
            let at = content.head_bytes();
            record[HEAD_BYTES..at].copy_from_slice(&piece.sum.to_le_bytes());
            let into = &mut record[at..at + piece.bytes()];
            if let Err(error) = chunk.read_piece(page, piece, into) {
                tracing::error!(%error);
                lost += 1;
                continue;
            }
            let (place, ticket) = journal.append(sequence, content, &mut record)?;
            let rank = |store| chunk.copies.iter().position(|copy| *copy == store);
            piece.places.push(place);
            piece.places.sort_by_key(|place| rank(place.store()));
            state.note(journal.store, ticket);
        }
        Ok(lost)
    }
}

/// Removes a log, the oldest segment first and each durably, so that what a crash leaves is an end
/// of it.
fn wipe(site: &LogSite) -> Result<()> {
    let io = |doing| StripeError::io(site.store, doing);
    let files = site.dir.list().map_err(io("listing differentials"))?;
    let mut numbers: Vec<u64> = files.iter().filter_map(|file| parse(file)).collect();
    numbers.sort_unstable();
    for number in numbers {
        let removed = site.dir.remove(&name(number));
        let removed = removed.and_then(|()| site.dir.sync());
        removed.map_err(io("removing a log that is out of date"))?;
    }
    Ok(())
}
