//! Pages of directories.

use super::inode::{INO_MAX, kind_number, kind_of};
use crate::corrupt::{equal, wrong};
use crate::id::{ObjectId, VolumeId};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use mount::{Ino, Kind};

const VERSION: u16 = 1;

/// Longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// Bytes of a page before its entries, behind the header of the object.
const HEAD_BYTES: usize = 8;

/// Bytes of an entry before its name.
const ENTRY_HEAD_BYTES: usize = 10;

/// Bytes of a page that entries may take.
pub const ENTRY_BYTES_MAX: usize = crate::BLOCK_BYTES - OBJECT_HEADER_BYTES - HEAD_BYTES;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The inode.
    pub ino: Ino,
    /// Its type.
    pub kind: Kind,
    /// The name, 1 to [`NAME_MAX`] bytes.
    pub name: &'a [u8],
}

/// Bytes that an entry with a name of so many bytes takes.
pub fn entry_bytes(name_bytes: usize) -> usize {
    ENTRY_HEAD_BYTES + name_bytes
}

/// Whether a directory may have this name: not empty, not too long, no NUL, no slash, and not one
/// of the two that every directory has.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

fn identity(volume: VolumeId, object: ObjectId, page: u32) -> Identity {
    Identity {
        set: volume.bytes(),
        object: object.0,
        generation: page.into(),
    }
}

/// The page as it stands in the directory's object, 4096 bytes.
pub fn encode<'a>(
    volume: VolumeId,
    object: ObjectId,
    page: u32,
    entries: impl Iterator<Item = Entry<'a>>,
) -> Vec<u8> {
    let mut payload = vec![0; HEAD_BYTES];
    let mut count = 0_u16;
    for entry in entries {
        assert!(is_name(entry.name), "a name that no directory may have");
        payload.extend_from_slice(&entry.ino.0.to_le_bytes());
        payload.push(kind_number(entry.kind));
        payload.push(entry.name.len() as u8);
        payload.extend_from_slice(entry.name);
        count += 1;
    }
    let used = payload.len() - HEAD_BYTES;
    assert!(used <= ENTRY_BYTES_MAX, "more than a page holds");
    let head = [count.to_le_bytes(), (used as u16).to_le_bytes()].concat();
    for (to, from) in payload.iter_mut().zip(head) {
        *to = from;
    }
    payload.resize(HEAD_BYTES + ENTRY_BYTES_MAX, 0);
    let identity = identity(volume, object, page);
    seal_object(kind::VOLUME_DIRECTORY, VERSION, &identity, &payload)
}

/// Reads a page of a directory; one of zeros has no entries.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(
    bytes: &[u8],
    volume: VolumeId,
    object: ObjectId,
    page: u32,
) -> Result<Vec<Entry<'_>>, Corruption> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Vec::new());
    }
    let identity = identity(volume, object, page);
    let object = open_object(bytes, kind::VOLUME_DIRECTORY, Some(&identity))?;
    equal("version of the directory", 12, VERSION, object.version)?;
    entries(object.payload)
}

/// The entries of a page's payload.
pub(super) fn entries(payload: &[u8]) -> Result<Vec<Entry<'_>>, Corruption> {
    let length = (HEAD_BYTES + ENTRY_BYTES_MAX) as u64;
    let short = wrong("bytes of the directory", 48, length, payload.len() as u64);
    let (head, rest) = payload.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
    equal("bytes of the directory", 48, length, payload.len() as u64)?;
    let [count_low, count_high, used_low, used_high, reserved @ ..] = *head;
    let count = u16::from_le_bytes([count_low, count_high]);
    let used = u16::from_le_bytes([used_low, used_high]);
    let base = OBJECT_HEADER_BYTES as u64;
    equal(
        "reserved bytes",
        base + 4,
        0_u64,
        u32::from_le_bytes(reserved),
    )?;
    let (mut rest, padding) = rest.split_at_checked(used.into()).ok_or(wrong(
        "bytes of entries",
        base + 2,
        ENTRY_BYTES_MAX as u64,
        used.into(),
    ))?;
    let padded = u64::from(padding.iter().any(|byte| *byte != 0));
    equal(
        "padding of the directory",
        base + 8 + u64::from(used),
        0_u64,
        padded,
    )?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let at = base + 8 + u64::from(used) - rest.len() as u64;
        let cut = wrong(
            "bytes of an entry",
            at,
            ENTRY_HEAD_BYTES as u64,
            rest.len() as u64,
        );
        let (head, tail) = rest.split_first_chunk::<ENTRY_HEAD_BYTES>().ok_or(cut)?;
        let [ino @ .., kind, name_bytes] = *head;
        let ino = u64::from_le_bytes(ino);
        if !(1..=INO_MAX).contains(&ino) {
            return Err(wrong("inode of an entry", at, INO_MAX, ino));
        }
        let kind = kind_of(kind).ok_or(wrong("type of an entry", at + 8, 7, kind.into()))?;
        let (name, tail) = tail.split_at_checked(name_bytes.into()).ok_or(wrong(
            "bytes of a name",
            at + 9,
            tail.len() as u64,
            name_bytes.into(),
        ))?;
        if !is_name(name) {
            return Err(wrong("name of an entry", at + 10, 1, 0));
        }
        entries.push(Entry {
            ino: Ino(ino),
            kind,
            name,
        });
        rest = tail;
    }
    equal("number of entries", base, count, entries.len() as u64)?;
    Ok(entries)
}
