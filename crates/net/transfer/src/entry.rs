//! What a tree consists of.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of one name (NAME_MAX of Linux).
pub(crate) const NAME_MAX: usize = 255;

/// Most names of a path: each directory on the way is open while it is walked.
pub(crate) const DEPTH_MAX: usize = 2048;

/// Bytes of the extended attributes of one entry, names included: what fits into one message with
/// room to spare. ext4, XFS and btrfs allow 64 KiB a value.
pub(crate) const ATTRIBUTES_MAX: usize = 128 << 10;

/// Bytes of the longest path.
pub(crate) const PATH_MAX: usize = 16 << 10;

/// The receiver's own directory in the root of the destination; no entry has this name there.
pub const STAGING: &str = ".holdfast-transfer";

/// A path below the root of a transfer: names joined by slashes, of any other bytes; empty for the
/// root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The root.
    pub fn root() -> TreePath {
        TreePath::default()
    }

    /// A path as it is written, which may be none that is allowed.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> TreePath {
        TreePath(bytes)
    }

    /// The path of `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> TreePath {
        let mut path = self.0.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        TreePath(path)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its names, from the root; none for the root.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        let whole = (!self.0.is_empty()).then_some(&self.0[..]);
        whole
            .into_iter()
            .flat_map(|path| path.split(|b| *b == b'/'))
    }

    /// The directory it is in, and its name there; `None` for the root.
    pub fn split(&self) -> Option<(TreePath, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => {
                let (dir, name) = (self.0.get(..at)?, self.0.get(at + 1..)?);
                (TreePath(dir.to_vec()), name)
            }
            None => (TreePath::root(), &self.0),
        })
    }

    /// Whether a peer may name it: each name has 1 to 255 bytes, is neither `.` nor `..`, has no
    /// NUL, there are at most `DEPTH_MAX` of together `PATH_MAX` bytes, and the first is not
    /// `STAGING`.
    pub fn is_allowed(&self) -> bool {
        let fits = |name: &[u8]| {
            (1..=NAME_MAX).contains(&name.len())
                && name != b"."
                && name != b".."
                && !name.contains(&0)
        };
        self.names().all(fits)
            && self.names().count() <= DEPTH_MAX
            && self.0.len() <= PATH_MAX
            && self.names().next() != Some(STAGING.as_bytes())
    }
}

/// For people: bytes that are no UTF-8, and control characters, are escaped.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c.is_control() {
                    true => write!(f, "{}", c.escape_default())?,
                    false => write!(f, "{c}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanoseconds: u32,
}

/// Extended attributes: name and value, in the order of names.
pub type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// What an object carries besides its content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Meta {
    /// Permissions, with setuid, setgid and sticky bit: 12 bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When the content last changed.
    pub modified: Time,
    /// Extended attributes, access control lists among them, by name.
    pub attributes: Attributes,
}

/// Which state of which file a sender reads: where anything of it differs, the content may.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// When the content last changed.
    pub modified: Time,
    /// When anything last changed; nobody can set it.
    pub changed: Time,
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum What {
    /// A directory, before what is in it.
    Directory,
    /// The same directory, after what is in it.
    Leave,
    /// A regular file.
    File(Source),
    /// A symbolic link, with its target as it is.
    Link(Vec<u8>),
    /// Another name of a file that came before.
    SameAs(TreePath),
    /// A named pipe.
    Pipe,
    /// A socket's name.
    Socket,
    /// A character device, by number.
    Character(u64),
    /// A block device, by number.
    Block(u64),
}

/// One object of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub path: TreePath,
    /// What it carries.
    pub meta: Meta,
    /// What it is.
    pub what: What,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_not_allowed() {
        let path = |text: &str| TreePath(text.as_bytes().to_vec());
        for good in [
            "",
            "a",
            "a/b",
            "...",
            " ",
            ".holdfast-transfer2",
            "a/.holdfast-transfer",
        ] {
            assert!(path(good).is_allowed(), "{good:?}");
        }
        let long = "x".repeat(256);
        for bad in [
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/..",
            "../a",
            "a/./b",
            "a\0b",
            &long,
            ".holdfast-transfer",
            ".holdfast-transfer/1.part",
        ] {
            assert!(!path(bad).is_allowed(), "{bad:?}");
        }
        assert!(!path(&"d/".repeat(DEPTH_MAX + 1)[..2 * DEPTH_MAX + 1]).is_allowed());
    }

    #[test]
    fn paths_are_taken_apart_as_they_were_joined() {
        let path = TreePath::root().join(b"a").join(b"b\xff\n");
        assert_eq!(path.to_string(), "a/b\\xff\\n");
        let (dir, name) = path.split().unwrap();
        assert_eq!((dir.as_bytes(), name), (&b"a"[..], &b"b\xff\n"[..]));
        assert_eq!(dir.split().unwrap(), (TreePath::root(), &b"a"[..]));
        assert_eq!(TreePath::root().split(), None);
        assert_eq!(TreePath::root().names().count(), 0);
    }
}
