//! Sheets: the pieces of a checkpoint, each with a checksum of its own.

use super::SHEET_BYTES;
use crate::corrupt::{equal, wrong};
use crate::id::{ObjectId, Place, Segment, VolumeId};
use crate::map::{LEAF_BLOCKS, Leaf, Mapped, Run};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const VERSION: u16 = 1;

/// Bytes of a record's head.
const HEAD_BYTES: usize = 16;

/// Longest record of the map: a leaf with a place for each block.
pub(crate) const RECORD_BYTES_MAX: u64 = (HEAD_BYTES + LEAF_BLOCKS as usize * 4) as u64;

/// Bytes of segments in one record.
pub(crate) const SEGMENTS_BYTES: u64 = 8 * SEGMENTS_PER_RECORD as u64;

/// Segments in one record.
pub(crate) const SEGMENTS_PER_RECORD: usize = 1024;

/// What a checkpoint says of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentRow {
    /// Its use; 0 where it is free.
    pub segment_use: u64,
    /// Whether it may have flights that are to be replayed.
    pub replayed: bool,
}

/// One thing that a checkpoint says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Segments from this one on.
    Segments {
        /// First.
        first: Segment,
        /// Each.
        rows: Vec<SegmentRow>,
    },
    /// There is an object.
    Object {
        /// Which.
        object: ObjectId,
        /// Its length in bytes.
        size: u64,
    },
    /// A leaf of the object's map.
    Leaf {
        /// Which object.
        object: ObjectId,
        /// Which leaf.
        number: u32,
        /// Its map.
        leaf: Leaf,
    },
}

const SEGMENTS: u8 = 1;
const OBJECT: u8 = 2;
const RUNS: u8 = 3;
const PLACES: u8 = 4;

/// Bit of a segment's use that says that it is replayed.
const REPLAYED: u64 = 1 << 63;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    object: U64,
    number: U32,
    form: u8,
    reserved: u8,
    count: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRun {
    start: U16,
    length: U16,
    place: U32,
}

const _: () = assert!(size_of::<RawHead>() == HEAD_BYTES && size_of::<RawRun>() == 8);

/// Places that stand for none.
const HOLE: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;

fn place_of(mapped: Mapped) -> u32 {
    match mapped {
        Mapped::Hole => HOLE,
        Mapped::Lost => LOST,
        Mapped::At(place) => place.0,
    }
}

/// A sheet that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    payload: Vec<u8>,
}

impl Sheet {
    /// Adds a record; `false` where it does not fit any more.
    fn push(&mut self, head: &RawHead, body: &[u8]) -> bool {
        let room = SHEET_BYTES - OBJECT_HEADER_BYTES - self.payload.len();
        if HEAD_BYTES + body.len() > room {
            return false;
        }
        self.payload.extend_from_slice(head.as_bytes());
        self.payload.extend_from_slice(body);
        true
    }

    pub(crate) fn push_segments(&mut self, first: Segment, rows: &[SegmentRow]) -> bool {
        let head = head(first.0.into(), 0, SEGMENTS, rows.len());
        let body: Vec<u8> = (rows.iter())
            .flat_map(|row| {
                let mark = if row.replayed { REPLAYED } else { 0 };
                (row.segment_use | mark).to_le_bytes()
            })
            .collect();
        self.push(&head, &body)
    }

    pub(crate) fn push_object(&mut self, object: ObjectId, size: u64) -> bool {
        self.push(&head(object.0, 0, OBJECT, 1), &size.to_le_bytes())
    }

    pub(crate) fn push_leaf(&mut self, object: ObjectId, number: u32, leaf: &Leaf) -> bool {
        if let Some(codes) = leaf.codes() {
            let head = head(object.0, number, PLACES, codes.len());
            let body: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
            return self.push(&head, &body);
        }
        let runs = leaf.runs();
        let head = head(object.0, number, RUNS, runs.len());
        let raw = |run: &Run| RawRun {
            start: U16::new(run.start),
            length: U16::new(run.length),
            place: U32::new(place_of(run.mapped())),
        };
        let body: Vec<RawRun> = runs.iter().map(raw).collect();
        self.push(&head, body.as_bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// As it stands in its slot, zeros behind it; the next one begins empty.
    pub(crate) fn seal(&mut self, volume: VolumeId, checkpoint: u64, sheet: u32) -> Vec<u8> {
        let identity = identity(volume, checkpoint, sheet);
        let mut bytes = seal_object(kind::VOLUME_SHEET, VERSION, &identity, &self.payload);
        assert!(bytes.len() <= SHEET_BYTES, "records were measured");
        bytes.resize(SHEET_BYTES, 0);
        self.payload.clear();
        bytes
    }
}

fn head(object: u64, number: u32, form: u8, count: usize) -> RawHead {
    RawHead {
        object: U64::new(object),
        number: U32::new(number),
        form,
        reserved: 0,
        count: U16::new(count as u16),
    }
}

fn identity(volume: VolumeId, checkpoint: u64, sheet: u32) -> Identity {
    Identity {
        set: volume.bytes(),
        object: sheet.into(),
        generation: checkpoint,
    }
}

/// Reads sheet `sheet` of a checkpoint.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(
    bytes: &[u8],
    volume: VolumeId,
    checkpoint: u64,
    sheet: u32,
) -> Result<Vec<Record>, Corruption> {
    let identity = identity(volume, checkpoint, sheet);
    let object = open_object(bytes, kind::VOLUME_SHEET, Some(&identity))?;
    equal("version of the sheet", 12, VERSION, object.version)?;
    let mut rest = object.payload;
    let mut offset = OBJECT_HEADER_BYTES as u64;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (record, behind) = decode_record(rest, offset)?;
        records.push(record);
        offset += (rest.len() - behind.len()) as u64;
        rest = behind;
    }
    Ok(records)
}

fn decode_record(bytes: &[u8], offset: u64) -> Result<(Record, &[u8]), Corruption> {
    let short = wrong(
        "bytes of a record",
        offset,
        HEAD_BYTES as u64,
        bytes.len() as u64,
    );
    let (head, rest) = RawHead::ref_from_prefix(bytes).map_err(|_| short)?;
    equal("reserved byte", offset + 13, 0_u64, head.reserved)?;
    let count = usize::from(head.count.get());
    let object = ObjectId(head.object.get());
    let number = head.number.get();
    let unused = |used: bool| equal("unused number", offset + 8, 0_u64, u64::from(!used));
    match head.form {
        SEGMENTS => {
            let (raw, rest) =
                <[U64]>::ref_from_prefix_with_elems(rest, count).map_err(|_| short)?;
            unused(number == 0)?;
            let first = u32::try_from(object.0)
                .map_err(|_| wrong("first segment", offset, u32::MAX.into(), object.0))?;
            let row = |raw: &U64| SegmentRow {
                segment_use: raw.get() & !REPLAYED,
                replayed: raw.get() & REPLAYED != 0,
            };
            let rows = raw.iter().map(row).collect();
            let first = Segment(first);
            Ok((Record::Segments { first, rows }, rest))
        }
        OBJECT => {
            let (size, rest) = U64::ref_from_prefix(rest).map_err(|_| short)?;
            unused(number == 0 && count == 1)?;
            let size = size.get();
            if size > crate::OBJECT_BYTES_MAX {
                let max = crate::OBJECT_BYTES_MAX;
                return Err(wrong("size of an object", offset + 16, max, size));
            }
            Ok((Record::Object { object, size }, rest))
        }
        RUNS => {
            let (raw, rest) =
                <[RawRun]>::ref_from_prefix_with_elems(rest, count).map_err(|_| short)?;
            let run = |raw: &RawRun| {
                let mapped = match raw.place.get() {
                    HOLE => Mapped::Hole,
                    LOST => Mapped::Lost,
                    place => Mapped::At(Place(place)),
                };
                Run::new(raw.start.get().into(), raw.length.get().into(), mapped)
            };
            let leaf = (raw.iter().map(run).collect::<Option<Vec<Run>>>())
                .and_then(Leaf::from_runs)
                .ok_or(wrong("runs of a leaf", offset + 16, 0, 1))?;
            leaf_of(object, number, leaf, offset).map(|record| (record, rest))
        }
        PLACES => {
            equal("places of a leaf", offset + 14, LEAF_BLOCKS, count as u64)?;
            let (raw, rest) =
                <[U32]>::ref_from_prefix_with_elems(rest, count).map_err(|_| short)?;
            let mut codes = Box::new([0; LEAF_BLOCKS as usize]);
            for (code, raw) in codes.iter_mut().zip(raw) {
                *code = raw.get();
            }
            leaf_of(object, number, Leaf::from_codes(codes), offset).map(|record| (record, rest))
        }
        form => Err(wrong(
            "form of a record",
            offset + 12,
            PLACES.into(),
            form.into(),
        )),
    }
}

fn leaf_of(object: ObjectId, number: u32, leaf: Leaf, offset: u64) -> Result<Record, Corruption> {
    let max = crate::OBJECT_BLOCKS_MAX / u64::from(LEAF_BLOCKS);
    if u64::from(number) >= max {
        return Err(wrong("number of a leaf", offset + 8, max, number.into()));
    }
    Ok(Record::Leaf {
        object,
        number,
        leaf,
    })
}
