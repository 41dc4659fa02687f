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
}

impl Chunk {
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// What one copy of a file has given up, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Vec<Chunk>);

impl Extents {
    /// The first that ends after `offset`.
    pub(crate) fn from(&self, offset: u64) -> Option<Chunk> {
        let at = self.0.partition_point(|chunk| chunk.end() <= offset);
        self.0.get(at).copied()
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
            for copy in copies {
                let extents = self.copies.entry(copy.clone()).or_default();
                Arc::make_mut(extents).insert(chunk);
            }
        }
    }

    pub(crate) fn remove(&mut self, stripe: &Stripe) {
        for (object, chunk, copies) in chunks(stripe) {
            self.objects.remove(&(object, chunk.offset));
            for copy in copies {
                if let Some(extents) = self.copies.get_mut(copy) {
                    Arc::make_mut(extents).remove(chunk);
                    if extents.0.is_empty() {
                        self.copies.remove(copy);
                    }
                }
            }
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

type Copies<'a> = &'a [(StoreIndex, Node)];

/// The chunks of a stripe: file, range, and the copies that are given up.
fn chunks(stripe: &Stripe) -> impl Iterator<Item = (ObjectId, Chunk, Copies<'_>)> {
    stripe.layout.shards().filter_map(|(shard, slot)| {
        let base = stripe.base(shard)?;
        let chunk = Chunk {
            offset: base.offset,
            length: stripe.layout.chunk.get(),
            stripe: stripe.id,
            shard,
        };
        Some((slot.chunk()?.object, chunk, base.copies.as_slice()))
    })
}
