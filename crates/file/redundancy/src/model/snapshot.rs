//! What was found when a whole tree was read.

use mount::Kind;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// An object as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Type.
    pub kind: Kind,
    /// Permission bits (12 bits).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of hard links.
    pub nlink: u32,
    /// Device number.
    pub rdev: u32,
    /// Target of a symbolic link, else empty.
    pub target: OsString,
    /// Extended attributes.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Content of a regular file, else empty.
    pub content: Vec<u8>,
}

/// A whole tree as it was found, by inode number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Objects.
    pub objects: BTreeMap<u64, Seen>,
    /// Names: directory and name to object.
    pub entries: BTreeMap<(u64, OsString), u64>,
}
