//! Opening the destination.

use super::Destination;
use super::root::Root;
use crate::entry::{STAGING, TreePath};
use crate::error::TransferError;
use crate::message::FailureKind;
use crate::walk::words;
use env::errno::Errno;
use rustix::fs::{Mode, OFlags, fsync, mkdir, mkdirat, open as open_at_path};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// The mode of a directory that is made; what the source's has comes with the tree.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// Opens the directory that a tree goes to. `below` is what the sender has asked for.
pub(super) fn open(
    destination: Destination<'_>,
    below: &TreePath,
) -> Result<OwnedFd, TransferError> {
    // Within a receiver's own directory nobody but that receiver works.
    let own = |name: &[u8]| name == STAGING.as_bytes();
    if !below.is_allowed() || below.names().any(own) {
        return Err(TransferError::Violation("a path that leads elsewhere"));
    }
    match destination {
        Destination::At(path) if below.is_root() => at(path).map_err(refuse(&path.display())),
        Destination::At(_) => {
            let what = "this receiver has one destination, and takes no other";
            Err(TransferError::failed(FailureKind::Destination, what))
        }
        Destination::Below(path) => {
            let base = directory(path).map_err(refuse(&path.display()))?;
            beneath(base, below).map_err(refuse(below))
        }
    }
}

/// Opens it for a dry run, where it is there; nothing is made.
pub(super) fn look(
    destination: Destination<'_>,
    below: &TreePath,
) -> Result<Option<OwnedFd>, TransferError> {
    if !below.is_allowed() || below.names().any(|name| name == STAGING.as_bytes()) {
        return Err(TransferError::Violation("a path that leads elsewhere"));
    }
    let found = |opened: Result<OwnedFd, Errno>| match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    };
    match destination {
        Destination::At(path) if below.is_root() => {
            let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
            match found(directory(path)).map_err(refuse(&path.display()))? {
                Some(opened) => Ok(Some(opened)),
                // The directory that it would be made in has to be there.
                None => directory(parent.unwrap_or(Path::new(".")))
                    .map(|_| None)
                    .map_err(refuse(&path.display())),
            }
        }
        Destination::At(_) => {
            let what = "this receiver has one destination, and takes no other";
            Err(TransferError::failed(FailureKind::Destination, what))
        }
        Destination::Below(path) => {
            let base = directory(path).map_err(refuse(&path.display()))?;
            let mut root = Root::new(Arc::new(base));
            let opened = root.directory(below);
            let opened = opened.and_then(|dir| dir.try_clone().map_err(|_| Errno::MFILE));
            found(opened).map_err(refuse(below))
        }
    }
}

fn refuse(path: &dyn std::fmt::Display) -> impl Fn(Errno) -> TransferError {
    move |errno| {
        let what = match errno {
            Errno::NOTDIR => format!("{path} is not a directory"),
            Errno::LOOP => format!("a symbolic link is on the way to {path}"),
            errno => format!("{path}: {}", words(errno)),
        };
        TransferError::failed(FailureKind::Destination, what)
    }
}

fn directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_at_path(path, flags, Mode::empty())
}

fn at(path: &Path) -> Result<OwnedFd, Errno> {
    match mkdir(path, MODE) {
        Ok(()) => {
            let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
            fsync(directory(parent.unwrap_or(Path::new(".")))?)?;
        }
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    directory(path)
}

fn beneath(base: OwnedFd, below: &TreePath) -> Result<OwnedFd, Errno> {
    let mut root = Root::new(Arc::new(base));
    if let Some((parent, name)) = below.split() {
        let parent = root.directory(&parent)?;
        match mkdirat(&parent, name, MODE) {
            Ok(()) => fsync(&parent)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    root.directory(below)?.try_clone().map_err(|_| Errno::MFILE)
}
