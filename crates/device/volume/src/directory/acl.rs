//! Access control lists: what a new object inherits, and how lists and permission bits follow each
//! other. The kernel checks them; it leaves these rules to the file system.

use super::attributes::Attributes;
use mount::Kind;

/// The attribute with the list of an object.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";

/// The attribute with the list that objects in a directory begin with.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Tags of entries (ACL_USER_OBJ and so on of linux/posix_acl.h).
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Entries of a list in the kernel's form (struct posix_acl_xattr_entry in
/// linux/posix_acl_xattr.h): offset, tag, permissions.
fn entries(acl: &[u8]) -> impl Iterator<Item = (usize, u16, u16)> {
    let entries = acl.get(4..).unwrap_or_default().chunks_exact(8);
    entries.enumerate().filter_map(|(index, entry)| {
        let [tag_low, tag_high, perm_low, perm_high, ..] = *entry else {
            return None;
        };
        let tag = u16::from_le_bytes([tag_low, tag_high]);
        let perm = u16::from_le_bytes([perm_low, perm_high]);
        Some((4 + index * 8, tag, perm))
    })
}

/// Whether this is a list at all: version 2 and whole entries.
pub(super) fn is_list(acl: &[u8]) -> bool {
    acl.get(..4) == Some(&2_u32.to_le_bytes()) && acl.len() % 8 == 4
}

/// The place in the permission bits that an entry stands for; `None` for named users and groups.
fn shift(tag: u16, has_mask: bool) -> Option<u32> {
    match tag {
        OWNER => Some(6),
        MASK => Some(3),
        GROUP if !has_mask => Some(3),
        OTHER => Some(0),
        _ => None,
    }
}

fn has_mask(acl: &[u8]) -> bool {
    entries(acl).any(|(_, tag, _)| tag == MASK)
}

/// Whether it says more than permission bits can.
fn is_extended(acl: &[u8]) -> bool {
    entries(acl).any(|(_, tag, _)| !matches!(tag, OWNER | GROUP | OTHER))
}

fn set_perm(acl: &mut [u8], at: usize, perm: u16) {
    if let Some(bytes) = acl.get_mut(at + 2..at + 4) {
        bytes.copy_from_slice(&perm.to_le_bytes());
    }
}

/// Gives a new object what its directory's list for new objects says, else applies the umask; the
/// permission bits that it gets. The rules are those of posix_acl_create in fs/posix_acl.c: the
/// mode masks the entries for owner, mask (or group) and others; a list that says no more than
/// the mode is not kept.
pub(super) fn inherit(
    default: Option<&[u8]>,
    kind: Kind,
    mut perm: u16,
    umask: u32,
    attributes: &mut Attributes,
) -> u16 {
    let Some(default) = default else {
        return perm & !((umask & 0o777) as u16);
    };
    if kind == Kind::Dir {
        attributes.insert(DEFAULT.to_vec(), default.to_vec());
    }
    let mut access = default.to_vec();
    let has_mask = has_mask(default);
    for (at, tag, allowed) in entries(default) {
        if let Some(shift) = shift(tag, has_mask) {
            let masked = allowed & (perm >> shift) & 7;
            perm = perm & !(7 << shift) | masked << shift;
            set_perm(&mut access, at, masked);
        }
    }
    if is_extended(default) {
        attributes.insert(ACCESS.to_vec(), access);
    }
    perm
}

/// The list after a change of the permission bits (posix_acl_chmod in fs/posix_acl.c).
pub(super) fn masked(acl: &[u8], mode: u32) -> Vec<u8> {
    let mut changed = acl.to_vec();
    let has_mask = has_mask(acl);
    for (at, tag, _) in entries(acl) {
        if let Some(shift) = shift(tag, has_mask) {
            set_perm(&mut changed, at, (mode >> shift & 7) as u16);
        }
    }
    changed
}

/// The permission bits that a list gives, and whether it is to be kept besides them
/// (posix_acl_update_mode in fs/posix_acl.c).
pub(super) fn mode_of(acl: &[u8], mut perm: u16) -> (u16, bool) {
    let has_mask = has_mask(acl);
    for (_, tag, allowed) in entries(acl) {
        if let Some(shift) = shift(tag, has_mask) {
            perm = perm & !(7 << shift) | (allowed & 7) << shift;
        }
    }
    (perm, is_extended(acl))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, perm) in entries {
            acl.extend_from_slice(&tag.to_le_bytes());
            acl.extend_from_slice(&perm.to_le_bytes());
            acl.extend_from_slice(&u32::MAX.to_le_bytes());
        }
        acl
    }

    #[test]
    fn a_list_that_says_no_more_than_the_mode_is_not_kept() {
        let plain = list(&[(OWNER, 6), (GROUP, 4), (OTHER, 0)]);
        assert!(is_list(&plain));
        assert_eq!(mode_of(&plain, 0o1777), (0o1640, false));
        let named = list(&[(OWNER, 6), (0x02, 7), (GROUP, 4), (MASK, 5), (OTHER, 0)]);
        assert_eq!(mode_of(&named, 0), (0o650, true));
        let expected = list(&[(OWNER, 7), (0x02, 7), (GROUP, 4), (MASK, 1), (OTHER, 2)]);
        assert_eq!(masked(&named, 0o712), expected);
        assert!(!is_list(&named[..7]));
    }

    #[test]
    fn a_default_list_takes_the_place_of_the_umask() {
        let default = list(&[(OWNER, 7), (0x02, 7), (GROUP, 7), (MASK, 7), (OTHER, 5)]);
        let mut attributes = Attributes::new();
        let perm = inherit(Some(&default), Kind::File, 0o640, 0o777, &mut attributes);
        assert_eq!(perm, 0o640);
        assert!(attributes.contains_key(ACCESS) && !attributes.contains_key(DEFAULT));
        assert_eq!(
            inherit(None, Kind::File, 0o666, 0o022, &mut attributes),
            0o644
        );
    }
}
