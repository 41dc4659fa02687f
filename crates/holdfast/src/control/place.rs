//! Where a mount's control socket is, and who holds the mount.
//!
//! Each mount has a directory under the run-time directory, named after the mount's path, with
//! `lock` (held for as long as the process lives) and `socket` in it. The kernel releases the
//! lock of a dead process, so a socket without a lock is stale and is replaced.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use rustix::fs::FlockOperation;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Component, Path, PathBuf};

/// Where the directories are, unless HOLDFAST_RUNTIME_DIR says otherwise.
pub const RUNTIME_DIR: &str = "/run/holdfast";

/// The name for `mount`: `/` becomes `-`, letters, digits, `_` and inner dots stay, every other
/// byte is `%` and two hexadecimal digits. [`mount_of`] is the inverse.
pub fn name_of(mount: &Path) -> OsString {
    let bytes = mount.as_os_str().as_bytes();
    let bytes = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let mut name = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'/' => name.push(b'-'),
            b'.' if !name.is_empty() => name.push(b'.'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => name.push(*byte),
            other => name.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    if name.is_empty() {
        name.push(b'-');
    }
    OsString::from_vec(name)
}

/// The mount that `name` stands for; `None` where no mount has this name.
pub fn mount_of(name: &OsStr) -> Option<PathBuf> {
    let mut path = vec![b'/'];
    let mut rest = name.as_bytes();
    if rest != b"-" {
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            match first {
                b'-' => path.push(b'/'),
                b'%' => {
                    let (digits, after) = tail.split_at_checked(2)?;
                    let digits = std::str::from_utf8(digits).ok()?;
                    path.push(u8::from_str_radix(digits, 16).ok()?);
                    rest = after;
                }
                other => path.push(*other),
            }
        }
    }
    let path = PathBuf::from(OsString::from_vec(path));
    (name_of(&path) == name).then_some(path)
}

/// A held place: no other process serves this mount while it lives. Dropping it removes the
/// directory.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    _lock: File,
}

impl Place {
    /// Takes the place of `mount` under `runtime`.
    ///
    /// # Errors
    /// Another living process serves the mount.
    pub fn take(runtime: &Path, mount: &Path) -> Outcome<Place> {
        let dir = runtime.join(checked_name(mount)?);
        let fault = |error: &dyn std::fmt::Display| {
            Failure::unexpected(format_args!("run-time directory {}", dir.display()), error)
        };
        // A place that is just being given up disappears between two steps: try again.
        for _attempt in 0..100 {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .map_err(|error| fault(&error))?;
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(dir.join("lock"));
            let lock = match lock {
                Ok(lock) => lock,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(fault(&error)),
            };
            if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(served(mount));
            }
            let held = lock.metadata().map_err(|error| fault(&error))?;
            let named = std::fs::metadata(dir.join("lock"));
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
                return Ok(Place { dir, _lock: lock });
            }
        }
        Err(fault(&"it keeps disappearing"))
    }

    /// Listens, in place of a dead process's socket where there is one.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn listen(&self) -> Outcome<UnixListener> {
        let fault = |error: &std::io::Error| {
            Failure::unexpected(
                format_args!("control socket in {}", self.dir.display()),
                error,
            )
        };
        match std::fs::remove_file(self.dir.join("socket")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(fault(&error));
            }
            _ => {}
        }
        short(&self.dir)
            .and_then(|(dir, path)| {
                let listener = UnixListener::bind(path)?;
                drop(dir);
                Ok(listener)
            })
            .map_err(|error| fault(&error))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock goes last among the files, so that nobody takes a half-removed place for a
        // live one. What cannot be removed is only litter: the next holder uses it again.
        for name in ["socket", "lock"] {
            let _litter = std::fs::remove_file(self.dir.join(name));
        }
        let _litter = std::fs::remove_dir(&self.dir);
    }
}

/// Connects to whoever serves `mount`.
pub(super) fn connect(runtime: &Path, mount: &Path) -> std::io::Result<UnixStream> {
    let name = checked_name(mount).map_err(std::io::Error::other)?;
    let (_dir, path) = short(&runtime.join(name))?;
    UnixStream::connect(path)
}

/// All mounts that have a place, sorted; some may be stale.
pub(super) fn all(runtime: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(runtime) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut mounts: Vec<PathBuf> = entries
        .flatten()
        .filter_map(|entry| mount_of(&entry.file_name()))
        .collect();
    mounts.sort();
    Ok(mounts)
}

/// A path to the socket that fits the 108 bytes of `sockaddr_un`, however long the directory's
/// is, and the open directory that it goes through.
fn short(dir: &Path) -> std::io::Result<(File, PathBuf)> {
    let dir = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/socket", dir.as_raw_fd()));
    Ok((dir, path))
}

/// One spelling of `mount`: without `.` and doubled slashes, its parent without symbolic links.
/// The mount itself is not touched: it may not answer.
fn plain(mount: &Path) -> PathBuf {
    let plain: PathBuf = mount
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    match (plain.parent(), plain.file_name()) {
        (Some(parent), Some(name)) => std::fs::canonicalize(parent)
            .map(|parent| parent.join(name))
            .unwrap_or(plain),
        _ => plain,
    }
}

fn checked_name(mount: &Path) -> Outcome<OsString> {
    let name = name_of(&plain(mount));
    // NAME_MAX of every Linux file system.
    if name.len() <= 255 {
        return Ok(name);
    }
    Err(Failure::refuse(
        Exit::MountPoint,
        "the path of the mount point is too long to name its control socket after",
        "use a shorter path (about 250 bytes), or a symbolic link's target that is shorter",
    ))
}

fn served(mount: &Path) -> Failure {
    let shown = mount.display();
    Failure::refuse(
        Exit::MountInUse,
        format!("another holdfast serves {shown} already"),
        format!("see it: `holdfast status --mount {shown}`\nstop it: `holdfast down {shown}`"),
    )
}
