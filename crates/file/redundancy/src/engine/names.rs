//! Creating, linking and removing names.

use super::{Engine, Stores};
use crate::inode::{Files, Inode};
use crate::journal::dirty::Entry;
use crate::label::{Label, StoreIndex, StoreMask};
use crate::store::{Found, Make, Store, StoreFile};
use env::errno::{Errno, Fault, fault};
use mount::{Attr, Caller, Kind, NewObject, Result, SetAttr, SetTime};
use std::ffi::OsStr;
use std::sync::Arc;

/// Directories remembered for the next sync; past that everything is synced.
const DIR_OPS_MAX: usize = 32;

impl Engine {
    pub(crate) fn touch_names(&self, dir: &Inode) -> Result<()> {
        self.touch(dir, Entry::Names(dir.id), 0xff)
    }

    /// Remembers that a sub-directory of `dir` came, went or moved: the next sync of any file
    /// makes that durable on every member, because the file may lie below.
    pub(crate) fn note_dir_op(&self, dir: &Arc<Inode>) {
        let mut ops = self.dir_ops.lock();
        if ops.list.iter().any(|d| d.id == dir.id) {
            return;
        }
        if ops.list.len() >= DIR_OPS_MAX {
            ops.overflow = true;
        } else {
            ops.list.push(dir.clone());
        }
    }

    /// The names of `dir` have changed on the stores of `label` alone: where the member that decides
    /// for the directory is not among them its times are moved on there too.
    pub(crate) fn dir_changed(&self, dir: &Arc<Inode>, changed: &Stores) -> Result<()> {
        let Some(decider) = self.copies_of(dir).first().copied() else {
            return Err(Errno::IO);
        };
        if changed.contains(&decider) {
            return Ok(());
        }
        let change = SetAttr {
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        let moved = self
            .node_on(dir, decider)
            .and_then(|node| self.store(decider)?.set_attr(&node, &change));
        match moved {
            Err(errno) => self.fence_for(decider, errno),
            Ok(()) => Ok(()),
        }
    }

    /// Creates an object on every store that is to hold it.
    pub(crate) fn make_object(
        &self,
        caller: &Caller,
        dir: &Arc<Inode>,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Arc<Inode>, Attr)> {
        let _gate = self.begin()?;
        self.touch_names(dir)?;
        let is_dir = matches!(object, NewObject::Dir);
        let id = self.next_id();
        let mut full = StoreMask::default();
        let generation = self.generation();
        loop {
            let (home, copies) = self.choose(full);
            let label = Label {
                id,
                home,
                copies,
                set: self.set.short(),
            };
            let make = Make {
                object,
                mode,
                umask: caller.umask,
                uid: caller.uid,
                gid: caller.gid,
                label,
            };
            match self.make_copies(dir, name, &make, is_dir)? {
                Made::Done(made) => {
                    let attr = made.first().ok_or(Errno::IO)?.1.attr;
                    let inode = self.inodes.obtain(label, attr.kind);
                    inode.set_no_capability();
                    inode.set_hint(dir, name);
                    let mut files = Files::new();
                    for (store, found, file) in made {
                        inode.set_node(store, found.node);
                        files.extend(file.map(|file| (store, file)));
                    }
                    self.keep_open(&inode, generation, files);
                    if is_dir {
                        self.note_dir_op(dir);
                    }
                    self.dir_changed(dir, &self.copies_of(&inode))?;
                    return Ok((inode, attr));
                }
                Made::Full(store) if is_dir || full.has(store) => return Err(Errno::NOSPC),
                Made::Full(store) => full = full.with(store),
            }
        }
    }

    /// One attempt: all copies or, where a store is full, none.
    fn make_copies(
        &self,
        dir: &Arc<Inode>,
        name: &OsStr,
        make: &Make<'_>,
        is_dir: bool,
    ) -> Result<Made> {
        let mut made: Vec<MadeCopy> = Vec::new();
        for index in self.copies(&make.label, is_dir) {
            let answer = self.store(index).and_then(|store| {
                let node = self.node_on(dir, index)?;
                self.make_on(&*store, index, &node, name, make)
            });
            match answer {
                Ok((found, file)) => made.push((index, found, file)),
                Err(errno) => match fault(errno) {
                    Fault::Caller if made.is_empty() => return Err(errno),
                    Fault::NoSpace | Fault::Transient => {
                        self.undo_make(dir, name, is_dir, &made);
                        if fault(errno) == Fault::Transient {
                            return Err(errno);
                        }
                        return Ok(Made::Full(index));
                    }
                    _ => self.fence_for(index, errno)?,
                },
            }
        }
        if made.is_empty() {
            Err(Errno::IO)
        } else {
            Ok(Made::Done(made))
        }
    }

    fn make_on(
        &self,
        store: &dyn Store,
        index: StoreIndex,
        dir: &crate::store::Node,
        name: &OsStr,
        make: &Make<'_>,
    ) -> Result<(Found, Option<Arc<dyn StoreFile>>)> {
        match store.make_open(dir, name, make) {
            Err(Errno::EXIST) => {
                // What bears no label of this set is not in the way of users: it is kept aside.
                let there = store.lookup(dir, name)?;
                if self.label_of(&there).is_some() {
                    return Err(Errno::EXIST);
                }
                tracing::warn!(
                    store = index.0,
                    name = %name.display(),
                    "an object that is not Holdfast's was in the way and is kept in .holdfast/aside"
                );
                let aside = store.aside()?;
                let kept = format!("foreign-{:016x}", make.label.id.0);
                store.rename(
                    dir,
                    name,
                    &aside,
                    OsStr::new(&kept),
                    mount::RenameFlags::NOREPLACE,
                )?;
                store.make_open(dir, name, make)
            }
            other => other,
        }
    }

    fn undo_make(&self, dir: &Arc<Inode>, name: &OsStr, is_dir: bool, made: &[MadeCopy]) {
        for (index, ..) in made {
            let undo = self.store(*index).and_then(|store| {
                let node = self.node_on(dir, *index)?;
                if is_dir {
                    store.remove_dir(&node, name)
                } else {
                    store.unlink(&node, name)
                }
            });
            if let Err(errno) = undo {
                // The names differ now; the store comes back through a comparison.
                let _ = self.fence_for(*index, errno);
            }
        }
    }

    /// Gives `inode` another name.
    pub(crate) fn link_name(
        &self,
        inode: &Arc<Inode>,
        dir: &Arc<Inode>,
        name: &OsStr,
    ) -> Result<Attr> {
        let _gate = self.begin()?;
        self.touch_names(dir)?;
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        inode.set_several_names();
        inode.set_renamed(self.journal.epoch());
        self.on_each(&self.copies_of(inode), |index, store| {
            store.link(
                &self.node_on(inode, index)?,
                &self.node_on(dir, index)?,
                name,
            )
        })?;
        inode.set_hint(dir, name);
        self.dir_changed(dir, &self.copies_of(inode))?;
        self.attr_of(inode)
    }

    /// Removes a name that is not a directory's.
    pub(crate) fn unlink_name(&self, dir: &Arc<Inode>, name: &OsStr) -> Result<()> {
        let _gate = self.begin()?;
        let (inode, attr) = self.find(dir, name)?;
        if inode.is_dir() {
            return Err(Errno::ISDIR);
        }
        self.touch_names(dir)?;
        self.settle_renames(&inode)?;
        self.pin(&inode, &attr)?;
        let _renaming = inode.renaming();
        let gone = self.on_each(&self.copies_of(&inode), |index, store| {
            store.unlink(&self.node_on(dir, index)?, name)
        });
        if gone.is_err() {
            self.let_go_of(&inode);
        }
        gone?;
        self.lost_name(&inode, &attr, dir, name);
        self.dir_changed(dir, &self.copies_of(&inode))
    }

    /// Before a name of `inode` goes: what must stay reachable without it is made so.
    pub(crate) fn pin(&self, inode: &Arc<Inode>, attr: &Attr) -> Result<()> {
        if attr.nlink > 1 {
            inode.set_several_names();
            // A store that loses this change finds the object by what the journal says of it:
            // its other names may be in directories that have not changed.
            self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
            for index in self.copies_of(inode) {
                if let Err(errno) = self.node_on(inode, index) {
                    self.fence_for(index, errno)?;
                }
            }
        } else if inode.kind == Kind::File {
            self.open_copies(inode, true)?;
            self.hold(inode)?;
        }
        Ok(())
    }

    /// After a name of `inode` went.
    pub(crate) fn lost_name(
        &self,
        inode: &Arc<Inode>,
        attr: &Attr,
        dir: &Arc<Inode>,
        name: &OsStr,
    ) {
        inode.drop_hint(dir, name);
        if attr.nlink <= 1 || inode.is_dir() {
            inode.set_nameless();
        }
        inode.set_renamed(self.journal.epoch());
    }

    /// Whether a directory has no entry on any member: a file may be on other stores than the
    /// one that is asked first.
    pub(crate) fn is_empty_dir(&self, dir: &Arc<Inode>) -> Result<bool> {
        for (index, store) in self.member_stores() {
            let mut entries = 0usize;
            let answer = self
                .node_on(dir, index)
                .and_then(|node| store.list(&node, &mut |_, _| entries += 1));
            match answer {
                Err(errno) if fault(errno) == Fault::Caller => return Err(errno),
                Err(errno) => self.fence_for(index, errno)?,
                Ok(()) if entries > 0 => return Ok(false),
                Ok(()) => {}
            }
        }
        Ok(true)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir_name(&self, dir: &Arc<Inode>, name: &OsStr) -> Result<()> {
        let _gate = self.begin()?;
        let (inode, attr) = self.find(dir, name)?;
        if !inode.is_dir() {
            return Err(Errno::NOTDIR);
        }
        if !self.is_empty_dir(&inode)? {
            return Err(Errno::NOTEMPTY);
        }
        self.touch_names(dir)?;
        self.touch_names(&inode)?;
        self.settle_renames(&inode)?;
        let members: Stores = self.members().iter().collect();
        let _renaming = inode.renaming();
        self.on_each(&members, |index, store| {
            store.remove_dir(&self.node_on(dir, index)?, name)
        })?;
        self.lost_name(&inode, &attr, dir, name);
        self.note_dir_op(dir);
        Ok(())
    }
}

/// One copy of what was made, open where it is a file and the store had it open.
type MadeCopy = (StoreIndex, Found, Option<Arc<dyn StoreFile>>);

enum Made {
    Done(Vec<MadeCopy>),
    Full(StoreIndex),
}
