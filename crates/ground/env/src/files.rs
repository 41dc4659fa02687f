//! The files of one file system, whoever they belong to, by handle.

use crate::Result;
use crate::handle::Handle;
use std::ffi::CStr;

/// The extended attributes of the files of one file system. A file is named by its handle, so
/// that renames do not matter, and a file that took over a removed one's inode number is not
/// mistaken for it. Every call answers ESTALE where the file is gone.
pub trait Files: Send + Sync {
    /// The value of an attribute. ENODATA where it is not set.
    fn attribute(&self, file: &Handle, name: &CStr) -> Result<Vec<u8>>;
    /// Sets an attribute: after a crash the old value or the new one is there, whole. ENOSPC (ext4,
    /// or a full disk), E2BIG or ERANGE where it does not fit.
    fn set_attribute(&self, file: &Handle, name: &CStr, value: &[u8]) -> Result<()>;
    /// Removes an attribute. ENODATA where it is not set.
    fn remove_attribute(&self, file: &Handle, name: &CStr) -> Result<()>;
    /// Makes durable whatever was done on the file system before this call: content, names,
    /// attributes, of all files.
    fn sync_all(&self) -> Result<()>;
}

/// A lock that is let go when this value is dropped; see [`crate::Dir::lock`].
pub struct Lock {
    _held: Box<dyn Send + Sync>,
}

impl Lock {
    /// Wraps what lets go of the lock when it is dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Lock {
        Lock {
            _held: Box::new(held),
        }
    }
}
