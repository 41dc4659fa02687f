//! The trace's addresses as files of a set: which there are, and where each is at home.

use crate::simulate::trace::{Kind, Request, Ticks, Volume};
use redundancy::encoding::{ChunkBytes, ChunkId, ChunkIndex, PAGE_BYTES};
use redundancy::label::{ObjectId, StoreIndex};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What a first look at a trace finds.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Bytes of an extent.
    extent: u64,
    /// Extents that a request touches.
    extents: HashSet<(Volume, u64)>,
    /// Reads.
    pub(super) reads: u64,
    /// Writes.
    pub(super) writes: u64,
    /// Bytes of all reads.
    pub(super) bytes_read: u128,
    /// Bytes of all writes.
    pub(super) bytes_written: u128,
    /// Requests of no bytes.
    pub(super) empty: u64,
    /// Times of the first and last request.
    pub(super) times: Option<(Ticks, Ticks)>,
}

impl Survey {
    /// Nothing seen yet.
    pub(super) fn new(extent: u64) -> Survey {
        Survey {
            extent,
            ..Survey::default()
        }
    }

    /// Takes a request in.
    pub(super) fn add(&mut self, request: &Request) {
        let (first, _) = self.times.unwrap_or((request.at, request.at));
        self.times = Some((first, request.at));
        let (count, bytes) = match request.kind {
            Kind::Read => (&mut self.reads, &mut self.bytes_read),
            Kind::Write => (&mut self.writes, &mut self.bytes_written),
        };
        *count += 1;
        *bytes += u128::from(request.bytes);
        if request.bytes == 0 {
            self.empty += 1;
        }
        for extent in covered(request.offset, request.bytes, self.extent) {
            self.extents.insert((request.volume, extent));
        }
    }
}

/// The units of `unit` bytes that a range touches.
fn covered(offset: u64, bytes: u64, unit: u64) -> Range<u64> {
    if bytes == 0 {
        return 0..0;
    }
    offset / unit..(offset + (bytes - 1)) / unit + 1
}

/// A part of a request that lies in one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// The chunk.
    pub(super) chunk: ChunkId,
    /// Its first byte, from the chunk's beginning.
    pub(super) from: u64,
    /// Behind its last byte.
    pub(super) to: u64,
}

impl Piece {
    /// The chunk's pages that it touches.
    pub(super) fn pages(self) -> Range<u32> {
        let pages = covered(self.from, self.to - self.from, PAGE_BYTES);
        // A chunk has at most 64 MiB, 16384 pages.
        pages.start as u32..pages.end as u32
    }

    /// Whether it covers all of a page that it touches.
    pub(super) fn covers(self, page: u32) -> bool {
        let start = u64::from(page) * PAGE_BYTES;
        self.from <= start && start + PAGE_BYTES <= self.to
    }
}

/// The extents that the trace touches, each a file of its own.
#[derive(Debug)]
pub(super) struct Space {
    extent: u64,
    stores: u8,
    numbers: HashMap<(Volume, u64), u64>,
}

impl Space {
    /// Of what a survey found, on so many stores.
    pub(super) fn new(survey: &Survey, stores: u8) -> Space {
        let mut extents: Vec<(Volume, u64)> = survey.extents.iter().copied().collect();
        extents.sort_unstable();
        Space {
            extent: survey.extent,
            stores,
            numbers: extents.into_iter().zip(0..).collect(),
        }
    }

    /// Extents.
    pub(super) fn len(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Bytes of an extent.
    pub(super) fn extent(&self) -> u64 {
        self.extent
    }

    /// Bytes of all extents: the capacity.
    pub(super) fn bytes(&self) -> u64 {
        self.len().saturating_mul(self.extent)
    }

    /// Where an extent is at home: in turn, as even as free space makes it.
    pub(super) fn home(&self, object: ObjectId) -> StoreIndex {
        StoreIndex((object.0 % u64::from(self.stores)) as u8)
    }

    /// Where a chunk is in a table of all chunks of this size.
    pub(super) fn place(&self, chunk: ChunkId, size: ChunkBytes) -> usize {
        let each = self.extent / size.get();
        (chunk.object.0 * each + u64::from(chunk.index.0)) as usize
    }

    /// A request cut at the boundaries of chunks. What is on an extent that the survey did not
    /// see, because the file changed, is left out.
    pub(super) fn pieces(
        &self,
        request: &Request,
        size: ChunkBytes,
    ) -> impl Iterator<Item = Piece> {
        let (size, volume) = (size.get(), request.volume);
        let (offset, end) = (request.offset, request.offset + request.bytes);
        covered(offset, request.bytes, size).filter_map(move |chunk| {
            let start = chunk * size;
            let object = *self.numbers.get(&(volume, start / self.extent))?;
            // An extent has at most 64 MiB, 1024 of the smallest chunks.
            let index = (start % self.extent / size) as u32;
            Some(Piece {
                chunk: ChunkId {
                    object: ObjectId(object),
                    index: ChunkIndex(index),
                },
                from: offset.max(start) - start,
                to: (end - start).min(size),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(volume: u32, offset: u64, bytes: u64) -> Request {
        Request {
            at: Ticks(0),
            volume: Volume(volume),
            kind: Kind::Write,
            offset,
            bytes,
        }
    }

    fn space(requests: &[Request]) -> Space {
        let mut survey = Survey::new(64 * MIB);
        for request in requests {
            survey.add(request);
        }
        Space::new(&survey, 3)
    }

    #[test]
    fn touched_extents_are_files_at_home_in_turn() {
        let requests = [
            write(1, 0, 1),
            write(0, 640 * MIB, 4096),
            write(0, 64 * MIB - 1, 2),
        ];
        let space = space(&requests);
        assert_eq!(space.bytes(), 4 * 64 * MIB);
        let home = |request: &Request| {
            let chunk = ChunkBytes::new(64 * MIB).expect("a chunk size");
            let pieces = space.pieces(request, chunk);
            pieces
                .map(|piece| (piece.chunk.object.0, space.home(piece.chunk.object).0))
                .collect::<Vec<_>>()
        };
        assert_eq!(home(&requests[2]), [(0, 0), (1, 1)]);
        assert_eq!(home(&requests[1]), [(2, 2)]);
        assert_eq!(home(&requests[0]), [(3, 0)]);
    }

    #[test]
    fn a_request_is_cut_at_chunks_and_pages() {
        let request = write(0, MIB - 100, 5000);
        let space = space(&[request]);
        let size = ChunkBytes::new(MIB).expect("a chunk size");
        let pieces: Vec<Piece> = space.pieces(&request, size).collect();
        let told: Vec<(u32, u64, u64, Range<u32>)> = pieces
            .iter()
            .map(|piece| (piece.chunk.index.0, piece.from, piece.to, piece.pages()))
            .collect();
        assert_eq!(told, [(0, MIB - 100, MIB, 255..256), (1, 0, 4900, 0..2)]);
        assert!(pieces[1].covers(0) && !pieces[1].covers(1) && !pieces[0].covers(255));
        assert_eq!(space.pieces(&write(0, 5, 0), size).count(), 0);
    }

    #[test]
    fn the_last_address_does_not_overflow() {
        let request = write(0, u64::MAX - 5, 5);
        let space = space(&[request]);
        let size = ChunkBytes::DEFAULT;
        assert_eq!(space.pieces(&request, size).count(), 1);
    }
}
