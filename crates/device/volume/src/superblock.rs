//! The first and the last block of each disk: which volume this is, and its shape.

use crate::block::BLOCK_BYTES;
use crate::corrupt::{equal, wrong};
use crate::geometry::Geometry;
use crate::id::VolumeId;
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the whole format that new volumes have. One of version 1 stays so: it has no packs, and
/// the Holdfast that made it can go on with it.
pub const VERSION: u16 = 2;

/// Who a disk belongs to. Written once, when the volume is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Version of the whole format, 1 or 2.
    pub version: u16,
    /// The volume.
    pub volume: VolumeId,
    /// Which of its disks, from 0.
    pub disk: u16,
    /// Its shape.
    pub geometry: Geometry,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    block_bytes: U32,
    segment_blocks: U32,
    segments_per_disk: U32,
    slot_blocks: U32,
    disks: U16,
    reserved: [u8; 6],
}

const _: () = assert!(size_of::<Raw>() == 24);

impl Superblock {
    /// As it stands on the disk, without the zeros behind it.
    pub fn encode(&self) -> Vec<u8> {
        let raw = Raw {
            block_bytes: U32::new(BLOCK_BYTES as u32),
            segment_blocks: U32::new(self.geometry.segment_blocks),
            segments_per_disk: U32::new(self.geometry.segments_per_disk),
            slot_blocks: U32::new(self.geometry.slot_blocks),
            disks: U16::new(self.geometry.disks),
            reserved: [0; 6],
        };
        let identity = Identity {
            set: self.volume.bytes(),
            object: self.disk.into(),
            generation: 0,
        };
        seal_object(kind::VOLUME, self.version, &identity, raw.as_bytes())
    }

    /// Reads one; `disk_bytes` is the length of the disk that it is on.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(bytes: &[u8], disk_bytes: u64) -> Result<Superblock, Corruption> {
        let object = open_object(bytes, kind::VOLUME, None)?;
        if !(1..=VERSION).contains(&object.version) {
            let found = object.version.into();
            return Err(wrong("version of the volume", 12, VERSION.into(), found));
        }
        let head = OBJECT_HEADER_BYTES as u64;
        let length = object.payload.len() as u64;
        let raw = Raw::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the superblock", 48, 24, length))?;
        equal(
            "bytes of a block",
            head,
            BLOCK_BYTES as u64,
            raw.block_bytes.get(),
        )?;
        equal(
            "reserved bytes",
            head + 18,
            0_u64,
            u64::from(raw.reserved != [0; 6]),
        )?;
        let geometry = Geometry {
            disks: raw.disks.get(),
            segment_blocks: raw.segment_blocks.get(),
            segments_per_disk: raw.segments_per_disk.get(),
            slot_blocks: raw.slot_blocks.get(),
        };
        let disks = u64::from(geometry.disks);
        let disk = object.identity.object;
        let disk_number = u16::try_from(disk)
            .ok()
            .filter(|disk| *disk < geometry.disks)
            .ok_or(wrong("number of the disk", 32, disks, disk))?;
        if !geometry.holds(disk_number.into(), disk_bytes) {
            return Err(wrong("shape of the volume", head, disk_bytes, 0));
        }
        Ok(Superblock {
            version: object.version,
            volume: VolumeId(u128::from_le_bytes(object.identity.set)),
            disk: disk_number,
            geometry,
        })
    }
}
