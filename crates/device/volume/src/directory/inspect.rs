//! Pages of a tree, as lines for people.

use super::{attributes, inode, page};
use crate::id::{ObjectId, VolumeId};
use codec::{Corruption, Field, kind, object_kind, open_object};
use mount::Kind;

fn field(name: impl ToString, value: impl ToString) -> Field {
    (name.to_string(), value.to_string())
}

/// The fields of a page of inodes, a page of a directory, or a list of attributes.
pub(crate) fn inspect(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let kind = object_kind(bytes)?;
    let object = open_object(bytes, kind, None)?;
    let volume = VolumeId(u128::from_le_bytes(object.identity.set));
    let id = ObjectId(object.identity.object);
    // A number that is too high is no page: the decoder says so.
    let number = u32::try_from(object.identity.generation).unwrap_or(u32::MAX);
    let mut fields = vec![field("volume", volume), field("object", id)];
    match kind {
        kind::VOLUME_INODES => {
            fields.push(field("page", number));
            let first = inode::first_of(number).0;
            let inodes = inode::decode(bytes, volume, number)?;
            for (ino, inode) in (first..).zip(inodes) {
                if let Some(inode) = inode {
                    fields.push(field(format_args!("inode {ino}"), words(&inode)));
                }
            }
        }
        kind::VOLUME_DIRECTORY => {
            fields.push(field("page", number));
            for entry in page::decode(bytes, volume, id, number)? {
                let name = entry.name.escape_ascii();
                fields.push(field(format_args!("inode {}", entry.ino.0), name));
            }
        }
        _ => {
            for (name, value) in attributes::decode(bytes, volume, id)? {
                let length = format!("{} bytes", value.len());
                fields.push(field(name.escape_ascii(), length));
            }
        }
    }
    Ok(fields)
}

fn words(inode: &inode::Inode) -> String {
    let kind = match inode.kind {
        Kind::File => "file",
        Kind::Dir => "directory",
        Kind::Symlink => "symbolic link",
        Kind::Fifo => "pipe",
        Kind::Socket => "socket",
        Kind::CharDevice => "character device",
        Kind::BlockDevice => "block device",
    };
    let (perm, links) = (inode.perm, inode.links);
    let mut text = format!("{kind}, mode {perm:04o}, links {links}");
    text.push_str(&format!(", owner {}:{}", inode.uid, inode.gid));
    if inode.parent.0 != 0 {
        text.push_str(&format!(", in directory {}", inode.parent.0));
    }
    if inode.attributes {
        text.push_str(", with extended attributes");
    }
    text
}
