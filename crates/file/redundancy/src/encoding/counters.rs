//! How often each chunk was read and written since it was last looked at.

use super::ChunkIndex;
use std::collections::BTreeMap;

/// Counts of one chunk: 16 bytes, as in \[F\] section 4.3.4 (32 MiB for 1 TiB in use at chunks of
/// 512 KiB).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Counts {
    /// Read requests that touched the chunk.
    pub reads: u64,
    /// Write requests that touched it.
    pub writes: u64,
}

const _: () = assert!(size_of::<Counts>() == 16);

impl Counts {
    /// No request at all.
    pub const NONE: Counts = Counts {
        reads: 0,
        writes: 0,
    };
}

/// Chunks whose counts are kept together.
const BLOCK: u32 = 64;

/// The counts of one file, filled as chunks are touched: a file that is only opened costs
/// nothing, however large it is, and a chunk that is not touched has [`Counts::NONE`].
///
/// Memory: at most 16 bytes for each chunk up to the last one touched of its block of 64.
#[derive(Clone, Debug, Default)]
pub struct FileCounters {
    blocks: BTreeMap<u32, Vec<Counts>>,
}

impl FileCounters {
    /// Counts one read request on `chunk`.
    pub fn read(&mut self, chunk: ChunkIndex) {
        let counts = self.at(chunk);
        counts.reads = counts.reads.saturating_add(1);
    }

    /// Counts one write request on `chunk`.
    pub fn wrote(&mut self, chunk: ChunkIndex) {
        let counts = self.at(chunk);
        counts.writes = counts.writes.saturating_add(1);
    }

    /// What was counted on `chunk`.
    pub fn counts(&self, chunk: ChunkIndex) -> Counts {
        let block = self.blocks.get(&(chunk.0 / BLOCK));
        let counts = block.and_then(|block| block.get(place(chunk)));
        counts.copied().unwrap_or_default()
    }

    /// What was counted on `chunk`, which begins at zero again.
    pub fn take(&mut self, chunk: ChunkIndex) -> Counts {
        let key = chunk.0 / BLOCK;
        let Some(block) = self.blocks.get_mut(&key) else {
            return Counts::NONE;
        };
        let taken = block
            .get_mut(place(chunk))
            .map_or(Counts::NONE, std::mem::take);
        // The last touched chunk of a block frees what is behind it, and in the end the block.
        while block.last().is_some_and(|counts| *counts == Counts::NONE) {
            block.pop();
        }
        if block.is_empty() {
            self.blocks.remove(&key);
        }
        taken
    }

    /// Bytes of counts that are held now.
    pub fn bytes(&self) -> usize {
        let held: usize = self.blocks.values().map(Vec::len).sum();
        held * size_of::<Counts>()
    }

    fn at(&mut self, chunk: ChunkIndex) -> &mut Counts {
        let block = self.blocks.entry(chunk.0 / BLOCK).or_default();
        let place = place(chunk);
        if block.len() <= place {
            block.resize(place + 1, Counts::NONE);
        }
        &mut block[place]
    }
}

/// Where in its block a chunk's counts are.
fn place(chunk: ChunkIndex) -> usize {
    (chunk.0 % BLOCK) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_by_chunk_and_taken_once() {
        let mut counters = FileCounters::default();
        counters.wrote(ChunkIndex(3));
        counters.wrote(ChunkIndex(3));
        counters.read(ChunkIndex(3));
        counters.read(ChunkIndex(u32::MAX));
        let three = Counts {
            reads: 1,
            writes: 2,
        };
        assert_eq!(counters.counts(ChunkIndex(3)), three);
        assert_eq!(counters.counts(ChunkIndex(2)), Counts::NONE);
        assert_eq!(counters.take(ChunkIndex(3)), three);
        assert_eq!(counters.take(ChunkIndex(3)), Counts::NONE);
        assert_eq!(counters.take(ChunkIndex(u32::MAX)).reads, 1);
    }

    #[test]
    fn untouched_chunks_cost_nothing_and_taken_ones_are_freed() {
        let mut counters = FileCounters::default();
        assert_eq!(counters.counts(ChunkIndex(1 << 21)), Counts::NONE);
        assert_eq!(counters.bytes(), 0);
        counters.wrote(ChunkIndex(1 << 21));
        assert_eq!(counters.bytes(), 16, "only the touched chunk's");
        counters.wrote(ChunkIndex((1 << 21) + 5));
        assert_eq!(counters.bytes(), 6 * 16);
        counters.take(ChunkIndex((1 << 21) + 5));
        assert_eq!(counters.bytes(), 16);
        counters.take(ChunkIndex(1 << 21));
        assert_eq!(counters.bytes(), 0);
        assert!(counters.blocks.is_empty());
    }

    #[test]
    fn a_fully_touched_tebibyte_costs_32_mebibytes() {
        let mut counters = FileCounters::default();
        for chunk in 0..1 << 21 {
            counters.wrote(ChunkIndex(chunk));
        }
        assert_eq!(counters.bytes(), 32 << 20);
    }
}
