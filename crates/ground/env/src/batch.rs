//! Several requests to one disk in one call.

use crate::poison::Poison;
use crate::{Disk, Result};

/// Most requests of a batch that are under way at the same time; the rest of a longer batch
/// follows as they complete. (NVMe drives reach their random rate at a queue depth of 32 to 64;
/// a ring of 64 entries takes two pages.)
pub const BATCH_DEPTH: usize = 64;

/// One request of a batch: what [`Disk::read_at`], [`Disk::write_at`] and [`Disk::sync`] take,
/// with the same rules of alignment, length and error.
#[derive(Debug)]
pub enum Request<'a> {
    /// Fills `buffer` from `offset`. After an error its content is not specified.
    Read {
        /// In bytes.
        offset: u64,
        /// As long as what is to be read.
        buffer: &'a mut [u8],
    },
    /// Writes all of `data` at `offset`.
    Write {
        /// In bytes.
        offset: u64,
        /// What to write.
        data: &'a [u8],
    },
    /// Makes the writes durable that stand before it in the batch, and all that had returned
    /// before the batch.
    Sync,
}

/// Does what [`Disk::submit`] promises with the disk's other methods, one request after the other.
pub fn one_by_one(disk: &(impl Disk + ?Sized), batch: &mut [Request<'_>]) -> Vec<Result<()>> {
    let poison = Poison::default();
    let run = |request: &mut Request<'_>| match request {
        Request::Read { offset, buffer } => disk.read_at(*offset, buffer),
        Request::Write { offset, data } => {
            poison.check()?;
            poison.written(disk.write_at(*offset, data))
        }
        Request::Sync => {
            poison.check()?;
            poison.synced(disk.sync())
        }
    };
    batch.iter_mut().map(run).collect()
}

/// Splits a batch at its syncs and runs the parts in order: `reads_and_writes` gets a part without
/// syncs and answers for each of its requests, `sync` is called where one stood, with everything
/// before it complete.
pub(crate) fn in_phases<'a>(
    batch: &mut [Request<'a>],
    mut reads_and_writes: impl FnMut(&mut [Request<'a>]) -> Vec<Result<()>>,
    mut sync: impl FnMut() -> Result<()>,
) -> Vec<Result<()>> {
    let mut results = Vec::with_capacity(batch.len());
    for part in batch.split_inclusive_mut(|request| matches!(request, Request::Sync)) {
        let (phase, syncs) = match part.split_last_mut() {
            Some((Request::Sync, phase)) => (phase, true),
            _ => (part, false),
        };
        if !phase.is_empty() {
            results.extend(reads_and_writes(phase));
        }
        if syncs {
            results.push(sync());
        }
    }
    assert_eq!(results.len(), batch.len(), "one answer per request");
    results
}
