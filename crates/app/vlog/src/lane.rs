//! A lane: what was appended and is not written yet, and the file that it goes to.

use crate::block::{BlockHeader, KILLS_MAX, RECORD_HEADER_BYTES, push_record};
use crate::error::VlogError;
use crate::position::{ORDINALS_MAX, Position};
use crate::table::Segment;
use env::Disk;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// A chunk takes no more records once its body has this many bytes: a block that recovery reads in
/// one piece, large enough that its header does not count.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Chunks whose memory is kept for the next ones: fresh memory of that size comes page by page from the
/// kernel each time.
const SPARE_CHUNKS: usize = 8;

/// A block in the making: what is appended until the lane is written.
pub(crate) struct Chunk {
    /// Chunks of a lane are counted from 1 in each opening.
    pub(crate) id: u64,
    pub(crate) segment: Arc<Segment>,
    pub(crate) records: u32,
    pub(crate) kills: Vec<u64>,
    pub(crate) body: Vec<u8>,
    pub(crate) group: u64,
    pub(crate) parts: u32,
}

impl Chunk {
    /// As a block whose file was durable up to `durable`.
    pub(crate) fn header(&self, durable: u64, last: bool) -> BlockHeader {
        BlockHeader {
            segment: self.segment.number,
            records: self.records,
            durable,
            group: self.group,
            parts: self.parts,
            last,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        crate::block::HEADER_BYTES + self.kills.len() * 8 + self.body.len()
    }
}

/// What a lane has in memory.
#[derive(Default)]
pub(crate) struct Buffer {
    pub(crate) chunks: VecDeque<Chunk>,
    /// Bytes of them.
    pub(crate) bytes: usize,
    /// The newest chunk's id.
    pub(crate) last_chunk: u64,
    /// Where records go now.
    pub(crate) segment: Option<Arc<Segment>>,
    /// What its file will have at least.
    pub(crate) segment_bytes: u64,
    /// Whether the flusher waits to be woken.
    pub(crate) parked: bool,
    /// Why nothing can be written now.
    pub(crate) full: Option<VlogError>,
    /// Memory of chunks that were written, to be used again.
    spare: Vec<Vec<u8>>,
}

/// What a part of a group, or a single change, brings to a lane.
#[derive(Default)]
pub(crate) struct Need {
    pub(crate) records: usize,
    pub(crate) kills: usize,
    pub(crate) body: usize,
}

impl Need {
    pub(crate) fn record(&mut self, payload: usize) {
        self.records += 1;
        self.body = self.body.saturating_add(RECORD_HEADER_BYTES + payload);
    }
}

impl Buffer {
    /// Whether the segment in use takes this, with at most `segment_bytes` in its file. A part that is
    /// larger than a segment gets one for itself.
    pub(crate) fn has_room(&self, need: &Need, segment_bytes: u64) -> bool {
        let Some(segment) = &self.segment else {
            return false;
        };
        let records = segment.live.lock().records();
        let bytes = (need.body + need.kills * 8) as u64;
        (records as usize).saturating_add(need.records) <= ORDINALS_MAX as usize
            && (self.segment_bytes == 0 || self.segment_bytes + bytes <= segment_bytes)
    }

    /// The chunk for a part; a group over several lanes has one for itself.
    pub(crate) fn chunk(&mut self, need: &Need, group: Option<(u64, u32)>) -> Option<&mut Chunk> {
        let segment = self.segment.clone()?;
        let joins = group.is_none()
            && self.chunks.back().is_some_and(|chunk| {
                chunk.group == 0
                    && chunk.segment.number == segment.number
                    && chunk.body.len() + need.body <= CHUNK_BYTES
                    && chunk.kills.len() + need.kills <= KILLS_MAX
            });
        if !joins {
            self.last_chunk += 1;
            let (group, parts) = group.unwrap_or((0, 0));
            self.bytes += crate::block::HEADER_BYTES;
            self.segment_bytes += crate::block::HEADER_BYTES as u64;
            self.chunks.push_back(Chunk {
                id: self.last_chunk,
                segment,
                records: 0,
                kills: Vec::new(),
                body: self.spare.pop().unwrap_or_default(),
                group,
                parts,
            });
        }
        let bytes = need.body + need.kills * 8;
        self.bytes += bytes;
        self.segment_bytes += bytes as u64;
        self.chunks.back_mut()
    }
}

impl Chunk {
    /// Adds a record; it is live from now on.
    pub(crate) fn push(&mut self, stream: u32, payload: &[u8]) -> Position {
        let ordinal = self.segment.live.lock().push();
        push_record(&mut self.body, stream, ordinal, payload);
        self.records += 1;
        Position::new(self.segment.slot, ordinal)
    }
}

/// The file that a lane writes to.
pub(crate) struct Writing {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment: Arc<Segment>,
    /// How messages call it.
    pub(crate) shown: String,
    pub(crate) directory: u32,
    /// Where the next write goes.
    pub(crate) at: u64,
    /// Just behind the last block.
    pub(crate) end: u64,
    /// What of it is durable.
    pub(crate) durable: u64,
    pub(crate) kills: u64,
    /// The largest number of a group in it.
    pub(crate) last_group: u64,
}

/// What only who writes the lane uses.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) file: Option<Writing>,
    /// Made, durable, and perhaps not yet in the manifest.
    pub(crate) next: Option<Writing>,
    /// The last chunk that was written, and the last that is on the medium.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Memory of writes, used again.
    pub(crate) bytes: Vec<u8>,
    /// Memory of chunks that were written.
    pub(crate) spare: Vec<Vec<u8>>,
}

/// Keeps the memory of a chunk that was written, if it is of the usual size.
pub(crate) fn keep(spare: &mut Vec<Vec<u8>>, mut body: Vec<u8>) {
    if spare.len() < SPARE_CHUNKS && body.capacity() <= 2 * CHUNK_BYTES {
        body.clear();
        spare.push(body);
    }
}

impl Writer {
    /// Gives the memory of chunks that were written back to who appends.
    pub(crate) fn give_back(&mut self, buffer: &mut Buffer) {
        for body in self.spare.drain(..) {
            keep(&mut buffer.spare, body);
        }
    }
}

/// One lane. Locks are taken in this order: `writer`, then `buffer` (several by rising lane).
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) buffer: Mutex<Buffer>,
    /// There is something to write.
    pub(crate) work: Condvar,
    /// There is room in the buffer.
    pub(crate) room: Condvar,
    pub(crate) writer: Mutex<Writer>,
}
