//! The files of a mounted file system, by handle.

use super::uninterrupted;
use crate::errno::Errno;
use crate::handle::{Handle, name_to_handle, open_by_handle, proc_path};
use crate::{Files, Result};
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Room for a value that is tried first; most attributes are far shorter.
const VALUE_BYTES_FIRST: usize = 512;

/// Longest value that Linux passes on (XATTR_SIZE_MAX of include/uapi/linux/limits.h).
const VALUE_BYTES_MAX: usize = 65536;

/// A file system, held by one of its directories. Finding a file by handle needs
/// CAP_DAC_READ_SEARCH.
pub struct RealFiles {
    mount: OwnedFd,
    device: u64,
}

impl RealFiles {
    /// The file system that `path`, a directory, is on. EOPNOTSUPP where it has no handles, EPERM
    /// where this process may not use them.
    pub fn open(path: impl AsRef<Path>) -> Result<RealFiles> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = uninterrupted(|| rustix::fs::open(path.as_ref(), flags, Mode::empty()))?;
        RealFiles::from_fd(mount)
    }

    /// The file system that an open directory is on; errors as [`RealFiles::open`].
    pub fn from_fd(mount: OwnedFd) -> Result<RealFiles> {
        let device = rustix::fs::fstat(&mount)?.st_dev;
        let files = RealFiles { mount, device };
        // Both directions: overlayfs and some FUSE file systems give handles that they cannot open.
        let (own, _) = name_to_handle(files.mount.as_fd(), c"")?;
        files.file(&own)?;
        Ok(files)
    }

    /// The handle of an open file, an O_PATH descriptor included. EXDEV where it is on another
    /// file system: there the same handle may be another file's.
    pub fn handle_of(&self, file: BorrowedFd<'_>) -> Result<Handle> {
        if rustix::fs::fstat(file)?.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        name_to_handle(file, c"").map(|(handle, _)| handle)
    }

    /// A path that leads to the file, and what keeps the path valid.
    fn file(&self, file: &Handle) -> Result<(OwnedFd, CString)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let opened = open_by_handle(self.mount.as_fd(), file.as_bytes(), flags)?;
        let path = proc_path(opened.as_fd(), c"")?;
        Ok((opened, path))
    }
}

impl Files for RealFiles {
    fn attribute(&self, file: &Handle, name: &CStr) -> Result<Vec<u8>> {
        let (_opened, path) = self.file(file)?;
        let read = |room: usize| {
            let mut value = vec![0; room];
            let length = rustix::fs::getxattr(&path, name, &mut value[..])?;
            value.truncate(length);
            Ok(value)
        };
        match read(VALUE_BYTES_FIRST) {
            Err(Errno::RANGE) => read(VALUE_BYTES_MAX),
            answer => answer,
        }
    }

    fn set_attribute(&self, file: &Handle, name: &CStr, value: &[u8]) -> Result<()> {
        let (_opened, path) = self.file(file)?;
        rustix::fs::setxattr(&path, name, value, XattrFlags::empty())
    }

    fn remove_attribute(&self, file: &Handle, name: &CStr) -> Result<()> {
        let (_opened, path) = self.file(file)?;
        rustix::fs::removexattr(&path, name)
    }

    fn sync_all(&self) -> Result<()> {
        // Since Linux 5.8 this reports the errors of the write-back, syncfs(2).
        rustix::fs::syncfs(&self.mount)
    }
}
