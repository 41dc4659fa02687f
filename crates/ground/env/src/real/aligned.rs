//! Memory that direct I/O accepts.

/// Alignment in bytes of memory, offset and length of a direct write: the largest logical block
/// size that Linux drivers report in practice, and the page size of x86-64.
pub(super) const ALIGNMENT: usize = 4096;

/// Whether `bytes` may go to a direct write as it is.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
}

/// A reusable buffer that starts at an aligned address.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// `length` bytes of zeros.
    pub(super) fn new(length: usize) -> AlignedBuffer {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(
            start < ALIGNMENT,
            "byte pointers can be aligned at run time"
        );
        AlignedBuffer { memory, start }
    }

    /// A copy of `bytes`, which must fit.
    pub(super) fn filled(&mut self, bytes: &[u8]) -> &[u8] {
        let room = &mut self.memory[self.start..self.start + bytes.len()];
        room.copy_from_slice(bytes);
        room
    }
}
