//! What can go wrong with a mount, in words for the person who asked for it.

use crate::Errno;
use std::path::PathBuf;

/// Why a mount could not be made, kept or taken away. Nothing is mounted after an error of
/// [`Session::start`](crate::Session::start).
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel's FUSE device is missing.
    #[error(
        "/dev/fuse is missing; load the module with `modprobe fuse`, or give the container \
             the device"
    )]
    NoDevice,
    /// The caller may not mount.
    #[error("no permission to {operation}; run as root (in a container, with CAP_SYS_ADMIN)")]
    Permission {
        /// What was not allowed.
        operation: &'static str,
    },
    /// The mount point does not exist.
    #[error("the mount point {path} does not exist; create it with `mkdir -p {path}`")]
    Missing {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point is not a directory.
    #[error("the mount point {path} is not a directory; choose an empty directory")]
    NotDirectory {
        /// The mount point.
        path: PathBuf,
    },
    /// Something is mounted there already.
    #[error("something is mounted on {path} already; unmount it first or choose another directory")]
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount of a process that has died is still there
    /// ([`Session::clear_stale`](crate::Session::clear_stale) takes it away).
    #[error("{path} still has the mount of a process that has died; `umount -l {path}` clears it")]
    Stale {
        /// The mount point.
        path: PathBuf,
    },
    /// Files below the mount are in use.
    #[error(
        "{path} is in use; close what is open below it (`fuser -vm {path}` lists it), then \
             try again"
    )]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// The kernel is too old for what the mount needs.
    #[error("the kernel's FUSE lacks {capability}; Holdfast needs Linux 5.11 or newer")]
    Kernel {
        /// The capability, as linux/fuse.h names it.
        capability: String,
    },
    /// Another failure.
    #[error("{operation} {path}: {errno}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
}
