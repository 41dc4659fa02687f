//! What can be wrong with a directory that is to be a store.

use mount::Errno;
use std::path::PathBuf;

/// Why a directory cannot be opened or laid out as a store.
#[derive(Debug, thiserror::Error)]
pub enum LocalStoreError {
    /// Nothing is there.
    #[error("{path} does not exist; create the directory or mount its disk first")]
    Missing {
        /// The store's directory.
        path: PathBuf,
    },
    /// Something else than a directory is there.
    #[error("{path} is not a directory; a store is a directory")]
    NotDirectory {
        /// The store's directory.
        path: PathBuf,
    },
    /// The directory has not been laid out as a store.
    #[error(
        "{path} is not a store: it has no {missing} directory; if its disk is not mounted, \
             mount it"
    )]
    NotLaidOut {
        /// The store's directory.
        path: PathBuf,
        /// The directory that a store has and this one lacks.
        missing: &'static str,
    },
    /// Something is there that is not a store.
    #[error(
        "{path} is not empty and not a store; give an empty directory, or move what is there away"
    )]
    NotEmpty {
        /// The store's directory.
        path: PathBuf,
    },
    /// Another process uses it.
    #[error("{path} is in use by another process; stop that first (holdfast status shows it)")]
    Locked {
        /// The store's directory.
        path: PathBuf,
    },
    /// The caller may not.
    #[error("no permission to use {path} as a store; run as root")]
    Permission {
        /// The store's directory.
        path: PathBuf,
    },
    /// The file system has no file handles.
    #[error(
        "the file system of {path} has no file handles (name_to_handle_at: {errno}); \
             use ext4, XFS or btrfs"
    )]
    NoHandles {
        /// The store's directory.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// The file system does not keep `trusted.*` extended attributes.
    #[error(
        "the file system of {path} does not keep trusted extended attributes ({errno}); \
             use ext4, XFS or btrfs, and run as root"
    )]
    NoXattrs {
        /// The store's directory.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
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

impl LocalStoreError {
    pub(super) fn from_open(operation: &'static str, path: PathBuf, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => LocalStoreError::Missing { path },
            Errno::NOTDIR | Errno::LOOP => LocalStoreError::NotDirectory { path },
            Errno::ACCESS | Errno::PERM => LocalStoreError::Permission { path },
            errno => LocalStoreError::Io {
                operation,
                path,
                errno,
            },
        }
    }
}
