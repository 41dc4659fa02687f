//! The engine as the FUSE edge sees it.

use super::Engine;
use super::rename::End;
use crate::label::ObjectId;
use env::errno::{Errno, Fault, fault};
use mount::{
    AllocateFlags, Attr, Caller, Ino, Layer, Listing, NewObject, RenameFlags, Result, SetAttr,
    Space,
};
use std::ffi::{OsStr, OsString};

impl Layer for Engine {
    fn lookup(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        let (inode, attr) = self.find(&self.inode(dir)?, name)?;
        Ok((Ino(inode.id.0), attr))
    }

    fn forget(&self, ino: Ino) {
        // The edge holds a lock meanwhile: closing files, which may touch a store, waits.
        if let Some(inode) = self.inodes.forget(ObjectId(ino.0))
            && inode.open_files().is_some()
        {
            self.closing.lock().push(inode);
        }
    }

    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)> {
        let inode = self.inodes.get(ObjectId(ino.0))?;
        let (parent, name) = inode.hint()?;
        Some((Ino(parent.id.0), name))
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.attr_of(&self.inode(ino)?)
    }

    fn set_attr(&self, _caller: &Caller, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.change_attr(&self.inode(ino)?, change)
    }

    fn read_link(&self, ino: Ino) -> Result<OsString> {
        self.on_decider(&self.inode(ino)?, |store, node| store.read_link(node))
    }

    fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr)> {
        let (inode, attr) = self.make_object(caller, &self.inode(dir)?, name, object, mode)?;
        Ok((Ino(inode.id.0), attr))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &OsStr) -> Result<Attr> {
        self.link_name(&self.inode(ino)?, &self.inode(dir)?, name)
    }

    fn unlink(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.unlink_name(&self.inode(dir)?, name)
    }

    fn remove_dir(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.remove_dir_name(&self.inode(dir)?, name)
    }

    fn rename(
        &self,
        dir: Ino,
        name: &OsStr,
        new_dir: Ino,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (self.inode(dir)?, self.inode(new_dir)?);
        self.rename_name(
            End { dir: &from, name },
            End {
                dir: &to,
                name: new_name,
            },
            flags,
        )
    }

    fn list(&self, dir: Ino) -> Result<Listing> {
        let inode = self.inode(dir)?;
        'again: for _ in 0..=self.slots.len() {
            let mut listing = Listing::default();
            let members = self.member_stores();
            let before = inode.names_as_of();
            for (index, store) in &members {
                let answer = self.node_on(&inode, *index).and_then(|node| {
                    store.list(&node, &mut |name, kind| listing.push(name, kind, Ino(0)))
                });
                match answer {
                    Ok(()) => {}
                    Err(Errno::STALE) if inode.is_nameless() => return Ok(Listing::default()),
                    Err(Errno::STALE) if inode.names_moved_since(before) => continue 'again,
                    Err(errno) if fault(errno) == Fault::Caller => return Err(errno),
                    Err(errno) => {
                        self.fence_for(*index, errno)?;
                        continue 'again;
                    }
                }
            }
            if members.len() > 1 {
                listing.sort_and_deduplicate();
            }
            return Ok(listing);
        }
        Err(Errno::IO)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_content(&self.inode(ino)?, offset, buffer)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        self.write_content(&self.inode(ino)?, offset, data)
    }

    fn sync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.sync_content(&self.inode(ino)?, data_only)
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        self.allocate_content(&self.inode(ino)?, offset, length, flags)
    }

    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64> {
        self.seek_content(&self.inode(ino)?, offset, hole)
    }

    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let (source, target) = (self.inode(from)?, self.inode(to)?);
        self.copy_content((&source, from_offset), (&target, to_offset), length)
    }

    fn space(&self) -> Result<Space> {
        self.user_space()
    }

    fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.get_xattr(&self.inode(ino)?, name)
    }

    fn set_xattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.put_xattr(&self.inode(ino)?, name, value, flags)
    }

    fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.names_of_xattrs(&self.inode(ino)?)
    }

    fn remove_xattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        self.drop_xattr(&self.inode(ino)?, name)
    }
}
