//! Pages of the table of inodes.

use super::TABLE;
use crate::corrupt::{equal, wrong};
use crate::id::VolumeId;
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use mount::{Ino, Kind, Timestamp};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const VERSION: u16 = 1;

/// Inodes of a page.
pub const INODES_PER_PAGE: u64 = 42;

/// The highest number that an inode may have: the table is an object of at most 2^32 pages, and
/// numbers of objects have 56 bits for it.
pub const INO_MAX: u64 = (crate::OBJECT_BLOCKS_MAX - 1) * INODES_PER_PAGE;

/// What the table says of a file, directory or other object. The length is that of its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Type.
    pub kind: Kind,
    /// Permission bits (12).
    pub perm: u16,
    /// Names, of a directory two and one for each directory in it; 0: removed while open.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a special file.
    pub device: u32,
    /// The directory that a directory is in; the root is in itself. 0 for all others.
    pub parent: Ino,
    /// Whether it has extended attributes.
    pub attributes: bool,
    /// Whether one of them is `security.capability`, which a change of content or owner takes away.
    pub capability: bool,
    /// Last access, as it was set.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
}

/// The inodes of a page; `None` where a number is free or used up.
pub type Inodes = [Option<Inode>; INODES_PER_PAGE as usize];

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    ino: U64,
    kind: u8,
    flags: u8,
    perm: U16,
    links: U32,
    uid: U32,
    gid: U32,
    device: U32,
    atime_nsec: U32,
    mtime_nsec: U32,
    ctime_nsec: U32,
    parent: U64,
    atime_sec: I64,
    mtime_sec: I64,
    ctime_sec: I64,
    reserved: [u8; 24],
}

const _: () = assert!(size_of::<Raw>() == 96);
const _: () = assert!(
    size_of::<Raw>() * INODES_PER_PAGE as usize + OBJECT_HEADER_BYTES == crate::BLOCK_BYTES
);

/// Flags: it has extended attributes; one of them is `security.capability`.
const HAS_ATTRIBUTES: u8 = 1;
const HAS_CAPABILITY: u8 = 2;

/// The page and the place in it of an inode; `None` for 0 and what is too high.
pub fn locate(ino: Ino) -> Option<(u32, usize)> {
    let index = ino.0.checked_sub(1).filter(|_| ino.0 <= INO_MAX)?;
    let page = u32::try_from(index / INODES_PER_PAGE).ok()?;
    Some((page, (index % INODES_PER_PAGE) as usize))
}

/// The number of the first inode of a page.
pub fn first_of(page: u32) -> Ino {
    Ino(u64::from(page) * INODES_PER_PAGE + 1)
}

/// The number of a type in formats.
pub(super) fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::File => 1,
        Kind::Dir => 2,
        Kind::Symlink => 3,
        Kind::Fifo => 4,
        Kind::Socket => 5,
        Kind::CharDevice => 6,
        Kind::BlockDevice => 7,
    }
}

/// The type with this number.
pub(super) fn kind_of(number: u8) -> Option<Kind> {
    let all = [
        Kind::File,
        Kind::Dir,
        Kind::Symlink,
        Kind::Fifo,
        Kind::Socket,
        Kind::CharDevice,
        Kind::BlockDevice,
    ];
    let index = usize::from(number).checked_sub(1)?;
    all.get(index).copied()
}

fn flags(inode: &Inode) -> u8 {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    flag(inode.attributes, HAS_ATTRIBUTES) | flag(inode.capability, HAS_CAPABILITY)
}

fn identity(volume: VolumeId, page: u32) -> Identity {
    Identity {
        set: volume.bytes(),
        object: TABLE.0,
        generation: page.into(),
    }
}

/// The page as it stands in the table, 4096 bytes.
pub fn encode(volume: VolumeId, page: u32, inodes: &Inodes) -> Vec<u8> {
    let mut payload = Vec::with_capacity(crate::BLOCK_BYTES);
    for (ino, inode) in (first_of(page).0..).zip(inodes) {
        let raw = match inode {
            None => Raw::new_zeroed(),
            Some(inode) => Raw {
                ino: U64::new(ino),
                kind: kind_number(inode.kind),
                flags: flags(inode),
                perm: U16::new(inode.perm),
                links: U32::new(inode.links),
                uid: U32::new(inode.uid),
                gid: U32::new(inode.gid),
                device: U32::new(inode.device),
                atime_nsec: U32::new(inode.atime.nsec),
                mtime_nsec: U32::new(inode.mtime.nsec),
                ctime_nsec: U32::new(inode.ctime.nsec),
                parent: U64::new(inode.parent.0),
                atime_sec: I64::new(inode.atime.sec),
                mtime_sec: I64::new(inode.mtime.sec),
                ctime_sec: I64::new(inode.ctime.sec),
                reserved: [0; 24],
            },
        };
        payload.extend_from_slice(raw.as_bytes());
    }
    seal_object(
        kind::VOLUME_INODES,
        VERSION,
        &identity(volume, page),
        &payload,
    )
}

/// Reads a page of the table; one of zeros has no inodes.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(bytes: &[u8], volume: VolumeId, page: u32) -> Result<Inodes, Corruption> {
    let mut inodes = [None; INODES_PER_PAGE as usize];
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(inodes);
    }
    let object = open_object(bytes, kind::VOLUME_INODES, Some(&identity(volume, page)))?;
    equal("version of the inodes", 12, VERSION, object.version)?;
    let found = object.payload.len() as u64;
    let length = size_of::<Raw>() as u64 * INODES_PER_PAGE;
    let raws = <[Raw]>::ref_from_bytes(object.payload)
        .ok()
        .filter(|raws| raws.len() == inodes.len())
        .ok_or(wrong("bytes of inodes", 48, length, found))?;
    for (index, (raw, inode)) in raws.iter().zip(&mut inodes).enumerate() {
        let at = (OBJECT_HEADER_BYTES + index * size_of::<Raw>()) as u64;
        let ino = first_of(page).0 + index as u64;
        *inode = record(raw, ino, at)?;
    }
    Ok(inodes)
}

/// One record, which starts at byte `at` of the page.
fn record(raw: &Raw, ino: u64, at: u64) -> Result<Option<Inode>, Corruption> {
    if raw.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    equal("number of the inode", at, ino, raw.ino.get())?;
    let kind = kind_of(raw.kind).ok_or(wrong("type of the inode", at + 8, 7, raw.kind.into()))?;
    let flags = raw.flags;
    if !matches!(flags, 0 | HAS_ATTRIBUTES | 3) {
        return Err(wrong("flags of the inode", at + 9, 3, flags.into()));
    }
    equal("permissions", at + 10, 0_u64, raw.perm.get() & !0o7777)?;
    let reserved = u64::from(raw.reserved.iter().any(|byte| *byte != 0));
    equal("reserved bytes", at + 72, 0_u64, reserved)?;
    let time = |sec: I64, nsec: U32, offset| match nsec.get() {
        nsec if nsec < 1_000_000_000 => Ok(Timestamp {
            sec: sec.get(),
            nsec,
        }),
        nsec => Err(wrong("nanoseconds", at + offset, 999_999_999, nsec.into())),
    };
    let parent = raw.parent.get();
    let fits = match kind {
        Kind::Dir => (1..=INO_MAX).contains(&parent),
        _ => parent == 0,
    };
    if !fits {
        return Err(wrong("parent of the inode", at + 40, 0, parent));
    }
    Ok(Some(Inode {
        kind,
        perm: raw.perm.get(),
        links: raw.links.get(),
        uid: raw.uid.get(),
        gid: raw.gid.get(),
        device: raw.device.get(),
        parent: Ino(parent),
        attributes: flags & HAS_ATTRIBUTES != 0,
        capability: flags & HAS_CAPABILITY != 0,
        atime: time(raw.atime_sec, raw.atime_nsec, 28)?,
        mtime: time(raw.mtime_sec, raw.mtime_nsec, 32)?,
        ctime: time(raw.ctime_sec, raw.ctime_nsec, 36)?,
    }))
}
