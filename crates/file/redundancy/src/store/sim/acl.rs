//! Extended attributes that have a meaning: which names are taken, and default ACLs.

use super::is_label;
use super::tree::Inode;
use mount::{Errno, Kind, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Refuses names that a local file system refuses for this type of object (xattr(7)).
pub(super) fn check_xattr(kind: Kind, name: &OsStr, write: bool) -> Result<()> {
    if is_label(name) {
        return Err(if write { Errno::PERM } else { Errno::NODATA });
    }
    let bytes = name.as_bytes();
    if bytes.len() > 255 {
        return Err(Errno::RANGE);
    }
    let has_user_data = matches!(kind, Kind::File | Kind::Dir);
    if bytes.starts_with(b"user.") && bytes.len() > 5 {
        return match (has_user_data, write) {
            (true, _) => Ok(()),
            (false, true) => Err(Errno::PERM),
            (false, false) => Err(Errno::NODATA),
        };
    }
    if bytes.starts_with(b"trusted.") || bytes.starts_with(b"security.") {
        return Ok(());
    }
    if name == ACCESS || name == DEFAULT {
        return match (kind, name == DEFAULT) {
            (Kind::Symlink, _) => Err(Errno::OPNOTSUPP),
            (Kind::Dir, _) | (_, false) => Ok(()),
            _ if write => Err(Errno::ACCESS),
            _ => Err(Errno::NODATA),
        };
    }
    Err(Errno::OPNOTSUPP)
}

/// Gives a new object what its directory's default ACL says, else applies the umask.
///
/// The rules are those of posix_acl_create in fs/posix_acl.c: the mode masks the entries for
/// owner, mask (or group) and others; an ACL that says no more than the mode is not kept.
pub(super) fn inherit(parent: &Inode, child: &mut Inode, umask: u32) {
    let Some(default) = parent.xattrs.get(OsStr::new(DEFAULT)) else {
        child.perm &= !((umask & 0o777) as u16);
        return;
    };
    if child.kind == Kind::Dir {
        child
            .xattrs
            .insert(OsString::from(DEFAULT), default.clone());
    }
    let mut access = default.clone();
    let has_mask = entries(default).any(|(_, tag, _)| tag == 0x10);
    let mut extended = false;
    for (at, tag, perm) in entries(default) {
        let shift = match tag {
            0x01 => 6,
            0x04 if !has_mask => 3,
            0x10 => 3,
            0x20 => 0,
            _ => {
                extended = true;
                continue;
            }
        };
        let masked = perm & (child.perm >> shift) & 7;
        child.perm = child.perm & !(7 << shift) | masked << shift;
        if let Some(bytes) = access.get_mut(at + 2..at + 4) {
            bytes.copy_from_slice(&masked.to_le_bytes());
        }
    }
    if extended || has_mask {
        child.xattrs.insert(OsString::from(ACCESS), access);
    }
}

/// Entries of an ACL in the kernel's form (struct posix_acl_xattr_entry in
/// linux/posix_acl_xattr.h): offset, tag, permissions.
fn entries(acl: &[u8]) -> impl Iterator<Item = (usize, u16, u16)> {
    acl.get(4..)
        .unwrap_or_default()
        .chunks_exact(8)
        .enumerate()
        .map(|(index, entry)| {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            let perm = u16::from_le_bytes([entry[2], entry[3]]);
            (4 + index * 8, tag, perm)
        })
}
