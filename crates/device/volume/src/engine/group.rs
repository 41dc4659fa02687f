//! A group in memory: changes as callers say them, turned into whole blocks and entries.

use super::Volume;
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::entry::Entry;
use crate::error::{Result, VolumeError};
use crate::id::{BlockIndex, OBJECTS_END, ObjectId};
use crate::pack;
use crate::{OBJECT_BLOCKS_MAX, OBJECT_BYTES_MAX};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Groups of more blocks are not packed: who writes so much at once waits for the disk, not for a header,
/// and the time to compress it would come on top.
const PACKED_GROUP_BLOCKS_MAX: usize = 64;

/// Runs of more blocks are not packed: they are pages that are read as one, which is one read of the disk
/// where they lie together. To compress pages of 16 KiB under MariaDB takes a quarter of this
/// process's time, and the bytes that reach the disk stay the same (docs/benchmarks.md).
const PACKED_RUN_BLOCKS_MAX: u32 = 3;

/// One change of a group. Offsets and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// Puts bytes at an offset; the object grows to hold them, and is made where it is missing.
    Write {
        /// The object.
        object: ObjectId,
        /// Where.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Makes a range read as zeros; whole blocks of it give their room back. The length of the
    /// object stays.
    Zero {
        /// The object.
        object: ObjectId,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Gives the room of the whole blocks of a range back; they read as zeros.
    Discard {
        /// The object.
        object: ObjectId,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Gives the object this length; it is made where it is missing.
    Resize {
        /// The object.
        object: ObjectId,
        /// In bytes.
        size: u64,
    },
    /// Removes the object.
    Remove {
        /// The object.
        object: ObjectId,
    },
}

/// What goes into the log.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) entries: Vec<Entry>,
    /// The blocks of the entries, in order.
    pub(super) data: Vec<Block>,
    /// CRC-32C of each.
    pub(super) content_sums: Vec<u32>,
    /// Each compressed, where it may be packed; nothing where none may.
    pub(super) squeezed: Vec<Option<Arc<[u8]>>>,
    /// Age of what the cleaner moves, in flights.
    pub(super) stamp: Option<u64>,
}

/// The blocks of a range of bytes: those that it covers in part, and those that it covers whole.
struct Span {
    head: Option<u64>,
    tail: Option<u64>,
    whole: std::ops::Range<u64>,
}

fn span(offset: u64, length: u64) -> Span {
    let unit = BLOCK_BYTES as u64;
    let end = offset + length;
    let whole = offset.div_ceil(unit)..(end / unit).max(offset.div_ceil(unit));
    let head = (length > 0 && !offset.is_multiple_of(unit)).then_some(offset / unit);
    let tail = (length > 0 && !end.is_multiple_of(unit)).then_some(end / unit);
    Span {
        head,
        tail: tail.filter(|tail| Some(*tail) != head),
        whole,
    }
}

/// Bytes of block `block` that lie in a range, as positions in the block.
fn part(block: u64, offset: u64, length: u64) -> std::ops::Range<usize> {
    let start = block * BLOCK_BYTES as u64;
    let from = offset.max(start) - start;
    let to = (offset + length).min(start + BLOCK_BYTES as u64) - start;
    from as usize..to as usize
}

/// A block that was covered in part, to be read before.
pub(super) type Partial = (ObjectId, BlockIndex);

impl Change<'_> {
    fn object(&self) -> ObjectId {
        match self {
            Change::Write { object, .. }
            | Change::Zero { object, .. }
            | Change::Discard { object, .. }
            | Change::Resize { object, .. }
            | Change::Remove { object } => *object,
        }
    }

    /// Its range, where it has one.
    fn range(&self) -> (u64, u64) {
        match self {
            Change::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Change::Zero { offset, length, .. } | Change::Discard { offset, length, .. } => {
                (*offset, *length)
            }
            Change::Resize { .. } | Change::Remove { .. } => (0, 0),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let (offset, length) = match self {
            Change::Resize { size, .. } => (*size, 0),
            other => other.range(),
        };
        let end = offset.saturating_add(length);
        if end > OBJECT_BYTES_MAX || self.object() >= OBJECTS_END {
            return Err(VolumeError::OutOfRange {
                object: self.object(),
                offset,
                end,
                limit: OBJECT_BYTES_MAX,
            });
        }
        Ok(())
    }

    /// The blocks that it changes.
    pub(super) fn touched(&self) -> Touched {
        let unit = BLOCK_BYTES as u64;
        let (offset, length) = self.range();
        let blocks = match self {
            Change::Resize { size, .. } => size / unit..OBJECT_BLOCKS_MAX,
            Change::Remove { .. } => 0..OBJECT_BLOCKS_MAX,
            _ => offset / unit..(offset + length).div_ceil(unit),
        };
        (self.object(), blocks)
    }

    /// Blocks whose old content matters.
    pub(super) fn partials(&self) -> impl Iterator<Item = Partial> {
        let (offset, length) = self.range();
        let span = match self {
            Change::Write { .. } | Change::Zero { .. } => span(offset, length),
            Change::Resize { size, .. } => {
                let tail = (size % BLOCK_BYTES as u64 != 0).then_some(size / BLOCK_BYTES as u64);
                Span {
                    head: tail,
                    tail: None,
                    whole: 0..0,
                }
            }
            _ => span(0, 0),
        };
        let object = self.object();
        let blocks = span.head.into_iter().chain(span.tail);
        blocks.map(move |block| (object, BlockIndex(block as u32)))
    }
}

/// Turns changes into a group.
pub(super) struct Builder<'v> {
    volume: &'v Volume,
    group: Group,
    /// Where in the data a block of this group is.
    slots: BTreeMap<(ObjectId, u64), usize>,
    /// Ranges of blocks that this group has emptied: their old content is zeros.
    emptied: Vec<(ObjectId, u64, u64)>,
    /// The size that the group has given to an object at least.
    sizes: HashMap<ObjectId, u64>,
    /// Old content that was read ahead.
    ahead: HashMap<Partial, Block>,
}

impl<'v> Builder<'v> {
    pub(super) fn new(volume: &'v Volume, changes: &[Change<'_>]) -> Builder<'v> {
        let blocks = changes.iter().map(|change| {
            let (_, length) = match change {
                Change::Write { .. } => change.range(),
                _ => (0, 0),
            };
            length as usize / BLOCK_BYTES + 2
        });
        Builder {
            volume,
            group: Group {
                data: Vec::with_capacity(blocks.sum()),
                ..Group::default()
            },
            slots: BTreeMap::new(),
            emptied: Vec::new(),
            sizes: HashMap::new(),
            ahead: read_ahead(volume, &partials(changes)),
        }
    }

    /// Adds a change.
    ///
    /// # Errors
    /// The old content of a block that it covers in part cannot be read.
    pub(super) fn add(&mut self, change: &Change<'_>) -> Result<()> {
        match *change {
            Change::Write {
                object,
                offset,
                bytes,
            } => {
                self.put(object, offset, bytes.len() as u64, Some(bytes))?;
                self.grow(object, offset + bytes.len() as u64);
            }
            Change::Zero {
                object,
                offset,
                length,
            } => {
                let span = span(offset, length);
                for block in span.head.into_iter().chain(span.tail) {
                    if self.has_content(object, block) {
                        let part = part(block, offset, length);
                        let start = block * BLOCK_BYTES as u64 + part.start as u64;
                        self.put(object, start, part.len() as u64, None)?;
                    }
                }
                self.punch(object, span.whole);
            }
            Change::Discard {
                object,
                offset,
                length,
            } => self.punch(object, span(offset, length).whole),
            Change::Resize { object, size } => {
                let tail = size % BLOCK_BYTES as u64;
                let block = size / BLOCK_BYTES as u64;
                if tail != 0 && self.has_content(object, block) {
                    self.put(object, size, BLOCK_BYTES as u64 - tail, None)?;
                }
                self.empty(object, size.div_ceil(BLOCK_BYTES as u64)..OBJECT_BLOCKS_MAX);
                self.group.entries.push(Entry::Resize { object, size });
                self.sizes.insert(object, size);
            }
            Change::Remove { object } => {
                self.empty(object, 0..OBJECT_BLOCKS_MAX);
                self.group.entries.push(Entry::Remove { object });
                self.sizes.remove(&object);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Group {
        let sums = self.group.data.iter().map(|block| codec::crc32c(&block.0));
        self.group.content_sums = sums.collect();
        if self.volume.packs && self.group.data.len() <= PACKED_GROUP_BLOCKS_MAX {
            let short = self.group.entries.iter().flat_map(|entry| {
                let blocks = entry.data_blocks();
                let object = (blocks <= PACKED_RUN_BLOCKS_MAX).then(|| entry.object());
                std::iter::repeat_n(object, blocks as usize)
            });
            let blocks = short.zip(&self.group.data);
            let odds = &self.volume.odds;
            self.group.squeezed = blocks
                .map(|(short, block)| odds.attempt(short?, || pack::squeeze(block)))
                .collect();
        }
        self.group
    }

    fn grow(&mut self, object: ObjectId, size: u64) {
        let known = self.sizes.get(&object).copied();
        if known.is_none_or(|known| known < size) {
            self.group.entries.push(Entry::Grow { object, size });
            self.sizes.insert(object, size);
        }
    }

    fn punch(&mut self, object: ObjectId, blocks: std::ops::Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        self.empty(object, blocks.clone());
        let length = (blocks.end - blocks.start) as u32;
        if let Some(Entry::Punch {
            object: last,
            block: start,
            count,
        }) = self.group.entries.last_mut()
            && *last == object
            && u64::from(start.0) + u64::from(*count) == blocks.start
        {
            *count += length;
            return;
        }
        self.group.entries.push(Entry::Punch {
            object,
            block: BlockIndex(blocks.start as u32),
            count: length,
        });
    }

    /// From here on these blocks are zeros, and what is written goes to new slots.
    fn empty(&mut self, object: ObjectId, blocks: std::ops::Range<u64>) {
        let range = (object, blocks.start)..(object, blocks.end);
        let keys: Vec<_> = self.slots.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            self.slots.remove(&key);
        }
        match self.emptied.last_mut() {
            Some((last, _, end)) if *last == object && *end == blocks.start => *end = blocks.end,
            _ => self.emptied.push((object, blocks.start, blocks.end)),
        }
    }

    fn is_emptied(&self, object: ObjectId, block: u64) -> bool {
        (self.emptied.iter()).any(|(of, from, to)| *of == object && (*from..*to).contains(&block))
    }

    /// Whether a block may hold anything but zeros.
    fn has_content(&self, object: ObjectId, block: u64) -> bool {
        self.slots.contains_key(&(object, block))
            || !self.is_emptied(object, block)
                && self.volume.is_mapped(object, BlockIndex(block as u32))
    }

    /// Puts bytes, or zeros, at an offset.
    fn put(
        &mut self,
        object: ObjectId,
        offset: u64,
        length: u64,
        content: Option<&[u8]>,
    ) -> Result<()> {
        let unit = BLOCK_BYTES as u64;
        let blocks = offset / unit..(offset + length).div_ceil(unit);
        let mut done = 0;
        for block in blocks.filter(|_| length > 0) {
            let part = part(block, offset, length);
            let source = content.and_then(|content| content.get(done..done + part.len()));
            done += part.len();
            let whole = part.len() == BLOCK_BYTES;
            if whole && source.is_none_or(is_zero) && !self.slots.contains_key(&(object, block)) {
                // A hole reads the same and takes no room.
                self.punch(object, block..block + 1);
                continue;
            }
            let slot = match self.slots.get(&(object, block)) {
                Some(slot) => *slot,
                None => self.fresh(object, block, whole)?,
            };
            let room = (self.group.data.get_mut(slot)).and_then(|block| block.0.get_mut(part));
            match (room, source) {
                (Some(room), Some(source)) => room.copy_from_slice(source),
                (Some(room), None) => room.fill(0),
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// A new slot for a block, with its old content unless all of it is going to be written.
    fn fresh(&mut self, object: ObjectId, block: u64, whole: bool) -> Result<usize> {
        let slot = self.group.data.len();
        let index = BlockIndex(block as u32);
        let old = match !whole && !self.is_emptied(object, block) {
            false => Block([0; BLOCK_BYTES]),
            true => match self.ahead.remove(&(object, index)) {
                Some(block) => block,
                None => {
                    let mut old = [Block([0; BLOCK_BYTES])];
                    self.volume.read_blocks(object, index, &mut old)?;
                    let [old] = old;
                    old
                }
            },
        };
        self.group.data.push(old);
        self.slots.insert((object, block), slot);
        self.group.list(object, index);
        Ok(slot)
    }
}

/// Whether bytes are all zeros.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

impl Group {
    pub(super) fn blocks(&self, blocks: std::ops::Range<usize>) -> &[Block] {
        self.data.get(blocks).unwrap_or_default()
    }

    pub(super) fn bytes(&self, blocks: std::ops::Range<usize>) -> &[u8] {
        bytes(self.blocks(blocks))
    }

    /// A block compressed, where it may be packed.
    pub(super) fn squeezed(&self, index: usize) -> Option<Arc<[u8]>> {
        self.squeezed.get(index).cloned().flatten()
    }

    /// Adds a block of another group.
    pub(super) fn push(
        &mut self,
        object: ObjectId,
        block: BlockIndex,
        content: Block,
        sum: u32,
        squeezed: Option<Arc<[u8]>>,
    ) {
        self.data.push(content);
        self.content_sums.push(sum);
        self.squeezed.push(squeezed);
        self.list(object, block);
    }

    /// Lists a block whose content is the next one.
    fn list(&mut self, object: ObjectId, block: BlockIndex) {
        if let Some(Entry::Write {
            object: last,
            block: start,
            count,
        }) = self.entries.last_mut()
            && *last == object
            && start.0 + *count == block.0
        {
            *count += 1;
            return;
        }
        self.entries.push(Entry::Write {
            object,
            block,
            count: 1,
        });
    }

    /// For the cleaner: content that was read, as it was read.
    pub(super) fn moved(
        entries: Vec<Entry>,
        data: Vec<Block>,
        sums: Vec<u32>,
        squeezed: Vec<Option<Arc<[u8]>>>,
        stamp: u64,
    ) -> Group {
        Group {
            entries,
            data,
            content_sums: sums,
            squeezed,
            stamp: Some(stamp),
        }
    }
}

/// A range of blocks that a change touches.
pub(super) type Touched = (ObjectId, std::ops::Range<u64>);

/// Whether one of the ranges has this block.
pub(super) fn touches(ranges: &[Touched], (object, block): Partial) -> bool {
    let has = |(of, range): &Touched| *of == object && range.contains(&block.0.into());
    ranges.iter().any(has)
}

/// A group that reads blocks in order to write parts of them.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) partials: BTreeSet<Partial>,
    pub(super) touched: Vec<Touched>,
}

impl Merge {
    /// Whether somebody who touches these ranges would change what it reads.
    pub(super) fn partials_in(&self, ranges: &[Touched]) -> bool {
        self.partials.iter().any(|key| touches(ranges, *key))
    }
}

/// The old content of blocks, in one batch for each object. Where one of them is damaged the
/// object's are read one by one later, and only those that are needed.
fn read_ahead(volume: &Volume, partials: &BTreeSet<Partial>) -> HashMap<Partial, Block> {
    let mut ahead = HashMap::new();
    let mut rest: Vec<Partial> = partials.iter().copied().collect();
    while let Some((object, _)) = rest.first().copied() {
        let later = rest.split_off(rest.partition_point(|(of, _)| *of == object));
        let wanted: Vec<BlockIndex> = rest.iter().map(|(_, block)| *block).collect();
        if wanted.len() > 1
            && let Some(blocks) = volume.read_scattered(object, &wanted)
        {
            ahead.extend(rest.into_iter().zip(blocks));
        }
        rest = later;
    }
    ahead
}

/// The blocks of which each change covers a part, each once.
pub(super) fn partials(changes: &[Change<'_>]) -> BTreeSet<Partial> {
    changes.iter().flat_map(Change::partials).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_blocks_in_part_and_whole() {
        let of = |offset, length| {
            let span = span(offset, length);
            (span.head, span.tail, span.whole)
        };
        assert_eq!(of(0, 4096), (None, None, 0..1));
        assert_eq!(of(0, 0), (None, None, 0..0));
        assert_eq!(of(100, 200), (Some(0), None, 1..1));
        assert_eq!(of(100, 4096), (Some(0), Some(1), 1..1));
        assert_eq!(of(100, 8192), (Some(0), Some(2), 1..2));
        assert_eq!(of(4096, 5000), (None, Some(2), 1..2));
        assert_eq!(part(2, 100, 8192), 0..100);
        assert_eq!(part(0, 100, 8192), 100..4096);
    }
}
