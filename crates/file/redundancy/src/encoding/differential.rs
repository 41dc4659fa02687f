//! Which differential pages there are, and which of them to merge next.
//!
//! A write to an encoded chunk goes to a page of its own, with copies, and reaches chunk and
//! parity later (\[F\] section 5.2.3). A page that is written again before that is merged once for
//! all its writes. Pages are merged in the order of their last write, the oldest first, once
//! there are more than the limit.

use super::ChunkId;
use std::collections::HashMap;
use std::hash::Hash;

/// Bytes of a differential page (\[F\] section 5.2.2).
pub const PAGE_BYTES: u64 = 4096;

/// A differential page: a page of an encoded chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId {
    /// The chunk.
    pub chunk: ChunkId,
    /// Which of the chunk's pages, from 0.
    pub page: u32,
}

/// What a write did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The page is new: a write that covers only a part of it has to read the rest from the
    /// chunk first.
    New,
    /// The page was there; one merge will do for both writes.
    Again,
}

/// A page to merge, as it was when it was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due<P = PageId> {
    /// The page.
    pub page: P,
    /// Rises with each write to any page.
    stamp: u64,
}

/// No neighbour.
const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot<P> {
    due: Due<P>,
    older: u32,
    newer: u32,
}

/// All differential pages of a set in the order of their last write.
///
/// Memory: about 80 bytes a page; at 0.5 % of 1 TiB that is 100 MiB. What names a page is the
/// caller's.
#[derive(Clone, Debug)]
pub struct DifferentialPages<P = PageId> {
    slots: Vec<Slot<P>>,
    free: Vec<u32>,
    places: HashMap<P, u32>,
    oldest: u32,
    newest: u32,
    limit: u64,
    stamp: u64,
}

impl<P: Copy + Eq + Hash> DifferentialPages<P> {
    /// None yet, of which `limit` pages may stay: the share B of the capacity, in pages.
    pub fn new(limit: u64) -> DifferentialPages<P> {
        DifferentialPages {
            slots: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            oldest: END,
            newest: END,
            limit,
            stamp: 0,
        }
    }

    /// Another limit from now on, as the capacity changes.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// How many pages may stay.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Pages there are.
    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a page is there: then reads go to it.
    pub fn contains(&self, page: P) -> bool {
        self.places.contains_key(&page)
    }

    /// A write to a page of an encoded chunk.
    ///
    /// # Panics
    /// With 2^32 - 1 pages (16 TiB of them) there is no place for another.
    pub fn write(&mut self, page: P) -> Written {
        self.stamp += 1;
        let due = Due {
            page,
            stamp: self.stamp,
        };
        if let Some(&place) = self.places.get(&page) {
            self.unlink(place);
            self.link(place, due);
            return Written::Again;
        }
        let slot = Slot {
            due,
            older: END,
            newer: END,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(slot);
            let place = u32::try_from(self.slots.len() - 1);
            place
                .ok()
                .filter(|place| *place != END)
                .expect("fewer than 2^32 - 1 pages")
        });
        self.places.insert(page, place);
        self.link(place, due);
        Written::New
    }

    /// The pages above the limit, the least recently written first, at most `most` of them. They
    /// stay until [`DifferentialPages::merged`].
    pub fn due(&self, most: usize) -> Vec<Due<P>> {
        let above = usize::try_from(self.len().saturating_sub(self.limit)).unwrap_or(usize::MAX);
        self.oldest_first().take(above.min(most)).collect()
    }

    /// All pages, the least recently written first: what a shutdown or a return to copies
    /// merges.
    pub fn oldest_first(&self) -> impl Iterator<Item = Due<P>> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.newer;
            Some(slot.due)
        })
    }

    /// A page's content of when it was named has reached chunk and parity. Whether the page may
    /// be let go: not if it was written since, then it stays and is merged again.
    pub fn merged(&mut self, due: Due<P>) -> bool {
        let place = self.places.get(&due.page).copied();
        let unchanged = place.is_some_and(|place| self.slots[place as usize].due == due);
        unchanged && self.forget(due.page)
    }

    /// A page's content is wanted no more: its chunk has copies again, or is gone. Whether it
    /// was there.
    pub fn forget(&mut self, page: P) -> bool {
        let Some(place) = self.places.remove(&page) else {
            return false;
        };
        self.unlink(place);
        self.free.push(place);
        true
    }

    /// Takes a slot out of the order.
    fn unlink(&mut self, place: u32) {
        let Slot { older, newer, .. } = self.slots[place as usize];
        match self.slots.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
    }

    /// Puts a slot behind the newest.
    fn link(&mut self, place: u32, due: Due<P>) {
        self.slots[place as usize] = Slot {
            due,
            older: self.newest,
            newer: END,
        };
        match self.slots.get_mut(self.newest as usize) {
            Some(neighbour) => neighbour.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests;
