//! Requests about the content of files.

use super::Edge;
use crate::convert::errno;
use crate::{AllocateFlags, Caller, Errno, Ino, SetAttr};
use fuser::{INodeNo, ReplyData, ReplyLseek, ReplyWrite, WriteFlags};
use std::cell::RefCell;

/// Largest read that is answered at once; the kernel never asks for more than was agreed.
const READ_BYTES_MAX: usize = 16 << 20;

/// Bytes of one copy: short enough for a signal to stop a long one in between.
const COPY_BYTES_MAX: u64 = 1 << 30;

/// Layers read into memory that direct I/O takes as it is: where a page begins.
const ALIGN_BYTES: usize = 4096;

thread_local! {
    /// Each request thread's buffer; it grows to the largest read that came by.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Edge {
    pub(super) fn read_content(&self, ino: Ino, offset: u64, size: u32, reply: ReplyData) {
        let size = usize::try_from(size).map_or(READ_BYTES_MAX, |size| size.min(READ_BYTES_MAX));
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size + ALIGN_BYTES {
                buffer.resize(size + ALIGN_BYTES, 0);
            }
            let start = buffer.as_ptr().align_offset(ALIGN_BYTES);
            let Some(buffer) = buffer.get_mut(start..start.saturating_add(size)) else {
                return reply.error(errno(Errno::INVAL));
            };
            match self.shared.layer.read(ino, offset, buffer) {
                Ok(length) => reply.data(buffer.get(..length).unwrap_or(buffer)),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    pub(super) fn write_content(
        &self,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        reply: ReplyWrite,
    ) {
        let Ok(length) = u32::try_from(data.len()) else {
            return reply.error(errno(Errno::INVAL));
        };
        let kill = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let result = if kill && self.shared.table.has_set_id(ino) {
            self.kill_set_id(caller, ino)
        } else {
            Ok(())
        };
        match result.and_then(|()| self.shared.layer.write(ino, offset, data)) {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Takes the set-id bits away before a write of somebody without CAP_FSETID, as the kernel
    /// does on its own file systems, and tells the kernel, whose copy of the mode is old then.
    fn kill_set_id(&self, caller: &Caller, ino: Ino) -> Result<(), Errno> {
        let Some(mode) = self.without_set_id(ino)? else {
            return Ok(());
        };
        let change = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let attr = self.shared.layer.set_attr(caller, ino, &change)?;
        self.shared.table.note(ino, &attr);
        if let Some(notifier) = self.shared.notifier.get() {
            // A negative offset means attributes only: no page is touched, so the request that
            // this thread is answering cannot be in the way.
            if let Err(error) = notifier.inval_inode(INodeNo(ino.0), -1, 0) {
                tracing::debug!(%error, "the kernel did not take a cache notification");
            }
        }
        Ok(())
    }

    pub(super) fn allocate(
        &self,
        ino: Ino,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let flags = AllocateFlags::from_bits(mode.cast_unsigned()).ok_or(Errno::OPNOTSUPP)?;
        self.shared.layer.allocate(ino, offset, length, flags)
    }

    pub(super) fn seek(&self, ino: Ino, offset: i64, whence: i32, reply: ReplyLseek) {
        // SEEK_DATA and SEEK_HOLE of linux/fs.h; the kernel does the others by itself.
        let hole = match whence {
            3 => false,
            4 => true,
            _ => return reply.error(errno(Errno::INVAL)),
        };
        let found = u64::try_from(offset)
            .map_err(|_| Errno::NXIO)
            .and_then(|offset| self.shared.layer.seek(ino, offset, hole))
            .and_then(|found| i64::try_from(found).map_err(|_| Errno::OVERFLOW));
        match found {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn copy(&self, from: (Ino, u64), to: (Ino, u64), length: u64, reply: ReplyWrite) {
        let length = length.min(COPY_BYTES_MAX);
        match self
            .shared
            .layer
            .copy_range(from.0, from.1, to.0, to.1, length)
        {
            Ok(copied) => reply.written(u32::try_from(copied.min(length)).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }
}
