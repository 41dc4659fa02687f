//! Comparing and copying one object.

use super::pace::Pace;
use crate::journal::dirty::CHUNK_BYTES;
use crate::store::{Node, Store, StoreFile, fill_at};
use env::errno::Errno;
use mount::{AllocateFlags, Result, SetAttr, SetTime};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const PAGE: usize = 4096;

/// Which of two copies failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failed {
    /// The one that was read.
    Source(Errno),
    /// The one that was made equal, or the pass was stopped.
    Target(Errno),
}

impl Failed {
    /// The error, whosoever it is.
    pub(crate) fn errno(self) -> Errno {
        match self {
            Failed::Source(errno) | Failed::Target(errno) => errno,
        }
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Failed {
        Failed::Target(errno)
    }
}

fn read_full(file: &dyn StoreFile, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let got = file.read_at(offset, buffer)?;
    buffer[got..].fill(0);
    Ok(())
}

/// Makes `to` equal to `from` in a range, chunk by chunk; only pages that differ are written, and
/// what is a hole in `from` becomes one in `to`.
pub(crate) fn equal_range(
    from: &dyn StoreFile,
    to: &dyn StoreFile,
    offset: u64,
    length: u64,
    pace: &Pace,
) -> std::result::Result<(), Failed> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        let data = match from.seek(at, false) {
            Ok(data) => data.min(end),
            Err(Errno::NXIO) => end,
            Err(errno) => return Err(Failed::Source(errno)),
        };
        if data > at {
            free_range(to, at, data - at)?;
            at = data;
            continue;
        }
        let hole = from.seek(at, true).map_err(Failed::Source)?.min(end);
        while at < hole {
            let next = ((at / CHUNK_BYTES + 1) * CHUNK_BYTES).min(hole);
            let written = equal_chunk(from, to, at, (next - at) as usize)?;
            pace.bytes(next - at, written)?;
            at = next;
        }
    }
    Ok(())
}

/// Frees a range of `to` where it holds data.
fn free_range(to: &dyn StoreFile, offset: u64, length: u64) -> Result<()> {
    match to.seek(offset, false) {
        Ok(data) if data < offset + length => {}
        Ok(_) | Err(Errno::NXIO) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
    match to.allocate(offset, length, punch) {
        Err(Errno::OPNOTSUPP) => {
            let zeros = vec![0; CHUNK_BYTES as usize];
            let mut at = 0;
            while at < length {
                let part = (length - at).min(CHUNK_BYTES);
                to.write_at(offset + at, &zeros[..part as usize])?;
                at += part;
            }
            Ok(())
        }
        other => other,
    }
}

fn equal_chunk(
    from: &dyn StoreFile,
    to: &dyn StoreFile,
    offset: u64,
    length: usize,
) -> std::result::Result<u64, Failed> {
    let (mut source, mut target) = (vec![0; length], vec![0; length]);
    read_full(from, offset, &mut source).map_err(Failed::Source)?;
    read_full(to, offset, &mut target)?;
    if source == target {
        return Ok(0);
    }
    let mut written = 0;
    let mut at = 0;
    while at < length {
        let page = (at + PAGE).min(length);
        if source[at..page] == target[at..page] {
            at = page;
            continue;
        }
        let mut end = page;
        while end < length {
            let next = (end + PAGE).min(length);
            if source[end..next] == target[end..next] {
                break;
            }
            end = next;
        }
        fill_at(to, offset + at as u64, &source[at..end])?;
        written += (end - at) as u64;
        at = end;
    }
    Ok(written)
}

/// Copies a range without comparing, as far as `from` reaches.
pub(crate) fn copy_range(
    from: &dyn StoreFile,
    to: &dyn StoreFile,
    offset: u64,
    length: u64,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    let mut at = offset;
    while at < offset + length {
        let want = (offset + length - at).min(CHUNK_BYTES) as usize;
        let got = from.read_at(at, &mut buffer[..want])?;
        if got == 0 {
            break;
        }
        fill_at(to, at, &buffer[..got])?;
        at += got as u64;
    }
    Ok(())
}

fn names(list: &[u8]) -> BTreeSet<&[u8]> {
    list.split(|b| *b == 0).filter(|n| !n.is_empty()).collect()
}

/// Gives the target the source's owner, mode, extended attributes and times.
pub(crate) fn copy_attributes(from: (&dyn Store, &Node), to: (&dyn Store, &Node)) -> Result<()> {
    let (source, node) = from;
    let (target, copy) = to;
    let attr = source.attr(node)?;
    let present = target.attr(copy)?;
    if (attr.uid, attr.gid) != (present.uid, present.gid) {
        let owner = SetAttr {
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            ..SetAttr::default()
        };
        target.set_attr(copy, &owner)?;
    }
    let is_link = attr.kind == mount::Kind::Symlink;
    let wanted = source.list_xattr(node)?;
    let there = target.list_xattr(copy)?;
    for name in names(&there).difference(&names(&wanted)) {
        target.remove_xattr(copy, OsStr::from_bytes(name))?;
    }
    for name in names(&wanted) {
        let name = OsStr::from_bytes(name);
        let value = source.xattr(node, name)?;
        if target.xattr(copy, name) != Ok(value.clone()) {
            target.set_xattr(copy, name, &value, 0)?;
        }
    }
    // The mode comes after the owner (a change of owner clears set-id bits) and after the ACL
    // (which carries the group's bits).
    if !is_link && target.attr(copy)?.perm != attr.perm {
        let mode = SetAttr {
            mode: Some(u32::from(attr.perm)),
            ..SetAttr::default()
        };
        target.set_attr(copy, &mode)?;
    }
    let times = SetAttr {
        atime: Some(SetTime::To(attr.atime)),
        mtime: Some(SetTime::To(attr.mtime)),
        ..SetAttr::default()
    };
    target.set_attr(copy, &times)
}
