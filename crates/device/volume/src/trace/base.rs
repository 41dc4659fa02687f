//! What a disk was before anything was recorded.

use super::error::{Result, TraceError};
use codec::Checksum;
use env::Disk;

/// Bytes that are looked at as one.
const BLOCK: usize = 4096;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Calls `each` with the parts of a disk that are not all zeros, in order: offset and up to 4096
/// bytes.
pub(super) fn for_content(
    disk: &dyn Disk,
    mut each: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let length = disk.len().map_err(TraceError::io("the length of a disk"))?;
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let now = usize::try_from(length - at).map_or(CHUNK, |rest| rest.min(CHUNK));
        let chunk = buffer.get_mut(..now).unwrap_or_default();
        disk.read_at(at, chunk)
            .map_err(TraceError::io("reading a disk"))?;
        for block in chunk.chunks(BLOCK) {
            if Some(block) != ZEROS.get(..block.len()) {
                each(at, block)?;
            }
            at += block.len() as u64;
        }
    }
    Ok(())
}

/// CRC-32C over offset and content of each 4096 bytes that are not all zeros.
///
/// # Errors
/// Of the disk.
pub fn sum(disk: &dyn Disk) -> Result<u32> {
    let mut sum = Checksum::new();
    for_content(disk, |offset, block| {
        sum = std::mem::take(&mut sum)
            .with(&offset.to_le_bytes())
            .with(block);
        Ok(())
    })?;
    Ok(sum.finish())
}
