//! The source tree, entry by entry.

use crate::entry::{
    ATTRIBUTES_MAX, DEPTH_MAX, Entry, Meta, PATH_MAX, STAGING, Source, Time, TreePath, What,
};
use crate::error::TransferError;
use crate::filter::Filter;
use env::errno::Errno;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat,
};
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

mod attributes;

pub(crate) use attributes::{grown, is_carried, read as attributes_of};

/// Files with several names whose other names have not come yet.
const LINKS_MAX: usize = 500_000;

/// What a walk comes to.
pub(crate) enum Step {
    /// An entry, and where to open it again.
    Entry(Entry, Place),
    /// Something that cannot be sent.
    Problem(TreePath, String),
}

/// A name in a directory that is open.
#[derive(Clone)]
pub(crate) struct Place {
    dir: Arc<OwnedFd>,
    name: CString,
}

impl Place {
    /// Opens the object for reading; a link is not followed, a pipe not waited for.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.dir, &self.name, flags, Mode::empty())
    }

    /// The entry as it is now, at the path that it had.
    pub(crate) fn look_again(&self, entry: &Entry) -> Result<Entry, Errno> {
        let stat = statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Errno::NOENT);
        }
        Ok(Entry {
            path: entry.path.clone(),
            meta: Meta {
                attributes: attributes::read(&self.dir, &self.name)?,
                ..meta(&stat)
            },
            what: What::File(source(&stat)),
        })
    }
}

struct Level {
    dir: Arc<OwnedFd>,
    names: Dir,
    /// The directory's own entry, for when it is left.
    entry: Entry,
    place: Place,
}

/// A walk through a tree, depth first, each directory before and after what is in it.
pub(crate) struct Walk {
    levels: Vec<Level>,
    /// Device and inode to the first name.
    links: HashMap<(u64, u64), (TreePath, u64)>,
    /// The only step, where the source is no directory.
    only: Option<Step>,
    filter: Filter,
}

impl Walk {
    /// Begins at `path`: a directory, whose content is the tree but for what `filter` leaves out, or
    /// a file, which is.
    pub(crate) fn new(path: &Path, filter: Filter) -> Result<Walk, TransferError> {
        let doing = TransferError::io("the source cannot be opened");
        let mut walk = Walk {
            levels: Vec::new(),
            links: HashMap::new(),
            only: None,
            filter,
        };
        let stat = rustix::fs::stat(path).map_err(&doing)?;
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let dir = open(path, DIRECTORY, Mode::empty()).map_err(&doing)?;
            let dir = Arc::new(dir);
            let place = Place {
                dir: dir.clone(),
                name: c".".to_owned(),
            };
            let first = walk.enter(place, TreePath::root(), &stat).map_err(&doing)?;
            walk.only = Some(first);
            return Ok(walk);
        }
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let dir = open(parent, DIRECTORY, Mode::empty()).map_err(&doing)?;
        let name = CString::new(name.as_bytes()).map_err(|_| doing(Errno::INVAL))?;
        walk.only = Some(walk.step(Arc::new(dir), &TreePath::root(), &name, true));
        Ok(walk)
    }

    /// Goes into a directory.
    fn enter(&mut self, place: Place, path: TreePath, stat: &Stat) -> Result<Step, Errno> {
        let dir = openat(&place.dir, &place.name, DIRECTORY, Mode::empty())?;
        let names = Dir::read_from(&dir)?;
        let entry = Entry {
            path,
            meta: Meta {
                attributes: attributes::read(&place.dir, &place.name)?,
                ..meta(stat)
            },
            what: What::Directory,
        };
        self.levels.push(Level {
            dir: Arc::new(dir),
            names,
            entry: entry.clone(),
            place: place.clone(),
        });
        Ok(Step::Entry(entry, place))
    }

    fn step(&mut self, dir: Arc<OwnedFd>, parent: &TreePath, name: &CStr, follow: bool) -> Step {
        let path = parent.join(name.to_bytes());
        let place = Place {
            dir,
            name: name.to_owned(),
        };
        match self.look(place, path.clone(), follow) {
            Ok(step) => step,
            Err(errno) => Step::Problem(path, format!("it cannot be read: {}", words(errno))),
        }
    }

    fn look(&mut self, place: Place, path: TreePath, follow: bool) -> Result<Step, Errno> {
        let flags = match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        let stat = statat(&place.dir, &place.name, flags)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.levels.len() > DEPTH_MAX || path.as_bytes().len() > PATH_MAX {
            return Ok(Step::Problem(path, "it is too deep".to_owned()));
        }
        if kind.is_dir() {
            return self.enter(place, path, &stat);
        }
        if stat.st_nlink > 1
            && let Some(first) = self.other_name(&stat, &path)
        {
            let entry = Entry {
                path,
                meta: Meta::default(),
                what: What::SameAs(first),
            };
            return Ok(Step::Entry(entry, place));
        }
        let what = match kind {
            FileType::RegularFile => What::File(source(&stat)),
            FileType::Symlink => {
                What::Link(readlinkat(&place.dir, &place.name, Vec::new())?.into_bytes())
            }
            FileType::Fifo => What::Pipe,
            FileType::Socket => What::Socket,
            FileType::CharacterDevice => What::Character(stat.st_rdev),
            FileType::BlockDevice => What::Block(stat.st_rdev),
            _ => return Ok(Step::Problem(path, "its type is not known".to_owned())),
        };
        let attributes = attributes::read(&place.dir, &place.name)?;
        let bytes = attributes
            .iter()
            .map(|(name, value)| name.len() + value.len());
        if bytes.sum::<usize>() > ATTRIBUTES_MAX {
            let words = "its extended attributes are too long".to_owned();
            return Ok(Step::Problem(path, words));
        }
        let meta = Meta {
            attributes,
            ..meta(&stat)
        };
        Ok(Step::Entry(Entry { path, meta, what }, place))
    }

    /// The first name of a file with several, where this is not it.
    fn other_name(&mut self, stat: &Stat, path: &TreePath) -> Option<TreePath> {
        let id = (stat.st_dev, stat.st_ino);
        if let Some((first, left)) = self.links.get_mut(&id) {
            let first = first.clone();
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.links.remove(&id);
            }
            return Some(first);
        }
        if self.links.len() < LINKS_MAX {
            let left = stat.st_nlink.saturating_sub(1);
            self.links.insert(id, (path.clone(), left));
        }
        None
    }
}

/// A file of the source by its path, where it is one with no other name.
pub(crate) fn find(source: &Path, path: &TreePath) -> Result<(Entry, Place), Errno> {
    let root = match rustix::fs::stat(source)? {
        stat if FileType::from_raw_mode(stat.st_mode).is_dir() => source,
        _ => match source.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        },
    };
    let (parent, name) = path.split().ok_or(Errno::ISDIR)?;
    let mut dir = open(root, DIRECTORY, Mode::empty())?;
    for name in parent.names() {
        dir = openat(&dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    let place = Place {
        dir: Arc::new(dir),
        name: CString::new(name).map_err(|_| Errno::INVAL)?,
    };
    let stat = statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_nlink > 1 {
        return Err(Errno::MLINK);
    }
    let entry = Entry {
        path: path.clone(),
        meta: Meta::default(),
        what: What::Leave,
    };
    Ok((place.look_again(&entry)?, place))
}

impl Iterator for Walk {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.only.take() {
            return Some(step);
        }
        loop {
            let at_root = self.levels.len() == 1;
            let level = self.levels.last_mut()?;
            let path = level.entry.path.clone();
            match level.names.next() {
                Some(Ok(found)) => {
                    let name = found.file_name();
                    let own = at_root && name.to_bytes() == STAGING.as_bytes();
                    if name == c"." || name == c".." || own {
                        continue;
                    }
                    let dir = level.dir.clone();
                    let name = name.to_owned();
                    if !self.filter.is_empty() {
                        let is_dir = is_dir(&dir, &name, found.file_type());
                        let whole = path.join(name.to_bytes());
                        if !self.filter.sends(whole.as_bytes(), is_dir) {
                            continue;
                        }
                    }
                    return Some(self.step(dir, &path, &name, false));
                }
                Some(Err(errno)) => {
                    self.levels.pop();
                    let what = format!("it cannot be listed: {}", words(errno));
                    return Some(Step::Problem(path, what));
                }
                None => {
                    let left = self.levels.pop()?;
                    let entry = Entry {
                        what: What::Leave,
                        ..left.entry
                    };
                    return Some(Step::Entry(entry, left.place));
                }
            }
        }
    }
}

/// Whether a name is a directory's. Not every file system tells it with the name.
fn is_dir(dir: &OwnedFd, name: &CStr, told: FileType) -> bool {
    match told {
        FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
        told => told.is_dir(),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// What a file is now, for comparison.
pub(crate) fn source_of(file: impl AsFd) -> Result<Source, Errno> {
    Ok(source(&fstat(file)?))
}

fn source(stat: &Stat) -> Source {
    Source {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

pub(crate) fn meta(stat: &Stat) -> Meta {
    Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        attributes: Vec::new(),
    }
}

fn time(seconds: impl TryInto<i64>, nanoseconds: impl TryInto<u32>) -> Time {
    Time {
        seconds: seconds.try_into().unwrap_or(0),
        nanoseconds: nanoseconds.try_into().unwrap_or(0),
    }
}

/// The path by which the kernel finds a name in a directory that is open, for calls that take
/// only paths.
pub(crate) fn path_of(dir: impl AsFd, name: &CStr) -> CString {
    let fd = dir.as_fd().as_raw_fd().to_string();
    let path = [b"/proc/self/fd/", fd.as_bytes(), b"/", name.to_bytes()].concat();
    // A number, and a name that had no NUL.
    CString::new(path).unwrap_or_default()
}

/// An error number in words.
pub(crate) fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let plain = text.split(" (os error").next().unwrap_or_default();
    plain.to_lowercase()
}
