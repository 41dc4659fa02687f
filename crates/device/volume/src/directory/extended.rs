//! Extended attributes.

use super::attributes::{self, Attributes, LIST_BYTES_MAX, VALUE_BYTES_MAX};
use super::draft::{Draft, Owned};
use super::inode::Inode;
use super::{Tree, acl, attributes_of, errno};
use crate::VolumeError;
use mount::{Errno, Ino, Kind, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The attribute with the capabilities of a program (xattr(7)).
const CAPABILITY: &[u8] = b"security.capability";

/// Flags of setxattr(2): the name must not be there, or must be.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Most bytes of all names together (`XATTR_LIST_MAX` of linux/limits.h).
const NAMES_BYTES_MAX: usize = 65_536;

/// The name that stores of Holdfast keep for themselves: a file has none here, and gets none that
/// would mean something on a store.
const LABEL: &[u8] = b"trusted.holdfast";

/// Refuses names that no local file system takes for this type of object (xattr(7)).
fn check(kind: Kind, name: &[u8], write: bool) -> Result<()> {
    if name.len() > 255 {
        return Err(Errno::RANGE);
    }
    if name == LABEL {
        return Err(if write { Errno::PERM } else { Errno::NODATA });
    }
    let after = |prefix: &[u8]| name.starts_with(prefix) && name.len() > prefix.len();
    if after(b"user.") {
        return match (matches!(kind, Kind::File | Kind::Dir), write) {
            (true, _) => Ok(()),
            (false, true) => Err(Errno::PERM),
            (false, false) => Err(Errno::NODATA),
        };
    }
    if after(b"trusted.") || after(b"security.") {
        return Ok(());
    }
    match (name, kind) {
        (acl::ACCESS | acl::DEFAULT, Kind::Symlink) => Err(Errno::OPNOTSUPP),
        (acl::ACCESS, _) | (acl::DEFAULT, Kind::Dir) => Ok(()),
        (acl::DEFAULT, _) if write => Err(Errno::ACCESS),
        (acl::DEFAULT, _) => Err(Errno::NODATA),
        _ => Err(Errno::OPNOTSUPP),
    }
}

impl Tree {
    /// The list of an inode.
    pub(super) fn list_of(&self, ino: Ino, inode: &Inode) -> Result<Attributes> {
        if !inode.attributes {
            return Ok(Attributes::new());
        }
        let object = attributes_of(ino);
        let mut bytes = vec![0; LIST_BYTES_MAX];
        let length = self.read_plain(object, 0, &mut bytes)?;
        let bytes = bytes.get(..length).unwrap_or_default();
        attributes::decode(bytes, self.volume.id(), object).map_err(|corruption| {
            let error = VolumeError::Tree {
                object,
                offset: 0,
                corruption,
            };
            tracing::error!(%error, "attributes cannot be read");
            errno(&error)
        })
    }

    pub(super) fn get_extended(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        let inode = self.inode(ino)?;
        check(inode.kind, name.as_bytes(), false)?;
        let mut list = self.list_of(ino, &inode)?;
        list.remove(name.as_bytes()).ok_or(Errno::NODATA)
    }

    pub(super) fn names_of_extended(&self, ino: Ino) -> Result<Vec<u8>> {
        let list = self.list_of(ino, &self.inode(ino)?)?;
        let mut names = Vec::new();
        for name in list.keys() {
            names.extend_from_slice(name);
            names.push(0);
        }
        Ok(names)
    }

    /// Changes the list of an inode. One change of attributes at a time, so that none is lost
    /// between reading the list and writing it.
    fn change_list(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut Inode, &mut Attributes) -> Result<()>,
    ) -> Result<()> {
        let now = (self.now)();
        let _one = self.lists.lock();
        let mut list = self.list_of(ino, &self.inode(ino)?)?;
        self.change(|draft| {
            let mut inode = draft.inode(ino)?;
            change(&mut inode, &mut list)?;
            inode.ctime = now;
            self.put_list(draft, ino, &mut inode, &list)?;
            draft.set(ino, Some(inode))
        })
    }

    /// Writes the list of an inode as part of a change.
    pub(super) fn put_list(
        &self,
        draft: &mut Draft<'_>,
        ino: Ino,
        inode: &mut Inode,
        list: &Attributes,
    ) -> Result<()> {
        let object = attributes_of(ino);
        inode.attributes = !list.is_empty();
        inode.capability = list.contains_key(CAPABILITY);
        draft.object(Owned::Remove(object));
        if !list.is_empty() {
            let bytes = attributes::encode(self.volume.id(), object, list);
            draft.object(Owned::Write(object, bytes.ok_or(Errno::NOSPC)?));
        }
        Ok(())
    }

    pub(super) fn put_extended(
        &self,
        ino: Ino,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let name = name.as_bytes();
        if value.len() > VALUE_BYTES_MAX {
            return Err(Errno::TOOBIG);
        }
        self.change_list(ino, |inode, list| {
            check(inode.kind, name, true)?;
            match list.contains_key(name) {
                true if flags & CREATE != 0 => return Err(Errno::EXIST),
                false if flags & REPLACE != 0 => return Err(Errno::NODATA),
                _ => {}
            }
            if matches!(name, acl::ACCESS | acl::DEFAULT) && !acl::is_list(value) {
                return Err(Errno::INVAL);
            }
            if name == acl::ACCESS {
                let (perm, keep) = acl::mode_of(value, inode.perm);
                inode.perm = perm;
                if !keep {
                    list.remove(name);
                    return Ok(());
                }
            }
            list.insert(name.to_vec(), value.to_vec());
            let names: usize = list.keys().map(|name| name.len() + 1).sum();
            match names > NAMES_BYTES_MAX {
                true => Err(Errno::NOSPC),
                false => Ok(()),
            }
        })
    }

    /// Takes the capabilities of a program away, because it is changed or given to somebody: the
    /// kernel leaves that to the file system (`FUSE_HANDLE_KILLPRIV_V2` of linux/fuse.h).
    pub(super) fn drop_capability(&self, ino: Ino) -> Result<()> {
        match self.drop_extended(ino, OsStr::from_bytes(CAPABILITY)) {
            Err(Errno::NODATA) => Ok(()),
            other => other,
        }
    }

    pub(super) fn drop_extended(&self, ino: Ino, name: &OsStr) -> Result<()> {
        let name = name.as_bytes();
        self.change_list(ino, |inode, list| {
            check(inode.kind, name, true)?;
            list.remove(name).map(drop).ok_or(Errno::NODATA)
        })
    }

    /// The list of what a directory gives to new objects; `None` where it has none.
    pub(super) fn inherited(&self, dir: Ino, kind: Kind) -> Result<Option<Vec<u8>>> {
        if kind == Kind::Symlink {
            return Ok(None);
        }
        let inode = self.inode(dir)?;
        Ok(self.list_of(dir, &inode)?.remove(acl::DEFAULT))
    }

    /// The attributes of an inode once its permission bits are those of `mode`, where they change.
    pub(super) fn masked_acl(&self, ino: Ino, mode: u32) -> Result<Option<Attributes>> {
        let inode = self.inode(ino)?;
        let mut list = self.list_of(ino, &inode)?;
        let Some(acl) = list.get_mut(acl::ACCESS) else {
            return Ok(None);
        };
        *acl = acl::masked(acl, mode);
        Ok(Some(list))
    }
}
