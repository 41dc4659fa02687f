//! The table at the end of a segment: what each of its blocks is, and its checksum. It spares a
//! reader the walk over the segment's flights; where it is missing or damaged, they say the same.

use crate::corrupt::{equal, wrong};
use crate::id::{BlockIndex, ObjectId, Segment, Use, VolumeId};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const VERSION: u16 = 1;

/// Bytes of a row.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Bytes before the first row.
pub(crate) const TABLE_HEAD_BYTES: usize = OBJECT_HEADER_BYTES;

/// What a block of a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The object.
    pub object: ObjectId,
    /// The block of it.
    pub block: BlockIndex,
    /// Its checksum.
    pub sum: u32,
}

/// The rows of a segment, by the block in the segment; `None` for headers and what is not used.
pub type Rows = Vec<Option<Row>>;

/// No object has this number: the row of a header.
const NO_OBJECT: u64 = u64::MAX;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    object: U64,
    block: U32,
    sum: U32,
}

const _: () = assert!(size_of::<Raw>() == ENTRY_BYTES);

/// The table as it stands in the log.
pub fn encode(volume: VolumeId, segment: Segment, segment_use: Use, rows: &Rows) -> Vec<u8> {
    let mut payload = Vec::with_capacity(rows.len() * ENTRY_BYTES);
    for row in rows {
        let raw = match row {
            Some(row) => Raw {
                object: U64::new(row.object.0),
                block: U32::new(row.block.0),
                sum: U32::new(row.sum),
            },
            None => Raw {
                object: U64::new(NO_OBJECT),
                block: U32::ZERO,
                sum: U32::ZERO,
            },
        };
        payload.extend_from_slice(raw.as_bytes());
    }
    let identity = identity(volume, segment, segment_use);
    seal_object(kind::VOLUME_TABLE, VERSION, &identity, &payload)
}

fn identity(volume: VolumeId, segment: Segment, segment_use: Use) -> Identity {
    Identity {
        set: volume.bytes(),
        object: segment.0.into(),
        generation: segment_use.0,
    }
}

/// Reads the table of this use of a segment with at most `rows_max` rows.
///
/// # Errors
/// The first thing that does not fit: an older use's table is one.
pub fn decode(
    bytes: &[u8],
    volume: VolumeId,
    segment: Segment,
    segment_use: Use,
    rows_max: usize,
) -> Result<Rows, Corruption> {
    let identity = identity(volume, segment, segment_use);
    let object = open_object(bytes, kind::VOLUME_TABLE, Some(&identity))?;
    equal("version of the table", 12, VERSION, object.version)?;
    let found = object.payload.len() as u64;
    let rows = <[Raw]>::ref_from_bytes(object.payload)
        .ok()
        .filter(|rows| rows.len() <= rows_max)
        .ok_or(wrong(
            "bytes of the table",
            48,
            (rows_max * ENTRY_BYTES) as u64,
            found,
        ))?;
    let row = |raw: &Raw| {
        (raw.object.get() != NO_OBJECT).then(|| Row {
            object: ObjectId(raw.object.get()),
            block: BlockIndex(raw.block.get()),
            sum: raw.sum.get(),
        })
    };
    Ok(rows.iter().map(row).collect())
}
