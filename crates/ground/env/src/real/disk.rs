//! An open file or block device.

use super::aligned::{ALIGNMENT, AlignedBuffer, is_aligned};
use super::ring::{self, Target};
use super::uninterrupted;
use crate::batch::{Request, in_phases, one_by_one};
use crate::errno::Errno;
use crate::poison::Poison;
use crate::{Disk, Result};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

/// Bytes of the bounce buffer; longer unaligned writes go in several pieces.
const BOUNCE_BYTES: usize = 1 << 20;

/// A file or block device of this machine.
pub struct RealDisk {
    file: OwnedFd,
    direct: Option<Direct>,
    poison: Poison,
}

/// The second handle of a disk that was opened for durable writes.
struct Direct {
    file: OwnedFd,
    bounce: Mutex<Option<AlignedBuffer>>,
}

impl RealDisk {
    /// Wraps an open file or block device; whether it reads or writes is as it was opened.
    pub fn from_fd(file: OwnedFd) -> RealDisk {
        RealDisk {
            file,
            direct: None,
            poison: Poison::default(),
        }
    }

    /// Opens a file or block device for this process alone, past the page cache where its file
    /// system can do that (tmpfs of older kernels cannot): then offsets, lengths and memory have to
    /// be multiples of 4096. EBUSY where a block device is mounted or otherwise in use, EAGAIN where
    /// another process has it open this way. The lock goes with the handle.
    ///
    /// With `write` false it is opened for reading, and several may do so at once.
    pub fn open_exclusive(path: impl AsRef<std::path::Path>, write: bool) -> Result<RealDisk> {
        let path = path.as_ref();
        // On a block device O_EXCL without O_CREAT keeps others away, open(2).
        let access = match write {
            true => OFlags::RDWR | OFlags::EXCL,
            false => OFlags::RDONLY,
        };
        let open = |more| {
            let flags = access | OFlags::CLOEXEC | more;
            super::uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
        };
        let file = match open(OFlags::DIRECT) {
            Err(Errno::INVAL) => open(OFlags::empty())?,
            answer => answer?,
        };
        let lock = match write {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        rustix::fs::flock(&file, lock)?;
        Ok(RealDisk::from_fd(file))
    }

    /// `file` for reads and unaligned writes (O_DSYNC), `direct` for aligned writes
    /// (O_DSYNC | O_DIRECT).
    pub(super) fn durable(file: OwnedFd, direct: Option<OwnedFd>) -> RealDisk {
        let direct = direct.map(|file| Direct {
            file,
            bounce: Mutex::new(None),
        });
        RealDisk {
            file,
            direct,
            poison: Poison::default(),
        }
    }

    /// The handle for direct writes, where this range may go that way.
    fn direct_for(&self, offset: u64, data: &[u8]) -> Option<&Direct> {
        let whole = offset.is_multiple_of(ALIGNMENT as u64) && data.len().is_multiple_of(ALIGNMENT);
        self.direct.as_ref().filter(|_| whole)
    }

    /// Runs requests without syncs among them, through the ring if there is one.
    fn run_phase(&self, phase: &mut [Request<'_>]) -> Vec<Result<()>> {
        // One request gains nothing from the ring.
        if phase.len() < 2 {
            return one_by_one(self, phase);
        }
        let target = |request: &Request<'_>| match request {
            Request::Write { offset, data } => match self.direct_for(*offset, data) {
                Some(direct) if is_aligned(data) => Target::Ring(direct.file.as_fd()),
                // It needs the bounce buffer, which is one.
                Some(_) => Target::Aside,
                None => Target::Ring(self.file.as_fd()),
            },
            _ => Target::Ring(self.file.as_fd()),
        };
        ring::run(&self.poison, phase, target, |request| {
            // Never more than the one request.
            one_by_one(self, std::slice::from_mut(request))
                .pop()
                .unwrap_or(Err(Errno::INVAL))
        })
    }
}

impl Disk for RealDisk {
    fn len(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.file)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return rustix::fs::seek(&self.file, SeekFrom::End(0));
        }
        u64::try_from(stat.st_size).map_err(|_| Errno::INVAL)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.checked_add(done as u64).ok_or(Errno::INVAL)?;
            match uninterrupted(|| rustix::io::pread(&self.file, &mut *rest, at))? {
                0 => return Err(Errno::INVAL),
                count => done += count,
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.poison.check()?;
        self.poison.written(match self.direct_for(offset, data) {
            Some(direct) => direct.write_at(offset, data),
            None => write_all(&self.file, offset, data),
        })
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        self.poison.synced(rustix::fs::fdatasync(&self.file))
    }

    fn start_sync(&self) {
        crate::writeback::start(&self.file);
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.poison.check()?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match uninterrupted(|| rustix::fs::fallocate(&self.file, flags, offset, length)) {
            // To keep the range as it was is allowed, so a file system without holes is fine.
            Err(Errno::OPNOTSUPP) => Ok(()),
            answer => self.poison.written(answer),
        }
    }

    fn submit(&self, batch: &mut [Request<'_>]) -> Vec<Result<()>> {
        in_phases(batch, |phase| self.run_phase(phase), || self.sync())
    }
}

impl Direct {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if is_aligned(data) {
            return write_all(&self.file, offset, data);
        }
        let mut bounce = self.bounce.lock().map_err(|_| Errno::IO)?;
        let bounce = bounce.get_or_insert_with(|| AlignedBuffer::new(BOUNCE_BYTES));
        let mut at = offset;
        for piece in data.chunks(BOUNCE_BYTES) {
            write_all(&self.file, at, bounce.filled(piece))?;
            at = at.checked_add(piece.len() as u64).ok_or(Errno::FBIG)?;
        }
        Ok(())
    }
}

/// Writes all of `data`; a short write goes on where it stopped.
pub(super) fn write_all(file: &OwnedFd, offset: u64, data: &[u8]) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        let at = offset.checked_add(done as u64).ok_or(Errno::FBIG)?;
        match uninterrupted(|| rustix::io::pwrite(file, rest, at))? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_one_has_for_itself_is_refused_to_others() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let path = home.path().join("disk");
        std::fs::write(&path, [7; 8192]).expect("a new file");
        let one = RealDisk::open_exclusive(&path, true).expect("nobody has it");
        for write in [true, false] {
            let other = RealDisk::open_exclusive(&path, write).map(|_| ());
            assert_eq!(other, Err(Errno::AGAIN));
        }
        let mut buffer = AlignedBuffer::new(4096);
        let block = buffer.filled(&[8; 4096]);
        one.write_at(4096, block).expect("written");
        one.sync().expect("synced");
        drop(one);
        let readers = [false, false].map(|write| RealDisk::open_exclusive(&path, write));
        assert!(readers.iter().all(core::result::Result::is_ok));
        assert_eq!(std::fs::read(&path).expect("content")[4095..4097], [7, 8]);
    }

    #[test]
    fn a_failed_sync_poisons_the_handle() {
        // A pipe cannot be synced (fsync(2), EINVAL), but could be written.
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let disk = RealDisk::from_fd(writer.into());
        let failed = Err(Errno::INVAL);
        assert_eq!(disk.sync(), failed);
        assert_eq!(disk.poison.check(), failed);
        let write = || Request::Write {
            offset: 0,
            data: b"x",
        };
        assert_eq!(
            disk.submit(&mut [write(), write(), Request::Sync]),
            [failed; 3]
        );
        assert_eq!(disk.discard(0, 1), failed);
    }
}
