//! The differential pages of one chunk.

use super::journal::{Place, Ticket};
use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use crate::set::SetId;
use crate::stripes::shard::identity;
use crate::stripes::{Layout, PAGE_BYTES, Result, Slot, StripeError};
use codec::{Identity, page_sum};
use parity::Shard;
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::collections::HashMap;

/// What names a differential page in the order of writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PageKey {
    pub(super) stripe: StripeId,
    pub(super) shard: u8,
    pub(super) page: u32,
}

/// Bytes of one page from one record.
pub(super) struct Piece {
    pub(super) sequence: u64,
    pub(super) start: u16,
    pub(super) end: u16,
    pub(super) sum: u32,
    /// Where they lie, the store to ask first in front.
    pub(super) places: SmallVec<[Place; 2]>,
}

impl Piece {
    fn covers(&self, other: &Piece) -> bool {
        self.start <= other.start && self.end >= other.end
    }

    pub(super) fn bytes(&self) -> usize {
        usize::from(self.end - self.start)
    }

    pub(super) fn stores(&self) -> StoreMask {
        let stores = self.places.iter().map(Place::store);
        stores.fold(StoreMask::default(), StoreMask::with)
    }
}

/// The pieces of a page, by rising number.
pub(super) type Pieces = SmallVec<[Piece; 1]>;

/// The bytes of a page that its pieces are, in runs that do not touch.
pub(super) fn runs(pieces: &[Piece]) -> SmallVec<[(u16, u16); 4]> {
    let mut parts: SmallVec<[(u16, u16); 4]> = pieces.iter().map(|p| (p.start, p.end)).collect();
    parts.sort_unstable();
    let mut runs: SmallVec<[(u16, u16); 4]> = SmallVec::new();
    for (start, end) in parts {
        match runs.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// Whether the pieces together are the whole page.
pub(super) fn is_whole(pieces: &[Piece]) -> bool {
    matches!(*runs(pieces), [(0, end)] if usize::from(end) == PAGE_BYTES)
}

/// Puts a piece over the others.
pub(super) fn put(pieces: &mut Pieces, piece: Piece) {
    pieces.retain(|old| !piece.covers(old));
    pieces.push(piece);
}

/// A data shard of a stripe, and what of it is in differentials.
pub(super) struct Chunk {
    pub(super) stripe: StripeId,
    pub(super) shard: Shard,
    /// The stores that have its differentials: the base's first, then those with parity.
    pub(super) copies: SmallVec<[StoreIndex; 3]>,
    pub(super) bytes: u64,
    identity: Identity,
    pub(super) state: RwLock<ChunkState>,
}

#[derive(Default)]
pub(super) struct ChunkState {
    /// The stores that have all of it.
    pub(super) holds: StoreMask,
    pub(super) pages: HashMap<u32, Pieces>,
    /// The last record of it in each log.
    pub(super) tickets: SmallVec<[(StoreIndex, Ticket); 3]>,
    /// The logs have had records of it: they have to be told when it goes.
    pub(super) written: bool,
    /// The stripe is being given up, or was: nothing is written any more.
    pub(super) gone: bool,
    /// Its pages are on their way into the base; how far is not known.
    pub(super) in_base: bool,
}

impl ChunkState {
    pub(super) fn note(&mut self, store: StoreIndex, ticket: Ticket) {
        match self.tickets.iter_mut().find(|(s, _)| *s == store) {
            Some((_, last)) => *last = ticket.max(*last),
            None => self.tickets.push((store, ticket)),
        }
    }
}

/// The stores that have the differentials of a data shard.
pub(super) fn copies(layout: &Layout, shard: Shard) -> Result<SmallVec<[StoreIndex; 3]>> {
    let Slot::Data { store, .. } = layout.slot(shard)? else {
        return Err(StripeError::Misuse(
            "a page of a vacant place, or of parity",
        ));
    };
    let parity = layout.shards().filter_map(|(_, slot)| match slot {
        Slot::Parity { store } => Some(store),
        _ => None,
    });
    Ok(std::iter::once(store).chain(parity).collect())
}

impl Chunk {
    pub(super) fn new(
        set: SetId,
        stripe: StripeId,
        layout: &Layout,
        shard: Shard,
        present: StoreMask,
    ) -> Result<Chunk> {
        let copies = copies(layout, shard)?;
        let mask = copies.iter().copied();
        let mask = mask.fold(StoreMask::default(), StoreMask::with);
        Ok(Chunk {
            stripe,
            shard,
            copies,
            bytes: layout.chunk.get(),
            identity: identity(set, stripe, shard),
            state: RwLock::new(ChunkState {
                holds: mask.and(present),
                ..ChunkState::default()
            }),
        })
    }

    pub(super) fn key(&self, page: u32) -> PageKey {
        PageKey {
            stripe: self.stripe,
            shard: self.shard.0,
            page,
        }
    }

    /// The checksum of a part of a page.
    pub(super) fn sum(&self, page: u32, bytes: &[u8]) -> u32 {
        page_sum(&self.identity, page.into(), bytes)
    }

    /// Reads a piece from the first copy that has it right.
    pub(super) fn read_piece(&self, page: u32, piece: &Piece, into: &mut [u8]) -> Result<()> {
        for place in &piece.places {
            match place.segment.disk.read_at(place.at.into(), into) {
                Ok(()) if self.sum(page, into) == piece.sum => return Ok(()),
                Ok(()) => tracing::warn!(
                    store = place.store().0,
                    segment = place.segment.number,
                    offset = place.at,
                    "a differential page is damaged"
                ),
                Err(errno) => tracing::warn!(
                    store = place.store().0,
                    %errno,
                    "a differential page cannot be read"
                ),
            }
        }
        Err(StripeError::Lost {
            stripe: self.stripe,
            shard: self.shard,
            page,
        })
    }

    /// Puts a page's pieces over what is in `page_bytes` already.
    pub(super) fn overlay(&self, page: u32, pieces: &[Piece], page_bytes: &mut [u8]) -> Result<()> {
        for piece in pieces {
            let range = usize::from(piece.start)..usize::from(piece.end);
            let into = page_bytes.get_mut(range);
            let into = into.ok_or(StripeError::Misuse("a buffer that is too short"))?;
            self.read_piece(page, piece, into)?;
        }
        Ok(())
    }
}
