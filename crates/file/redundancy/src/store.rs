//! What a store is: one place that holds copies of files as plain files.
//!
//! A store may be a local directory ([`local`]), a simulated one, or one on another server. All
//! answers are errnos; [`env::errno`] says whether one is the caller's fault (the same on every
//! copy), the medium's (the store gets fenced) or a full disk.
//!
//! # Contract
//! - A [`Node`] stays valid across renames and restarts until the object's last name is gone;
//!   after that it answers ESTALE.
//! - [`StoreFile`] keeps an unlinked file alive.
//! - Namespace calls are atomic one by one and reach the medium in order, at the latest with the
//!   next sync of any object of theirs ([`Store::sync_dir`], [`StoreFile::sync`]).
//! - After a failed sync a store must be fenced: it is never asked to sync the same data again.
//! - Calls block. A store whose calls may take longer than a page-cache write says so by
//!   [`Store::is_local`], and its caller overlaps them.
//! - A store that is gone answers ENODEV, EIO, ESTALE or EROFS; it does not hang for ever: a
//!   remote store has its own time limit.

use crate::label::Label;
use mount::{AllocateFlags, Attr, Kind, NewObject, RenameFlags, Result, SetAttr, Space};
use smallvec::SmallVec;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

pub mod local;
#[cfg(feature = "sim")]
pub mod sim;

/// A store's own reference to an object: at most 64 opaque bytes (a kernel file handle on a
/// local store).
#[derive(
    Clone,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Node(pub SmallVec<[u8; 16]>);

/// An object as a store knows it.
#[derive(Clone, Debug)]
pub struct Found {
    /// How to refer to it.
    pub node: Node,
    /// Its attributes on this store.
    pub attr: Attr,
    /// Its label; `None` for an object that Holdfast did not make or did not finish making.
    pub label: Option<Label>,
}

/// What [`Store::make`] creates.
#[derive(Clone, Copy, Debug)]
pub struct Make<'a> {
    /// Type and content.
    pub object: NewObject<'a>,
    /// Permission bits (12 bits) before the umask.
    pub mode: u32,
    /// The umask; it does not count where the directory has a default ACL.
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group; where the directory has the set-group-id bit, the directory's group instead.
    pub gid: u32,
    /// The label, set last: an object without one was never finished.
    pub label: Label,
}

/// One place that holds copies.
pub trait Store: Send + Sync + 'static {
    /// Whether calls that only touch the page cache return in microseconds.
    fn is_local(&self) -> bool;
    /// The directory for Holdfast's own files (journal, header) on this store.
    fn system(&self) -> Arc<dyn env::Dir>;
    /// The directory `name` below [`Store::system`], made where it is missing, for what is kept
    /// apart there.
    fn part(&self, name: &str) -> Result<Arc<dyn env::Dir>>;
    /// Whether the directory `name` is there and holds anything.
    fn has_part(&self, name: &str) -> Result<bool>;
    /// The extended attributes of the store's objects, by the kernel's handles or what stands for
    /// them.
    fn files(&self) -> Result<Arc<dyn env::Files>>;
    /// The root of the user's tree.
    fn root(&self) -> Result<Node>;
    /// A directory outside the user's tree, on the same file system: objects can be renamed
    /// there and back.
    fn aside(&self) -> Result<Node>;
    /// Finds `name` in `dir`.
    fn lookup(&self, dir: &Node, name: &OsStr) -> Result<Found>;
    /// The object behind `node`.
    fn inspect(&self, node: &Node) -> Result<Found>;
    /// Attributes only.
    fn attr(&self, node: &Node) -> Result<Attr>;
    /// Replaces the label.
    fn set_label(&self, node: &Node, label: &Label) -> Result<()>;
    /// Changes attributes.
    fn set_attr(&self, node: &Node, change: &SetAttr) -> Result<()>;
    /// Creates `name` in `dir`.
    fn make(&self, dir: &Node, name: &OsStr, make: &Make<'_>) -> Result<Found>;
    /// As [`Store::make`]; with it the new file, open for reading and writing, where the store has
    /// it open anyway.
    fn make_open(
        &self,
        dir: &Node,
        name: &OsStr,
        make: &Make<'_>,
    ) -> Result<(Found, Option<Arc<dyn StoreFile>>)> {
        Ok((self.make(dir, name, make)?, None))
    }
    /// Gives the object another name.
    fn link(&self, node: &Node, dir: &Node, name: &OsStr) -> Result<()>;
    /// Removes a name that is not a directory's.
    fn unlink(&self, dir: &Node, name: &OsStr) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Node, name: &OsStr) -> Result<()>;
    /// Renames.
    fn rename(
        &self,
        dir: &Node,
        name: &OsStr,
        new_dir: &Node,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()>;
    /// Target of a symbolic link.
    fn read_link(&self, node: &Node) -> Result<OsString>;
    /// Calls `each` with name and type of every entry but `.` and `..`, in the store's order.
    fn list(&self, dir: &Node, each: &mut dyn FnMut(&OsStr, Kind)) -> Result<()>;
    /// The directory that holds directory `dir`; the root is its own parent.
    fn parent(&self, dir: &Node) -> Result<Node>;
    /// Value of an extended attribute.
    fn xattr(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>>;
    /// Sets an extended attribute; `flags` as `setxattr(2)`.
    fn set_xattr(&self, node: &Node, name: &OsStr, value: &[u8], flags: u32) -> Result<()>;
    /// Names of the extended attributes without the label's, each ended by NUL.
    fn list_xattr(&self, node: &Node) -> Result<Vec<u8>>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, node: &Node, name: &OsStr) -> Result<()>;
    /// Opens a regular file for reading, and for writing where `write`.
    fn open(&self, node: &Node, write: bool) -> Result<Arc<dyn StoreFile>>;
    /// Makes a directory's entries durable.
    fn sync_dir(&self, dir: &Node) -> Result<()>;
    /// Makes everything on the store durable.
    fn sync_all(&self) -> Result<()>;
    /// Whether the store is still where it was: ENODEV where its place holds something else or
    /// nothing, though open files of it may still work.
    fn probe(&self) -> Result<()>;
    /// Capacity of the store.
    fn space(&self) -> Result<Space>;
    /// Identity of the file system below, so that two stores on one are counted once.
    fn device(&self) -> u64;
}

/// Bytes that are written at once where a copy is filled. What is written at once stays together in
/// the page cache, as a large folio, and ext4 looks at every block of a folio in each small write
/// to it (`ext4_block_write_begin`): whoever then writes to the file would pay for it.
pub(crate) const FILL_BYTES: usize = 16 << 10;

/// Writes what a program did not ask for now: a copy that is filled.
pub(crate) fn fill_at(file: &dyn StoreFile, offset: u64, data: &[u8]) -> Result<()> {
    let mut at = offset;
    for piece in data.chunks(FILL_BYTES) {
        file.write_at(at, piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// An open regular file of a store.
pub trait StoreFile: Send + Sync {
    /// Reads; fewer bytes than asked only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes all of `data` or fails, then perhaps with a prefix written.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Whoever reads through this handle reads ahead by itself: a read brings in what it asks for
    /// and no more.
    fn no_read_ahead(&self) {}
    /// Begins to bring written content to the medium without waiting, where the store can: a
    /// sync that follows waits less.
    fn start_sync(&self) {}
    /// Makes content durable, and attributes unless `data_only`.
    fn sync(&self, data_only: bool) -> Result<()>;
    /// Sets the length.
    fn set_len(&self, length: u64) -> Result<()>;
    /// Changes attributes, as [`Store::set_attr`]; works on an unlinked file too.
    fn set_attr(&self, change: &SetAttr) -> Result<()>;
    /// Attributes.
    fn attr(&self) -> Result<Attr>;
    /// `fallocate(2)`.
    fn allocate(&self, offset: u64, length: u64, flags: AllocateFlags) -> Result<()>;
    /// Next data (`hole` false) or hole at or after `offset`; ENXIO past the end.
    fn seek(&self, offset: u64, hole: bool) -> Result<u64>;
    /// Lets the page cache drop what is clean in the range.
    fn forget_cache(&self, offset: u64, length: u64);
}
