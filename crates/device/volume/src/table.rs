//! The table at the end of a segment: what each of its blocks is, and its checksum. It spares a
//! reader the walk over the segment's flights; where it is missing or damaged, they say the same.

use crate::corrupt::{equal, wrong};
use crate::flight::PACK_OBJECT;
use crate::id::{BlockIndex, OBJECTS_END, ObjectId, Segment, Use, VolumeId};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of a table without packs, and with them.
const PLAIN: u16 = 1;
const PACKED: u16 = 2;

/// Bytes of a row.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Bytes before the first row.
pub(crate) const TABLE_HEAD_BYTES: usize = OBJECT_HEADER_BYTES;

/// What a block of a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// A block of an object.
    Block {
        /// The object.
        object: ObjectId,
        /// The block of it.
        block: BlockIndex,
        /// Its checksum.
        sum: u32,
    },
    /// A pack.
    Pack {
        /// Its checksum.
        sum: u32,
    },
    /// A header with a pack in it, which has a checksum of its own.
    Header,
}

/// The rows of a segment, by the block in the segment; `None` for headers without a pack and what is not
/// used.
pub type Rows = Vec<Option<Row>>;

/// No object has these numbers: the row of a header or of nothing, of a pack, of a header with a pack.
const NO_OBJECT: u64 = u64::MAX;
const PACK: u64 = PACK_OBJECT.0;
const HEADER: u64 = OBJECTS_END.0;

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
        let (object, block, sum) = match *row {
            Some(Row::Block { object, block, sum }) => (object.0, block.0, sum),
            Some(Row::Pack { sum }) => (PACK, 0, sum),
            Some(Row::Header) => (HEADER, 0, 0),
            None => (NO_OBJECT, 0, 0),
        };
        let raw = Raw {
            object: U64::new(object),
            block: U32::new(block),
            sum: U32::new(sum),
        };
        payload.extend_from_slice(raw.as_bytes());
    }
    let packed = |row: &Option<Row>| matches!(row, Some(Row::Pack { .. } | Row::Header));
    let version = match rows.iter().any(packed) {
        true => PACKED,
        false => PLAIN,
    };
    let identity = identity(volume, segment, segment_use);
    seal_object(kind::VOLUME_TABLE, version, &identity, &payload)
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
    if object.version != PACKED {
        equal("version of the table", 12, PLAIN, object.version)?;
    }
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
    let row = |raw: &Raw| match raw.object.get() {
        NO_OBJECT => None,
        PACK => Some(Row::Pack { sum: raw.sum.get() }),
        HEADER => Some(Row::Header),
        object => Some(Row::Block {
            object: ObjectId(object),
            block: BlockIndex(raw.block.get()),
            sum: raw.sum.get(),
        }),
    };
    Ok(rows.iter().map(row).collect())
}
