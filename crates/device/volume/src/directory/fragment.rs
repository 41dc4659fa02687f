//! Writes that the kernel hands on in pieces.
//!
//! A buffered write goes through the kernel's page cache, page by page. Where memory of the program is not
//! there in the middle of a page of the file, `fuse_fill_write_pages` (fs/fuse/file.c of Linux 6.18) sends
//! what it has so far, and the rest as a second request: pages of a database in memory that is shared
//! between processes and not aligned come so, one in eight in a test. The kernel holds the lock of the inode for
//! the whole of the program's write, so nothing else changes the file in between, and the first request ends
//! where no page ends. What may be such a first piece is kept back until the rest is here, and is one group
//! with it. Where no rest comes the program wrote no more than that: then it is written with the next
//! thing that happens to the file, at its close, or after a little while.

use super::Tree;
use crate::block::BLOCK_BYTES;
use mount::{Ino, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Pieces that follow each other are kept back up to here; programs write pages of 64 KiB at most.
const FRAGMENT_BYTES_MAX: usize = 256 << 10;

/// A write whose rest may be on its way.
#[derive(Debug)]
struct Fragment {
    offset: u64,
    bytes: Vec<u8>,
    since: Instant,
}

impl Fragment {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What is kept back, of each file at most one.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    kept: Mutex<HashMap<Ino, Fragment>>,
    joined: AtomicU64,
}

/// What is to be done about a write.
pub(super) enum Piece {
    /// It is kept back.
    Kept,
    /// This is to be written, at this offset, as one.
    Whole(u64, Vec<u8>),
    /// It is to be written as it came.
    Plain,
}

impl Fragments {
    fn take(&self, ino: Ino) -> Option<Fragment> {
        let mut kept = self.kept.lock();
        // Nearly always there is none.
        if kept.is_empty() {
            None
        } else {
            kept.remove(&ino)
        }
    }

    /// Files whose fragments have waited for so long.
    fn old(&self, age: Duration) -> Vec<Ino> {
        let kept = self.kept.lock();
        let old = kept.iter().filter(|(_, one)| one.since.elapsed() >= age);
        old.map(|(ino, _)| *ino).collect()
    }
}

/// Whether the rest of a write that begins and ends here may come: only inside of a file, where pages are
/// overwritten.
fn may_go_on(offset: u64, end: u64, size: u64) -> bool {
    let unit = BLOCK_BYTES as u64;
    offset.is_multiple_of(unit) && !end.is_multiple_of(unit) && end < size
}

impl Tree {
    /// Writes that came in pieces and were put together, since the tree was opened.
    pub fn joined_writes(&self) -> u64 {
        self.fragments.joined.load(Ordering::Relaxed)
    }

    /// Looks whether a write is a piece of one: the first, or what goes on with it.
    pub(super) fn piece(&self, ino: Ino, offset: u64, data: &[u8], size: u64) -> Result<Piece> {
        #[cfg(test)]
        if self.planted(super::Plant::WriteInPieces) {
            return Ok(Piece::Plain);
        }
        let (offset, bytes) = match self.fragments.take(ino) {
            Some(mut first) if first.end() == offset => {
                first.bytes.extend_from_slice(data);
                self.fragments.joined.fetch_add(1, Ordering::Relaxed);
                (first.offset, Some(first.bytes))
            }
            Some(other) => {
                self.write_group(ino, other.offset, &other.bytes)?;
                (offset, None)
            }
            None => (offset, None),
        };
        let length = bytes.as_ref().map_or(data.len(), Vec::len);
        let end = offset.saturating_add(length as u64);
        if length < FRAGMENT_BYTES_MAX && may_go_on(offset, end, size) {
            let fragment = Fragment {
                offset,
                bytes: bytes.unwrap_or_else(|| data.to_vec()),
                since: Instant::now(),
            };
            self.fragments.kept.lock().insert(ino, fragment);
            return Ok(Piece::Kept);
        }
        Ok(match bytes {
            Some(bytes) => Piece::Whole(offset, bytes),
            None => Piece::Plain,
        })
    }

    /// Writes what is kept back of a file: something else happens to it, so no rest is on its way.
    pub(super) fn complete(&self, ino: Ino) -> Result<()> {
        match self.fragments.take(ino) {
            Some(fragment) => self.write_group(ino, fragment.offset, &fragment.bytes),
            None => Ok(()),
        }
    }

    /// Puts what is kept back of a file over what was read of it.
    pub(super) fn patch(&self, ino: Ino, offset: u64, buffer: &mut [u8]) {
        let kept = self.fragments.kept.lock();
        let Some(fragment) = kept.get(&ino) else {
            return;
        };
        let from = offset.max(fragment.offset);
        let to = (offset + buffer.len() as u64).min(fragment.end());
        if from >= to {
            return;
        }
        let part = |start: u64| (from - start) as usize..(to - start) as usize;
        let source = fragment.bytes.get(part(fragment.offset));
        if let (Some(room), Some(source)) = (buffer.get_mut(part(offset)), source) {
            room.copy_from_slice(source);
        }
    }

    /// Writes what waits for company, and what is kept back for so long. To be called now and then.
    ///
    /// # Errors
    /// Of the volume.
    pub fn settle_writes(&self, age: Duration) -> Result<()> {
        for ino in self.fragments.old(age) {
            if let Err(error) = self.complete(ino) {
                tracing::debug!(%error, ino = ino.0, "a write waits no longer");
            }
        }
        self.volume.settle().map_err(|error| super::errno(&error))
    }
}
