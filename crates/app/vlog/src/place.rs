//! The directories of a log, and the names of its files.

use crate::error::{Result, VlogError};
use codec::{Corruption, Object};
use env::errno::Errno;
use env::{Dir, Disk, Open};
use std::sync::Arc;

/// A directory of a log.
#[derive(Clone)]
pub struct Directory {
    /// Where it is.
    pub dir: Arc<dyn Dir>,
    /// How messages call it.
    pub path: String,
}

impl Directory {
    /// An existing directory of this machine.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(path: &str) -> Result<Directory> {
        let dir = env::real::RealDir::open(path).map_err(VlogError::io("opening", path))?;
        Ok(Directory {
            dir: Arc::new(dir),
            path: path.to_owned(),
        })
    }
}

/// The newest version of each of the formats.
pub(crate) const VERSION: u16 = 1;

/// All directories of a log.
pub(crate) struct Places {
    name: String,
    directories: Vec<Directory>,
}

impl Places {
    pub(crate) fn new(name: &str, directories: Vec<Directory>) -> Result<Places> {
        let found = directories.len() as u64;
        if !(1..=256).contains(&found) {
            return Err(VlogError::Option {
                what: "the number of directories",
                found,
                min: 1,
                max: 256,
            });
        }
        Ok(Places {
            name: name.to_owned(),
            directories,
        })
    }

    pub(crate) fn count(&self) -> u32 {
        self.directories.len() as u32
    }

    pub(crate) fn dir(&self, index: u32) -> Result<&dyn Dir> {
        let directory = self.directories.get(index as usize);
        let directory = directory.ok_or(VlogError::Directories {
            expected: index + 1,
            found: self.count(),
        })?;
        Ok(directory.dir.as_ref())
    }

    /// The name of a file without a number.
    pub(crate) fn plain(&self, what: &str) -> String {
        format!("{}.{what}", self.name)
    }

    pub(crate) fn segment(&self, number: u64) -> String {
        format!("{}.{number:016x}.segment", self.name)
    }

    /// The number in the name of one of this log's segment files.
    pub(crate) fn parse_segment(&self, file: &str) -> Option<u64> {
        let rest = file.strip_prefix(&self.name)?.strip_prefix('.')?;
        let digits = rest.strip_suffix(".segment")?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        (self.segment(number) == file).then_some(number)
    }

    /// How messages call a file.
    pub(crate) fn shown(&self, index: u32, file: &str) -> String {
        match self.directories.get(index as usize) {
            Some(directory) => format!("{}/{file}", directory.path),
            None => file.to_owned(),
        }
    }

    /// The whole of a small file; `None` where it is not there.
    pub(crate) fn read(&self, index: u32, file: &str) -> Result<Option<Vec<u8>>> {
        match self.dir(index)?.read(file) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(VlogError::io("reading", &self.shown(index, file))(errno)),
        }
    }

    pub(crate) fn replace(&self, index: u32, file: &str, content: &[u8]) -> Result<()> {
        let replaced = self.dir(index)?.replace(file, content);
        replaced.map_err(VlogError::io("writing", &self.shown(index, file)))
    }

    /// Opens a segment file that has to be there.
    pub(crate) fn open(&self, index: u32, number: u64, how: Open) -> Result<Arc<dyn Disk>> {
        let file = self.segment(number);
        self.dir(index)?
            .open(&file, how)
            .map_err(|errno| match errno {
                Errno::NOENT => VlogError::Lost {
                    file: self.shown(index, &file),
                },
                errno => VlogError::io("opening", &self.shown(index, &file))(errno),
            })
    }

    /// Removes a segment file; one that is gone is fine.
    pub(crate) fn remove(&self, index: u32, number: u64) -> Result<()> {
        let file = self.segment(number);
        match self.dir(index)?.remove(&file) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(VlogError::io("removing", &self.shown(index, &file))(errno)),
        }
    }

    /// Opens a sealed object of a kind, of this log where that is known, and of a version that is.
    pub(crate) fn unseal<'a>(
        &self,
        index: u32,
        file: &str,
        bytes: &'a [u8],
        kind: u16,
        log: Option<u128>,
    ) -> Result<Object<'a>> {
        let shown = || self.shown(index, file);
        let object = codec::open_object(bytes, kind, None)
            .map_err(|why| VlogError::corrupt(&shown())(why))?;
        if object.version != VERSION {
            return Err(VlogError::Version {
                file: shown(),
                found: object.version,
                known: VERSION,
            });
        }
        if log.is_some_and(|log| object.identity.set != log.to_le_bytes()) {
            return Err(VlogError::Foreign { file: shown() });
        }
        Ok(object)
    }
}

/// A corruption of one of the small files.
pub(crate) fn wrong(what: &'static str, offset: u64, expected: u64, found: u64) -> Corruption {
    Corruption {
        what,
        offset,
        expected,
        found,
    }
}
