//! Blocks in memory that direct I/O accepts.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes of a block: the unit of the map, of checksums and of the log.
pub const BLOCK_BYTES: usize = 4096;

/// A block, aligned to its size.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C, align(4096))]
pub(crate) struct Block(pub(crate) [u8; BLOCK_BYTES]);

const _: () = assert!(size_of::<Block>() == BLOCK_BYTES);

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block with CRC-32C {:08x}", codec::crc32c(&self.0))
    }
}

impl Block {
    /// `count` blocks of zeros.
    pub(crate) fn zeros(count: usize) -> Vec<Block> {
        Block::new_vec_zeroed(count).expect("memory for blocks")
    }
}

/// The bytes of blocks.
pub(crate) fn bytes(blocks: &[Block]) -> &[u8] {
    blocks.as_bytes()
}

/// The bytes of blocks, to be changed.
pub(crate) fn bytes_mut(blocks: &mut [Block]) -> &mut [u8] {
    blocks.as_mut_bytes()
}

/// `content` in whole blocks, zeros behind it.
pub(crate) fn padded(content: &[u8]) -> Vec<Block> {
    let mut blocks = Block::zeros(content.len().div_ceil(BLOCK_BYTES).max(1));
    if let Some(room) = bytes_mut(&mut blocks).get_mut(..content.len()) {
        room.copy_from_slice(content);
    }
    blocks
}

/// How many blocks hold this many bytes.
pub(crate) const fn blocks_for(byte_count: usize) -> usize {
    byte_count.div_ceil(BLOCK_BYTES)
}

/// Whether direct I/O takes this memory as it is.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(BLOCK_BYTES) == 0
}
