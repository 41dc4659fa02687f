//! Frames: the records of a log as they stand in a segment.

use crate::{Checksum, Corruption, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"HREC";

/// Bytes of a frame's header; the payload follows at once.
pub const FRAME_HEADER_BYTES: usize = 32;

/// Frames start at multiples of this many bytes; a payload is followed by zeros up to there.
pub const FRAME_ALIGNMENT: usize = 8;

/// Longest payload in bytes.
pub const FRAME_PAYLOAD_MAX: usize = 1 << 20;

/// Bit 0 of the flags: the last frame of one device write. The next frame, if any, starts at the
/// next multiple of 4096.
const ENDS_WRITE: u16 = 1;

/// Bytes that a frame with this much payload takes, a multiple of [`FRAME_ALIGNMENT`].
pub const fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(FRAME_ALIGNMENT)
}

/// The fields of a frame besides its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// What the record means to the log's owner.
    pub kind: u16,
    /// The record's place in the log.
    pub sequence: u64,
    /// Every record below this sequence was durable before the write that holds this frame was
    /// issued. Not above `sequence`, and at most 2^32 - 1 below it.
    pub durable_below: u64,
    /// Whether this is the last frame of its device write.
    pub ends_write: bool,
}

/// A frame that verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Its header.
    pub header: FrameHeader,
    /// Its content.
    pub payload: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
pub(crate) struct RawFrame {
    pub(crate) magic: [u8; 4],
    pub(crate) kind: U16,
    pub(crate) flags: U16,
    pub(crate) sequence: U64,
    pub(crate) behind: U32,
    pub(crate) payload_bytes: U32,
    pub(crate) payload_crc: U32,
    pub(crate) header_crc: U32,
}

const _: () = assert!(size_of::<RawFrame>() == FRAME_HEADER_BYTES);

/// What the checksum of a frame covers besides its bytes: the log and the segment. A segment's
/// number is never used twice, so what an earlier use left in a recycled file does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameKey {
    log: u128,
    segment: u64,
}

impl FrameKey {
    /// For the frames of segment number `segment` of `log`.
    pub fn new(log: u128, segment: u64) -> FrameKey {
        FrameKey { log, segment }
    }

    /// Seals a header for `payload`, whose checksum the caller has computed with [`crc32c`] (so
    /// that this can be done before the header's fields are known).
    ///
    /// # Panics
    /// Where the payload is longer than [`FRAME_PAYLOAD_MAX`] or `durable_below` is out of range.
    pub fn seal(
        &self,
        header: &FrameHeader,
        payload_bytes: usize,
        payload_crc: u32,
    ) -> [u8; FRAME_HEADER_BYTES] {
        assert!(payload_bytes <= FRAME_PAYLOAD_MAX, "payload too long");
        let behind = header
            .sequence
            .checked_sub(header.durable_below)
            .and_then(|behind| u32::try_from(behind).ok())
            .expect("durable_below is at most 2^32 - 1 below the sequence");
        let mut raw = RawFrame {
            magic: FRAME_MAGIC,
            kind: U16::new(header.kind),
            flags: U16::new(if header.ends_write { ENDS_WRITE } else { 0 }),
            sequence: U64::new(header.sequence),
            behind: U32::new(behind),
            payload_bytes: U32::new(payload_bytes as u32),
            payload_crc: U32::new(payload_crc),
            header_crc: U32::ZERO,
        };
        raw.header_crc = U32::new(self.checksum(&raw));
        zerocopy::transmute!(raw)
    }

    /// Verifies the frame at the start of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// The first thing that does not fit; the offset counts from the start of `bytes`.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<Frame<'a>, Corruption> {
        let (header, length, payload_crc) = self.open_header(bytes)?;
        let rest = bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        let payload = rest.get(..length).ok_or(Corruption {
            what: "bytes of the payload",
            offset: 20,
            expected: length as u64,
            found: rest.len() as u64,
        })?;
        let sum = crc32c(payload);
        Corruption::unless_equal("payload checksum", 24, payload_crc.into(), sum.into())?;
        Ok(Frame { header, payload })
    }

    /// Verifies the header at the start of `bytes` and leaves the payload alone.
    pub fn peek(&self, bytes: &[u8]) -> Result<FrameHeader, Corruption> {
        self.open_header(bytes).map(|(header, ..)| header)
    }

    fn open_header(&self, bytes: &[u8]) -> Result<(FrameHeader, usize, u32), Corruption> {
        let (raw, _) = RawFrame::ref_from_prefix(bytes).map_err(|_| Corruption {
            what: "bytes of a frame header",
            offset: 0,
            expected: FRAME_HEADER_BYTES as u64,
            found: bytes.len() as u64,
        })?;
        let magic = u32::from_le_bytes(raw.magic);
        let wanted = u32::from_le_bytes(FRAME_MAGIC);
        Corruption::unless_equal("magic", 0, wanted.into(), magic.into())?;
        let sum = u64::from(self.checksum(raw));
        Corruption::unless_equal("header checksum", 28, raw.header_crc.get().into(), sum)?;
        let unknown = raw.flags.get() & !ENDS_WRITE;
        Corruption::unless_equal("unknown flags", 6, 0, unknown.into())?;
        let length = raw.payload_bytes.get();
        let sequence = raw.sequence.get();
        let behind = u64::from(raw.behind.get());
        let limit = |what, offset, expected, found| Corruption {
            what,
            offset,
            expected,
            found,
        };
        if length as usize > FRAME_PAYLOAD_MAX {
            let max = FRAME_PAYLOAD_MAX as u64;
            return Err(limit("payload length", 20, max, length.into()));
        }
        let durable_below =
            sequence
                .checked_sub(behind)
                .ok_or(limit("durable distance", 16, sequence, behind))?;
        let header = FrameHeader {
            kind: raw.kind.get(),
            sequence,
            durable_below,
            ends_write: raw.flags.get() & ENDS_WRITE != 0,
        };
        Ok((header, length as usize, raw.payload_crc.get()))
    }

    /// Over log id, segment number and the header with a zero in the checksum's own place. The
    /// header holds the payload's checksum, so the payload is covered too.
    fn checksum(&self, raw: &RawFrame) -> u32 {
        let mut raw = raw.clone();
        raw.header_crc = U32::ZERO;
        Checksum::new()
            .with(&self.log.to_le_bytes())
            .with(&self.segment.to_le_bytes())
            .with(raw.as_bytes())
            .finish()
    }
}

#[cfg(test)]
mod tests;
