//! Blocks: what is in a segment file behind its header.

use crate::position::{NUMBER_END, ORDINALS_MAX};
use codec::{Checksum, Corruption, crc32c};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes of a block.
pub(crate) const MAGIC: [u8; 4] = *b"HVLB";

/// Bytes of a block's header; its kills follow.
pub(crate) const HEADER_BYTES: usize = 64;

/// Bytes before a record's payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 12;

/// Most bytes of the records of a block.
pub(crate) const BODY_BYTES_MAX: usize = (512 << 20) + 4096;

/// Most kills in a block.
pub(crate) const KILLS_MAX: usize = 1 << 26;

const LAST: u32 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct RawBlock {
    magic: [u8; 4],
    head_crc: U32,
    body_crc: U32,
    body_bytes: U32,
    segment: U64,
    records: U32,
    kills: U32,
    durable: U64,
    group: U64,
    parts: U32,
    flags: U32,
    reserved: U64,
}

const _: () = assert!(size_of::<RawBlock>() == HEADER_BYTES);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct RawRecord {
    length: U32,
    ordinal: U32,
    stream: U32,
}

const _: () = assert!(size_of::<RawRecord>() == RECORD_HEADER_BYTES);

/// What the checksum of a block covers besides its bytes and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockKey {
    pub(crate) log: u128,
    pub(crate) file: u64,
    pub(crate) opening: u64,
}

/// The fields of a block besides its records and kills.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockHeader {
    pub(crate) segment: u64,
    pub(crate) records: u32,
    pub(crate) durable: u64,
    /// 0 for none.
    pub(crate) group: u64,
    pub(crate) parts: u32,
    /// Whether the next block starts at the next sector.
    pub(crate) last: bool,
}

/// A block's header and kills, verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) header: BlockHeader,
    pub(crate) body_bytes: usize,
    body_crc: u32,
    kills: &'a [u8],
}

/// What a header says of its block's size, before anything but the magic and the bounds was verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Header and kills.
    pub(crate) head_bytes: usize,
    /// Records.
    pub(crate) body_bytes: usize,
}

fn wrong(what: &'static str, offset: u64, expected: u64, found: u64) -> Corruption {
    Corruption {
        what,
        offset,
        expected,
        found,
    }
}

/// Adds a record to the body of a block.
///
/// # Panics
/// Where the payload or the ordinal is out of range.
pub(crate) fn push_record(body: &mut Vec<u8>, stream: u32, ordinal: u32, payload: &[u8]) {
    assert!(ordinal < ORDINALS_MAX, "an ordinal has 24 bits");
    let length = u32::try_from(payload.len()).expect("a payload is shorter than a block");
    let raw = RawRecord {
        length: U32::new(length),
        ordinal: U32::new(ordinal),
        stream: U32::new(stream),
    };
    body.extend_from_slice(raw.as_bytes());
    body.extend_from_slice(payload);
}

impl BlockKey {
    /// Appends the block to `into`; it will stand at `place` of the file.
    ///
    /// # Panics
    /// Where the body or the kills are too many: they would not be read again.
    pub(crate) fn seal(
        &self,
        place: u64,
        header: &BlockHeader,
        kills: &[u64],
        body: &[u8],
        into: &mut Vec<u8>,
    ) {
        assert!(body.len() <= BODY_BYTES_MAX && kills.len() <= KILLS_MAX);
        assert!(header.segment < NUMBER_END);
        let raw = RawBlock {
            magic: MAGIC,
            head_crc: U32::ZERO,
            body_crc: U32::new(crc32c(body)),
            body_bytes: U32::new(body.len() as u32),
            segment: U64::new(header.segment),
            records: U32::new(header.records),
            kills: U32::new(kills.len() as u32),
            durable: U64::new(header.durable),
            group: U64::new(header.group),
            parts: U32::new(header.parts),
            flags: U32::new(if header.last { LAST } else { 0 }),
            reserved: U64::ZERO,
        };
        let start = into.len();
        into.extend_from_slice(raw.as_bytes());
        for kill in kills {
            into.extend_from_slice(&kill.to_le_bytes());
        }
        let covered = into.get(start + 8..).unwrap_or_default();
        let sum = self.checksum(place, covered).to_le_bytes();
        if let Some(bytes) = into.get_mut(start + 4..start + 8) {
            bytes.copy_from_slice(&sum);
        }
        into.extend_from_slice(body);
    }

    fn checksum(&self, place: u64, covered: &[u8]) -> u32 {
        Checksum::new()
            .with(&self.log.to_le_bytes())
            .with(&self.file.to_le_bytes())
            .with(&self.opening.to_le_bytes())
            .with(&place.to_le_bytes())
            .with(covered)
            .finish()
    }

    /// Verifies header and kills at the start of `bytes`, which stand at `place`.
    ///
    /// # Errors
    /// What does not fit; the offset counts from the start of `bytes`.
    pub(crate) fn open_head<'a>(
        &self,
        place: u64,
        bytes: &'a [u8],
    ) -> Result<Head<'a>, Corruption> {
        let extent = extent(bytes)?;
        let head = bytes.get(..extent.head_bytes).ok_or_else(|| {
            wrong(
                "bytes of the kills",
                28,
                extent.head_bytes as u64,
                bytes.len() as u64,
            )
        })?;
        let (raw, kills) = RawBlock::ref_from_prefix(head)
            .map_err(|_| wrong("bytes of a block header", 0, 64, head.len() as u64))?;
        let sum = self.checksum(place, head.get(8..).unwrap_or_default());
        let found = raw.head_crc.get();
        if sum != found {
            return Err(wrong("header checksum", 4, found.into(), sum.into()));
        }
        let flags = raw.flags.get();
        if flags & !LAST != 0 || raw.reserved.get() != 0 {
            return Err(wrong("unknown flags", 52, LAST.into(), flags.into()));
        }
        if raw.segment.get() >= NUMBER_END {
            return Err(wrong("segment", 16, NUMBER_END, raw.segment.get()));
        }
        Ok(Head {
            header: BlockHeader {
                segment: raw.segment.get(),
                records: raw.records.get(),
                durable: raw.durable.get(),
                group: raw.group.get(),
                parts: raw.parts.get(),
                last: flags & LAST != 0,
            },
            body_bytes: extent.body_bytes,
            body_crc: raw.body_crc.get(),
            kills,
        })
    }
}

/// The size of the block at the start of `bytes`, which are [`HEADER_BYTES`] or more.
///
/// # Errors
/// Where no block has this magic or this size.
pub(crate) fn extent(bytes: &[u8]) -> Result<Extent, Corruption> {
    let (raw, _) = RawBlock::ref_from_prefix(bytes)
        .map_err(|_| wrong("bytes of a block header", 0, 64, bytes.len() as u64))?;
    let magic = u32::from_le_bytes(raw.magic).into();
    let wanted = u32::from_le_bytes(MAGIC).into();
    if magic != wanted {
        return Err(wrong("magic", 0, wanted, magic));
    }
    let (kills, body) = (raw.kills.get() as usize, raw.body_bytes.get() as usize);
    if kills > KILLS_MAX {
        return Err(wrong("kills", 28, KILLS_MAX as u64, kills as u64));
    }
    if body > BODY_BYTES_MAX {
        let max = BODY_BYTES_MAX as u64;
        return Err(wrong("bytes of the records", 12, max, body as u64));
    }
    Ok(Extent {
        head_bytes: HEADER_BYTES + kills * 8,
        body_bytes: body,
    })
}

impl<'a> Head<'a> {
    /// Names of records that are dead.
    pub(crate) fn kills(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let kills = self.kills.as_chunks().0.iter();
        kills.map(|kill| u64::from_le_bytes(*kill))
    }

    /// The records, after their checksum was verified.
    ///
    /// # Errors
    /// What does not fit; the offset counts from the start of `body`.
    pub(crate) fn open_body<'b>(&self, body: &'b [u8]) -> Result<Vec<RawEntry<'b>>, Corruption> {
        if body.len() != self.body_bytes {
            let (expected, found) = (self.body_bytes as u64, body.len() as u64);
            return Err(wrong("bytes of the records", 0, expected, found));
        }
        let sum = crc32c(body);
        if sum != self.body_crc {
            let (expected, found) = (self.body_crc.into(), sum.into());
            return Err(wrong("checksum of the records", 0, expected, found));
        }
        records(body, self.header.records)
    }
}

/// A record as it stands in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawEntry<'a> {
    pub(crate) stream: u32,
    pub(crate) ordinal: u32,
    pub(crate) payload: &'a [u8],
}

/// The records of a body.
pub(crate) fn records(body: &[u8], count: u32) -> Result<Vec<RawEntry<'_>>, Corruption> {
    let mut found: Vec<RawEntry<'_>> = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let at = (body.len() - rest.len()) as u64;
        let (raw, behind) = RawRecord::ref_from_prefix(rest)
            .map_err(|_| wrong("bytes of a record header", at, 12, rest.len() as u64))?;
        let length = raw.length.get() as usize;
        let (payload, behind) = behind
            .split_at_checked(length)
            .ok_or_else(|| wrong("bytes of a record", at, length as u64, behind.len() as u64))?;
        let ordinal = raw.ordinal.get();
        let least = found.last().map_or(0, |last| last.ordinal + 1);
        if ordinal >= ORDINALS_MAX || ordinal < least {
            return Err(wrong("ordinal", at + 4, least.into(), ordinal.into()));
        }
        found.push(RawEntry {
            stream: raw.stream.get(),
            ordinal,
            payload,
        });
        rest = behind;
    }
    if found.len() as u64 != u64::from(count) {
        return Err(wrong("records", 0, count.into(), found.len() as u64));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
