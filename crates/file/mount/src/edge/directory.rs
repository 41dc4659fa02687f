//! Reading directories.
//!
//! An entry's offset is a hash of its name, so it is the same in every snapshot: a reader who goes
//! on in a newer snapshot neither misses nor repeats an entry that was there all the time, and the
//! kernel may keep the entries of one reader for the next (`FOPEN_CACHE_DIR`).

use super::Edge;
use crate::convert::{GENERATION, TTL, errno, file_attr, file_type};
use crate::{Errno, Ino, Kind, Listing};
use fuser::{
    FileHandle, FileType, FopenFlags, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyOpen,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offset after `.`.
const AFTER_SELF: u64 = 1;
/// Offset after `..`.
const AFTER_PARENT: u64 = 2;

/// A directory's entries in the order of their offsets.
struct Snapshot {
    listing: Listing,
    /// Offset and index in the listing, sorted.
    order: Vec<(u64, u32)>,
}

/// What one open directory reads from; `None` before its first read.
type Slot = Arc<Mutex<Option<Arc<Snapshot>>>>;

/// The open directories.
#[derive(Default)]
pub(super) struct Open {
    last: AtomicU64,
    handles: Mutex<HashMap<u64, Slot>>,
}

impl Open {
    fn open(&self) -> FileHandle {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.handles.lock().insert(handle, Arc::default());
        FileHandle(handle)
    }

    pub(super) fn close(&self, handle: FileHandle) {
        self.handles.lock().remove(&handle.0);
    }

    fn get(&self, handle: FileHandle) -> Result<Slot, Errno> {
        let handles = self.handles.lock();
        handles.get(&handle.0).cloned().ok_or(Errno::BADF)
    }
}

/// 61 bits of FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) above the offsets of the two
/// special entries. Two names with the same offset are told apart by [`Snapshot::new`].
fn offset_of(name: &OsStr) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.as_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    // The low bits of FNV are the best mixed ones, and an offset must not be negative.
    ((hash ^ hash >> 61) & ((1 << 61) - 1)) + AFTER_PARENT + 1
}

impl Snapshot {
    fn new(listing: Listing) -> Snapshot {
        let mut order: Vec<(u64, u32)> = (0..listing.len())
            .filter_map(|index| {
                let (name, ..) = listing.get(index)?;
                Some((offset_of(name), u32::try_from(index).ok()?))
            })
            .collect();
        order.sort_unstable_by(|a, b| {
            let name = |index: u32| listing.get(index as usize).map(|(name, ..)| name);
            a.0.cmp(&b.0).then_with(|| name(a.1).cmp(&name(b.1)))
        });
        let mut least = 0;
        for (offset, _) in &mut order {
            *offset = (*offset).max(least);
            least = *offset + 1;
        }
        Snapshot { listing, order }
    }

    /// Entries after `offset`, each with its own offset.
    fn after(&self, offset: u64) -> impl Iterator<Item = (u64, &OsStr, Kind, Ino)> {
        let start = self.order.partition_point(|(each, _)| *each <= offset);
        let rest = self.order.get(start..).unwrap_or(&[]);
        rest.iter().filter_map(|(offset, index)| {
            let (name, kind, ino) = self.listing.get(*index as usize)?;
            Some((*offset, name, kind, ino))
        })
    }
}

impl Edge {
    pub(super) fn open_directory(&self, _: Ino, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(self.shared.directories.open(), flags);
    }

    /// The handle's snapshot; a new one at the start of the directory.
    fn snapshot(&self, dir: Ino, handle: FileHandle, offset: u64) -> Result<Arc<Snapshot>, Errno> {
        let slot = self.shared.directories.get(handle)?;
        let mut slot = slot.lock();
        if let Some(snapshot) = slot.as_ref().filter(|_| offset > 0) {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(Snapshot::new(self.shared.layer.list(dir)?));
        *slot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn parent(&self, dir: Ino) -> Ino {
        self.shared
            .layer
            .name_of(dir)
            .map_or(Ino::ROOT, |(parent, _)| parent)
    }

    pub(super) fn read_directory(
        &self,
        dir: Ino,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let snapshot = match self.snapshot(dir, handle, offset) {
            Ok(snapshot) => snapshot,
            Err(error) => return reply.error(errno(error)),
        };
        let directory = FileType::Directory;
        let own = INodeNo(dir.0);
        if offset < AFTER_SELF && reply.add(own, AFTER_SELF, directory, ".") {
            return reply.ok();
        }
        let parent = INodeNo(self.parent(dir).0);
        if offset < AFTER_PARENT && reply.add(parent, AFTER_PARENT, directory, "..") {
            return reply.ok();
        }
        for (offset, name, kind, ino) in snapshot.after(offset) {
            // Where the layer did not say the number, the entry is looked up: users compare
            // d_ino with st_ino (`ls -i`), and a made-up one would be wrong.
            let ino = if ino == Ino(0) {
                match self.shared.find(dir, name) {
                    Ok((ino, _)) => {
                        self.shared.forget(ino, 1);
                        ino
                    }
                    // Gone since the snapshot was taken.
                    Err(_) => continue,
                }
            } else {
                ino
            };
            if reply.add(INodeNo(ino.0), offset, file_type(kind), name) {
                break;
            }
        }
        reply.ok();
    }

    pub(super) fn read_directory_plus(
        &self,
        dir: Ino,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let snapshot = match self.snapshot(dir, handle, offset) {
            Ok(snapshot) => snapshot,
            Err(error) => return reply.error(errno(error)),
        };
        for (own, after, name) in [
            (dir, AFTER_SELF, "."),
            (self.parent(dir), AFTER_PARENT, ".."),
        ] {
            // The kernel takes only number and type of these two and counts no reference.
            if offset < after {
                let Ok(attr) = self.shared.layer.attr(dir) else {
                    continue;
                };
                let attr = file_attr(own, &attr);
                if reply.add(INodeNo(own.0), after, name, &TTL, &attr, GENERATION) {
                    return reply.ok();
                }
            }
        }
        for (offset, name, ..) in snapshot.after(offset) {
            // An entry that is gone since the snapshot was taken is left out.
            let Ok((ino, attr)) = self.shared.find(dir, name) else {
                continue;
            };
            let attr = file_attr(ino, &attr);
            if reply.add(INodeNo(ino.0), offset, name, &TTL, &attr, GENERATION) {
                // There was no room for it: the kernel has not got this reference.
                self.shared.forget(ino, 1);
                break;
            }
        }
        reply.ok();
    }
}

#[cfg(test)]
mod tests;
