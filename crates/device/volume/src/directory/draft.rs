//! A change of the tree on its way: worked out in memory, then put in the volume's queue as one
//! group, or undone.

use super::catalogue::Catalogue;
use super::folder::Named;
use super::inode::{self, Inode};
use super::page;
use super::{ORPHANS, TABLE, attributes_of, content_of, errno};
use crate::engine::Ticket;
use crate::id::ObjectId;
use crate::{BLOCK_BYTES, Change, Volume};
use mount::{Errno, Ino, Kind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A change of an object that owns its bytes.
#[derive(Debug)]
pub(super) enum Owned {
    Write(ObjectId, Vec<u8>),
    Resize(ObjectId, u64),
    Remove(ObjectId),
}

/// Changes that become one group.
pub(super) struct Draft<'a> {
    volume: &'a Volume,
    state: &'a mut Catalogue,
    /// Inodes as they were.
    before: BTreeMap<Ino, Option<Inode>>,
    /// Directories that changed, and their pages.
    pages: BTreeMap<ObjectId, BTreeSet<u32>>,
    objects: Vec<Owned>,
    /// Pages of the table that are to be written though no inode of them changed here.
    tables: BTreeSet<u32>,
    /// A planted bug: two groups.
    #[cfg(test)]
    split: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(volume: &'a Volume, state: &'a mut Catalogue) -> Draft<'a> {
        state.trim();
        Draft {
            volume,
            state,
            before: BTreeMap::new(),
            pages: BTreeMap::new(),
            objects: Vec::new(),
            tables: BTreeSet::new(),
            #[cfg(test)]
            split: false,
        }
    }

    #[cfg(test)]
    pub(super) fn split(&mut self, split: bool) {
        self.split = split;
    }

    /// Writes those of the pages of the table whose times are only in memory.
    pub(super) fn write_again(&mut self, pages: &[u32]) {
        let table = &self.state.table;
        let dirty = |number: &&u32| table.get(number).is_some_and(|page| page.dirty);
        self.tables.extend(pages.iter().filter(dirty));
    }

    /// An inode; ESTALE where there is none.
    pub(super) fn inode(&mut self, ino: Ino) -> Result<Inode> {
        self.state.inode(self.volume, ino)
    }

    /// A directory's inode; ENOTDIR for others.
    pub(super) fn dir(&mut self, ino: Ino) -> Result<Inode> {
        let inode = self.inode(ino)?;
        match inode.kind {
            Kind::Dir => Ok(inode),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Sets an inode, or frees its number.
    pub(super) fn set(&mut self, ino: Ino, inode: Option<Inode>) -> Result<()> {
        let (number, index) = inode::locate(ino).ok_or(Errno::STALE)?;
        let page = self.state.page(self.volume, number)?;
        let slot = page.inodes.get_mut(index).ok_or(Errno::STALE)?;
        let old = std::mem::replace(slot, inode);
        let was_dirty = std::mem::replace(&mut page.dirty, true);
        self.state.dirty += usize::from(!was_dirty);
        self.before.entry(ino).or_insert(old);
        Ok(())
    }

    /// Changes the times of an inode in memory; they are written with a later group, or this one.
    pub(super) fn touch(&mut self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        self.state.touch(self.volume, ino, change);
    }

    /// A number for a new inode.
    pub(super) fn allocate(&mut self) -> Result<Ino> {
        self.state.allocate()
    }

    /// What a name stands for; EIO where that is not known because a page is damaged.
    pub(super) fn find(&mut self, object: ObjectId, name: &[u8]) -> Result<Option<Named>> {
        let folder = self.state.folder(self.volume, object)?;
        match folder.get(name) {
            None if !folder.damaged.is_empty() => Err(Errno::IO),
            found => Ok(found),
        }
    }

    /// Whether a directory has no names.
    pub(super) fn is_empty(&mut self, object: ObjectId) -> Result<bool> {
        let folder = self.state.folder(self.volume, object)?;
        match folder.len() {
            0 if !folder.damaged.is_empty() => Err(Errno::IO),
            names => Ok(names == 0),
        }
    }

    /// Adds a name that is not there.
    pub(super) fn insert(
        &mut self,
        object: ObjectId,
        name: &[u8],
        ino: Ino,
        kind: Kind,
    ) -> Result<()> {
        let page = (self.state.folder(self.volume, object)?).insert(name, ino, kind);
        self.pages.entry(object).or_default().insert(page);
        Ok(())
    }

    /// Lets a name that is there stand for something else.
    pub(super) fn replace(
        &mut self,
        object: ObjectId,
        name: &[u8],
        ino: Ino,
        kind: Kind,
    ) -> Result<()> {
        let folder = self.state.folder(self.volume, object)?;
        let page = folder.replace(name, ino, kind).ok_or(Errno::NOENT)?;
        self.pages.entry(object).or_default().insert(page);
        Ok(())
    }

    /// Takes a name away.
    pub(super) fn remove(&mut self, object: ObjectId, name: &[u8]) -> Result<()> {
        let folder = self.state.folder(self.volume, object)?;
        let page = folder.remove(name).ok_or(Errno::NOENT)?;
        self.pages.entry(object).or_default().insert(page);
        Ok(())
    }

    /// Adds a change of an object.
    pub(super) fn object(&mut self, change: Owned) {
        self.objects.push(change);
    }

    /// Takes an inode that has no name out of the tree: at once, or, while it is open, into the
    /// directory of those.
    pub(super) fn drop_inode(&mut self, ino: Ino, inode: &Inode, is_open: bool) -> Result<()> {
        if is_open {
            let orphan = Inode { links: 0, ..*inode };
            self.set(ino, Some(orphan))?;
            return self.insert(ORPHANS, orphan_name(ino).as_bytes(), ino, inode.kind);
        }
        self.erase(ino, inode)
    }

    /// Takes an inode and all that it has out of the tree.
    pub(super) fn erase(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        self.set(ino, None)?;
        self.object(Owned::Remove(content_of(ino)));
        if inode.attributes {
            self.object(Owned::Remove(attributes_of(ino)));
        }
        if inode.kind == Kind::Dir {
            self.state.folders.remove(&content_of(ino));
            self.pages.remove(&content_of(ino));
        }
        Ok(())
    }

    /// Takes an inode out of the directory of removed files, and out of the tree.
    pub(super) fn bury(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        self.remove(ORPHANS, orphan_name(ino).as_bytes())?;
        self.erase(ino, &inode)
    }

    /// Puts the group in the volume's queue, with more changes of objects first. On an error all is as
    /// before.
    ///
    /// # Errors
    /// Of [`Volume::begin`].
    pub(super) fn begin(self, more: &[Change<'_>]) -> Result<Option<Ticket>> {
        let mut writes: Vec<(ObjectId, u32, Option<Vec<u8>>)> = Vec::new();
        let id = self.volume.id();
        let changed = self.before.keys().filter_map(|ino| inode::locate(*ino));
        let mut tables = self.tables.clone();
        tables.extend(changed.map(|(page, _)| page));
        for number in &tables {
            let Some(page) = self.state.table.get(number) else {
                continue;
            };
            let some = page.inodes.iter().any(Option::is_some);
            let bytes = some.then(|| inode::encode(id, *number, &page.inodes));
            writes.push((TABLE, *number, bytes));
        }
        for (object, pages) in &self.pages {
            if let Some(folder) = self.state.folders.get(object) {
                let encoded = pages.iter().map(|number| {
                    let mut bytes = folder.encode(id, *object, *number);
                    if *object == ORPHANS {
                        // Its pages keep their room, so that a full volume can put files there.
                        let none = || page::encode(id, ORPHANS, *number, std::iter::empty());
                        bytes.get_or_insert_with(none);
                    }
                    (*object, *number, bytes)
                });
                writes.extend(encoded);
            }
        }
        let unit = BLOCK_BYTES as u64;
        let objects = self.objects.iter().map(|change| match change {
            Owned::Write(object, bytes) => Change::Write {
                object: *object,
                offset: 0,
                bytes,
            },
            Owned::Resize(object, size) => Change::Resize {
                object: *object,
                size: *size,
            },
            Owned::Remove(object) => Change::Remove { object: *object },
        });
        let pages = writes.iter().map(|(object, number, bytes)| {
            let (object, offset) = (*object, u64::from(*number) * unit);
            match bytes {
                Some(bytes) => Change::Write {
                    object,
                    offset,
                    bytes,
                },
                None => Change::Discard {
                    object,
                    offset,
                    length: unit,
                },
            }
        });
        #[cfg_attr(not(test), expect(unused_mut))]
        let mut changes: Vec<Change<'_>> =
            more.iter().copied().chain(objects).chain(pages).collect();
        #[cfg(test)]
        if self.split && changes.len() > 1 {
            let rest = changes.split_off(changes.len() / 2);
            self.volume
                .commit(&changes)
                .map_err(|error| errno(&error))?;
            changes = rest;
        }
        if changes.is_empty() {
            return Ok(None);
        }
        match self.volume.begin(&changes) {
            Ok(ticket) => {
                self.state.last = Some(ticket);
                for number in tables {
                    if let Some(page) = self.state.table.get_mut(&number)
                        && std::mem::take(&mut page.dirty)
                    {
                        self.state.dirty -= 1;
                    }
                }
                Ok(Some(ticket))
            }
            Err(error) => {
                self.undo();
                Err(errno(&error))
            }
        }
    }

    /// Puts everything back as it was.
    pub(super) fn undo(self) {
        for (ino, inode) in self.before {
            // Its page is in memory: it was changed there, and nothing was read since.
            if let Some((number, index)) = inode::locate(ino)
                && let Some(page) = self.state.table.get_mut(&number)
                && let Some(slot) = page.inodes.get_mut(index)
            {
                *slot = inode;
            }
        }
        for object in self.pages.keys() {
            // It is read again when it is needed.
            self.state.folders.remove(object);
        }
    }
}

/// The name of a removed file in the hidden directory.
pub(super) fn orphan_name(ino: Ino) -> String {
    ino.0.to_string()
}
