//! How the content of an object lies in blocks.

use crate::header::HEADER_AREA_BYTES;
use codec::{Corruption, Identity};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// Where the content of each block ends and its checksum stands.
pub(crate) const SUM_AT: usize = BLOCK_BYTES - 4;

/// Bytes of content in the first block.
pub const FIRST_CONTENT_BYTES: u64 = (SUM_AT - HEADER_AREA_BYTES) as u64;

/// Bytes of content in every other block.
pub const CONTENT_BYTES: u64 = SUM_AT as u64;

/// A block as it is in the file; the header area of the first is not part of it and is zeros here.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Block(Box<[u8; BLOCK_BYTES]>);

/// Where the content of block `index` starts in the block.
pub(crate) fn content_at(index: u64) -> usize {
    if index == 0 { HEADER_AREA_BYTES } else { 0 }
}

/// Blocks of an object of `length` bytes; at least one.
pub(crate) fn blocks(length: u64) -> u64 {
    1 + length
        .saturating_sub(FIRST_CONTENT_BYTES)
        .div_ceil(CONTENT_BYTES)
}

/// Block and position in the block of a byte of content.
pub(crate) fn locate(offset: u64) -> (u64, usize) {
    match offset.checked_sub(FIRST_CONTENT_BYTES) {
        None => (0, HEADER_AREA_BYTES + offset as usize),
        Some(behind) => (
            1 + behind / CONTENT_BYTES,
            (behind % CONTENT_BYTES) as usize,
        ),
    }
}

/// Position in the content of the first byte of block `index`.
pub(crate) fn content_offset(index: u64) -> u64 {
    match index.checked_sub(1) {
        None => 0,
        Some(before) => FIRST_CONTENT_BYTES + before * CONTENT_BYTES,
    }
}

/// Position of a block in the file.
pub(crate) fn file_at(index: u64) -> u64 {
    index * BLOCK_BYTES as u64
}

impl Block {
    /// Zeros, with a checksum that does not verify.
    pub(crate) fn empty() -> Block {
        Block(Box::new([0; BLOCK_BYTES]))
    }

    /// Zeros as content, with their checksum.
    pub(crate) fn zeros(identity: &Identity, index: u64) -> Block {
        let mut block = Block::empty();
        block.seal(identity, index);
        block
    }

    /// The whole block, to be filled from the file.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0[..]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }

    /// The content.
    pub(crate) fn content(&self, index: u64) -> &[u8] {
        &self.0[content_at(index)..SUM_AT]
    }

    pub(crate) fn content_mut(&mut self, index: u64) -> &mut [u8] {
        &mut self.0[content_at(index)..SUM_AT]
    }

    /// The stored checksum.
    pub(crate) fn sum(&self) -> &[u8] {
        &self.0[SUM_AT..]
    }

    /// Puts the right checksum in place.
    pub(crate) fn seal(&mut self, identity: &Identity, index: u64) {
        let sum = codec::page_sum(identity, index, self.content(index));
        self.0[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Holds the content against its checksum; the offset is that of the block in the file.
    pub(crate) fn verify(&self, identity: &Identity, index: u64) -> Result<(), Corruption> {
        let stored = self.sum().iter().rev();
        let stored = stored.fold(0, |value, byte| value << 8 | u32::from(*byte));
        codec::check_page(identity, index, self.content(index), stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_content_has_one_place() {
        let mut last = (0, HEADER_AREA_BYTES - 1);
        for offset in 0..FIRST_CONTENT_BYTES + 3 * CONTENT_BYTES {
            let (block, at) = locate(offset);
            let next = if last.1 + 1 == SUM_AT {
                (last.0 + 1, 0)
            } else {
                (last.0, last.1 + 1)
            };
            assert_eq!((block, at), next, "{offset}");
            assert_eq!(blocks(offset + 1), block + 1, "{offset}");
            last = next;
        }
        assert_eq!(blocks(0), 1);
    }
}
