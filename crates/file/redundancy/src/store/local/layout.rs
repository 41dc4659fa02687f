//! Laying out and opening the directory.

use super::{
    ASIDE, DATA, Directories, LABEL_XATTR, LocalStore, LocalStoreError, SYSTEM, node_of, tag_of,
};
use env::handle::{get_xattr, name_to_handle, open_by_handle};
use env::real::RealDir;
use mount::Errno;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl LocalStore {
    /// Makes what a store needs in the existing directory `path`: `data` (mode 0755) for the
    /// user's tree and `.holdfast` (0700) for Holdfast's own files, both durable on return.
    /// What is there already is left as it is.
    ///
    /// # Errors
    /// [`LocalStoreError::Missing`], [`LocalStoreError::NotDirectory`],
    /// [`LocalStoreError::Permission`] or [`LocalStoreError::Io`].
    pub fn create_layout(path: &Path) -> Result<(), LocalStoreError> {
        let top = open_top(path)?;
        for (name, mode) in [(DATA, 0o755), (SYSTEM, 0o700)] {
            let made = env::umask::with(0, || {
                rustix::fs::mkdirat(&top, name, Mode::from_raw_mode(mode))
            });
            match made.and_then(|result| result) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(LocalStoreError::from_open("create", path.join(name), errno));
                }
            }
        }
        let system = open_part(&top, path, SYSTEM)?;
        match rustix::fs::mkdirat(&system, ASIDE, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(LocalStoreError::from_open(
                    "create",
                    path.join(SYSTEM),
                    errno,
                ));
            }
        }
        rustix::fs::fsync(&top).map_err(|errno| LocalStoreError::Io {
            operation: "sync",
            path: path.to_path_buf(),
            errno,
        })
    }

    /// Opens the store at `path`.
    ///
    /// # Errors
    /// Every [`LocalStoreError`]: the file system below must have file handles and keep
    /// `trusted.*` attributes, and the caller must be root.
    pub fn open(path: &Path) -> Result<LocalStore, LocalStoreError> {
        let top = open_top(path)?;
        let root = open_part(&top, path, DATA)?;
        let system = open_part(&top, path, SYSTEM)?;
        let here = || path.to_path_buf();
        let no_handles = |errno| LocalStoreError::NoHandles {
            path: here(),
            errno,
        };
        let (handle, mount_id) = name_to_handle(root.as_fd(), c"").map_err(no_handles)?;
        open_by_handle(root.as_fd(), handle.as_bytes(), OFlags::PATH).map_err(
            |errno| match errno {
                Errno::PERM => LocalStoreError::Permission { path: here() },
                errno => no_handles(errno),
            },
        )?;
        match get_xattr(root.as_fd(), c"", LABEL_XATTR, &mut [0; 256]) {
            // ENODATA is also what a caller without CAP_SYS_ADMIN gets; the handle above has
            // shown that the caller is privileged.
            Ok(_) | Err(Errno::NODATA | Errno::RANGE) => {}
            Err(errno) => {
                return Err(LocalStoreError::NoXattrs {
                    path: here(),
                    errno,
                });
            }
        }
        let (aside, _) = name_to_handle(system.as_fd(), ASIDE)
            .map_err(|errno| LocalStoreError::from_open("open", path.join(SYSTEM), errno))?;
        let device = rustix::fs::fstat(&root)
            .map_err(|errno| LocalStoreError::Io {
                operation: "stat",
                path: here(),
                errno,
            })?
            .st_dev;
        let tag = tag_of(&handle);
        Ok(LocalStore {
            root,
            tag,
            root_node: node_of(&handle, tag).map_err(no_handles)?,
            mount_id,
            device,
            system: Arc::new(RealDir::from_fd(system)),
            aside: node_of(&aside, tag).map_err(no_handles)?,
            directories: Directories::default(),
            lease: None,
        })
    }
}

/// The store's own directory may be reached through a symbolic link.
fn open_top(path: &Path) -> Result<OwnedFd, LocalStoreError> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| LocalStoreError::from_open("open", path.to_path_buf(), errno))
}

fn open_part(top: &OwnedFd, path: &Path, name: &'static str) -> Result<OwnedFd, LocalStoreError> {
    rustix::fs::openat(top, name, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => LocalStoreError::NotLaidOut {
            path: path.to_path_buf(),
            missing: name,
        },
        errno => LocalStoreError::from_open("open", path.join(name), errno),
    })
}
