//! The stores' paths. What is inside a store is the engine's to judge; here only what must not
//! be touched at all is found.

use super::{Plan, point};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::mounts::Mounted;
use redundancy::{Config, ConfigError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Holdfast's own directory in a store.
const SYSTEM: &str = ".holdfast";

/// The directory of the user's tree in a store.
const DATA: &str = "data";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Missing,
    Empty,
    Ours,
    Unreadable,
}

struct Seen {
    look: Look,
    real: PathBuf,
    /// Device and inode, to know the same directory under two names.
    place: Option<(u64, u64)>,
}

pub(super) fn check(config: &Config, may_make: bool, plan: &mut Plan) -> Outcome<()> {
    let mut seen: Vec<Seen> = Vec::new();
    for path in &config.stores {
        let found = look(path)?;
        if let Some(at) = seen
            .iter()
            .position(|earlier| earlier.place.is_some() && earlier.place == found.place)
        {
            return Err(twice(path, config.stores.get(at)));
        }
        away_from_mount(path, &found.real, &config.mount)?;
        seen.push(found);
    }
    let pairs = config.stores.iter().zip(&seen);
    let ours = pairs.filter(|(_, found)| found.look == Look::Ours);
    need_free(ours.map(|(path, _)| path))?;
    let known = seen.iter().any(|store| store.look == Look::Ours);
    if !known {
        for (path, found) in config.stores.iter().zip(&seen) {
            match found.look {
                Look::Missing => to_make(path, may_make, plan)?,
                Look::Unreadable => return Err(unreadable(path)),
                Look::Empty | Look::Ours => {}
            }
        }
    }
    one_disk(config, plan);
    in_memory(config, plan);
    Ok(())
}

fn look(path: &Path) -> Outcome<Seen> {
    let mut seen = Seen {
        look: Look::Missing,
        real: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
        place: None,
    };
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(seen),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(not_a_dir(path)),
        Err(_) => {
            seen.look = Look::Unreadable;
            return Ok(seen);
        }
    };
    if !found.is_dir() {
        return Err(not_a_dir(path));
    }
    seen.place = Some((found.dev(), found.ino()));
    let Ok(entries) = std::fs::read_dir(path) else {
        seen.look = Look::Unreadable;
        return Ok(seen);
    };
    seen.look = Look::Empty;
    let mut foreign = None;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == SYSTEM {
            seen.look = Look::Ours;
            return Ok(seen);
        }
        // mkfs.ext4 leaves this at the root of every file system.
        if name != "lost+found" {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(seen),
        Some(name) => Err(Failure::refuse(
            Exit::StorePath,
            format!(
                "the store {} is not empty and not a store of Holdfast (it holds {})",
                path.display(),
                name.to_string_lossy()
            ),
            if name == DATA {
                "if it was a store, it has lost its .holdfast: start without it, and attach an \
                 empty directory in its place\n\
                 else name an empty directory"
                    .to_owned()
            } else {
                format!(
                    "name an empty directory, such as {}\n\
                     to protect these files, start with empty stores and copy them into the mount",
                    path.join("holdfast").display()
                )
            },
        )),
    }
}

/// Refuses the first store that a living process holds.
pub(super) fn need_free<'a>(mut stores: impl Iterator<Item = &'a PathBuf>) -> Outcome<()> {
    match stores.find(|path| is_locked(path)) {
        Some(path) => Err(in_use(path)),
        None => Ok(()),
    }
}

/// Refuses a store that would lie on what a holdfast serves, this one or another.
pub(super) fn apart_from_all(config: &Config, mounts: &[Mounted]) -> Outcome<()> {
    for store in &config.stores {
        let Some(real) = store
            .ancestors()
            .find_map(|l| std::fs::canonicalize(l).ok())
        else {
            continue;
        };
        let below = mounts.iter().filter(|m| real.starts_with(&m.point));
        let Some(served) = below.max_by_key(|m| m.point.as_os_str().len()) else {
            continue;
        };
        if served.is_ours() {
            return Err(invalid(&ConfigError::StoreOnMount {
                store: store.clone(),
                mount: served.point.clone(),
            }));
        }
    }
    Ok(())
}

/// Whether a living process holds the store. Its own lock is taken later, by the engine; this
/// look only finds the words for it.
fn is_locked(path: &Path) -> bool {
    let Ok(lock) = std::fs::File::open(path.join(SYSTEM).join("lock")) else {
        return false;
    };
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared)
        == Err(rustix::io::Errno::WOULDBLOCK)
}

fn in_use(path: &Path) -> Failure {
    Failure::refuse(
        Exit::StoresInUse,
        format!("another holdfast uses the store {}", path.display()),
        "see it: `holdfast status`\nstop it: `holdfast down`",
    )
}

fn away_from_mount(path: &Path, real: &Path, mount: &Path) -> Outcome<()> {
    let real_mount = std::fs::canonicalize(mount).unwrap_or_else(|_| mount.to_path_buf());
    let (store, mount) = (path.to_path_buf(), mount.to_path_buf());
    if real.starts_with(&real_mount) {
        return Err(invalid(&ConfigError::StoreOnMount { store, mount }));
    }
    if real_mount.starts_with(real) {
        return Err(invalid(&ConfigError::MountInStore { store, mount }));
    }
    Ok(())
}

fn to_make(path: &Path, may_make: bool, plan: &mut Plan) -> Outcome<()> {
    let missing = point::missing_levels(path);
    if missing.len() > 1 && !may_make {
        let parent = path.parent().unwrap_or(path).display();
        return Err(Failure::refuse(
            Exit::StorePath,
            format!("the store {} and its parent do not exist", path.display()),
            format!(
                "if its disk is not mounted, mount it\nelse make the parent: `mkdir -p {parent}`"
            ),
        ));
    }
    for level in missing {
        if !plan.make.contains(&level) {
            plan.make.push(level);
        }
    }
    Ok(())
}

/// Says so where several stores share a disk: losing it loses them together.
fn one_disk(config: &Config, plan: &mut Plan) {
    let device = |path: &Path| {
        path.ancestors()
            .find_map(|level| std::fs::metadata(level).ok())
            .map(|found| found.dev())
    };
    let devices: Vec<Option<u64>> = config.stores.iter().map(|path| device(path)).collect();
    let shared = devices
        .iter()
        .enumerate()
        .any(|(at, one)| one.is_some() && devices.iter().skip(at + 1).any(|other| other == one));
    if shared {
        plan.notes.push(
            "some stores share a file system: they do not outlive its disk together; give each \
             store its own disk to survive the loss of one"
                .to_owned(),
        );
    }
}

/// Says so where a store is kept in memory.
fn in_memory(config: &Config, plan: &mut Plan) {
    // TMPFS_MAGIC of the kernel's magic.h.
    const TMPFS: i64 = 0x0102_1994;
    let on_tmpfs = |path: &&PathBuf| {
        let level = path.ancestors().find(|level| level.exists());
        let found = level.and_then(|level| rustix::fs::statfs(level).ok());
        found.is_some_and(|found| found.f_type == TMPFS)
    };
    if let Some(path) = config.stores.iter().find(on_tmpfs) {
        plan.notes.push(format!(
            "the store {} is on tmpfs, in memory: it is empty after a power cut or a restart of \
             the machine",
            path.display()
        ));
    }
}

/// A configuration that cannot be, in words.
pub(super) fn invalid(error: &ConfigError) -> Failure {
    let (exit, next) = match error {
        ConfigError::TooFewStores { .. } => (
            Exit::TooFewStores,
            "give more stores: --store DIR once for each\n\
             or keep fewer copies: --copies N, where 1 is no redundancy at all"
                .to_owned(),
        ),
        ConfigError::OutOfRange { min, max, .. } => (
            Exit::Config,
            format!("use a value from {min} to {max}; `holdfast config show` says where it is set"),
        ),
        ConfigError::NotAbsolute { .. } => (
            Exit::Config,
            "in a configuration file write paths from the root: /srv/store-1".to_owned(),
        ),
        ConfigError::SameStore { .. } => return twice_error(error),
        ConfigError::StoreOnMount { .. } | ConfigError::MountInStore { .. } => (
            Exit::StorePath,
            "keep stores and mount point apart: neither inside the other".to_owned(),
        ),
        _ => (
            Exit::StorePath,
            "give every store a directory of its own".to_owned(),
        ),
    };
    Failure::refuse(exit, error.to_string(), next)
}

fn twice(path: &Path, earlier: Option<&PathBuf>) -> Failure {
    match earlier {
        Some(earlier) if earlier != path => Failure::refuse(
            Exit::StorePath,
            format!(
                "store {} is the same directory as store {}",
                path.display(),
                earlier.display()
            ),
            "give every store a directory of its own, best on its own disk",
        ),
        _ => twice_error(&ConfigError::SameStore {
            path: path.to_path_buf(),
        }),
    }
}

fn twice_error(error: &ConfigError) -> Failure {
    Failure::refuse(
        Exit::StorePath,
        error.to_string(),
        "give every store a directory of its own, best on its own disk",
    )
}

fn not_a_dir(path: &Path) -> Failure {
    Failure::refuse(
        Exit::StorePath,
        format!("the store {} is not a directory", path.display()),
        "name an empty directory, or one that does not exist yet",
    )
}

fn unreadable(path: &Path) -> Failure {
    let why = std::fs::read_dir(path).err();
    let why = why.map_or_else(
        || "it changed meanwhile".to_owned(),
        |e| crate::os::words(&e),
    );
    Failure::refuse(
        Exit::StorePath,
        format!("the store {} cannot be read: {why}", path.display()),
        "look at its disk and its mount: `dmesg`, `findmnt`\n\
         or give another directory",
    )
}
