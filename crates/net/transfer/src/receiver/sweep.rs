//! What the destination has and the source does not.

use super::batch::problem;
use super::carry::set_modified;
use super::root::Root;
use crate::entry::{DEPTH_MAX, Entry, STAGING, TreePath, What};
use crate::error::TransferError;
use crate::filter::Filter;
use crate::message::Placed;
use crate::walk::{meta, words};
use env::errno::Errno;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, fsync, openat2, statat, unlinkat,
};
use std::collections::HashSet;
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

/// Bytes of all paths that are found; where there are more nothing is deleted.
const PATHS_MAX: usize = 64 << 20;

/// Names of the directories that are open, of the source, together; where there are more nothing is
/// deleted. Each takes up to 18 bytes of memory.
const NAMES_MAX: usize = 5_000_000;

/// Never to another file system: what is mounted there was not meant.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// A directory of the source that is open.
struct Level {
    path: TreePath,
    names: HashSet<u64>,
}

/// Finds what is to be deleted while entries come, and deletes it at the end.
pub(super) struct Sweep {
    filter: Filter,
    open: Vec<Level>,
    names: usize,
    hasher: RandomState,
    /// Paths, each with a NUL behind it.
    found: Vec<u8>,
    /// Why nothing can be deleted.
    blind: Option<&'static str>,
}

/// What comes of an object that is to go.
enum Fate {
    Gone,
    /// It holds something that the filter keeps.
    Kept,
}

/// What is done with what was found.
pub(super) enum Act<'a> {
    /// It is counted, and named.
    Name(&'a mut dyn FnMut(TreePath) -> Result<(), TransferError>),
    /// It goes.
    Delete(&'a mut Placed),
}

impl Sweep {
    pub(super) fn new(filter: Filter) -> Sweep {
        Sweep {
            filter,
            open: Vec::new(),
            names: 0,
            hasher: RandomState::new(),
            found: Vec::new(),
            blind: None,
        }
    }

    /// Takes an entry of the source, in its order.
    pub(super) fn take(&mut self, entry: &Entry, root: &mut Root) {
        if entry.what == What::Leave {
            match self.open.pop() {
                Some(level) if level.path == entry.path => {
                    self.names -= level.names.len();
                    if let Err(why) = self.look(&level, root) {
                        self.blind = Some(why);
                    }
                }
                _ => self.blind = Some("its directories came out of order"),
            }
            return;
        }
        if let Some((parent, name)) = entry.path.split() {
            let name = self.hasher.hash_one(name);
            match self.open.last_mut().filter(|level| level.path == parent) {
                Some(level) => self.names += usize::from(level.names.insert(name)),
                None => self.blind = Some("its directories came out of order"),
            }
        }
        if self.names > NAMES_MAX {
            self.blind = Some("a directory has too many names");
        }
        if entry.what == What::Directory {
            self.open.push(Level {
                path: entry.path.clone(),
                names: HashSet::new(),
            });
        }
    }

    /// Looks for what a directory has besides.
    fn look(&mut self, level: &Level, root: &mut Root) -> Result<(), &'static str> {
        const UNREAD: &str = "a directory of the destination cannot be read";
        let dir = match root.directory(&level.path) {
            Ok(dir) => dir,
            // It is not made yet, or cannot be: nothing is in it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(_) => return Err(UNREAD),
        };
        for entry in Dir::read_from(&dir).map_err(|_| UNREAD)? {
            let entry = entry.map_err(|_| UNREAD)?;
            let name = entry.file_name();
            let bytes = name.to_bytes();
            let own = level.path.is_root() && bytes == STAGING.as_bytes();
            if bytes == b"." || bytes == b".." || own {
                continue;
            }
            if level.names.contains(&self.hasher.hash_one(bytes)) {
                continue;
            }
            let path = level.path.join(bytes);
            let Ok(is_dir) = is_dir(&dir, name, entry.file_type()) else {
                continue;
            };
            if !self.filter.sends(path.as_bytes(), is_dir) {
                continue;
            }
            if self.found.len() + path.as_bytes().len() >= PATHS_MAX {
                return Err("more is found than can be listed");
            }
            self.found.extend_from_slice(path.as_bytes());
            self.found.push(0);
        }
        Ok(())
    }

    /// How many objects there are; why none can be deleted.
    pub(super) fn count(&self, root: &mut Root) -> Result<u64, &'static str> {
        if let Some(why) = self.blind {
            return Err(why);
        }
        if !self.open.is_empty() {
            return Err("its directories came out of order");
        }
        let mut count = 0;
        let counted = self.act(
            root,
            &mut Act::Name(&mut |_| {
                count += 1;
                Ok(())
            }),
        );
        counted.map_err(|_| "they cannot be counted")?;
        Ok(count)
    }

    /// Does with all of it what is to be done; how many objects that were.
    pub(super) fn act(&self, root: &mut Root, act: &mut Act<'_>) -> Result<u64, TransferError> {
        let mut count = 0;
        let mut at: Option<(TreePath, std::sync::Arc<OwnedFd>, _)> = None;
        let paths = self.found.split(|byte| *byte == 0);
        for bytes in paths.filter(|path| !path.is_empty()) {
            let path = TreePath::from_bytes(bytes.to_vec());
            let Some((parent, name)) = path.split() else {
                continue;
            };
            if at.as_ref().is_none_or(|(open, ..)| *open != parent) {
                close(at.take());
                // A directory that has gone since has nothing to delete.
                let Ok(dir) = root.directory(&parent) else {
                    continue;
                };
                let modified = fstat(&dir).map(|stat| meta(&stat).modified);
                at = Some((parent.clone(), dir, modified.ok()));
            }
            let Some((_, dir, _)) = &at else { continue };
            let name = std::ffi::CString::new(name).unwrap_or_default();
            self.object(dir, &name, &path, 0, act, &mut count)?;
        }
        close(at.take());
        root.forget();
        Ok(count)
    }

    /// One object, with all that is in it.
    fn object(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        path: &TreePath,
        depth: usize,
        act: &mut Act<'_>,
        count: &mut u64,
    ) -> Result<Fate, TransferError> {
        let mut fate = Fate::Gone;
        let is_dir = match is_dir(dir, name, FileType::Unknown) {
            Ok(is_dir) => is_dir,
            Err(_) => return Ok(fate),
        };
        if !self.filter.sends(path.as_bytes(), is_dir) {
            return Ok(Fate::Kept);
        }
        if is_dir {
            match self.within(dir, name, path, depth, act, count)? {
                Ok(Fate::Gone) => {}
                Ok(Fate::Kept) => fate = Fate::Kept,
                Err(errno) => {
                    stays(act, path, errno);
                    return Ok(Fate::Kept);
                }
            }
        }
        if matches!(fate, Fate::Kept) {
            return Ok(fate);
        }
        match act {
            Act::Name(tell) => tell(path.clone())?,
            Act::Delete(_) => {
                let flags = match is_dir {
                    true => AtFlags::REMOVEDIR,
                    false => AtFlags::empty(),
                };
                match unlinkat(dir, name, flags) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => {
                        stays(act, path, errno);
                        return Ok(Fate::Kept);
                    }
                }
            }
        }
        *count += 1;
        Ok(fate)
    }

    /// What is in a directory.
    fn within(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        path: &TreePath,
        depth: usize,
        act: &mut Act<'_>,
        count: &mut u64,
    ) -> Result<Result<Fate, Errno>, TransferError> {
        if depth > DEPTH_MAX {
            return Ok(Err(Errno::NAMETOOLONG));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat2(dir, name, flags, Mode::empty(), RESOLVE)
            .and_then(|opened| Dir::read_from(&opened).map(|names| (opened, names)));
        let (opened, names) = match opened {
            Ok(opened) => opened,
            Err(errno) => return Ok(Err(errno)),
        };
        let mut fate = Fate::Gone;
        for found in names {
            let found = match found {
                Ok(found) => found,
                Err(errno) => return Ok(Err(errno)),
            };
            let name = found.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let path = path.join(name.to_bytes());
            if let Fate::Kept = self.object(&opened, name, &path, depth + 1, act, count)? {
                fate = Fate::Kept;
            }
        }
        Ok(Ok(fate))
    }
}

/// Makes what was deleted of a directory durable, and gives it back the time that it had.
fn close(
    at: Option<(
        TreePath,
        std::sync::Arc<OwnedFd>,
        Option<crate::entry::Time>,
    )>,
) {
    let Some((_, dir, modified)) = at else {
        return;
    };
    let changed = fstat(&dir).is_ok_and(|stat| Some(meta(&stat).modified) != modified);
    if let (true, Some(modified)) = (changed, modified) {
        // What is deleted is gone from sight, and a crash that brings it back harms nobody.
        let _late = set_modified(&dir, modified);
        let _synced = fsync(&dir);
    }
}

fn stays(act: &mut Act<'_>, path: &TreePath, errno: Errno) {
    if let Act::Delete(placed) = act {
        let why = match errno {
            Errno::XDEV | Errno::BUSY => "another file system is mounted there".to_owned(),
            errno => words(errno),
        };
        problem(
            placed,
            path,
            format!("it could not be deleted: {why}"),
            false,
        );
    }
}

fn is_dir(dir: &OwnedFd, name: &CStr, told: FileType) -> Result<bool, Errno> {
    match told {
        FileType::Unknown => {
            let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(stat.st_mode).is_dir())
        }
        told => Ok(told.is_dir()),
    }
}
