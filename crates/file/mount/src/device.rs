//! The FUSE device and the mount table.

use crate::{Errno, MountError};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The type in the mount table.
pub(crate) const FILE_SYSTEM: &str = "fuse.holdfast";

/// A mount that this process has made.
pub(crate) struct Mounted {
    path: PathBuf,
    device: (u32, u32),
}

/// Opens the device and mounts. The mount is taken away again when the device is closed.
pub(crate) fn mount(path: &Path, name: &str) -> Result<(Mounted, OwnedFd), MountError> {
    let path = check(path)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device =
        rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => MountError::NoDevice,
            Errno::ACCESS | Errno::PERM => MountError::Permission {
                operation: "open /dev/fuse",
            },
            errno => io("open /dev/fuse for", &path, errno),
        })?;
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let text = |text: &str| CString::new(text).map_err(|_| io("mount", &path, Errno::INVAL));
    let (data, name) = (text(&data)?, text(name)?);
    rustix::mount::mount(
        name.as_c_str(),
        &path,
        FILE_SYSTEM,
        MountFlags::empty(),
        data.as_c_str(),
    )
    .map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => MountError::Permission { operation: "mount" },
        Errno::BUSY => MountError::AlreadyMounted { path: path.clone() },
        Errno::NODEV => MountError::NoDevice,
        errno => io("mount on", &path, errno),
    })?;
    // The root's attributes are in the kernel from the start, so this asks nobody.
    let statx = rustix::fs::statx(CWD, &path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    match statx {
        Ok(statx) => {
            let device_number = (statx.stx_dev_major, statx.stx_dev_minor);
            let mounted = Mounted {
                path,
                device: device_number,
            };
            Ok((mounted, device))
        }
        Err(errno) => {
            let error = io("look at", &path, errno);
            let _ = rustix::mount::unmount(&path, UnmountFlags::DETACH);
            Err(error)
        }
    }
}

/// Looks at the mount point before anything is done.
fn check(path: &Path) -> Result<PathBuf, MountError> {
    let here = || path.to_path_buf();
    // Force the question, for the kernel may still have the attributes that a dead process gave.
    let statx = rustix::fs::statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::TYPE);
    match statx {
        Ok(statx) if u32::from(statx.stx_mode) & 0o170_000 != 0o040_000 => {
            return Err(MountError::NotDirectory { path: here() });
        }
        Ok(_) => {}
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {
            return Err(MountError::Stale { path: here() });
        }
        Err(Errno::NOENT) => return Err(MountError::Missing { path: here() }),
        Err(Errno::NOTDIR) => return Err(MountError::NotDirectory { path: here() }),
        Err(Errno::ACCESS | Errno::PERM) => {
            return Err(MountError::Permission {
                operation: "look at the mount point",
            });
        }
        Err(errno) => return Err(io("look at", path, errno)),
    }
    let path = path.canonicalize().map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        io("look at", path, errno)
    })?;
    if mounts()?.iter().any(|mount| mount.path == path) {
        return Err(MountError::AlreadyMounted { path });
    }
    Ok(path)
}

fn io(operation: &'static str, path: &Path, errno: Errno) -> MountError {
    MountError::Io {
        operation,
        path: path.to_path_buf(),
        errno,
    }
}

impl Mounted {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the mount is still there. Busy where another one has been put over it: unmounting
    /// the path would take that one away.
    pub(crate) fn is_there(&self) -> Result<bool, MountError> {
        let found = mounts()?;
        let mut here = found.iter().filter(|mount| mount.path == self.path);
        let is_last = here
            .next_back()
            .is_some_and(|mount| mount.device == self.device);
        if !is_last && here.any(|mount| mount.device == self.device) {
            return Err(MountError::Busy {
                path: self.path.clone(),
            });
        }
        Ok(is_last)
    }

    pub(crate) fn unmount(&self) -> Result<(), MountError> {
        self.take_away(UnmountFlags::empty())
    }

    pub(crate) fn detach(&self) -> Result<(), MountError> {
        self.take_away(UnmountFlags::DETACH)
    }

    fn take_away(&self, flags: UnmountFlags) -> Result<(), MountError> {
        if !self.is_there()? {
            return Ok(());
        }
        match rustix::mount::unmount(&self.path, flags | UnmountFlags::NOFOLLOW) {
            // EINVAL: somebody else was faster.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy {
                path: self.path.clone(),
            }),
            Err(Errno::PERM) => Err(MountError::Permission {
                operation: "unmount",
            }),
            Err(errno) => Err(io("unmount", &self.path, errno)),
        }
    }

    /// The kernel starts with 128 KiB; more is a matter of speed only, so a refusal is not an
    /// error.
    pub(crate) fn set_read_ahead(&self, bytes: u64) {
        let (major, minor) = self.device;
        let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        if let Err(error) = std::fs::write(&file, (bytes / 1024).to_string()) {
            tracing::info!(%file, %error, "the kernel's read-ahead stays at its default");
        }
    }
}

/// See [`Session::clear_stale`](crate::Session::clear_stale).
pub(crate) fn clear_stale(path: &Path) -> Result<bool, MountError> {
    match check(path) {
        Err(MountError::Stale { .. }) => {}
        // What else is wrong there is for the mount to say.
        _ => return Ok(false),
    }
    // A dead mount cannot be asked for its path; its parent can.
    let path = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            let parent = parent.canonicalize().map_err(|error| {
                io(
                    "look at",
                    parent,
                    Errno::from_io_error(&error).unwrap_or(Errno::IO),
                )
            })?;
            parent.join(name)
        }
        _ => path.to_path_buf(),
    };
    let found = mounts()?;
    match found.iter().rfind(|mount| mount.path == path) {
        Some(mount) if mount.kind == FILE_SYSTEM => {}
        _ => return Ok(false),
    }
    match rustix::mount::unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Err(MountError::Permission {
            operation: "unmount",
        }),
        Err(errno) => Err(io("unmount", &path, errno)),
    }
}

mod mountinfo;
use mountinfo::mounts;
