//! Atomic writes of several ranges of a file, with the commands of F2FS.

use super::{Tree, content_of};
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::{Change, ObjectId};
use mount::opens::{Answer, Handle, Pages};
use mount::{Caller, Errno, Ino, Kind, Result};
use parking_lot::{Mutex, RwLock};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Commands, as ioctl(2) has them (include/uapi/linux/f2fs.h; F2FS_IOCTL_MAGIC is 0xf5):
/// `_IO(0xf5, 1)`, `_IO(0xf5, 2)`, `_IO(0xf5, 5)`, `_IO(0xf5, 25)`, `_IOR(0xf5, 12, __u32)`.
pub mod command {
    /// `F2FS_IOC_START_ATOMIC_WRITE`.
    pub const START: u32 = 0xf501;
    /// `F2FS_IOC_COMMIT_ATOMIC_WRITE`.
    pub const COMMIT: u32 = 0xf502;
    /// `F2FS_IOC_ABORT_ATOMIC_WRITE`, of old `F2FS_IOC_ABORT_VOLATILE_WRITE`.
    pub const ABORT: u32 = 0xf505;
    /// `F2FS_IOC_START_ATOMIC_REPLACE`.
    pub const REPLACE: u32 = 0xf519;
    /// `F2FS_IOC_GET_FEATURES`.
    pub const FEATURES: u32 = 0x8004_f50c;
}

/// The feature "atomic write" (`F2FS_FEATURE_ATOMIC_WRITE` of fs/f2fs/f2fs.h).
const FEATURE_ATOMIC_WRITE: u32 = 0x4;

/// Most bytes that one file may have between start and commit, and all together: they are in
/// memory.
pub const BATCH_BYTES_MAX: usize = 64 << 20;
const ALL_BYTES_MAX: usize = 256 << 20;

/// Writes of a file that are not committed.
#[derive(Debug)]
pub(super) struct Batch {
    owner: Handle,
    /// The process that started it; closing the handle in another does not end it.
    process: u32,
    /// Whether the file begins empty: what is committed is all that it has then.
    replaces: bool,
    size: u64,
    blocks: BTreeMap<u32, Box<Block>>,
    /// Committed or dropped: who still has it goes on without.
    ended: bool,
}

/// The batches that are open, each of one file.
#[derive(Debug, Default)]
pub(super) struct Batches {
    open: RwLock<HashMap<Ino, Arc<Mutex<Batch>>>>,
    bytes: Mutex<usize>,
}

impl Batches {
    fn get(&self, ino: Ino) -> Option<Arc<Mutex<Batch>>> {
        self.open.read().get(&ino).cloned()
    }

    /// Takes room for blocks; `false` where there is none.
    fn take_room(&self, blocks: usize) -> bool {
        let mut all = self.bytes.lock();
        let fits = *all + blocks * BLOCK_BYTES <= ALL_BYTES_MAX;
        if fits {
            *all += blocks * BLOCK_BYTES;
        }
        fits
    }

    /// Ends a batch.
    fn end(&self, ino: Ino, batch: &mut Batch) {
        batch.ended = true;
        *self.bytes.lock() -= std::mem::take(&mut batch.blocks).len() * BLOCK_BYTES;
        self.open.write().remove(&ino);
    }
}

impl Tree {
    /// Runs `act` with the batch of a file; `None` where it has none.
    pub(super) fn with_batch<R>(&self, ino: Ino, act: impl FnOnce(&mut Batch) -> R) -> Option<R> {
        let batch = self.batches.get(ino)?;
        let mut batch = batch.lock();
        (!batch.ended).then(|| act(&mut batch))
    }

    pub(super) fn staged_size(&self, ino: Ino) -> Option<u64> {
        self.with_batch(ino, |batch| batch.size)
    }

    /// EBUSY where a file has a batch: only writes can be part of one.
    pub(super) fn no_batch(&self, ino: Ino) -> Result<()> {
        match self.batches.get(ino) {
            Some(_) => Err(Errno::BUSY),
            None => Ok(()),
        }
    }

    /// Answers a command of this module; `None` for others.
    pub(super) fn atomic_command(
        &self,
        caller: &Caller,
        ino: Ino,
        handle: Handle,
        number: u32,
    ) -> Option<Answer> {
        let done = |result: Result<()>| Answer::of(result.map(|()| Vec::new()));
        Some(match number {
            command::FEATURES => Answer::of(Ok(FEATURE_ATOMIC_WRITE.to_ne_bytes().to_vec())),
            command::START => done(self.start_batch(caller, ino, handle, false)),
            command::REPLACE => {
                let started = self.start_batch(caller, ino, handle, true);
                let pages = match started {
                    Ok(()) => Pages::Drop,
                    Err(_) => Pages::Keep,
                };
                Answer {
                    pages,
                    ..done(started)
                }
            }
            command::COMMIT => {
                let (result, pages) = self.commit_batch(ino, handle);
                Answer {
                    pages,
                    ..done(result)
                }
            }
            command::ABORT => Answer {
                pages: self.drop_batch(ino, |batch| batch.owner == handle),
                ..done(Ok(()))
            },
            _ => return None,
        })
    }

    /// As f2fs_ioc_start_atomic_write in fs/f2fs/file.c: of a regular file that the caller owns, by
    /// a handle that may write.
    fn start_batch(&self, caller: &Caller, ino: Ino, handle: Handle, replaces: bool) -> Result<()> {
        let inode = self.inode(ino)?;
        if inode.kind != Kind::File {
            return Err(Errno::INVAL);
        }
        if !self.handles.lock().writes(handle) {
            return Err(Errno::BADF);
        }
        if caller.uid != 0 && caller.uid != inode.uid {
            return Err(Errno::ACCESS);
        }
        // F2FS says yes to whoever starts again; two writers would have one batch.
        let same = |batch: &mut Batch| batch.owner == handle && batch.replaces == replaces;
        match self.with_batch(ino, same) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Errno::BUSY),
            None => {}
        }
        self.complete(ino)?;
        let process = (self.handles.lock()).process_of(handle, caller.pid, process_of);
        let batch = Batch {
            owner: handle,
            process,
            replaces,
            size: match replaces {
                true => 0,
                false => self.volume.size(content_of(ino)).unwrap_or(0),
            },
            blocks: BTreeMap::new(),
            ended: false,
        };
        match self.batches.open.write().entry(ino) {
            Entry::Vacant(vacant) => {
                vacant.insert(Arc::new(Mutex::new(batch)));
                Ok(())
            }
            Entry::Occupied(_) => Err(Errno::BUSY),
        }
    }

    /// Commits, and makes durable, as F2FS does. On an error nothing of the batch is there.
    fn commit_batch(&self, ino: Ino, handle: Handle) -> (Result<()>, Pages) {
        let Some(batch) = self.batches.get(ino) else {
            return (Err(Errno::INVAL), Pages::Keep);
        };
        let mut batch = batch.lock();
        if batch.ended || batch.owner != handle {
            return (Err(Errno::INVAL), Pages::Keep);
        }
        let committed = self.write_batch(ino, &batch);
        self.batches.end(ino, &mut batch);
        drop(batch);
        match committed {
            Ok(()) => (self.sync_all(), Pages::Keep),
            Err(error) => {
                tracing::warn!(%error, ino = ino.0, "an atomic write was not committed");
                (Err(error), Pages::Drop)
            }
        }
    }

    /// Writes a batch as one group. The times of the file are part of it, so that the fsync that
    /// programs send after a commit has nothing left to do.
    fn write_batch(&self, ino: Ino, batch: &Batch) -> Result<()> {
        let group = changes(content_of(ino), batch);
        #[cfg(test)]
        if self.planted(super::Plant::BatchInPieces) {
            let mut pieces = group.iter();
            return pieces.try_for_each(|piece| {
                (self.volume.commit(&[*piece])).map_err(|error| super::errno(&error))
            });
        }
        if group.is_empty() {
            return Ok(());
        }
        let now = (self.now)();
        self.change_with(&group, |draft| {
            let inode = draft.inode(ino)?;
            let changed = super::inode::Inode {
                mtime: now,
                ctime: now,
                ..inode
            };
            draft.set(ino, Some(changed))
        })
    }

    /// Drops the batch of a file where `which` says so.
    fn drop_batch(&self, ino: Ino, which: impl FnOnce(&Batch) -> bool) -> Pages {
        let Some(batch) = self.batches.get(ino) else {
            return Pages::Keep;
        };
        let mut batch = batch.lock();
        if batch.ended || !which(&batch) {
            return Pages::Keep;
        }
        self.batches.end(ino, &mut batch);
        Pages::Drop
    }

    /// A handle is closed, by one process (as close(2) in each that has it) or for good.
    pub(super) fn close_batch(&self, ino: Ino, handle: Handle, thread: Option<u32>) -> Pages {
        self.drop_batch(ino, |batch| {
            let same = |thread: u32| process_of(thread) == batch.process;
            batch.owner == handle && thread.is_none_or(same)
        })
    }

    /// Puts a write in the batch.
    pub(super) fn stage(
        &self,
        object: ObjectId,
        batch: &mut Batch,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let unit = BLOCK_BYTES as u64;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        if end > crate::OBJECT_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let range = (offset / unit) as u32..end.div_ceil(unit) as u32;
        let fresh: Vec<u32> = (range.clone())
            .filter(|block| !batch.blocks.contains_key(block))
            .collect();
        if (batch.blocks.len() + fresh.len()) * BLOCK_BYTES > BATCH_BYTES_MAX
            || !self.batches.take_room(fresh.len())
        {
            return Err(Errno::FBIG);
        }
        for (done, number) in fresh.iter().enumerate() {
            let start = u64::from(*number) * unit;
            let mut block = Box::new(Block([0; BLOCK_BYTES]));
            if !batch.replaces && (offset > start || end < start + unit) {
                // Only a part of it is written.
                if let Err(error) = self.read_plain(object, start, &mut block.0) {
                    *self.batches.bytes.lock() -= (fresh.len() - done) * BLOCK_BYTES;
                    return Err(error);
                }
            }
            batch.blocks.insert(*number, block);
        }
        for number in range {
            let start = u64::from(number) * unit;
            let (from, to) = (offset.max(start), end.min(start + unit));
            let room = batch.blocks.get_mut(&number).and_then(|block| {
                let range = (from - start) as usize..(to - start) as usize;
                block.0.get_mut(range)
            });
            let source = data.get((from - offset) as usize..(to - offset) as usize);
            if let (Some(room), Some(source)) = (room, source) {
                room.copy_from_slice(source);
            }
        }
        batch.size = batch.size.max(end);
        Ok(())
    }

    /// Reads what the file is with its batch.
    pub(super) fn read_staged(
        &self,
        object: ObjectId,
        batch: &Batch,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let unit = BLOCK_BYTES as u64;
        let length = batch.size.saturating_sub(offset).min(buffer.len() as u64);
        let buffer = buffer.get_mut(..length as usize).unwrap_or_default();
        let read = match batch.replaces {
            true => 0,
            false => self.read_plain(object, offset, buffer)?,
        };
        buffer.get_mut(read..).unwrap_or_default().fill(0);
        let end = offset + length;
        let range = (offset / unit) as u32..end.div_ceil(unit) as u32;
        for (number, block) in batch.blocks.range(range) {
            let start = u64::from(*number) * unit;
            let (from, to) = (offset.max(start), end.min(start + unit));
            let source = block.0.get((from - start) as usize..(to - start) as usize);
            let room = buffer.get_mut((from - offset) as usize..(to - offset) as usize);
            if let (Some(room), Some(source)) = (room, source) {
                room.copy_from_slice(source);
            }
        }
        Ok(length as usize)
    }
}

/// The group of a batch: each block as one write, the last cut where the file ends.
fn changes(object: ObjectId, batch: &Batch) -> Vec<Change<'_>> {
    let unit = BLOCK_BYTES as u64;
    let writes = batch.blocks.iter().map(|(number, block)| {
        let offset = u64::from(*number) * unit;
        let length = (batch.size - offset).min(unit) as usize;
        let block = std::slice::from_ref(&**block);
        Change::Write {
            object,
            offset,
            bytes: bytes(block).get(..length).unwrap_or_default(),
        }
    });
    let empty = Change::Resize { object, size: 0 };
    (batch.replaces.then_some(empty).into_iter())
        .chain(writes)
        .collect()
}

/// The process that a thread belongs to; the thread itself where the kernel does not say.
fn process_of(thread: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group
        .and_then(|group| group.trim().parse().ok())
        .unwrap_or(thread)
}
