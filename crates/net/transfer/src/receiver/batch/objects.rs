//! What is no file's content: names, directories, links, nodes.

use super::{Worker, carry, fatal, kept_less, missing, refused};
use crate::entry::{Entry, TreePath, What};
use crate::error::TransferError;
use crate::manifest::{Kind, Listed, Object};
use crate::message::Placed;
use crate::receiver::staging::name;
use crate::walk::meta;
use env::errno::Errno;
use rustix::fs::{
    AtFlags, FileType, Mode, fstat, linkat, mkdirat, mknodat, renameat, statat, symlinkat, unlinkat,
};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

impl Worker<'_> {
    /// Renames something that is complete from the staging directory to its path; whether it is
    /// there.
    pub(super) fn settle(
        &mut self,
        from: &CString,
        entry: &Entry,
        touched: &mut BTreeSet<TreePath>,
        placed: &mut Placed,
    ) -> Result<bool, TransferError> {
        let Some((parent, to)) = entry.path.split() else {
            missing(placed, &entry.path, "the root is a directory".to_owned());
            return Ok(false);
        };
        let answer = self.root.directory(&parent).and_then(|dir| {
            let before = self.mends.then(|| fstat(&dir)).transpose()?;
            renameat(self.staging.dir(), from, &dir, to)?;
            before.map_or(Ok(()), |stat| {
                carry::set_modified(&dir, meta(&stat).modified)
            })
        });
        match answer {
            Ok(()) => {
                touched.insert(parent);
                Ok(true)
            }
            Err(errno) => {
                refused(placed, &entry.path, errno)?;
                Ok(false)
            }
        }
    }

    /// Makes what is no file; whether it is there.
    pub(super) fn other(
        &mut self,
        entry: &Entry,
        touched: &mut BTreeSet<TreePath>,
        placed: &mut Placed,
    ) -> Result<bool, TransferError> {
        let made = match &entry.what {
            What::Directory => return self.enter(entry, touched, placed),
            What::Leave => return self.leave(entry, touched, placed),
            What::File(_) => return Err(TransferError::Violation("a file without content")),
            What::SameAs(first) => self.link(first),
            What::Link(target) => self.make(
                entry,
                true,
                |dir, name| symlinkat(&target[..], dir, name),
                placed,
            ),
            What::Pipe => self.node(entry, FileType::Fifo, 0, placed),
            What::Socket => self.node(entry, FileType::Socket, 0, placed),
            What::Character(number) => self.node(entry, FileType::CharacterDevice, *number, placed),
            What::Block(number) => self.node(entry, FileType::BlockDevice, *number, placed),
        };
        match made {
            Ok(name) => {
                let there = self.settle(&name, entry, touched, placed)?;
                // What could not be renamed; and a further name of the file that is there already,
                // which rename(2) leaves where it was.
                let _none = unlinkat(self.staging.dir(), &name, AtFlags::empty());
                Ok(there)
            }
            Err(errno) => {
                refused(placed, &entry.path, errno)?;
                Ok(false)
            }
        }
    }

    /// Lists what is no file and is in place, where all objects are.
    pub(super) fn list(&mut self, entry: Entry, placed: &mut Placed) -> Result<(), TransferError> {
        if !self.evidence.lists() {
            return Ok(());
        }
        let Entry { path, what, .. } = entry;
        if let What::SameAs(first) = what {
            return self.evidence.list(&Listed::Name { path, first });
        }
        match Object::look(&mut self.root, &path) {
            Ok((object, _)) if object.kind != Kind::File => {
                self.evidence.list(&Listed::Object(object))
            }
            Ok(_) => {
                missing(placed, &path, "a file has come into its place".to_owned());
                Ok(())
            }
            Err(errno) => refused(placed, &path, errno),
        }
    }

    fn node(
        &self,
        entry: &Entry,
        kind: FileType,
        number: u64,
        placed: &mut Placed,
    ) -> Result<CString, Errno> {
        let mode = Mode::RUSR | Mode::WUSR;
        self.make(
            entry,
            false,
            |dir, name| mknodat(dir, name, kind, mode, number),
            placed,
        )
    }

    /// Makes something in the staging directory, and gives it what it carries.
    fn make(
        &self,
        entry: &Entry,
        link: bool,
        make: impl FnOnce(&OwnedFd, &CString) -> Result<(), Errno>,
        placed: &mut Placed,
    ) -> Result<CString, Errno> {
        let name = name(self.staging.number(), "part");
        make(self.staging.dir(), &name)?;
        let lost = carry::to_name(self.staging.dir().as_fd(), &name, &entry.meta, link)?;
        kept_less(placed, &entry.path, lost);
        Ok(name)
    }

    fn link(&mut self, first: &TreePath) -> Result<CString, Errno> {
        let (parent, from) = first.split().ok_or(Errno::ISDIR)?;
        let dir = self.root.directory(&parent)?;
        let name = name(self.staging.number(), "part");
        linkat(dir, from, self.staging.dir(), &name, AtFlags::empty())?;
        Ok(name)
    }

    fn enter(
        &mut self,
        entry: &Entry,
        touched: &mut BTreeSet<TreePath>,
        placed: &mut Placed,
    ) -> Result<bool, TransferError> {
        let Some((parent, name)) = entry.path.split() else {
            return Ok(false);
        };
        let dir = match self.root.directory(&parent) {
            Ok(dir) => dir,
            Err(errno) => {
                refused(placed, &entry.path, errno)?;
                return Ok(false);
            }
        };
        match mkdirat(&dir, name, Mode::RWXU) {
            Ok(()) => {
                touched.insert(parent);
            }
            Err(Errno::EXIST) => {
                let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fatal)?;
                if !FileType::from_raw_mode(stat.st_mode).is_dir() {
                    refused(placed, &entry.path, Errno::NOTDIR)?;
                }
            }
            Err(errno) => refused(placed, &entry.path, errno)?,
        }
        Ok(false)
    }

    fn leave(
        &mut self,
        entry: &Entry,
        touched: &mut BTreeSet<TreePath>,
        placed: &mut Placed,
    ) -> Result<bool, TransferError> {
        // Where it could not be made this was said already.
        let Ok(dir) = self.root.directory(&entry.path) else {
            return Ok(false);
        };
        match carry::to_open(&dir, &entry.meta) {
            Ok(lost) => kept_less(placed, &entry.path, lost),
            Err(errno) => refused(placed, &entry.path, errno)?,
        }
        touched.insert(entry.path.clone());
        Ok(true)
    }
}
