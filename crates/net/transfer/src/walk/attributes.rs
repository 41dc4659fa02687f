//! Extended attributes.

use super::path_of;
use crate::entry::Attributes;
use env::errno::Errno;
use rustix::fs::{lgetxattr, llistxattr};
use std::ffi::CStr;
use std::os::fd::AsFd;

/// Longest value and longest list of names (XATTR_SIZE_MAX, XATTR_LIST_MAX of Linux).
const VALUE_MAX: usize = 64 << 10;

/// Bytes that are enough for the list of names and for the values of almost every file.
const FIRST_TRY: usize = 512;

/// Whether an attribute belongs to the file, and not to the file system that it is on or to
/// Holdfast's own stores.
pub(crate) fn is_carried(name: &[u8]) -> bool {
    let carried = [
        &b"user."[..],
        b"trusted.",
        b"security.capability",
        b"system.posix_acl_",
    ];
    let ours = [
        &b"trusted.holdfast"[..],
        b"trusted.hfm",
        b"trusted.overlay.",
    ];
    carried.iter().any(|start| name.starts_with(start))
        && !ours.iter().any(|start| name.starts_with(start))
}

/// Name and value of each that is carried, in the order of names.
pub(crate) fn read(dir: impl AsFd, name: &CStr) -> Result<Attributes, Errno> {
    let path = path_of(dir, name);
    let list = grown(|buffer| llistxattr(&path, buffer));
    let list = match list {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let mut found = Vec::new();
    for name in list
        .split(|byte| *byte == 0)
        .filter(|name| is_carried(name))
    {
        match grown(|buffer| lgetxattr(&path, name, buffer)) {
            Ok(value) => found.push((name.to_vec(), value)),
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    found.sort();
    Ok(found)
}

/// What a call fills a buffer with: a list of names, or a value.
pub(crate) fn grown(
    mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; FIRST_TRY];
    let length = match call(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(VALUE_MAX, 0);
            call(&mut buffer)?
        }
        answer => answer?,
    };
    buffer.truncate(length);
    Ok(buffer)
}
