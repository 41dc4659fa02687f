//! The content of files.

use super::fragment::Piece;
use super::{Tree, content_of, errno};
use crate::{Change, OBJECT_BYTES_MAX, ObjectId, VolumeError};
use mount::{AllocateFlags, Errno, Ino, Kind, Result};

/// Bytes that are copied at once, and so bytes of a copy that are one group.
const COPY_BYTES: usize = 1 << 20;

impl Tree {
    /// A regular file whose content is about to change.
    fn file_to_change(&self, ino: Ino) -> Result<ObjectId> {
        let object = self.file(ino)?;
        if self.inode(ino)?.capability {
            self.drop_capability(ino)?;
        }
        Ok(object)
    }

    /// A regular file, or what is wrong with asking for its content.
    fn file(&self, ino: Ino) -> Result<ObjectId> {
        match self.inode(ino)?.kind {
            Kind::File => Ok(content_of(ino)),
            Kind::Dir => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    pub(super) fn read_content(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let object = content_of(ino);
        let staged = self.with_batch(ino, |batch| self.read_staged(object, batch, offset, buffer));
        match staged {
            Some(result) => result,
            None => {
                let read = self.read_plain(object, offset, buffer)?;
                self.patch(ino, offset, buffer.get_mut(..read).unwrap_or_default());
                Ok(read)
            }
        }
    }

    /// Reads what is committed, up to the end of the object.
    pub(super) fn read_plain(
        &self,
        object: ObjectId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        loop {
            let size = self.volume.size(object).unwrap_or(0);
            let length = size.saturating_sub(offset).min(buffer.len() as u64) as usize;
            if length == 0 {
                return Ok(0);
            }
            let buffer = buffer.get_mut(..length).unwrap_or_default();
            match self.volume.read(object, offset, buffer) {
                Ok(()) => return Ok(length),
                // It was cut or removed since its length was asked for.
                Err(VolumeError::OutOfRange { .. } | VolumeError::NoObject { .. }) => {}
                Err(error) => {
                    let role = super::role(object);
                    tracing::error!(%error, ?role, "an object cannot be read");
                    return Err(errno(&error));
                }
            }
        }
    }

    pub(super) fn write_content(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        let object = self.file_to_change(ino)?;
        if data.is_empty() {
            return Ok(());
        }
        if let Some(staged) = self.with_batch(ino, |batch| self.stage(object, batch, offset, data))
        {
            return staged;
        }
        let size = self.volume.size(object).unwrap_or(0);
        match self.piece(ino, offset, data, size)? {
            Piece::Kept => {
                self.written(ino);
                Ok(())
            }
            Piece::Plain => self.write_group(ino, offset, data),
            Piece::Whole(offset, bytes) => self.write_group(ino, offset, &bytes),
        }
    }

    /// Writes as one group. Inside of the file nobody waits for it: it is written together with what comes
    /// next, before a sync or a close returns, or soon.
    pub(super) fn write_group(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        let object = self.file(ino)?;
        let change = Change::Write {
            object,
            offset,
            bytes,
        };
        let size = self.volume.size(object).unwrap_or(0);
        match offset.saturating_add(bytes.len() as u64) <= size {
            true => {
                let begun = self.volume.begin(&[change]);
                let left = begun.and_then(|ticket| self.volume.leave(ticket));
                left.map_err(|error| failed(&error))?;
            }
            // Whoever asks how long the file is looks at what is in the log.
            false => self.commit(&[change])?,
        }
        self.written(ino);
        Ok(())
    }

    fn commit(&self, changes: &[Change<'_>]) -> Result<()> {
        self.volume.commit(changes).map_err(|error| failed(&error))
    }

    /// The content of a file has changed: so has its time.
    pub(super) fn written(&self, ino: Ino) {
        let now = (self.now)();
        self.state.write().touch(&self.volume, ino, |inode| {
            inode.mtime = now;
            inode.ctime = now;
        });
    }

    pub(super) fn sync_inode(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.complete(ino)?;
        if !data_only && let Some((page, _)) = super::inode::locate(ino) {
            let is_dirty = (self.state.read().table.get(&page)).is_some_and(|page| page.dirty);
            if is_dirty {
                self.write_pages(&[page])?;
            }
        }
        self.sync_all()
    }

    pub(super) fn allocate_content(
        &self,
        ino: Ino,
        offset: u64,
        length: u64,
        flags: AllocateFlags,
    ) -> Result<()> {
        let object = self.file_to_change(ino)?;
        self.no_batch(ino)?;
        self.complete(ino)?;
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        if end > OBJECT_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        if length == 0 {
            return Err(Errno::INVAL);
        }
        let keep = flags.contains(AllocateFlags::KEEP_SIZE);
        let size = self.volume.size(object).unwrap_or(0);
        let grow = (!keep && end > size).then_some(Change::Resize { object, size: end });
        let zero = Change::Zero {
            object,
            offset,
            length,
        };
        let mode = flags - AllocateFlags::KEEP_SIZE;
        let zero = if mode.is_empty() {
            self.need_room(object, offset, end)?;
            None
        } else if mode == AllocateFlags::ZERO_RANGE || mode == AllocateFlags::PUNCH_HOLE && keep {
            Some(zero)
        } else {
            return Err(Errno::OPNOTSUPP);
        };
        // The length first: a range is zeroed inside of the object.
        let changes: Vec<Change<'_>> = grow.into_iter().chain(zero).collect();
        if !changes.is_empty() {
            self.commit(&changes)?;
            self.written(ino);
        }
        Ok(())
    }

    /// ENOSPC where the holes of a range are more than what is free. Nothing is set aside: in a log an
    /// overwrite needs room as a first write does.
    fn need_room(&self, object: ObjectId, offset: u64, end: u64) -> Result<()> {
        let stats = self.volume.stats();
        let free = stats.capacity_blocks.saturating_sub(stats.mapped_blocks);
        let most = free.saturating_mul(crate::BLOCK_BYTES as u64);
        let mut needed = 0_u64;
        let mut at = offset;
        while at < end && needed <= most {
            let (hole, length) = self.volume.extent(object, at);
            let length = length.min(end - at).max(1);
            needed += if hole { length } else { 0 };
            at += length;
        }
        match needed <= most {
            true => Ok(()),
            false => Err(Errno::NOSPC),
        }
    }

    pub(super) fn seek_content(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64> {
        let object = self.file(ino)?;
        self.complete(ino)?;
        let committed = self.volume.size(object).unwrap_or(0);
        let size = self.staged_size(ino).unwrap_or(committed);
        if offset >= size {
            return Err(Errno::NXIO);
        }
        if size != committed || self.no_batch(ino).is_err() {
            // What a batch has is not looked at: all of it may be data.
            return Ok(if hole { size } else { offset });
        }
        let mut at = offset;
        while at < size {
            let (is_hole, length) = self.volume.extent(object, at);
            if is_hole == hole {
                return Ok(at);
            }
            at = at.saturating_add(length.max(1));
        }
        // Behind the end there is a hole, and no data.
        if hole { Ok(size) } else { Err(Errno::NXIO) }
    }

    pub(super) fn copy_content(
        &self,
        from: (Ino, u64),
        to: (Ino, u64),
        length: u64,
    ) -> Result<u64> {
        self.file(from.0)?;
        self.file(to.0)?;
        let mut buffer = vec![0; COPY_BYTES.min(length as usize)];
        let mut copied = 0;
        while copied < length {
            let want = (length - copied).min(COPY_BYTES as u64) as usize;
            let part = buffer.get_mut(..want).unwrap_or_default();
            let step = self.read_content(from.0, from.1 + copied, part);
            let step = step.and_then(|read| {
                let part = buffer.get(..read).unwrap_or_default();
                self.write_content(to.0, to.1 + copied, part)?;
                Ok(read)
            });
            match step {
                Ok(0) => break,
                Ok(read) => copied += read as u64,
                Err(_) if copied > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }
}

/// What the caller of a write gets.
fn failed(error: &VolumeError) -> Errno {
    match error {
        VolumeError::NoSpace { .. } => {}
        _ => tracing::error!(%error, "a write failed"),
    }
    errno(error)
}
