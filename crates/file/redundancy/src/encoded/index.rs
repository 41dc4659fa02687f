//! Which ranges are encoded: by object for who changes them, by copy for who reads them.

use crate::encoding::StripeId;
use crate::label::{ObjectId, StoreIndex};
use crate::store::Node;
use crate::stripes::Stripe;
use parity::Shard;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An encoded chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    /// Where it begins in its file.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) length: u64,
    /// The stripe, and its shard in it.
    pub(crate) stripe: StripeId,
    pub(crate) shard: Shard,
    /// Of a copy: whether it is the home's, which has the bytes, else it has given them up.
    pub(crate) is_base: bool,
}

impl Chunk {
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// The encoded chunks of one copy of a file, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Vec<Chunk>);

impl Extents {
    /// Those that end after `offset`.
    pub(crate) fn from(&self, offset: u64) -> impl Iterator<Item = Chunk> {
        let at = self.0.partition_point(|chunk| chunk.end() <= offset);
        self.0.get(at..).unwrap_or_default().iter().copied()
    }

    fn insert(&mut self, chunk: Chunk) {
        let at = self.0.partition_point(|c| c.offset < chunk.offset);
        self.0.insert(at, chunk);
    }

    fn remove(&mut self, chunk: Chunk) {
        self.0.retain(|c| *c != chunk);
    }
}

/// All encoded ranges.
#[derive(Debug, Default)]
pub(crate) struct Index {
    objects: BTreeMap<(ObjectId, u64), Chunk>,
    copies: HashMap<(StoreIndex, Node), Arc<Extents>>,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn add(&mut self, stripe: &Stripe) {
        for (object, chunk, copies) in chunks(stripe) {
            self.objects.insert((object, chunk.offset), chunk);
            for (copy, is_base) in copies {
                let extents = self.copies.entry(copy).or_default();
                Arc::make_mut(extents).insert(Chunk { is_base, ..chunk });
            }
        }
    }

    /// The copies that gave a range up have it again; the bases are still what the stripe holds.
    pub(crate) fn refill(&mut self, stripe: &Stripe) {
        for (_, chunk, copies) in chunks(stripe) {
            for (copy, _) in copies.into_iter().filter(|(_, is_base)| !is_base) {
                self.drop_extent(copy, chunk);
            }
        }
    }

    pub(crate) fn remove(&mut self, stripe: &Stripe) {
        for (object, chunk, copies) in chunks(stripe) {
            self.objects.remove(&(object, chunk.offset));
            for (copy, is_base) in copies {
                self.drop_extent(copy, Chunk { is_base, ..chunk });
            }
        }
    }

    fn drop_extent(&mut self, copy: (StoreIndex, Node), chunk: Chunk) {
        let std::collections::hash_map::Entry::Occupied(mut entry) = self.copies.entry(copy) else {
            return;
        };
        Arc::make_mut(entry.get_mut()).remove(chunk);
        if entry.get().0.is_empty() {
            entry.remove();
        }
    }

    pub(crate) fn extents(&self, store: StoreIndex, node: &Node) -> Option<Arc<Extents>> {
        self.copies.get(&(store, node.clone())).cloned()
    }

    pub(crate) fn first_in(&self, object: ObjectId, offset: u64, length: u64) -> Option<Chunk> {
        let end = offset.saturating_add(length);
        let before = self.objects.range(..=(object, offset)).next_back();
        let reaches = |(key, chunk): &(&(ObjectId, u64), &Chunk)| {
            key.0 == object && chunk.end() > offset && chunk.offset < end
        };
        let after = || self.objects.range((object, offset)..).next();
        let found = before.filter(reaches).or_else(|| after().filter(reaches));
        found.map(|(_, chunk)| *chunk)
    }
}

/// The copies of a chunk, and whether it is the base.
type Copies = Vec<((StoreIndex, Node), bool)>;

/// The chunks of a stripe: file, range, and its copies.
fn chunks(stripe: &Stripe) -> impl Iterator<Item = (ObjectId, Chunk, Copies)> {
    stripe.layout.shards().filter_map(|(shard, slot)| {
        let base = stripe.base(shard)?;
        let chunk = Chunk {
            offset: base.offset,
            length: stripe.layout.chunk.get(),
            stripe: stripe.id,
            shard,
            is_base: false,
        };
        let home = ((slot.store()?, base.node.clone()), true);
        let others = base.copies.iter().map(|copy| (copy.clone(), false));
        let copies = std::iter::once(home).chain(others).collect();
        Some((slot.chunk()?.object, chunk, copies))
    })
}
