//! The first block of a segment.

use crate::{BLOCK_BYTES, LogId, Sequence};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Least bytes of a segment: its first block and one with records.
pub const SEGMENT_BYTES_MIN: u64 = 2 * BLOCK_BYTES as u64;

/// Most bytes of a segment; recovery holds one in memory.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// No segment begins behind this record: it leaves room to count on.
const SEQUENCE_MAX: Sequence = Sequence(1 << 63);

/// Version of the segment header's payload and of the frames behind it.
pub const SEGMENT_VERSION: u16 = 1;

/// What the first block of a segment says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The log.
    pub log: LogId,
    /// The segment's number, used once in the life of the log.
    pub number: u64,
    /// The first record in it; all before it were durable when the segment was made.
    pub first: Sequence,
    /// Bytes of the file.
    pub segment_bytes: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSegment {
    pub(crate) first: U64,
    pub(crate) segment_bytes: U64,
}

const _: () = assert!(OBJECT_HEADER_BYTES + size_of::<RawSegment>() <= BLOCK_BYTES);

impl SegmentHeader {
    /// The whole first block.
    pub fn encode(&self) -> Vec<u8> {
        let identity = identity(self.log, self.number);
        let raw = RawSegment {
            first: U64::new(self.first.0),
            segment_bytes: U64::new(self.segment_bytes),
        };
        let mut block = codec::seal_object(
            kind::LOG_SEGMENT,
            SEGMENT_VERSION,
            &identity,
            raw.as_bytes(),
        );
        block.resize(BLOCK_BYTES, 0);
        block
    }

    /// Reads the first block; `bytes` may hold the rest of the segment too.
    ///
    /// # Errors
    /// What is wrong; the offset counts from the start of the segment.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, Corruption> {
        let block = bytes.get(..BLOCK_BYTES).ok_or(Corruption {
            what: "bytes of a segment",
            offset: 0,
            expected: BLOCK_BYTES as u64,
            found: bytes.len() as u64,
        })?;
        let object = codec::open_object(block, kind::LOG_SEGMENT, None)?;
        let wrong = |what, offset, expected, found| Corruption {
            what,
            offset,
            expected,
            found,
        };
        if object.version != SEGMENT_VERSION {
            let (expected, found) = (SEGMENT_VERSION.into(), object.version.into());
            return Err(wrong("version of a log segment", 12, expected, found));
        }
        let length = object.payload.len() as u64;
        let raw = RawSegment::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the payload", 48, 16, length))?;
        let header = SegmentHeader {
            log: LogId(u128::from_le_bytes(object.identity.set)),
            number: object.identity.object,
            first: Sequence(raw.first.get()),
            segment_bytes: raw.segment_bytes.get(),
        };
        if !(Sequence::FIRST..=SEQUENCE_MAX).contains(&header.first) {
            let found = header.first.0;
            return Err(wrong(
                "first record of the segment",
                64,
                SEQUENCE_MAX.0,
                found,
            ));
        }
        Ok(header)
    }

    /// Decodes and holds against the log and the number in the file's name.
    pub(crate) fn decode_as(
        block: &[u8],
        log: LogId,
        number: u64,
    ) -> Result<SegmentHeader, Corruption> {
        let header = SegmentHeader::decode(block)?;
        let identity = identity(log, number);
        codec::open_object(block, kind::LOG_SEGMENT, Some(&identity))?;
        Ok(header)
    }
}

fn identity(log: LogId, number: u64) -> Identity {
    Identity {
        set: log.0.to_le_bytes(),
        object: number,
        generation: 0,
    }
}

/// Whether `bytes` is a legal segment length.
pub(crate) fn length_is_legal(bytes: u64) -> bool {
    (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
        && bytes.is_multiple_of(BLOCK_BYTES as u64)
}
