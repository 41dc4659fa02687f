//! Names: finding, making and removing them.

use super::draft::{Draft, Owned};
use super::inode::Inode;
use super::page::{NAME_MAX, is_name};
use super::{Tree, acl, attributes, attributes_of, content_of};
use mount::{Attr, Caller, Errno, Ino, Kind, Listing, NewObject, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Most names of a file.
const LINKS_MAX: u32 = 65_000;

/// Longest target of a symbolic link, in bytes (PATH_MAX of linux/limits.h less the NUL).
const TARGET_BYTES_MAX: usize = 4095;

/// A name that may be looked for.
pub(super) fn bytes_of(name: &OsStr) -> Result<&[u8]> {
    let bytes = name.as_bytes();
    match is_name(bytes) {
        true => Ok(bytes),
        false if bytes.len() > NAME_MAX => Err(Errno::NAMETOOLONG),
        false => Err(Errno::INVAL),
    }
}

impl Tree {
    pub(super) fn find(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Inode)> {
        let bytes = bytes_of(name)?;
        let object = content_of(dir);
        let warm = {
            let state = self.state.read();
            let known = state
                .folders
                .get(&object)
                .and_then(|folder| folder.get(bytes));
            known.and_then(|named| Some((named.ino, state.cached(named.ino)?)))
        };
        let (ino, inode) = match warm {
            Some((ino, inode)) => (ino, inode?),
            None => {
                let mut state = self.state.write();
                let mut draft = Draft::new(&self.volume, &mut state);
                draft.dir(dir)?;
                let named = draft.find(object, bytes)?.ok_or(Errno::NOENT)?;
                (named.ino, draft.inode(named.ino).map_err(damaged)?)
            }
        };
        self.note(ino, dir, name);
        Ok((ino, inode))
    }

    pub(super) fn make_object(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr)> {
        let bytes = bytes_of(name)?;
        let now = (self.now)();
        let (kind, device) = match object {
            NewObject::File => (Kind::File, 0),
            NewObject::Dir => (Kind::Dir, 0),
            NewObject::Symlink(_) => (Kind::Symlink, 0),
            NewObject::Special(kind, device) => (kind, device),
        };
        let inherited = self.inherited(dir, kind)?;
        let (ino, inode) = self.change(|draft| {
            let mut parent = draft.dir(dir)?;
            if draft.find(content_of(dir), bytes)?.is_some() {
                return Err(Errno::EXIST);
            }
            let is_dir = kind == Kind::Dir;
            if is_dir && parent.links >= LINKS_MAX {
                return Err(Errno::MLINK);
            }
            let ino = draft.allocate()?;
            let from_parent = parent.perm & 0o2000 != 0;
            let mut perm = (mode & 0o7777) as u16;
            if from_parent && is_dir {
                perm |= 0o2000;
            }
            let mut list = attributes::Attributes::new();
            if kind != Kind::Symlink {
                perm = acl::inherit(inherited.as_deref(), kind, perm, caller.umask, &mut list);
            }
            let inode = Inode {
                kind,
                perm,
                links: if is_dir { 2 } else { 1 },
                uid: caller.uid,
                gid: if from_parent { parent.gid } else { caller.gid },
                device,
                parent: if is_dir { dir } else { Ino(0) },
                attributes: !list.is_empty(),
                capability: false,
                atime: now,
                mtime: now,
                ctime: now,
            };
            draft.set(ino, Some(inode))?;
            draft.insert(content_of(dir), bytes, ino, kind)?;
            match object {
                NewObject::File | NewObject::Dir => {
                    draft.object(Owned::Resize(content_of(ino), 0));
                }
                NewObject::Symlink(target) => {
                    let target = target.as_bytes();
                    if target.len() > TARGET_BYTES_MAX {
                        return Err(Errno::NAMETOOLONG);
                    }
                    draft.object(Owned::Write(content_of(ino), target.to_vec()));
                }
                NewObject::Special(..) => {}
            }
            if !list.is_empty() {
                let object = attributes_of(ino);
                let bytes = attributes::encode(self.volume.id(), object, &list);
                draft.object(Owned::Write(object, bytes.ok_or(Errno::NOSPC)?));
            }
            parent.links += u32::from(is_dir);
            draft.names_changed(dir, parent, now, is_dir)?;
            Ok((ino, inode))
        })?;
        self.note(ino, dir, name);
        Ok((ino, self.attr_of(ino, &inode)))
    }

    pub(super) fn link_name(&self, ino: Ino, dir: Ino, name: &OsStr) -> Result<Attr> {
        let bytes = bytes_of(name)?;
        let now = (self.now)();
        let inode = self.change(|draft| {
            let parent = draft.dir(dir)?;
            let mut inode = draft.inode(ino)?;
            match inode {
                Inode {
                    kind: Kind::Dir, ..
                } => return Err(Errno::PERM),
                Inode { links: 0, .. } => return Err(Errno::NOENT),
                Inode { links, .. } if links >= LINKS_MAX => return Err(Errno::MLINK),
                _ => {}
            }
            if draft.find(content_of(dir), bytes)?.is_some() {
                return Err(Errno::EXIST);
            }
            inode.links += 1;
            inode.ctime = now;
            draft.set(ino, Some(inode))?;
            draft.insert(content_of(dir), bytes, ino, inode.kind)?;
            draft.names_changed(dir, parent, now, false)?;
            Ok(inode)
        })?;
        self.note(ino, dir, name);
        Ok(self.attr_of(ino, &inode))
    }

    pub(super) fn unlink_name(&self, dir: Ino, name: &OsStr) -> Result<()> {
        let bytes = bytes_of(name)?;
        let now = (self.now)();
        let gone = self.change(|draft| {
            let parent = draft.dir(dir)?;
            let named = draft.find(content_of(dir), bytes)?.ok_or(Errno::NOENT)?;
            if named.kind == Kind::Dir {
                return Err(Errno::ISDIR);
            }
            draft.remove(content_of(dir), bytes)?;
            let gone = self.lose_name(draft, named.ino, now)?;
            draft.names_changed(dir, parent, now, false)?;
            Ok(gone)
        })?;
        if let Some((ino, inode)) = gone {
            self.note_gone(ino, &inode);
        }
        Ok(())
    }

    pub(super) fn remove_dir_name(&self, dir: Ino, name: &OsStr) -> Result<()> {
        let bytes = bytes_of(name)?;
        let now = (self.now)();
        let (ino, inode) = self.change(|draft| {
            let mut parent = draft.dir(dir)?;
            let named = draft.find(content_of(dir), bytes)?.ok_or(Errno::NOENT)?;
            if named.kind != Kind::Dir {
                return Err(Errno::NOTDIR);
            }
            if !draft.is_empty(content_of(named.ino))? {
                return Err(Errno::NOTEMPTY);
            }
            let inode = draft.inode(named.ino).map_err(damaged)?;
            draft.remove(content_of(dir), bytes)?;
            draft.erase(named.ino, &inode)?;
            parent.links = parent.links.saturating_sub(1);
            draft.names_changed(dir, parent, now, true)?;
            Ok((named.ino, inode))
        })?;
        let inode = Inode {
            ctime: now,
            ..inode
        };
        self.note_gone(ino, &inode);
        Ok(())
    }

    /// Takes a name from a file that is no directory; what it was, where that was the last.
    pub(super) fn lose_name(
        &self,
        draft: &mut Draft<'_>,
        ino: Ino,
        now: mount::Timestamp,
    ) -> Result<Option<(Ino, Inode)>> {
        let mut inode = match draft.inode(ino) {
            Ok(inode) => inode,
            // Its page of the table is damaged: the name may go, the rest stays behind.
            Err(Errno::IO | Errno::STALE) => return Ok(None),
            Err(error) => return Err(error),
        };
        inode.ctime = now;
        inode.links = inode.links.saturating_sub(1);
        if inode.links > 0 {
            draft.set(ino, Some(inode))?;
            return Ok(None);
        }
        let is_open = self.handles.lock().is_open(ino);
        draft.drop_inode(ino, &inode, is_open)?;
        Ok((!is_open).then_some((ino, inode)))
    }

    pub(super) fn entries(&self, dir: Ino) -> Result<Listing> {
        let object = content_of(dir);
        let mut state = self.state.write();
        state.trim();
        match state.inode(&self.volume, dir) {
            Ok(inode) if inode.kind != Kind::Dir => return Err(Errno::NOTDIR),
            Ok(_) => {}
            // It was removed while somebody reads it.
            Err(Errno::STALE) => return Ok(Listing::default()),
            Err(error) => return Err(error),
        }
        let folder = state.folder(&self.volume, object)?;
        if !folder.damaged.is_empty() {
            return Err(Errno::IO);
        }
        let mut listing = Listing::default();
        for (name, named) in folder.entries() {
            listing.push(OsStr::from_bytes(name), named.kind, named.ino);
        }
        Ok(listing)
    }

    pub(super) fn target(&self, ino: Ino) -> Result<std::ffi::OsString> {
        use std::os::unix::ffi::OsStringExt;
        if self.inode(ino)?.kind != Kind::Symlink {
            return Err(Errno::INVAL);
        }
        let mut target = vec![0; TARGET_BYTES_MAX];
        let length = self.read_plain(content_of(ino), 0, &mut target)?;
        target.truncate(length);
        Ok(std::ffi::OsString::from_vec(target))
    }
}

/// A name leads to an inode that is not there: the tree is damaged.
pub(super) fn damaged(error: Errno) -> Errno {
    match error {
        Errno::STALE => Errno::IO,
        error => error,
    }
}

impl Draft<'_> {
    /// The names in a directory have changed: its times follow. They are written with the group
    /// where its links changed too, else they may stay in memory.
    pub(super) fn names_changed(
        &mut self,
        dir: Ino,
        mut inode: Inode,
        now: mount::Timestamp,
        links_changed: bool,
    ) -> Result<()> {
        inode.mtime = now;
        inode.ctime = now;
        if links_changed {
            return self.set(dir, Some(inode));
        }
        self.touch(dir, |kept| {
            kept.mtime = now;
            kept.ctime = now;
        });
        Ok(())
    }
}
