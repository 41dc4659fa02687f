//! Objects, and what they carry besides content.

use crate::entry::{Attributes, Meta, Time, TreePath};
use crate::receiver::Root;
use crate::walk;
use env::errno::Errno;
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, FileType, major, minor, readlinkat, statat};
use std::ffi::CString;
use std::fmt;

/// SHA-256.
pub type Digest = [u8; 32];

/// Attributes whose names begin so are access control lists.
const ACL: &[u8] = b"system.posix_acl_";

/// What an object carries besides its content and the time when that changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Permissions: 12 bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of its access control lists, where it has some.
    pub acl: Option<Digest>,
    /// Of its other extended attributes, where it has some.
    pub attributes: Option<Digest>,
}

impl Carried {
    pub(crate) fn of(meta: &Meta) -> Carried {
        Carried {
            mode: meta.mode,
            uid: meta.uid,
            gid: meta.gid,
            acl: sum(&meta.attributes, true),
            attributes: sum(&meta.attributes, false),
        }
    }
}

/// The sum of those that are access control lists, or of those that are not.
fn sum(attributes: &Attributes, acl: bool) -> Option<Digest> {
    let wanted = |(name, _): &&(Vec<u8>, Vec<u8>)| name.starts_with(ACL) == acl;
    let mut context = None;
    for (name, value) in attributes.iter().filter(wanted) {
        let context = context.get_or_insert_with(|| Context::new(&SHA256));
        for bytes in [name, value] {
            context.update(&(bytes.len() as u64).to_le_bytes());
            context.update(bytes);
        }
    }
    let mut sum = [0; 32];
    sum.copy_from_slice(context?.finish().as_ref());
    Some(sum)
}

/// What an object is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file: in a manifest it is a [`super::Proved`].
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Link(Vec<u8>),
    /// A named pipe.
    Pipe,
    /// A socket's name.
    Socket,
    /// A character device, by number.
    Character(u64),
    /// A block device, by number.
    Block(u64),
}

impl Kind {
    /// The first word of its line.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Link(_) => "link",
            Kind::Pipe => "pipe",
            Kind::Socket => "socket",
            Kind::Character(_) => "character",
            Kind::Block(_) => "block",
        }
    }
}

/// With its article.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "a file",
            Kind::Directory => "a directory",
            Kind::Link(_) => "a symbolic link",
            Kind::Pipe => "a pipe",
            Kind::Socket => "a socket",
            Kind::Character(_) => "a character device",
            Kind::Block(_) => "a block device",
        })
    }
}

/// An object by its path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Where.
    pub path: TreePath,
    /// What.
    pub kind: Kind,
    /// When its content last changed.
    pub modified: Time,
    /// What else it carries.
    pub carried: Carried,
}

/// Device and inode: names that have the same are names of one object.
pub(crate) type Inode = (u64, u64);

impl Object {
    /// What is at a path now. No link is followed.
    pub(crate) fn look(root: &mut Root, path: &TreePath) -> Result<(Object, Inode), Errno> {
        let (dir, name) = match path.split() {
            None => (root.opened(), &b"."[..]),
            Some((parent, name)) => (root.directory(&parent)?, name),
        };
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let stat = statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link(readlinkat(&dir, &name, Vec::new())?.into_bytes()),
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::Character(stat.st_rdev),
            FileType::BlockDevice => Kind::Block(stat.st_rdev),
            _ => return Err(Errno::INVAL),
        };
        let meta = Meta {
            attributes: walk::attributes_of(&dir, &name)?,
            ..walk::meta(&stat)
        };
        let object = Object {
            path: path.clone(),
            kind,
            modified: meta.modified,
            carried: Carried::of(&meta),
        };
        Ok((object, (stat.st_dev, stat.st_ino)))
    }
}

/// The number of a device: major, a colon, minor.
pub(crate) fn device_words(number: u64) -> String {
    format!("{}:{}", major(number), minor(number))
}
