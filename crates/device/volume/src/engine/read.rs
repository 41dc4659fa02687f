//! Reading: look up, read without a lock, hold against the checksums.

use super::Volume;
use super::state::State;
use super::sums::SegmentSums;
use crate::OBJECT_BLOCKS_MAX;
use crate::block::{BLOCK_BYTES, Block, bytes, bytes_mut, is_aligned};
use crate::corrupt::wrong;
use crate::error::{Result, VolumeError};
use crate::flight::{BlockKey, Header};
use crate::id::{BlockIndex, ObjectId, Place, Segment, Use};
use crate::map::Mapped;
use crate::table::{self, Row, Rows};
use env::Request;
use parking_lot::MutexGuard;
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
        let mut batches: Vec<Vec<Request<'_>>> = self.disks.iter().map(|_| Vec::new()).collect();
        let mut rest = &mut *buffer;
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.count as usize * BLOCK_BYTES);
            rest = later;
            match piece.mapped {
                Mapped::Hole => now.fill(0),
                Mapped::Lost => {
                    let block = piece.block;
                    return Err(VolumeError::Lost { object, block });
                }
                Mapped::At(place) => {
                    let (disk, offset) = self.geometry.locate(place);
                    let buffer = now;
                    if let Some(batch) = batches.get_mut(disk) {
                        batch.push(Request::Read { offset, buffer });
                    }
                }
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
        let mut rest = &*buffer;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.count as usize * BLOCK_BYTES);
            rest = later;
            if let Mapped::At(place) = piece.mapped {
                self.verify(object, piece, place, now)?;
            }
        }
        Ok(())
    }

    fn verify(&self, object: ObjectId, piece: &Piece, first: Place, content: &[u8]) -> Result<()> {
        for (at, content) in (0..).zip(content.chunks(BLOCK_BYTES)) {
            let place = first.after(at);
            let block = piece.block.after(at);
            let key = BlockKey {
                volume: self.id,
                object,
                block,
                place,
                segment_use: piece.segment_use,
            };
            let corrupt = |corruption| VolumeError::Corrupt {
                object,
                block,
                place,
                corruption,
            };
            let stored = self.sum_of(place, piece.segment_use)?.ok_or_else(|| {
                corrupt(wrong("checksum of the block, which is not found", 0, 1, 0))
            })?;
            key.check(content, stored).map_err(|found| {
                // Whoever writes it again heals it, also with what was there.
                self.state.lock().recent.clear();
                corrupt(found)
            })?;
        }
        Ok(())
    }

    /// The checksum that a block should have; `None` where nothing tells.
    fn sum_of(&self, place: Place, segment_use: Use) -> Result<Option<u32>> {
        let segment = self.geometry.segment(place);
        let index = self.geometry.index(place);
        {
            let mut state = self.state.lock();
            if let Some(rows) = state.building.get(&segment)
                && state.segments.get(segment).segment_use == segment_use
            {
                let row = rows.get(index as usize).copied().flatten();
                return Ok(row.map(|row| row.sum));
            }
            if let Some(found) = state.sums.find(segment, segment_use, index) {
                return Ok(found);
            }
        }
        let rows = self.load_rows(segment, segment_use)?;
        let sums = sums_of(&rows);
        let found = sums.get(index as usize).copied().flatten();
        self.state.lock().sums.insert(segment, segment_use, sums);
        Ok(found)
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
                let end = index + (header.header_blocks() + header.data_blocks()) as usize;
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
    for ((object, block, place), sum) in header.blocks().zip(&header.sums) {
        if let Some(row) = rows.get_mut(index(place) as usize) {
            let sum = *sum;
            *row = Some(Row { object, block, sum });
        }
    }
}

/// The checksums of rows.
pub(super) fn sums_of(rows: &Rows) -> SegmentSums {
    let sums: Vec<Option<u32>> = rows.iter().map(|row| row.map(|row| row.sum)).collect();
    Arc::from(sums)
}
