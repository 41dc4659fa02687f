//! Using a directory as a store by one process at a time.

use super::{LocalStore, LocalStoreError, SYSTEM};
use mount::{Errno, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const LOST_AND_FOUND: &str = "lost+found";

/// A store's place and the lock on it.
pub(super) struct Lease {
    path: PathBuf,
    identity: (u64, u64),
    _lock: OwnedFd,
}

impl Lease {
    /// ENODEV where the place holds something else or nothing.
    pub(super) fn probe(&self) -> Result<()> {
        match rustix::fs::stat(self.path.join(SYSTEM)) {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.identity => Ok(()),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Err(Errno::NODEV),
            Err(errno) => Err(errno),
        }
    }
}

impl LocalStore {
    /// Opens the store at `path` and keeps every other process from using it, until this value is
    /// dropped. An empty directory is laid out first.
    ///
    /// # Errors
    /// As [`LocalStore::open`], and [`LocalStoreError::NotEmpty`], [`LocalStoreError::Locked`].
    pub fn open_exclusive(path: &Path) -> std::result::Result<LocalStore, LocalStoreError> {
        if is_laid_out(path)? {
            // A store that an interrupted layout left without a part gets it.
            LocalStore::create_layout(path)?;
        } else if is_empty(path)? {
            LocalStore::create_layout(path)?;
        } else {
            return Err(LocalStoreError::NotEmpty {
                path: path.to_path_buf(),
            });
        }
        let mut store = LocalStore::open(path)?;
        store.lease = Some(lease(path)?);
        Ok(store)
    }
}

fn io(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> LocalStoreError {
    let path = path.to_path_buf();
    move |errno| LocalStoreError::from_open(operation, path, errno)
}

fn is_laid_out(path: &Path) -> std::result::Result<bool, LocalStoreError> {
    match rustix::fs::stat(path.join(SYSTEM)) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(io("look at", path)(errno)),
    }
}

/// Whether nothing is there but what a new file system has.
fn is_empty(path: &Path) -> std::result::Result<bool, LocalStoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(io("open", path))?;
    let entries = rustix::fs::Dir::read_from(dir.as_fd()).map_err(io("list", path))?;
    for entry in entries {
        let entry = entry.map_err(io("list", path))?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b"..", LOST_AND_FOUND.as_bytes()].contains(&name) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lease(path: &Path) -> std::result::Result<Lease, LocalStoreError> {
    let system = path.join(SYSTEM);
    let stat = rustix::fs::stat(&system).map_err(io("look at", path))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(0o600);
    let opened = rustix::fs::open(system.join(LOCK), flags, mode).or_else(|errno| match errno {
        // On a read-only file system the lock that is there will do.
        Errno::ROFS => rustix::fs::open(
            system.join(LOCK),
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        ),
        errno => Err(errno),
    });
    let lock = opened.map_err(io("lock", path))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(LocalStoreError::Locked {
                path: path.to_path_buf(),
            });
        }
        Err(errno) => return Err(io("lock", path)(errno)),
    }
    Ok(Lease {
        path: path.to_path_buf(),
        identity: (stat.st_dev, stat.st_ino),
        _lock: lock,
    })
}
