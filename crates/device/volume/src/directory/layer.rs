//! The tree as the FUSE edge sees it.

use super::Tree;
use super::rename::End;
use mount::opens::Opens;
use mount::{
    AllocateFlags, Attr, Caller, Ino, Layer, Listing, NewObject, RenameFlags, Result, SetAttr,
    Space,
};
use std::ffi::{OsStr, OsString};

impl Layer for Tree {
    fn opens(&self) -> Option<&dyn Opens> {
        Some(self)
    }

    fn lookup(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        let (ino, inode) = self.find(dir, name)?;
        Ok((ino, self.attr_of(ino, &inode)))
    }

    fn forget(&self, ino: Ino) {
        self.known.lock().remove(&ino);
    }

    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)> {
        let known = self.known.lock();
        let known = known.get(&ino).filter(|known| known.ghost.is_none())?;
        Some((known.parent, known.name.clone()))
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.attributes(ino)
    }

    fn set_attr(&self, _caller: &Caller, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.change_attributes(ino, change)
    }

    fn read_link(&self, ino: Ino) -> Result<OsString> {
        self.target(ino)
    }

    fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr)> {
        self.make_object(caller, dir, name, object, mode)
    }

    fn link(&self, ino: Ino, dir: Ino, name: &OsStr) -> Result<Attr> {
        self.link_name(ino, dir, name)
    }

    fn unlink(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.unlink_name(dir, name)
    }

    fn remove_dir(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.remove_dir_name(dir, name)
    }

    fn rename(
        &self,
        dir: Ino,
        name: &OsStr,
        new_dir: Ino,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let to = End {
            dir: new_dir,
            name: new_name,
        };
        self.rename_name(End { dir, name }, to, flags)
    }

    fn list(&self, dir: Ino) -> Result<Listing> {
        self.entries(dir)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_content(ino, offset, buffer)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        self.write_content(ino, offset, data)
    }

    fn sync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.sync_inode(ino, data_only)
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        self.allocate_content(ino, offset, length, flags)
    }

    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64> {
        self.seek_content(ino, offset, hole)
    }

    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.copy_content((from, from_offset), (to, to_offset), length)
    }

    fn space(&self) -> Result<Space> {
        Ok(self.user_space())
    }

    fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.get_extended(ino, name)
    }

    fn set_xattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.put_extended(ino, name, value, flags)
    }

    fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.names_of_extended(ino)
    }

    fn remove_xattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        self.drop_extended(ino, name)
    }
}
