//! The first sector of a segment file.

use crate::block::BlockKey;
use crate::place::{VERSION, wrong};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Device writes start at multiples of this many bytes, and none writes a sector of another.
pub const SECTOR_BYTES: u64 = 512;

/// Who wrote a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was appended to.
    Appended,
    /// A compaction.
    Compacted,
}

/// What the first sector of a segment file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The log.
    pub log: u128,
    /// The file's number.
    pub number: u64,
    /// The opening of the log in which it was made.
    pub opening: u64,
    /// Who appended to it.
    pub lane: u32,
    /// Who wrote it.
    pub origin: Origin,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSegment {
    lane: U32,
    origin: U32,
}

const _: () = assert!(OBJECT_HEADER_BYTES + size_of::<RawSegment>() <= SECTOR_BYTES as usize);

impl SegmentHeader {
    /// The whole first sector.
    pub fn encode(&self) -> Vec<u8> {
        let raw = RawSegment {
            lane: U32::new(self.lane),
            origin: U32::new(match self.origin {
                Origin::Appended => 0,
                Origin::Compacted => 1,
            }),
        };
        let identity = Identity {
            set: self.log.to_le_bytes(),
            object: self.number,
            generation: self.opening,
        };
        let mut sector = codec::seal_object(kind::VLOG_SEGMENT, VERSION, &identity, raw.as_bytes());
        sector.resize(SECTOR_BYTES as usize, 0);
        sector
    }

    /// Reads the first sector; `bytes` may hold more of the file.
    ///
    /// # Errors
    /// What is wrong; the offset counts from the start of the file.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, Corruption> {
        let short = || {
            wrong(
                "bytes of a segment file",
                0,
                SECTOR_BYTES,
                bytes.len() as u64,
            )
        };
        let sector = bytes.get(..SECTOR_BYTES as usize).ok_or_else(short)?;
        let object = codec::open_object(sector, kind::VLOG_SEGMENT, None)?;
        if object.version != VERSION {
            let (expected, found) = (VERSION.into(), object.version.into());
            return Err(wrong("version of a segment file", 12, expected, found));
        }
        let length = object.payload.len() as u64;
        let raw = RawSegment::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the payload", 48, 8, length))?;
        Ok(SegmentHeader {
            log: u128::from_le_bytes(object.identity.set),
            number: object.identity.object,
            opening: object.identity.generation,
            lane: raw.lane.get(),
            origin: match raw.origin.get() {
                0 => Origin::Appended,
                1 => Origin::Compacted,
                other => return Err(wrong("origin", 68, 1, other.into())),
            },
        })
    }

    pub(crate) fn key(&self) -> BlockKey {
        BlockKey {
            log: self.log,
            file: self.number,
            opening: self.opening,
        }
    }
}
