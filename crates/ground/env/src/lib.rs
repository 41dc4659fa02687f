//! The only door to disk, directory, clock, network and randomness.
pub mod errno {
    //! What an error number means.

    pub use rustix::io::Errno;

    /// Who is to blame for an error number, and so what to do about it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fault {
        /// The request was wrong (no such name, no permission, ...): the same on every copy.
        Caller,
        /// Try again (interrupted, out of memory for a moment).
        Transient,
        /// The medium has no room.
        NoSpace,
        /// The medium or the way to it has failed: never trust it again without recovery.
        Medium,
    }
}

use std::sync::Arc;

pub mod handle;
pub mod umask;

/// Results of this crate carry the error number.
pub type Result<T> = core::result::Result<T, errno::Errno>;

/// A file or device of fixed or growing length, addressed by position. All calls block.
pub trait Disk: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`; the bytes past the end read as an error (EIO is not used for
    /// that: EINVAL).
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Makes all earlier writes durable.
    fn sync(&self) -> Result<()>;
    /// Frees a range; it reads as zeros or as before.
    fn discard(&self, offset: u64, length: u64) -> Result<()>;
}

/// How to open a file of a [`Dir`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file of this many bytes, all allocated and zero, for writing (EEXIST where the
    /// name is taken). Its name is durable only after [`Dir::sync`].
    Create(u64),
    /// As `Write`, each write durable when it returns (O_DSYNC), past the page cache where
    /// the offset, the length and the memory are multiples of 4096.
    WriteDurable,
}

/// A directory of Holdfast's own files. Names are plain: no slash.
pub trait Dir: Send + Sync {
    /// Opens a file.
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>>;
    /// The whole of a small file.
    fn read(&self, name: &str) -> Result<Vec<u8>>;
    /// Replaces (or makes) a small file so that after any crash the old or the new content is
    /// there whole, and the new one once this has returned.
    fn replace(&self, name: &str, content: &[u8]) -> Result<()>;
    /// Renames, durable once this has returned; a target is replaced.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file; durable only after [`Dir::sync`].
    fn remove(&self, name: &str) -> Result<()>;
    /// All names, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Makes creations and removals durable.
    fn sync(&self) -> Result<()>;
}
