//! The validity file: which records were live at a barrier.

use crate::live::LiveSet;
use crate::place::wrong;
use crate::position::{NUMBER_END, ORDINALS_MAX};
use codec::Corruption;
use std::collections::BTreeMap;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    number: U64,
    records: U32,
    finished: U32,
}

const _: () = assert!(size_of::<RawEntry>() == 16);

/// What a validity file says of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Of the ordinals given out by then, which are live.
    pub(crate) live: LiveSet,
    /// Whether all its kills are in this file.
    pub(crate) finished: bool,
}

/// Adds a segment to the payload.
pub(crate) fn push(into: &mut Vec<u8>, number: u64, live: &LiveSet, finished: bool) {
    let raw = RawEntry {
        number: U64::new(number),
        records: U32::new(live.records()),
        finished: U32::new(finished.into()),
    };
    into.extend_from_slice(raw.as_bytes());
    live.encode(into);
}

/// Reads the payload of a sealed object: segments by number.
///
/// # Errors
/// What is wrong; the offset counts from the start of the payload.
pub(crate) fn decode(bytes: &[u8]) -> Result<BTreeMap<u64, Entry>, Corruption> {
    let mut found: BTreeMap<u64, Entry> = BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = (bytes.len() - rest.len()) as u64;
        let (raw, behind) = RawEntry::ref_from_prefix(rest)
            .map_err(|_| wrong("bytes of a segment's entry", at, 16, rest.len() as u64))?;
        let (number, records) = (raw.number.get(), raw.records.get());
        let rises = found
            .last_key_value()
            .is_none_or(|(last, _)| *last < number);
        if number >= NUMBER_END || !rises {
            return Err(wrong("number of a segment", at, NUMBER_END, number));
        }
        if records > ORDINALS_MAX {
            let most = ORDINALS_MAX.into();
            return Err(wrong("records of a segment", at + 8, most, records.into()));
        }
        let finished = raw.finished.get();
        if finished > 1 {
            return Err(wrong("whether it is finished", at + 12, 1, finished.into()));
        }
        let (live, behind) = LiveSet::decode(behind, records).map_err(|why| why.moved(at + 16))?;
        let finished = finished == 1;
        found.insert(number, Entry { live, finished });
        rest = behind;
    }
    Ok(found)
}
