//! A file system in plain memory that remembers what a crash may bring back.
//!
//! Tests run every operation on the real thing and on a [`Tree`], and compare a [`Snapshot`] of
//! the real thing with it. Each part of the tree has a [`History`]: the version that was last
//! made durable and every version since. After a power cut each 512-byte sector, each size, each
//! name and each attribute must be one of its versions; a kill of the process alone loses
//! nothing; without either, only the last version will do.

mod content;
mod history;
mod links;
mod snapshot;
mod tree;

pub use content::{FileHistory, SECTOR_BYTES};
pub use history::{Certain, History, Moment};
pub use snapshot::{Seen, Snapshot};
pub use tree::{Meta, Names, NewNode, Object, Slot, Tree};

/// Where the real thing differs from every version that the model allows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Difference {
    /// A file's size.
    #[error("size is {found}, allowed are {allowed:?}")]
    Size {
        /// Bytes found.
        found: u64,
        /// Sizes that would do.
        allowed: Vec<u64>,
    },
    /// A file's bytes.
    #[error(
        "bytes at offset {offset} are {found:02x?}..., the last of {versions} versions is \
         {expected:02x?}..."
    )]
    Bytes {
        /// Offset in the file of the first byte that differs from the last version.
        offset: u64,
        /// What was found there, at most 16 bytes.
        found: Vec<u8>,
        /// What the last version has there, at most 16 bytes.
        expected: Vec<u8>,
        /// How many versions of the sector would have done.
        versions: usize,
    },
    /// A name leads to the wrong object, to none, or to one that should not be.
    #[error("name {name:?} in directory {dir} is {found:?}, allowed are {allowed:?}")]
    Name {
        /// Inode number of the directory.
        dir: u64,
        /// The name.
        name: std::ffi::OsString,
        /// The inode number found.
        found: Option<u64>,
        /// What would do.
        allowed: Vec<Slot>,
    },
    /// An object has the wrong set of names: half of a rename, for one.
    #[error("object {ino} has the names {found:?}, allowed are {allowed:?}")]
    Names {
        /// Its inode number.
        ino: u64,
        /// Directory and name of each.
        found: Names,
        /// Sets that would do.
        allowed: Vec<Names>,
    },
    /// An attribute.
    #[error("{what} of object {ino} is {found}, allowed are {allowed}")]
    Attribute {
        /// Its inode number.
        ino: u64,
        /// Which.
        what: &'static str,
        /// What was found.
        found: String,
        /// What would do.
        allowed: String,
    },
    /// Something about one file, with the file's number.
    #[error("object {ino}: {difference}")]
    In {
        /// Its inode number.
        ino: u64,
        /// What.
        difference: Box<Difference>,
    },
}
