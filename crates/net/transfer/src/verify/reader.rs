//! Looking at the objects of one tree.

use super::difference::{self, Difference};
use crate::content::{next_data, range_length, read_range, sums_of};
use crate::entry::TreePath;
use crate::manifest::{Inode, Kind, Listed, Object, Proved};
use crate::message::RANGE_BYTES;
use crate::receiver::{Root, drop_cache};
use crate::root_sum::Summing;
use crate::walk::source_of;
use env::errno::Errno;
use rustix::fs::{FileType, fstat};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Reads files and looks at other objects of one tree.
pub(crate) struct Reader {
    root: Root,
    buffer: Vec<u8>,
}

/// What came of looking at an object.
#[derive(Default)]
pub(super) struct Looked {
    /// What is wrong with it.
    pub(super) differences: Vec<Difference>,
    /// Whether the kernel kept some of the file's content in memory.
    pub(super) cached: bool,
}

impl Reader {
    pub(crate) fn new(root: Arc<OwnedFd>) -> Reader {
        Reader {
            root: Root::new(root),
            buffer: vec![0; RANGE_BYTES],
        }
    }

    /// Forgets directories: names may have changed.
    pub(crate) fn forget(&mut self) {
        self.root.forget();
    }

    /// Holds an object against what a manifest says of it.
    pub(super) fn look(&mut self, listed: &Listed) -> Looked {
        let mut looked = Looked::default();
        let found = &mut looked.differences;
        let answer = match listed {
            Listed::File(proved) => {
                match self.compare(proved) {
                    Ok(cached) => looked.cached = cached,
                    Err(difference) => found.push(difference),
                }
                self.carried(proved, found)
            }
            Listed::Object(object) => self.object(object, found),
            Listed::Name { path, first } => self.name(path, first, found),
        };
        found.extend(answer.err());
        looked
    }

    /// What a file carries, where it is still one and that is known.
    fn carried(&mut self, proved: &Proved, found: &mut Vec<Difference>) -> Result<(), Difference> {
        let is_file = match found.first() {
            None | Some(Difference::Rotten | Difference::Written) => true,
            Some(_) => false,
        };
        let Some(carried) = proved.carried.as_ref().filter(|_| is_file) else {
            return Ok(());
        };
        let (now, _) = self.at(&proved.path)?;
        let was_written = found.contains(&Difference::Written);
        difference::carried((proved.modified, carried), &now, found);
        if was_written {
            // That it has another time is said by that.
            found.retain(|difference| !matches!(difference, Difference::Time(..)));
        }
        Ok(())
    }

    fn object(&mut self, object: &Object, found: &mut Vec<Difference>) -> Result<(), Difference> {
        let (now, _) = self.at(&object.path)?;
        difference::object(object, &now, found);
        Ok(())
    }

    fn name(
        &mut self,
        path: &TreePath,
        first: &TreePath,
        found: &mut Vec<Difference>,
    ) -> Result<(), Difference> {
        let (_, inode) = self.at(path)?;
        let same = self.at(first).is_ok_and(|(_, other)| inode == other);
        if !same {
            found.push(Difference::Name(first.clone()));
        }
        Ok(())
    }

    fn at(&mut self, path: &TreePath) -> Result<(Object, Inode), Difference> {
        Object::look(&mut self.root, path).map_err(not_reached)
    }

    /// Reads a file from the device; whether the kernel kept some of it all the same.
    pub(crate) fn compare(&mut self, proved: &Proved) -> Result<bool, Difference> {
        let file = match self.root.file(&proved.path) {
            Ok(file) => file,
            Err(errno) => return Err(self.no_file(&proved.path, errno)),
        };
        let unreadable = Difference::Unreadable;
        let stat = fstat(&file).map_err(unreadable)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(self.no_file(&proved.path, Errno::INVAL));
        }
        let before = source_of(&file).map_err(unreadable)?;
        let written = before.bytes != proved.bytes || before.modified != proved.modified;
        if before.bytes != proved.bytes {
            return Err(Difference::Written);
        }
        // Who may not know what is in memory has to believe the kernel.
        let cached = drop_cache(&file, (0, 0)).unwrap_or(1) > 0;
        let sum = self.sum(&file, proved.bytes).map_err(unreadable)?.finish();
        if sum == proved.sum {
            return Ok(cached);
        }
        let now = source_of(&file).map_err(unreadable)?;
        match written || now != before {
            true => Err(Difference::Written),
            false => Err(Difference::Rotten),
        }
    }

    /// Why something is not opened as a file.
    fn no_file(&mut self, path: &TreePath, errno: Errno) -> Difference {
        match self.at(path) {
            Ok((now, _)) if now.kind != Kind::File => Difference::Kind(Kind::File, now.kind),
            Ok(_) => Difference::Unreadable(errno),
            Err(difference) => difference,
        }
    }

    /// The sum of the first `length` bytes of a file, which more may be added to.
    pub(crate) fn sum(&mut self, file: impl AsFd, length: u64) -> Result<Summing, Errno> {
        let mut summing = Summing::new();
        let mut at = 0;
        while let Some((start, end)) = next_data(&file, at, length)? {
            let room = self.buffer.get_mut(..range_length(start, end));
            let room = room.ok_or(Errno::INVAL)?;
            let count = read_range(&file, start, room, true)?;
            let bytes = room.get(..count).unwrap_or_default();
            summing.add(start, count, &sums_of(bytes));
            if count < room.len() {
                break;
            }
            at = start + count as u64;
        }
        Ok(summing)
    }
}

fn not_reached(errno: Errno) -> Difference {
    match errno {
        Errno::NOENT => Difference::Missing,
        Errno::LOOP | Errno::NOTDIR => Difference::Way,
        errno => Difference::Unreadable(errno),
    }
}
