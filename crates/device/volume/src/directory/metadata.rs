//! Attributes, and the room that is left.

use super::draft::Owned;
use super::inode::{INO_MAX, Inode};
use super::{Tree, content_of};
use crate::BLOCK_BYTES;
use mount::{Attr, Errno, Ino, Kind, Result, SetAttr, SetTime, Space, Timestamp};

/// The preferred size of a write: one page of most databases, and no part of a block.
const IO_BYTES: u32 = BLOCK_BYTES as u32;

impl Tree {
    pub(super) fn attr_of(&self, ino: Ino, inode: &Inode) -> Attr {
        let object = content_of(ino);
        let size = match self.staged_size(ino) {
            Some(staged) => staged,
            None => self.volume.size(object).unwrap_or(0),
        };
        Attr {
            kind: inode.kind,
            perm: inode.perm,
            nlink: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.device,
            size,
            blocks: self.volume.allocated(object) / 512,
            blksize: IO_BYTES,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
        }
    }

    pub(super) fn attributes(&self, ino: Ino) -> Result<Attr> {
        match self.inode(ino) {
            Ok(inode) => Ok(self.attr_of(ino, &inode)),
            Err(Errno::STALE) => {
                let known = self.known.lock();
                let ghost = known.get(&ino).and_then(|known| known.ghost);
                drop(known);
                ghost
                    .map(|inode| self.attr_of(ino, &inode))
                    .ok_or(Errno::STALE)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn change_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        let now = (self.now)();
        if change.size.is_some() {
            self.no_batch(ino)?;
            self.complete(ino)?;
        }
        let gives = change.uid.is_some() || change.gid.is_some() || change.size.is_some();
        if gives && self.inode(ino)?.capability {
            self.drop_capability(ino)?;
        }
        let _one = change.mode.map(|_| self.lists.lock());
        let acl = match change.mode {
            Some(mode) => self.masked_acl(ino, mode)?,
            None => None,
        };
        let inode = self.change(|draft| {
            let old = draft.inode(ino)?;
            let mut inode = old;
            if let Some(mode) = change.mode {
                inode.perm = (mode & 0o7777) as u16;
            }
            let owner = change.uid.is_some() || change.gid.is_some();
            if owner && change.mode.is_none() && inode.kind != Kind::Dir {
                // As chown(2) has it for everybody: the bits were granted by the owner before.
                let group = if inode.perm & 0o010 != 0 { 0o2000 } else { 0 };
                inode.perm &= !(0o4000 | group);
            }
            inode.uid = change.uid.unwrap_or(inode.uid);
            inode.gid = change.gid.unwrap_or(inode.gid);
            if let Some(size) = change.size {
                match inode.kind {
                    Kind::File => {}
                    Kind::Dir => return Err(Errno::ISDIR),
                    _ => return Err(Errno::INVAL),
                }
                if size > crate::OBJECT_BYTES_MAX {
                    return Err(Errno::FBIG);
                }
                inode.mtime = now;
                draft.object(Owned::Resize(content_of(ino), size));
            }
            let time = |set: Option<SetTime>, before: Timestamp| match set {
                None => before,
                Some(SetTime::Now) => now,
                Some(SetTime::To(given)) => given,
            };
            inode.atime = time(change.atime, inode.atime);
            inode.mtime = time(change.mtime, inode.mtime);
            inode.ctime = now;
            if let Some(list) = &acl {
                self.put_list(draft, ino, &mut inode, list)?;
            }
            draft.set(ino, Some(inode))?;
            Ok(inode)
        })?;
        Ok(self.attr_of(ino, &inode))
    }

    pub(super) fn user_space(&self) -> Space {
        let stats = self.volume.stats();
        let unit = BLOCK_BYTES as u64;
        let free = stats.capacity_blocks.saturating_sub(stats.mapped_blocks) * unit;
        let used = self.state.read().next;
        Space {
            total_bytes: stats.capacity_blocks * unit,
            free_bytes: free,
            available_bytes: free,
            files: INO_MAX,
            files_free: INO_MAX.saturating_sub(used),
            name_max: super::page::NAME_MAX as u32,
            block_bytes: BLOCK_BYTES as u32,
        }
    }
}
