//! The format of checkpoints: the map and the segments as of a flight.

use crate::block::{BLOCK_BYTES, blocks_for};
use crate::corrupt::{equal, wrong};
use crate::geometry::Geometry;
use crate::id::{Flight, VolumeId};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub mod sheet;

const VERSION: u16 = 1;

/// Bytes of a sheet, its header included.
pub const SHEET_BYTES: usize = 16 << 10;

/// Blocks of a sheet.
pub(crate) const SHEET_BLOCKS: u64 = blocks_for(SHEET_BYTES) as u64;

/// What a checkpoint says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The volume.
    pub volume: VolumeId,
    /// Counts the checkpoints from 1; an odd one is in slot 1.
    pub number: u64,
    /// The first flight whose changes may not be in it.
    pub replay_from: Flight,
    /// Flights below this one were durable when it was written, and some of their changes are in it.
    pub complete_below: Flight,
    /// Sheets of it.
    pub sheets: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    replay_from: U64,
    complete_below: U64,
    sheets: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<Raw>() == 24);

impl Header {
    /// As it stands in its slot, without the zeros behind it.
    pub fn encode(&self) -> Vec<u8> {
        let raw = Raw {
            replay_from: U64::new(self.replay_from.0),
            complete_below: U64::new(self.complete_below.0),
            sheets: U32::new(self.sheets),
            reserved: U32::ZERO,
        };
        let identity = Identity {
            set: self.volume.bytes(),
            object: self.number % 2,
            generation: self.number,
        };
        seal_object(kind::VOLUME_CHECKPOINT, VERSION, &identity, raw.as_bytes())
    }

    /// Reads one.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Header, Corruption> {
        let object = open_object(bytes, kind::VOLUME_CHECKPOINT, None)?;
        equal("version of the checkpoint", 12, VERSION, object.version)?;
        let found = object.payload.len() as u64;
        let raw = Raw::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the checkpoint", 48, 24, found))?;
        let start = OBJECT_HEADER_BYTES as u64;
        equal("reserved bytes", start + 20, 0_u64, raw.reserved.get())?;
        let number = object.identity.generation;
        equal(
            "slot of the checkpoint",
            32,
            number % 2,
            object.identity.object,
        )?;
        let replay_from = Flight(raw.replay_from.get());
        let complete_below = Flight(raw.complete_below.get());
        if replay_from.opening() != complete_below.opening() || replay_from > complete_below {
            let (from, below) = (replay_from.0, complete_below.0);
            return Err(wrong("flights of the checkpoint", start + 8, from, below));
        }
        Ok(Header {
            volume: VolumeId(u128::from_le_bytes(object.identity.set)),
            number,
            replay_from,
            complete_below,
            sheets: raw.sheets.get(),
        })
    }
}

/// The two copies in a slot.
pub(crate) const COPIES: [u64; 2] = [0, 1];

/// Bytes where a copy of checkpoint `number` starts, on the first disk: its header, then sheets.
pub(crate) fn copy_offset(geometry: &Geometry, number: u64, copy: u64) -> u64 {
    let half = u64::from(geometry.slot_blocks / 2);
    geometry.slot_offset(number) + copy * half * BLOCK_BYTES as u64
}

/// Bytes where a sheet lies.
pub(crate) fn sheet_offset(geometry: &Geometry, number: u64, copy: u64, sheet: u32) -> u64 {
    let blocks = 1 + u64::from(sheet) * SHEET_BLOCKS;
    copy_offset(geometry, number, copy) + blocks * BLOCK_BYTES as u64
}

/// Sheets that a slot has room for.
pub(crate) fn sheets_max(geometry: &Geometry) -> u32 {
    (geometry.slot_blocks / 2).saturating_sub(1) / SHEET_BLOCKS as u32
}

/// Bytes of the map that fit into so many sheets: a leaf is not split, so up to an eighth of a
/// sheet stays empty.
pub(crate) fn map_bytes_max(geometry: &Geometry) -> u64 {
    let table = (u64::from(geometry.segments()) * 8).div_ceil(sheet::SEGMENTS_BYTES);
    let sheets = u64::from(sheets_max(geometry)).saturating_sub(table + 1);
    sheets * (SHEET_BYTES as u64 - OBJECT_HEADER_BYTES as u64 - sheet::RECORD_BYTES_MAX)
}
