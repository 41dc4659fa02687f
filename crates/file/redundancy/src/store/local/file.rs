//! An open regular file.

use super::attributes;
use crate::store::StoreFile;
use mount::{AllocateFlags, Attr, Errno, Result, SetAttr};
use rustix::fs::{Advice, FallocateFlags, FileType, SeekFrom};
use rustix::io::retry_on_intr;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

/// An open regular file of a local store; it keeps an unlinked file alive.
pub(super) struct LocalFile(OwnedFd);

impl LocalFile {
    /// A regular file that has just been created, open for reading and writing.
    pub(super) fn made(descriptor: OwnedFd) -> LocalFile {
        LocalFile(descriptor)
    }

    /// EISDIR or EINVAL where the descriptor is not a regular file's.
    pub(super) fn new(descriptor: OwnedFd) -> Result<LocalFile> {
        let stat = rustix::fs::fstat(&descriptor)?;
        match FileType::from_raw_mode(stat.st_mode) {
            // O_NONBLOCK, with which it was opened, means nothing for a regular file.
            FileType::RegularFile => Ok(LocalFile(descriptor)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }
}

impl StoreFile for LocalFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let position = offset.checked_add(filled as u64).ok_or(Errno::OVERFLOW)?;
            match retry_on_intr(|| rustix::io::pread(&self.0, &mut *rest, position))? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let position = offset.checked_add(done as u64).ok_or(Errno::FBIG)?;
            match retry_on_intr(|| rustix::io::pwrite(&self.0, rest, position))? {
                // The kernel never answers 0 to a write of more; do not loop on it.
                0 => return Err(Errno::IO),
                written => done += written,
            }
        }
        Ok(())
    }

    fn no_read_ahead(&self) {
        // Only advice: a failure changes nothing.
        let _ = rustix::fs::fadvise(&self.0, 0, None, Advice::Random);
    }

    fn start_sync(&self) {
        env::writeback::start(&self.0);
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        if data_only {
            rustix::fs::fdatasync(&self.0)
        } else {
            rustix::fs::fsync(&self.0)
        }
    }

    fn set_len(&self, length: u64) -> Result<()> {
        rustix::fs::ftruncate(&self.0, length)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        if let Some(length) = change.size {
            rustix::fs::ftruncate(&self.0, length)?;
        }
        attributes::set(self.0.as_fd(), change)
    }

    fn attr(&self) -> Result<Attr> {
        Ok(attributes::attr_of(&rustix::fs::fstat(&self.0)?))
    }

    fn allocate(&self, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        let flags = FallocateFlags::from_bits_retain(flags.bits());
        retry_on_intr(|| rustix::fs::fallocate(&self.0, flags, offset, length))
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        // The descriptor's own position is used by nobody.
        let target = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        rustix::fs::seek(&self.0, target)
    }

    fn forget_cache(&self, offset: u64, length: u64) {
        // Only advice: a failure changes nothing.
        let _ = rustix::fs::fadvise(&self.0, offset, NonZeroU64::new(length), Advice::DontNeed);
    }
}
