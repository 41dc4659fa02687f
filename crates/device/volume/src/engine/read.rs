//! Reading: look up, read without a lock, hold against the checksums.

use super::Volume;
use super::state::State;
use super::sums::{SegmentSums, Stored};
use crate::OBJECT_BLOCKS_MAX;
use crate::block::{BLOCK_BYTES, Block, bytes, bytes_mut, is_aligned};
use crate::corrupt::{equal, wrong};
use crate::error::{Result, VolumeError};
use crate::flight::{BlockKey, Header, PACK_OBJECT};
use crate::id::{BlockIndex, ObjectId, Place, Segment, Use};
use crate::map::Mapped;
use crate::pack;
use crate::table::{self, Row, Rows};
use codec::Corruption;
use env::Request;
use parking_lot::MutexGuard;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Blocks that follow each other both in the object and in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    block: BlockIndex,
    count: u32,
    mapped: Mapped,
    /// Of the segment that it is in.
    segment_use: Use,
}

/// A part of what is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Want {
    /// So many blocks of zeros.
    Zeros(u32),
    /// Blocks that follow each other; the key is that of the first.
    Plain {
        place: Place,
        key: BlockKey,
        sums: Vec<u32>,
    },
    /// One block out of a pack.
    Packed {
        place: Place,
        key: BlockKey,
        stored: Stored,
    },
}

impl Want {
    fn blocks(&self) -> usize {
        match self {
            Want::Zeros(count) => *count as usize,
            Want::Plain { sums, .. } => sums.len(),
            Want::Packed { .. } => 1,
        }
    }
}

/// Most blocks that a read looks up at once.
const LOOKUP_BLOCKS_MAX: u32 = 1024;

impl Volume {
    /// Fills `buffer` with the object's content from `offset`, in bytes. What was never written
    /// reads as zeros, up to the object's length.
    ///
    /// # Errors
    /// [`VolumeError::NoObject`]; [`VolumeError::OutOfRange`] past the object's length;
    /// [`VolumeError::Corrupt`] or [`VolumeError::Lost`] where a block is damaged.
    pub fn read(&self, object: ObjectId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let size = self.size(object).ok_or(VolumeError::NoObject { object })?;
        let end = offset.saturating_add(buffer.len() as u64);
        if end > size {
            return Err(VolumeError::OutOfRange {
                object,
                offset,
                end,
                limit: size,
            });
        }
        let unit = BLOCK_BYTES as u64;
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let block = BlockIndex((at / unit) as u32);
            let skip = (at % unit) as usize;
            let whole = rest.len() / BLOCK_BYTES;
            if skip == 0 && whole > 0 && is_aligned(rest) {
                // In place: the caller's memory is as direct I/O wants it.
                let count = whole.min(LOOKUP_BLOCKS_MAX as usize);
                let (now, later) = rest.split_at_mut(count * BLOCK_BYTES);
                self.read_into(object, block, now)?;
                at += now.len() as u64;
                rest = later;
                continue;
            }
            let wanted = (skip + rest.len()).div_ceil(BLOCK_BYTES);
            let mut blocks = Block::zeros(wanted.min(LOOKUP_BLOCKS_MAX as usize));
            self.read_blocks(object, block, &mut blocks)?;
            let content = bytes(&blocks).get(skip..).unwrap_or_default();
            let length = content.len().min(rest.len());
            let (now, later) = rest.split_at_mut(length);
            now.copy_from_slice(content.get(..length).unwrap_or_default());
            at += length as u64;
            rest = later;
        }
        Ok(())
    }

    /// Whether there is a hole at an offset, and for how many bytes that is so at least.
    pub fn extent(&self, object: ObjectId, offset: u64) -> (bool, u64) {
        let unit = BLOCK_BYTES as u64;
        let Ok(block) = u32::try_from(offset / unit) else {
            return (true, unit - offset % unit);
        };
        let state = self.with_left(object, &(block.into()..OBJECT_BLOCKS_MAX));
        let most = OBJECT_BLOCKS_MAX.saturating_sub(block.into()).max(1);
        let (mapped, count) = state.map.find(object, BlockIndex(block), most as u32);
        let bytes = u64::from(count) * unit - offset % unit;
        (mapped == Mapped::Hole, bytes)
    }

    /// Bytes of the blocks that an object has.
    pub fn allocated(&self, object: ObjectId) -> u64 {
        self.state.lock().map.mapped_blocks_of(object) * BLOCK_BYTES as u64
    }

    /// Whether a block has any content.
    pub(super) fn is_mapped(&self, object: ObjectId, block: BlockIndex) -> bool {
        self.state.lock().map.find(object, block, 1).0 != Mapped::Hole
    }

    /// Whole blocks.
    pub(crate) fn read_blocks(
        &self,
        object: ObjectId,
        block: BlockIndex,
        blocks: &mut [Block],
    ) -> Result<()> {
        self.read_into(object, block, bytes_mut(blocks))
    }

    /// Blocks of an object, each by itself but in one batch; nothing where any of them cannot be
    /// read. Nobody may write them meanwhile.
    pub(super) fn read_scattered(
        &self,
        object: ObjectId,
        wanted: &[BlockIndex],
    ) -> Option<Vec<Block>> {
        let pieces = wanted
            .iter()
            .flat_map(|block| self.look_up(object, *block, 1));
        let pieces: Vec<Piece> = pieces.collect();
        let mut blocks = Block::zeros(wanted.len());
        let read = self.read_pieces(object, &pieces, bytes_mut(&mut blocks));
        read.is_ok().then_some(blocks)
    }

    /// Whole blocks into aligned memory.
    fn read_into(&self, object: ObjectId, block: BlockIndex, buffer: &mut [u8]) -> Result<()> {
        let count = (buffer.len() / BLOCK_BYTES) as u32;
        let mut pieces = self.look_up(object, block, count);
        loop {
            let failed = match self.read_pieces(object, &pieces, buffer) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // The cleaner may have moved blocks, and their segment may be in use again.
            let now = self.look_up(object, block, count);
            if now == pieces {
                return Err(failed);
            }
            pieces = now;
        }
    }

    /// With all that was left, for as long as the volume takes writes.
    fn look_up(&self, object: ObjectId, block: BlockIndex, count: u32) -> Vec<Piece> {
        let first = u64::from(block.0);
        let state = self.with_left(object, &(first..first + u64::from(count)));
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < count {
            let block = block.after(done);
            let (mapped, length) = state.map.find(object, block, count - done);
            let segment_use = match mapped {
                Mapped::At(place) => state.segments.use_of(place),
                _ => Use(0),
            };
            pieces.push(Piece {
                block,
                count: length,
                mapped,
                segment_use,
            });
            done += length;
        }
        pieces
    }

    /// The state, once nothing that was left changes these blocks any more, or the volume has stopped.
    fn with_left(&self, object: ObjectId, blocks: &Range<u64>) -> MutexGuard<'_, State> {
        loop {
            let state = self.state.lock();
            let Some(left) = state.left_over(object, blocks) else {
                return state;
            };
            drop(state);
            if self.wait(left).is_err() {
                return self.state.lock();
            }
        }
    }

    fn read_pieces(&self, object: ObjectId, pieces: &[Piece], buffer: &mut [u8]) -> Result<()> {
        let wanted = self.wanted(object, pieces)?;
        let mut packs: Vec<(Place, Vec<Block>)> = Vec::new();
        for want in &wanted {
            if let Want::Packed { place, .. } = *want
                && packs.last().is_none_or(|(last, _)| *last != place)
            {
                packs.push((place, Block::zeros(1)));
            }
        }
        let mut batches: Vec<Vec<Request<'_>>> = self.disks.iter().map(|_| Vec::new()).collect();
        let mut rest = &mut *buffer;
        for want in &wanted {
            let (now, later) = rest.split_at_mut(want.blocks() * BLOCK_BYTES);
            rest = later;
            match want {
                Want::Zeros(_) => now.fill(0),
                Want::Packed { .. } => {}
                Want::Plain { place, .. } => {
                    let (disk, offset) = self.geometry.locate(*place);
                    let buffer = now;
                    if let Some(batch) = batches.get_mut(disk) {
                        batch.push(Request::Read { offset, buffer });
                    }
                }
            }
        }
        for (place, pack) in &mut packs {
            let (disk, offset) = self.geometry.locate(*place);
            let buffer = bytes_mut(pack);
            if let Some(batch) = batches.get_mut(disk) {
                batch.push(Request::Read { offset, buffer });
            }
        }
        for (disk, mut batch) in self.disks.iter().zip(batches) {
            if batch.is_empty() {
                continue;
            }
            for answer in disk.submit(&mut batch) {
                answer.map_err(VolumeError::io("reading blocks"))?;
            }
        }
        let mut packs = packs.iter().peekable();
        let mut rest = &mut *buffer;
        for want in &wanted {
            let (now, later) = rest.split_at_mut(want.blocks() * BLOCK_BYTES);
            rest = later;
            match want {
                Want::Zeros(_) => {}
                Want::Plain { key, sums, .. } => self.verify(key, sums, now)?,
                Want::Packed { place, key, stored } => {
                    while packs.peek().is_some_and(|(at, _)| at != place) {
                        packs.next();
                    }
                    let pack = packs.peek().map(|(_, pack)| bytes(pack));
                    self.unpack(key, *stored, pack.unwrap_or_default(), now)?;
                }
            }
        }
        Ok(())
    }

    /// What is to be read for pieces, and what it is held against.
    fn wanted(&self, object: ObjectId, pieces: &[Piece]) -> Result<Vec<Want>> {
        let mut wanted: Vec<Want> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let first = match piece.mapped {
                Mapped::At(place) => place,
                Mapped::Hole => {
                    wanted.push(Want::Zeros(piece.count));
                    continue;
                }
                Mapped::Lost => {
                    let block = piece.block;
                    return Err(VolumeError::Lost { object, block });
                }
            };
            let mut goes_on = false;
            for at in 0..piece.count {
                let place = first.after(at);
                let key = BlockKey {
                    volume: self.id,
                    object,
                    block: piece.block.after(at),
                    place,
                    segment_use: piece.segment_use,
                };
                let stored = self.stored_at(place, piece.segment_use)?;
                goes_on = match (stored, wanted.last_mut()) {
                    (Stored::Block(sum), Some(Want::Plain { sums, .. })) if goes_on => {
                        sums.push(sum);
                        true
                    }
                    (Stored::Block(sum), _) => {
                        let sums = vec![sum];
                        wanted.push(Want::Plain { place, key, sums });
                        true
                    }
                    (Stored::Pack(_) | Stored::Header, _) => {
                        wanted.push(Want::Packed { place, key, stored });
                        false
                    }
                    (Stored::Unknown, _) => {
                        let what = "checksum of the block, which is not found";
                        return Err(corrupt(&key)(wrong(what, 0, 1, 0)));
                    }
                };
            }
        }
        Ok(wanted)
    }

    /// Holds blocks that follow each other against their checksums; the key is that of the first.
    fn verify(&self, first: &BlockKey, sums: &[u32], content: &[u8]) -> Result<()> {
        for ((at, content), sum) in (0..).zip(content.chunks(BLOCK_BYTES)).zip(sums) {
            let key = BlockKey {
                block: first.block.after(at),
                place: first.place.after(at),
                ..*first
            };
            key.check(content, *sum)
                .map_err(|found| self.damaged(&key, found))?;
        }
        Ok(())
    }

    /// Takes a block out of its pack.
    fn unpack(
        &self,
        key: &BlockKey,
        stored: Stored,
        block: &[u8],
        content: &mut [u8],
    ) -> Result<()> {
        let (short, _) = content.as_chunks_mut::<BLOCK_BYTES>();
        let found = match short.first_mut() {
            Some(content) => open_pack(key, stored, block)
                .and_then(|packed| pack::find(&packed, key.object, key.block, content)),
            None => Ok(()),
        };
        found.map_err(|found| self.damaged(key, found))
    }

    fn damaged(&self, key: &BlockKey, found: Corruption) -> VolumeError {
        // Whoever writes it again heals it, also with what was there.
        self.state.lock().recent.clear();
        corrupt(key)(found)
    }

    /// What stands at a place in this use of its segment.
    fn stored_at(&self, place: Place, segment_use: Use) -> Result<Stored> {
        let segment = self.geometry.segment(place);
        let index = self.geometry.index(place);
        {
            let mut state = self.state.lock();
            if let Some(rows) = state.building.get(&segment)
                && state.segments.get(segment).segment_use == segment_use
            {
                let row = rows.get(index as usize).copied().flatten();
                return Ok(stored(row));
            }
            if let Some(found) = state.sums.find(segment, segment_use, index) {
                return Ok(found);
            }
        }
        let rows = self.load_rows(segment, segment_use)?;
        let sums = sums_of(&rows);
        let found = sums.get(index as usize).copied();
        self.state.lock().sums.insert(segment, segment_use, sums);
        Ok(found.unwrap_or(Stored::Unknown))
    }

    /// What the blocks of a closed segment are: from its table, or from its flights. Parts that
    /// are damaged in both are left out.
    pub(super) fn load_rows(&self, segment: Segment, segment_use: Use) -> Result<Rows> {
        let mut blocks = Block::zeros(self.geometry.table_blocks() as usize);
        let (disk, offset) = self.geometry.locate(self.geometry.table_place(segment));
        self.read_disk(disk, offset, &mut blocks, "reading the table of a segment")?;
        let rows_max = self.geometry.flight_blocks() as usize;
        let table = table::decode(bytes(&blocks), self.id, segment, segment_use, rows_max);
        if let Ok(rows) = table {
            return Ok(rows);
        }
        let blocks = self.read_segment(segment)?;
        let flights = self.scan(segment, &blocks);
        let mut rows: Rows = vec![None; rows_max];
        for header in flights.filter(|header| header.segment_use == segment_use) {
            add_rows(&mut rows, &header, |place| self.geometry.index(place));
        }
        Ok(rows)
    }

    /// All of a segment but its table.
    pub(super) fn read_segment(&self, segment: Segment) -> Result<Vec<Block>> {
        let mut blocks = Block::zeros(self.geometry.flight_blocks() as usize);
        let (disk, offset) = self.geometry.locate(self.geometry.place(segment, 0));
        self.read_disk(disk, offset, &mut blocks, "reading a segment")?;
        Ok(blocks)
    }

    pub(super) fn read_disk(
        &self,
        disk: usize,
        offset: u64,
        blocks: &mut [Block],
        doing: &'static str,
    ) -> Result<()> {
        let disk = &self.disks[disk];
        disk.read_at(offset, bytes_mut(blocks))
            .map_err(VolumeError::io(doing))
    }

    /// The flights of a segment, those behind a damaged one too: of this volume and at their
    /// place, of any use.
    pub(super) fn scan<'b>(
        &self,
        segment: Segment,
        blocks: &'b [Block],
    ) -> impl Iterator<Item = Header> + use<'b> {
        let (volume, geometry) = (self.id, self.geometry);
        let mut index = 0;
        std::iter::from_fn(move || {
            while index < blocks.len() {
                let place = geometry.place(segment, index as u32);
                let ours = |header: &Header| header.volume == volume && header.place == place;
                let header = read_header(blocks, index).filter(ours);
                let Some(header) = header else {
                    index += 1;
                    continue;
                };
                let end = index + header.blocks_in_all() as usize;
                if end > blocks.len() {
                    index += 1;
                    continue;
                }
                index = end;
                return Some(header);
            }
            None
        })
    }
}

/// The header that starts at a block, if one does.
pub(super) fn read_header(blocks: &[Block], index: usize) -> Option<Header> {
    let first = blocks.get(index)?;
    let length = Header::blocks_from_start(&first.0)?;
    Header::decode(bytes(blocks.get(index..index + length)?)).ok()
}

/// Adds the blocks of a flight to the rows of its segment.
pub(super) fn add_rows(rows: &mut Rows, header: &Header, index: impl Fn(Place) -> u32) {
    let inline = (!header.inline.is_empty()).then_some((header.place, Row::Header));
    let packs = header
        .packs()
        .map(|(place, sum)| (place, Row::Pack { sum }));
    let blocks = header.blocks().map(|(key, sum)| {
        let BlockKey { object, block, .. } = key;
        (key.place, Row::Block { object, block, sum })
    });
    for (place, row) in inline.into_iter().chain(packs).chain(blocks) {
        if let Some(room) = rows.get_mut(index(place) as usize) {
            *room = Some(row);
        }
    }
}

fn stored(row: Option<Row>) -> Stored {
    match row {
        None => Stored::Unknown,
        Some(Row::Block { sum, .. }) => Stored::Block(sum),
        Some(Row::Pack { sum }) => Stored::Pack(sum),
        Some(Row::Header) => Stored::Header,
    }
}

/// What rows say without the names.
pub(super) fn sums_of(rows: &Rows) -> SegmentSums {
    let sums: Vec<Stored> = rows.iter().map(|row| stored(*row)).collect();
    Arc::from(sums)
}

fn corrupt(key: &BlockKey) -> impl Fn(Corruption) -> VolumeError {
    let BlockKey {
        object,
        block,
        place,
        ..
    } = *key;
    move |corruption| VolumeError::Corrupt {
        object,
        block,
        place,
        corruption,
    }
}

/// The pack in a block of the log, held against its checksum; of `key` place, use and volume count.
pub(super) fn open_pack<'b>(
    key: &BlockKey,
    stored: Stored,
    block: &'b [u8],
) -> core::result::Result<Cow<'b, [u8]>, Corruption> {
    match stored {
        Stored::Pack(sum) => {
            let key = BlockKey {
                object: PACK_OBJECT,
                block: BlockIndex(0),
                ..*key
            };
            key.check(block, sum)?;
            Ok(Cow::Borrowed(block))
        }
        _ => {
            let header = Header::decode(block)?;
            let (place, found) = (key.place.0, header.place.0);
            equal("place of the flight", 32, place, found)?;
            let (segment_use, found) = (key.segment_use.0, header.segment_use.0);
            equal("use of the segment", 64, segment_use, found)?;
            let same = header.volume == key.volume;
            equal("volume of the flight", 16, 1_u64, u64::from(same))?;
            Ok(Cow::Owned(header.inline))
        }
    }
}
