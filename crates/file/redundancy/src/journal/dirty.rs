//! What may differ between copies: objects and regions changed since a point in time.

use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::store::Node;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a chunk, the unit of comparison and copying ([F] section 4.3 uses the same size for
/// its encoding).
pub(crate) const CHUNK_BYTES: u64 = 512 * 1024;

/// Chunks of a region, the unit of intent: 4 MiB, as an activity-log extent of DRBD.
pub(crate) const REGION_CHUNKS: u64 = 8;

/// Bytes of a region.
pub(crate) const REGION_BYTES: u64 = CHUNK_BYTES * REGION_CHUNKS;

/// Where an object was found when it was changed: enough to find it again after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The object on the stores where it is known.
    pub(crate) nodes: Vec<(StoreIndex, Node)>,
    /// Its directory.
    pub(crate) parent: Vec<(StoreIndex, Node)>,
    /// Its name there.
    pub(crate) name: Vec<u8>,
}

impl Place {
    /// Drops what is known of `store`: its objects may have been made anew.
    pub(crate) fn forget(&mut self, store: StoreIndex) {
        self.nodes.retain(|(s, _)| *s != store);
        self.parent.retain(|(s, _)| *s != store);
    }

    /// The object on `store`.
    pub(crate) fn node(&self, store: StoreIndex) -> Option<&Node> {
        self.nodes.iter().find(|(s, _)| *s == store).map(|(_, n)| n)
    }
}

/// One thing that may differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The names in a directory.
    Names(ObjectId),
    /// Attributes, extended attributes and length.
    Attributes(ObjectId),
    /// The content in one region (number of [`REGION_BYTES`]).
    Region(ObjectId, u32),
    /// The content from a region to the end.
    Tail(ObjectId, u32),
}

impl Entry {
    /// The object it belongs to.
    pub(crate) fn object(self) -> ObjectId {
        match self {
            Entry::Names(id)
            | Entry::Attributes(id)
            | Entry::Region(id, _)
            | Entry::Tail(id, _) => id,
        }
    }
}

/// A rename that replaces or swaps objects whose copies are not on the same stores: it is written
/// down before it is done, so that after a crash it is done on every store or on none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Rename {
    /// The object that moves.
    pub(crate) moving: ObjectId,
    /// The object at the target.
    pub(crate) target: ObjectId,
    /// Directory of the source.
    pub(crate) from: ObjectId,
    /// Name of the source.
    pub(crate) from_name: Vec<u8>,
    /// Directory of the target.
    pub(crate) to: ObjectId,
    /// Name of the target.
    pub(crate) to_name: Vec<u8>,
    /// What becomes of the object at the target.
    pub(crate) manner: Manner,
}

/// What a rename does to the object at its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// It loses the name: on the stores that hold both objects in one step, on others afterwards.
    Replace {
        /// Stores that hold both; none where the mover is durable at its new name before.
        both: StoreMask,
    },
    /// The two swap.
    Exchange,
}

impl Rename {
    /// Whether `id` is at another name once this is done.
    pub(crate) fn moves(&self, id: ObjectId) -> bool {
        self.moving == id || (self.manner == Manner::Exchange && self.target == id)
    }
}

/// What may differ, with the bits of the chunks of each region.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DirtySet {
    /// Every object with this id or a later one.
    pub(crate) mark: ObjectId,
    /// Entries; the value is the chunk mask of a region, else 0xff.
    pub(crate) entries: BTreeMap<Entry, u8>,
    /// Where the objects are.
    pub(crate) places: BTreeMap<ObjectId, Place>,
    /// Renames under way, oldest first.
    pub(crate) renames: Vec<Rename>,
    /// Of a journal: the newest checkpoint that it says was made. Of what an absent store has not
    /// seen: the checkpoint that its own journal has at least. 0 where nothing is known.
    pub(crate) checkpoint: u64,
}

impl DirtySet {
    /// Nothing but what is newer than `mark`.
    pub(crate) fn since(mark: ObjectId) -> DirtySet {
        DirtySet {
            mark,
            entries: BTreeMap::new(),
            places: BTreeMap::new(),
            renames: Vec::new(),
            checkpoint: 0,
        }
    }

    /// Everything: no object is known to be equal.
    pub(crate) fn everything() -> DirtySet {
        DirtySet::since(ObjectId(0))
    }

    /// Whether this is everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.mark.0 <= ObjectId::ROOT.0
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: Entry, mask: u8, place: Option<&Place>) {
        *self.entries.entry(entry).or_insert(0) |= mask;
        if let Some(place) = place {
            self.places.insert(entry.object(), place.clone());
        }
    }

    /// Adds all of `other` but its checkpoint; where both know a place, the later one, `other`'s,
    /// stays.
    pub(crate) fn merge(&mut self, other: &DirtySet) {
        self.mark = self.mark.min(other.mark);
        for (entry, mask) in &other.entries {
            *self.entries.entry(*entry).or_insert(0) |= mask;
        }
        for (id, place) in &other.places {
            self.places.insert(*id, place.clone());
        }
        self.renames.extend(other.renames.iter().cloned());
    }

    /// Entries, counted.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.renames.len()
    }

    /// Whether no entry is in (objects from the mark on may still be).
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The byte ranges (start, end) of `id` that entries name, in order and merged, up to
    /// `length`; the last may end past it.
    pub(crate) fn ranges(&self, id: ObjectId, length: u64) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut push = |start: u64, end: u64| match ranges.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => ranges.push((start, end)),
        };
        for (entry, mask) in self
            .entries
            .range(Entry::Region(id, 0)..=Entry::Region(id, u32::MAX))
        {
            let Entry::Region(_, number) = entry else {
                continue;
            };
            for chunk in (0..REGION_CHUNKS).filter(|c| mask & (1 << c) != 0) {
                let start = u64::from(*number) * REGION_BYTES + chunk * CHUNK_BYTES;
                push(start, start + CHUNK_BYTES);
            }
        }
        let tail = self
            .entries
            .range(Entry::Tail(id, 0)..=Entry::Tail(id, u32::MAX))
            .next();
        if let Some((Entry::Tail(_, number), _)) = tail {
            let start = u64::from(*number) * REGION_BYTES;
            ranges.retain(|r| r.0 < start);
            let end = length.max(start);
            match ranges.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }
}

/// The regions that a byte range touches with their chunk masks; `length` > 0.
pub(crate) fn regions(offset: u64, length: u64) -> impl Iterator<Item = (u32, u8)> {
    let last_byte = offset.saturating_add(length.max(1)) - 1;
    let (first_chunk, last_chunk) = (offset / CHUNK_BYTES, last_byte / CHUNK_BYTES);
    let (first, last) = (first_chunk / REGION_CHUNKS, last_chunk / REGION_CHUNKS);
    (first..=last).map(move |region| {
        let low = first_chunk.saturating_sub(region * REGION_CHUNKS).min(7);
        let high = (last_chunk - region * REGION_CHUNKS).min(7);
        let mask = (low..=high).fold(0u8, |m, c| m | 1 << c);
        (region as u32, mask)
    })
}

#[cfg(test)]
mod tests;
