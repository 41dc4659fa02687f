//! A store that is a local directory.
//!
//! The user's tree is plain files under `data`; Holdfast's own files are under `.holdfast`. A
//! [`Node`] is a kernel file handle, so it stays valid whatever the object is called, and every
//! call works on a directory's descriptor and one name: no path is ever rebuilt.
//!
//! The kernel opens a handle wherever on the file system its object is. A store that was moved
//! away and replaced on the same file system must not be written to, or taken for the new one,
//! through handles that were noted down before: a node ends with a tag of its store's root,
//! and one with another tag answers ESTALE.

use super::{Found, Make, Node, Store, StoreFile};
use crate::label::{LABEL_BYTES, Label, XATTR_NAME};
use attributes::{attr_of, kind_of};
use directories::{Directories, Directory};
use env::handle::{Handle, get_xattr, name_to_handle, open_by_handle, proc_path};
use env::real::RealDir;
use mount::{Attr, Errno, Kind, RenameFlags, Result, SetAttr, Space};
use rustix::fs::{AtFlags, OFlags, RawDir, Stat};
use std::ffi::{CString, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

mod attributes;
mod directories;
mod error;
mod file;
mod layout;
mod lease;
mod make;

#[cfg(test)]
mod tests;

pub use error::LocalStoreError;

/// Name of the directory that holds the user's tree.
pub const DATA: &str = "data";
/// Name of the directory for Holdfast's own files.
pub const SYSTEM: &str = ".holdfast";

/// The label's attribute as the kernel takes it.
const LABEL_XATTR: &std::ffi::CStr = c"trusted.holdfast";

/// Bytes of one read of directory entries.
const LIST_BYTES: usize = 64 * 1024;

/// Tells the nodes of one store from those of another on the same file system: a part of the
/// CRC-32C of its root's handle, so that a handle of XFS (13 bytes) and its tag stay within the
/// 16 bytes that a node has without an allocation.
type Tag = [u8; 3];

/// Longest handle that becomes a node: with its tag it has at most 64 bytes.
const HANDLE_MAX: usize = 64 - size_of::<Tag>();

fn tag_of(root: &Handle) -> Tag {
    let [a, b, c, _] = codec::crc32c(root.as_bytes()).to_le_bytes();
    [a, b, c]
}

/// The node of a handle on the store with this tag; EOVERFLOW where the handle is too long.
fn node_of(handle: &Handle, tag: Tag) -> Result<Node> {
    let bytes = handle.as_bytes();
    if bytes.len() > HANDLE_MAX {
        return Err(Errno::OVERFLOW);
    }
    Ok(Node(bytes.iter().copied().chain(tag).collect()))
}

/// A directory that is a store.
pub struct LocalStore {
    root: OwnedFd,
    tag: Tag,
    root_node: Node,
    /// The mount that the tree is on: what is found on another one is not ours.
    mount_id: i32,
    device: u64,
    system: Arc<RealDir>,
    aside: Node,
    directories: Directories,
    lease: Option<lease::Lease>,
}

/// Directory below [`SYSTEM`] for what is out of the user's tree for a while.
const ASIDE: &std::ffi::CStr = c"aside";

impl LocalStore {
    fn open_node(&self, node: &Node, flags: OFlags) -> Result<OwnedFd> {
        let handle = node.0.strip_suffix(&self.tag).ok_or(Errno::STALE)?;
        open_by_handle(self.root.as_fd(), handle, flags | OFlags::NOFOLLOW)
    }

    /// The object itself, of any type; good for `*at` calls, attributes and xattrs.
    fn path(&self, node: &Node) -> Result<OwnedFd> {
        self.open_node(node, OFlags::PATH)
    }

    /// A directory to work in.
    fn dir(&self, node: &Node) -> Result<Directory> {
        if let Some(directory) = self.directories.get(node) {
            return Ok(directory);
        }
        let opened = self.open_node(node, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(self.directories.keep(node, opened))
    }

    fn found(
        &self,
        (handle, mount_id): (Handle, i32),
        stat: &Stat,
        label: Option<Label>,
    ) -> Result<Found> {
        if mount_id != self.mount_id || stat.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        Ok(Found {
            node: node_of(&handle, self.tag)?,
            attr: attr_of(stat),
            label,
        })
    }
}

/// The label; `None` where there is none or it is not valid.
fn label_of(dir: BorrowedFd<'_>, name: &CString) -> Result<Option<Label>> {
    // One byte more than a label, so that a longer value does not pass for one.
    let mut value = [0; LABEL_BYTES + 1];
    match get_xattr(dir, name, LABEL_XATTR, &mut value) {
        Ok(length) => Ok(value.get(..length).and_then(Label::decode)),
        Err(Errno::NODATA | Errno::RANGE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name as the kernel takes it.
fn plain(name: &OsStr) -> Result<CString> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(Errno::NOENT);
    }
    if bytes.contains(&b'/') {
        return Err(Errno::INVAL);
    }
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

/// Whether an attribute is Holdfast's own.
fn is_ours(name: &OsStr) -> bool {
    name.as_bytes().starts_with(XATTR_NAME.as_bytes())
}

impl Store for LocalStore {
    fn is_local(&self) -> bool {
        true
    }

    fn system(&self) -> Arc<dyn env::Dir> {
        self.system.clone()
    }

    fn part(&self, name: &str) -> Result<Arc<dyn env::Dir>> {
        Ok(Arc::new(self.system.subdirectory(name)?))
    }

    fn has_part(&self, name: &str) -> Result<bool> {
        match self.system.existing_subdirectory(name) {
            Ok(part) => Ok(!env::Dir::list(&part)?.is_empty()),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn files(&self) -> Result<Arc<dyn env::Files>> {
        let root = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        Ok(Arc::new(env::real::RealFiles::from_fd(root)?))
    }

    fn aside(&self) -> Result<Node> {
        Ok(self.aside.clone())
    }

    fn probe(&self) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), lease::Lease::probe)
    }

    fn root(&self) -> Result<Node> {
        Ok(self.root_node.clone())
    }

    fn lookup(&self, dir: &Node, name: &OsStr) -> Result<Found> {
        let name = plain(name)?;
        let dir = self.dir(dir)?;
        let handle = dir.answer(name_to_handle(dir.as_fd(), &name))?;
        let stat = rustix::fs::statat(&dir, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        self.found(handle, &stat, label_of(dir.as_fd(), &name)?)
    }

    fn inspect(&self, node: &Node) -> Result<Found> {
        let object = self.path(node)?;
        let stat = rustix::fs::fstat(&object)?;
        Ok(Found {
            node: node.clone(),
            attr: attr_of(&stat),
            label: label_of(object.as_fd(), &CString::default())?,
        })
    }

    fn attr(&self, node: &Node) -> Result<Attr> {
        if let Some(directory) = self.directories.get(node) {
            let stat = rustix::fs::fstat(&directory)?;
            return match stat.st_nlink {
                0 => Err(Errno::STALE),
                _ => Ok(attr_of(&stat)),
            };
        }
        Ok(attr_of(&rustix::fs::fstat(self.path(node)?)?))
    }

    fn set_label(&self, node: &Node, label: &Label) -> Result<()> {
        let object = self.path(node)?;
        make::set_label(object.as_fd(), &CString::default(), label)
    }

    fn set_attr(&self, node: &Node, change: &SetAttr) -> Result<()> {
        let object = self.path(node)?;
        if let Some(length) = change.size {
            let file = self.open_node(node, OFlags::WRONLY | OFlags::NONBLOCK)?;
            rustix::fs::ftruncate(file, length)?;
        }
        attributes::set(object.as_fd(), change)
    }

    fn make(&self, dir: &Node, name: &OsStr, make: &Make<'_>) -> Result<Found> {
        let (found, _) = self.make_open(dir, name, make)?;
        Ok(found)
    }

    fn make_open(
        &self,
        dir: &Node,
        name: &OsStr,
        make: &Make<'_>,
    ) -> Result<(Found, Option<Arc<dyn StoreFile>>)> {
        let name = plain(name)?;
        let dir = self.dir(dir)?;
        let made = dir.answer(make::make(dir.as_fd(), &name, make))?;
        let found = self.found(made.handle, &made.stat, Some(make.label))?;
        let file = made.file.map(file::LocalFile::made);
        Ok((found, file.map(|file| Arc::new(file) as Arc<dyn StoreFile>)))
    }

    fn link(&self, node: &Node, dir: &Node, name: &OsStr) -> Result<()> {
        let name = plain(name)?;
        let (object, dir) = (self.path(node)?, self.dir(dir)?);
        let linked = rustix::fs::linkat(&object, c"", &dir, name, AtFlags::EMPTY_PATH);
        dir.answer(linked)
    }

    fn unlink(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let (name, dir) = (plain(name)?, self.dir(dir)?);
        dir.answer(rustix::fs::unlinkat(&dir, name, AtFlags::empty()))
    }

    fn remove_dir(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let (name, dir) = (plain(name)?, self.dir(dir)?);
        dir.answer(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR))?;
        self.directories.forget();
        Ok(())
    }

    fn rename(
        &self,
        dir: &Node,
        name: &OsStr,
        new_dir: &Node,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let (name, new_name) = (plain(name)?, plain(new_name)?);
        let from = self.dir(dir)?;
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let to = self.dir(new_dir)?;
        let renamed = rustix::fs::renameat_with(&from, name, &to, new_name, flags);
        from.answer(to.answer(renamed))
    }

    fn read_link(&self, node: &Node) -> Result<OsString> {
        let target = rustix::fs::readlinkat(self.path(node)?, c"", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn list(&self, dir: &Node, each: &mut dyn FnMut(&OsStr, Kind)) -> Result<()> {
        let dir = self.open_node(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
        let mut entries = RawDir::new(&dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match kind_of(entry.file_type()) {
                Some(kind) => kind,
                None => {
                    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    attr_of(&stat).kind
                }
            };
            each(OsStr::from_bytes(name.to_bytes()), kind);
        }
        Ok(())
    }

    fn parent(&self, dir: &Node) -> Result<Node> {
        if *dir == self.root_node {
            return Ok(self.root_node.clone());
        }
        let dir = self.dir(dir)?;
        let (handle, _) = dir.answer(name_to_handle(dir.as_fd(), c".."))?;
        node_of(&handle, self.tag)
    }

    fn xattr(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        if is_ours(name) {
            return Err(Errno::NODATA);
        }
        attributes::xattr(self.path(node)?.as_fd(), &plain_attribute(name)?)
    }

    fn set_xattr(&self, node: &Node, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        if is_ours(name) {
            return Err(Errno::PERM);
        }
        let name = plain_attribute(name)?;
        let object = self.path(node)?;
        let flags = rustix::fs::XattrFlags::from_bits_retain(flags);
        rustix::fs::setxattr(proc_path(object.as_fd(), c"")?, name, value, flags)
    }

    fn list_xattr(&self, node: &Node) -> Result<Vec<u8>> {
        attributes::list_xattr(self.path(node)?.as_fd())
    }

    fn remove_xattr(&self, node: &Node, name: &OsStr) -> Result<()> {
        if is_ours(name) {
            return Err(Errno::PERM);
        }
        let name = plain_attribute(name)?;
        let object = self.path(node)?;
        rustix::fs::removexattr(proc_path(object.as_fd(), c"")?, name)
    }

    fn open(&self, node: &Node, write: bool) -> Result<Arc<dyn StoreFile>> {
        let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
        // A pipe in the place of a file must not block the caller.
        let descriptor = self.open_node(node, access | OFlags::NONBLOCK)?;
        Ok(Arc::new(file::LocalFile::new(descriptor)?))
    }

    fn sync_dir(&self, dir: &Node) -> Result<()> {
        rustix::fs::fsync(self.open_node(dir, OFlags::RDONLY | OFlags::DIRECTORY)?)
    }

    fn sync_all(&self) -> Result<()> {
        rustix::fs::syncfs(&self.root)
    }

    fn space(&self) -> Result<Space> {
        attributes::space(self.root.as_fd())
    }

    fn device(&self) -> u64 {
        self.device
    }
}

/// An attribute's name as the kernel takes it.
fn plain_attribute(name: &OsStr) -> Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)
}
