//! A directory of this machine.

use super::disk::{RealDisk, write_all};
use super::uninterrupted;
use crate::errno::Errno;
use crate::handle::{Handle, name_to_handle};
use crate::{Dir, Disk, Lock, Open, Result};
use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, flock, fsync, openat, renameat, unlinkat,
};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Stands behind a name while [`Dir::replace`] writes its new content.
const TEMPORARY_SUFFIX: char = '~';

/// Bytes of zeros written at a time into a new file. What is written at once stays together in the
/// page cache, as a large folio, and ext4 looks at every block of a folio in each small write to it
/// (`ext4_block_write_begin`).
const ZEROS_BYTES: usize = 16 << 10;

/// A directory, held by its handle: it may be renamed or unmounted from its path meanwhile.
pub struct RealDir {
    fd: OwnedFd,
    /// One replacement at a time, as they share the temporary name.
    replacing: Mutex<()>,
}

impl RealDir {
    /// Opens the directory at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<RealDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::open(path.as_ref(), flags, Mode::empty()))?;
        Ok(RealDir::from_fd(fd))
    }

    /// Takes a directory's handle, opened for reading (not O_PATH: it will be synced).
    pub fn from_fd(fd: OwnedFd) -> RealDir {
        RealDir {
            fd,
            replacing: Mutex::new(()),
        }
    }

    /// A directory in this one, made where it is missing, durably, for this user only.
    pub fn subdirectory(&self, name: &str) -> Result<RealDir> {
        check_name(name)?;
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => fsync(&self.fd)?,
            Err(errno) => return Err(errno),
        }
        self.existing_subdirectory(name)
    }

    /// A directory in this one. ENOENT where it is missing.
    pub fn existing_subdirectory(&self, name: &str) -> Result<RealDir> {
        check_name(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = uninterrupted(|| openat(&self.fd, name, flags, Mode::empty()))?;
        Ok(RealDir::from_fd(fd))
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        check_name(name)?;
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        uninterrupted(|| openat(&self.fd, name, flags, mode))
    }

    fn create(&self, name: &str, fill: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<OwnedFd> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        if let Err(error) = fill(&file) {
            // The name must not stay taken by a file that is too short; the first error counts.
            let _ = unlinkat(&self.fd, name, AtFlags::empty());
            return Err(error);
        }
        Ok(file)
    }

    fn open_durable(&self, name: &str) -> Result<RealDisk> {
        let flags = OFlags::RDWR | OFlags::DSYNC;
        let file = self.open_file(name, flags)?;
        let direct = match self.open_file(name, flags | OFlags::DIRECT) {
            Ok(direct) => Some(direct),
            // The file system has no direct I/O (open(2), EINVAL); O_DSYNC alone is as durable.
            Err(Errno::INVAL) => None,
            Err(error) => return Err(error),
        };
        Ok(RealDisk::durable(file, direct))
    }

    fn write_temporary(&self, name: &str, content: &[u8]) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = uninterrupted(|| openat(&self.fd, name, flags, mode))?;
        write_all(&file, 0, content)?;
        fsync(&file)
    }
}

impl AsFd for RealDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir for RealDir {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        let disk = match how {
            Open::Read => RealDisk::from_fd(self.open_file(name, OFlags::RDONLY)?),
            Open::Write => RealDisk::from_fd(self.open_file(name, OFlags::RDWR)?),
            Open::Create(length) => {
                RealDisk::from_fd(self.create(name, |file| fill_with_zeros(file, length))?)
            }
            Open::Allocate(length) => {
                let file = self.create(name, |file| match allocate(file, length)? {
                    true => Ok(()),
                    false => write_zeros(file, length),
                })?;
                RealDisk::from_fd(file)
            }
            Open::WriteDurable => self.open_durable(name)?,
        };
        Ok(Arc::new(disk))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        let length = rustix::fs::fstat(&file)?.st_size;
        let mut content = vec![0; usize::try_from(length).map_err(|_| Errno::FBIG)?];
        RealDisk::from_fd(file).read_at(0, &mut content)?;
        Ok(content)
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        check_name(name)?;
        let temporary = format!("{name}{TEMPORARY_SUFFIX}");
        let _one = self.replacing.lock().map_err(|_| Errno::IO)?;
        let written = self
            .write_temporary(&temporary, content)
            .and_then(|()| renameat(&self.fd, &temporary, &self.fd, name));
        if let Err(error) = written {
            // Frees the room it took; where that fails too, the next replacement overwrites it.
            let _ = unlinkat(&self.fd, &temporary, AtFlags::empty());
            return Err(error);
        }
        fsync(&self.fd)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.rename_unsynced(from, to)?;
        fsync(&self.fd)
    }

    fn rename_unsynced(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        renameat(&self.fd, from, &self.fd, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        unlinkat(&self.fd, name, AtFlags::empty())
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && check_name(name).is_ok()
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync(&self) -> Result<()> {
        fsync(&self.fd)
    }

    fn make(&self, name: &str) -> Result<Arc<dyn Disk>> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        Ok(Arc::new(RealDisk::from_fd(file)))
    }

    fn handle(&self, name: &str) -> Result<Handle> {
        check_name(name)?;
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        name_to_handle(self.fd.as_fd(), &name).map(|(handle, _)| handle)
    }

    fn lock(&self, name: &str) -> Result<Lock> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Lock::new(file))
    }
}

/// EINVAL for what is not a plain name of ours.
fn check_name(name: &str) -> Result<()> {
    let plain = !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0'])
        && !name.ends_with(TEMPORARY_SUFFIX);
    if plain { Ok(()) } else { Err(Errno::INVAL) }
}

/// Whether the file system can allocate without writing; then it has.
fn allocate(file: &OwnedFd, length: u64) -> Result<bool> {
    if length == 0 {
        return Ok(true);
    }
    match uninterrupted(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Allocates and writes zeros, so that later durable writes change no metadata: an allocated but
/// unwritten extent would be converted, through the file system's journal, by the first write.
fn fill_with_zeros(file: &OwnedFd, length: u64) -> Result<()> {
    // Without fallocate the zeros allocate.
    let _ = allocate(file, length)?;
    write_zeros(file, length)?;
    fsync(file)
}

fn write_zeros(file: &OwnedFd, length: u64) -> Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = 0;
    while at < length {
        let count = (length - at).min(ZEROS_BYTES as u64);
        let piece = zeros.get(..count as usize).ok_or(Errno::INVAL)?;
        write_all(file, at, piece)?;
        at += count;
    }
    Ok(())
}
