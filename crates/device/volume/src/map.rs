//! The map of every object: block to place in the log.

mod leaf;

pub use leaf::{LEAF_BLOCKS, Leaf, Mapped, Run};

use crate::BLOCK_BYTES;
use crate::id::{BlockIndex, ObjectId, Place};
use std::collections::BTreeMap;

/// Bytes of the head of a leaf and of an object in a checkpoint.
pub(crate) const LEAF_HEAD_BYTES: u64 = 16;
pub(crate) const OBJECT_ENCODED_BYTES: u64 = 24;

/// Bytes that a leaf takes in the tree of its object, its key included: nodes are at least half
/// full.
const LEAF_TREE_BYTES: usize = 2 * (size_of::<Leaf>() + size_of::<u32>());

/// One object.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ObjectMap {
    /// Its length in bytes.
    pub size: u64,
    leaves: BTreeMap<u32, Leaf>,
    mapped_blocks: u64,
}

/// All objects.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Map {
    objects: BTreeMap<ObjectId, ObjectMap>,
    mapped_blocks: u64,
    encoded_bytes: u64,
}

/// Where to go on in the map: an object, and a leaf of it where the object itself was shown.
pub type Position = (ObjectId, Option<u32>);

impl Map {
    /// Length of an object in bytes; `None` where there is none.
    pub fn size(&self, object: ObjectId) -> Option<u64> {
        self.objects.get(&object).map(|found| found.size)
    }

    /// Blocks of an object that have a place.
    pub fn mapped_blocks_of(&self, object: ObjectId) -> u64 {
        (self.objects.get(&object)).map_or(0, |found| found.mapped_blocks)
    }

    /// Every object and its length.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, u64)> {
        self.objects.iter().map(|(id, object)| (*id, object.size))
    }

    /// Blocks that have a place.
    pub fn mapped_blocks(&self) -> u64 {
        self.mapped_blocks
    }

    /// Bytes of it in a checkpoint, without what sheets add.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let leaves = self
            .objects
            .values()
            .flat_map(|object| object.leaves.values());
        let all: usize = leaves.map(|leaf| leaf.heap_bytes() + LEAF_TREE_BYTES).sum();
        all + self.objects.len() * 2 * (size_of::<ObjectMap>() + size_of::<ObjectId>())
    }

    /// Where block `block` is, and how many from there on follow each other, up to `count`.
    pub fn find(&self, object: ObjectId, block: BlockIndex, count: u32) -> (Mapped, u32) {
        let at = block.0 % LEAF_BLOCKS;
        let leaf = self
            .objects
            .get(&object)
            .and_then(|object| object.leaves.get(&(block.0 / LEAF_BLOCKS)));
        match leaf {
            Some(leaf) => leaf.find(at, count),
            None => (Mapped::Hole, count.min(LEAF_BLOCKS - at)),
        }
    }

    /// The first block from `block` on that may have a place: `block` itself, or the start of a
    /// leaf.
    pub fn next_leaf(&self, object: ObjectId, block: BlockIndex) -> Option<BlockIndex> {
        let leaves = &self.objects.get(&object)?.leaves;
        let (number, _) = leaves.range(block.0 / LEAF_BLOCKS..).next()?;
        Some(block.max(BlockIndex(number * LEAF_BLOCKS)))
    }

    /// How many of these blocks have a place.
    pub fn count_mapped(&self, object: ObjectId, block: BlockIndex, count: u32) -> u32 {
        let mut mapped = 0;
        let mut done = 0;
        while done < count {
            let (found, length) = self.find(object, block.after(done), count - done);
            if let Mapped::At(_) = found {
                mapped += length;
            }
            done += length;
        }
        mapped
    }

    /// Maps blocks anew; calls `displaced` for the places that they had. The object is made where
    /// it is missing.
    pub fn set(
        &mut self,
        object: ObjectId,
        block: BlockIndex,
        count: u32,
        mapped: Mapped,
        displaced: &mut impl FnMut(Place, u32),
    ) {
        if mapped == Mapped::Hole && !self.objects.contains_key(&object) {
            return;
        }
        let encoded = &mut self.encoded_bytes;
        let blocks = &mut self.mapped_blocks;
        let object = self.objects.entry(object).or_insert_with(|| {
            *encoded += OBJECT_ENCODED_BYTES;
            ObjectMap::default()
        });
        let own = &mut object.mapped_blocks;
        if let Mapped::At(_) = mapped {
            *own += u64::from(count);
        }
        let mut gone = |place, count: u32| {
            *blocks -= u64::from(count);
            *own -= u64::from(count);
            displaced(place, count);
        };
        let mut done = 0;
        while done < count {
            let at = block.after(done);
            let (number, at) = (at.0 / LEAF_BLOCKS, at.0 % LEAF_BLOCKS);
            let length = (count - done).min(LEAF_BLOCKS - at);
            let leaf = match mapped {
                Mapped::Hole => object.leaves.get_mut(&number),
                _ => Some(object.leaves.entry(number).or_insert_with(|| {
                    *encoded += LEAF_HEAD_BYTES;
                    Leaf::empty()
                })),
            };
            if let Some(leaf) = leaf {
                *encoded -= leaf.encoded_bytes();
                leaf.set(at, length, mapped.after(done), &mut gone);
                *encoded += leaf.encoded_bytes();
                if mapped == Mapped::Hole && leaf.is_empty() {
                    *encoded -= leaf.encoded_bytes() + LEAF_HEAD_BYTES;
                    object.leaves.remove(&number);
                }
            }
            done += length;
        }
        if let Mapped::At(_) = mapped {
            self.mapped_blocks += u64::from(count);
        }
    }

    /// Maps those of the blocks anew that are still at `from` and on; calls `moved` for each run
    /// of them with the place left and its number in `from` on.
    pub fn exchange(
        &mut self,
        object: ObjectId,
        block: BlockIndex,
        count: u32,
        from: Place,
        to: Mapped,
        moved: &mut impl FnMut(Place, u32),
    ) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        let mut done = 0;
        while done < count {
            let at = block.after(done);
            let (found, mut length) = self.find(object, at, count - done);
            if found == Mapped::At(from.after(done)) {
                self.set(object, at, length, to.after(done), moved);
                taken.push((done, length));
            } else if matches!(found, Mapped::At(_)) {
                // The next block may be at its old place again.
                length = 1;
            }
            done += length;
        }
        taken
    }

    /// Makes the object at least `size` bytes long.
    pub fn grow(&mut self, object: ObjectId, size: u64) {
        let object = self.object_mut(object);
        object.size = object.size.max(size);
    }

    /// Makes the object exactly `size` bytes long; what is behind loses its place.
    pub fn resize(&mut self, id: ObjectId, size: u64, displaced: &mut impl FnMut(Place, u32)) {
        let object = self.object_mut(id);
        object.size = size;
        let first = size.div_ceil(BLOCK_BYTES as u64);
        let Ok(first) = u32::try_from(first) else {
            return;
        };
        let last = object.leaves.last_key_value().map(|(number, _)| *number);
        let end = last.map_or(0, |last| (last + 1).saturating_mul(LEAF_BLOCKS));
        let later: Vec<u32> = (object.leaves.range(first / LEAF_BLOCKS..))
            .map(|(number, _)| *number)
            .collect();
        for number in later {
            let start = (number * LEAF_BLOCKS).max(first);
            let stop = (number + 1).saturating_mul(LEAF_BLOCKS).min(end);
            self.set(
                id,
                BlockIndex(start),
                stop.saturating_sub(start),
                Mapped::Hole,
                displaced,
            );
        }
    }

    /// Forgets the object.
    pub fn remove(&mut self, id: ObjectId, displaced: &mut impl FnMut(Place, u32)) {
        if !self.objects.contains_key(&id) {
            return;
        }
        self.resize(id, 0, displaced);
        self.objects.remove(&id);
        self.encoded_bytes -= OBJECT_ENCODED_BYTES;
    }

    /// The object; it is made where it is missing.
    fn object_mut(&mut self, id: ObjectId) -> &mut ObjectMap {
        let encoded = &mut self.encoded_bytes;
        self.objects.entry(id).or_insert_with(|| {
            *encoded += OBJECT_ENCODED_BYTES;
            ObjectMap::default()
        })
    }

    /// Hands the map from `from` on to `each`, object by object and leaf by leaf, until it says
    /// no; where to go on, if it said so. An object without leaves comes with none.
    pub fn walk(
        &mut self,
        from: Position,
        each: &mut impl FnMut(ObjectId, u64, Option<(u32, &Leaf)>) -> bool,
    ) -> Option<Position> {
        for (id, object) in self.objects.range_mut(from.0..) {
            let start = if *id == from.0 { from.1 } else { None };
            if start.is_none() && !each(*id, object.size, None) {
                return Some((*id, None));
            }
            for (number, leaf) in object.leaves.range_mut(start.unwrap_or(0)..) {
                let before = leaf.encoded_bytes();
                leaf.settle();
                self.encoded_bytes = self.encoded_bytes + leaf.encoded_bytes() - before;
                if !each(*id, object.size, Some((*number, leaf))) {
                    return Some((*id, Some(*number)));
                }
            }
        }
        None
    }

    /// Takes in an object or a leaf that a checkpoint had; `false` where it is there already.
    pub(crate) fn restore(&mut self, id: ObjectId, size: u64) -> bool {
        let fresh = !self.objects.contains_key(&id);
        self.object_mut(id).size = size;
        fresh
    }

    /// As [`Map::restore`], for a leaf of an object that is there.
    pub(crate) fn restore_leaf(&mut self, id: ObjectId, number: u32, leaf: Leaf) -> bool {
        let Some(object) = self.objects.get_mut(&id) else {
            return false;
        };
        let live: u64 = (leaf.runs().iter())
            .filter(|run| matches!(run.mapped(), Mapped::At(_)))
            .map(|run| u64::from(run.length))
            .sum();
        self.encoded_bytes += leaf.encoded_bytes() + LEAF_HEAD_BYTES;
        self.mapped_blocks += live;
        object.mapped_blocks += live;
        object.leaves.insert(number, leaf).is_none()
    }

    /// Every run of blocks that has a place.
    pub fn places(&self) -> impl Iterator<Item = (ObjectId, BlockIndex, u32, Place)> {
        self.objects.iter().flat_map(|(id, object)| {
            object.leaves.iter().flat_map(move |(number, leaf)| {
                leaf.runs().into_iter().filter_map(move |run| {
                    let Mapped::At(place) = run.mapped() else {
                        return None;
                    };
                    let block = BlockIndex(number * LEAF_BLOCKS + u32::from(run.start));
                    Some((*id, block, u32::from(run.length), place))
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;
