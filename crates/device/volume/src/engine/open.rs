//! Making a volume, and opening one.

use super::state::{Counters, State};
use super::sums::Sums;
use super::{GivenUp, Options, Volume};
use crate::block::{Block, bytes, padded};
use crate::corrupt::wrong;
use crate::error::{Result, VolumeError};
use crate::geometry::{DISKS_MAX, Geometry, SEGMENT_BLOCKS};
use crate::id::{Flight, VolumeId};
use crate::map::Map;
use crate::segments::Segments;
use crate::superblock::{Superblock, VERSION};
use env::Disk;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Which volume a disk belongs to, by its first block, or its last where that is damaged.
///
/// # Errors
/// [`VolumeError::NotAVolume`] with what is wrong with the first, or the error of the disk.
pub fn identify(disk: &dyn Disk, number: usize) -> Result<Superblock> {
    let length = disk
        .len()
        .map_err(VolumeError::io("asking for the length"))?;
    let read = |offset: u64| {
        let mut block = Block::zeros(1);
        disk.read_at(offset, crate::block::bytes_mut(&mut block))
            .map_err(VolumeError::io("reading a superblock"))?;
        Ok(Superblock::decode(bytes(&block), length))
    };
    let unit = crate::BLOCK_BYTES as u64;
    if length < 2 * unit {
        return Err(VolumeError::NotAVolume {
            disk: number,
            corruption: wrong("bytes of the disk", 0, 2 * unit, length),
        });
    }
    let first = match read(0)? {
        Ok(superblock) => return Ok(superblock),
        Err(corruption) => corruption,
    };
    // The copy is in the last block that the volume uses, which is that of the disk or a little
    // before: segments are whole, and disks may differ in length.
    let end = length / unit * unit;
    let most = u64::from(*SEGMENT_BLOCKS.end()) + 2;
    for back in 1..=most.min(end / unit - 1) {
        let offset = end - back * unit;
        if let Ok(superblock) = read(offset)?
            && superblock.geometry.last_superblock(superblock.disk.into()) == offset
        {
            return Ok(superblock);
        }
    }
    Err(VolumeError::NotAVolume {
        disk: number,
        corruption: first,
    })
}

impl Volume {
    /// Makes an empty volume on all of the disks. What was on them is gone.
    ///
    /// # Errors
    /// [`VolumeError::Exists`] where one of them is part of a volume, [`VolumeError::TooSmall`],
    /// [`VolumeError::Setting`]: nothing was changed.
    pub fn create(disks: Vec<Arc<dyn Disk>>, id: VolumeId, options: Options) -> Result<Volume> {
        for (number, disk) in disks.iter().enumerate() {
            if let Ok(found) = identify(disk.as_ref(), number) {
                return Err(VolumeError::Exists {
                    disk: number,
                    volume: found.volume,
                });
            }
        }
        Volume::overwrite(disks, id, options)
    }

    /// As [`Volume::create`], also where there is a volume.
    ///
    /// # Errors
    /// But for `Exists` as there.
    pub fn overwrite(disks: Vec<Arc<dyn Disk>>, id: VolumeId, options: Options) -> Result<Volume> {
        let blocks = options.segment_blocks;
        setting("segment", blocks.into(), &SEGMENT_BLOCKS)?;
        setting(
            "number of disks",
            disks.len() as u64,
            &(1..=DISKS_MAX as u32),
        )?;
        let lengths = (disks.iter().map(|disk| disk.len()))
            .collect::<env::Result<Vec<u64>>>()
            .map_err(VolumeError::io("asking for the length"))?;
        let geometry = Geometry::fit(&lengths, blocks).ok_or(VolumeError::TooSmall {
            bytes: lengths.iter().sum(),
            segment_bytes: u64::from(blocks) * crate::BLOCK_BYTES as u64,
        })?;
        let superblock = |disk: usize| Superblock {
            version: VERSION,
            volume: id,
            disk: disk as u16,
            geometry,
        };
        // No superblock of before may stand while the rest is made.
        for (number, disk) in disks.iter().enumerate() {
            let zeros = Block::zeros(1);
            let places = [0, geometry.last_superblock(number)];
            (places.iter())
                .try_for_each(|offset| disk.write_at(*offset, bytes(&zeros)))
                .and_then(|()| disk.sync())
                .map_err(VolumeError::io("clearing the superblocks"))?;
        }
        let first = Flight::first_of(1).ok_or(VolumeError::WornOut)?;
        let volume = Volume::assemble((id, geometry, VERSION), disks, options, false);
        volume.start(Map::default(), Segments::new(geometry), first, 0);
        volume.save()?;
        for (number, disk) in volume.disks.iter().enumerate() {
            let block = padded(&superblock(number).encode());
            let places = [0, geometry.last_superblock(number)];
            (places.iter())
                .try_for_each(|offset| disk.write_at(*offset, bytes(&block)))
                .and_then(|()| disk.sync())
                .map_err(VolumeError::io("writing the superblocks"))?;
        }
        Ok(volume)
    }

    /// Opens the volume of these disks, in their order, and recovers what a crash left: all groups
    /// up to the first that is not whole. Only one process may have it open; to see to that is
    /// the caller's part. `options.segment_blocks` is not looked at.
    ///
    /// # Errors
    /// [`VolumeError::NotAVolume`], [`VolumeError::WrongDisks`]; where what was durable is
    /// damaged so that it is not known what is lost, [`VolumeError::CheckpointCorrupt`] and
    /// [`VolumeError::FlightLost`]. Nothing was changed.
    pub fn open(disks: Vec<Arc<dyn Disk>>, options: Options) -> Result<Volume> {
        let volume = Volume::found(disks, options, false)?;
        volume.recover(false)?;
        Ok(volume)
    }

    /// As [`Volume::open`], and changes nothing, not even what a crash left behind.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub fn open_read_only(disks: Vec<Arc<dyn Disk>>, options: Options) -> Result<Volume> {
        let volume = Volume::found(disks, options, true)?;
        volume.recover(false)?;
        Ok(volume)
    }

    /// As [`Volume::open`]; but where the log is damaged at a flight that was durable, all from there
    /// on is given up for good, and the volume is what it was at the moment before. With `look`
    /// nothing is changed, and the volume is open for reading only.
    ///
    /// # Errors
    /// As [`Volume::open`]; [`VolumeError::FlightLost`] where something behind the damage may be in
    /// the checkpoint already, so that there is no such moment to go back to.
    pub fn rescue(
        disks: Vec<Arc<dyn Disk>>,
        options: Options,
        look: bool,
    ) -> Result<(Volume, Option<GivenUp>)> {
        let volume = Volume::found(disks, options, look)?;
        let given_up = volume.recover(true)?;
        Ok((volume, given_up))
    }

    /// The volume of these disks, not recovered yet.
    pub(super) fn found(
        disks: Vec<Arc<dyn Disk>>,
        options: Options,
        read_only: bool,
    ) -> Result<Volume> {
        let mut shape = None;
        for (number, disk) in disks.iter().enumerate() {
            let found = identify(disk.as_ref(), number)?;
            let its = (found.volume, found.geometry, found.version);
            let (volume, geometry, version) = *shape.get_or_insert(its);
            let fits = its == (volume, geometry, version)
                && usize::from(found.disk) == number
                && usize::from(geometry.disks) == disks.len();
            if !fits {
                return Err(VolumeError::WrongDisks {
                    disk: number,
                    found: found.disk,
                    disks: found.geometry.disks,
                    volume: found.volume,
                });
            }
        }
        let Some(shape) = shape else {
            return Err(setting("number of disks", 0, &(1..=DISKS_MAX as u32)).unwrap_err());
        };
        Ok(Volume::assemble(shape, disks, options, read_only))
    }

    fn assemble(
        (id, geometry, version): (VolumeId, Geometry, u16),
        disks: Vec<Arc<dyn Disk>>,
        options: Options,
        read_only: bool,
    ) -> Volume {
        let none = Flight(0);
        let state = State {
            map: Map::default(),
            segments: Segments::new(geometry),
            lanes: Default::default(),
            building: HashMap::new(),
            sums: Sums::new(options.sums_bytes_max, geometry.segment_blocks),
            recent: super::recent::Recent::default(),
            aloft: VecDeque::new(),
            next_flight: none,
            applied_below: none,
            durable_below: none,
            under_way: 0,
            merging: HashMap::new(),
            merge_count: 0,
            promised_blocks: 0,
            promised_map: 0,
            syncing: false,
            dirty: 0,
            checkpoint: 0,
            taken: 0,
            vain_at: None,
            stopped: None,
            counters: Counters::default(),
        };
        Volume {
            id,
            geometry,
            disks,
            read_only,
            // The Holdfast that made a volume of version 1 does not know packs.
            packs: options.packs && version >= 2,
            odds: super::odds::Odds::new(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            upkeep: Mutex::new(()),
            #[cfg(test)]
            plant: None,
        }
    }

    /// Sets out with this content; the next flight is `first`.
    pub(super) fn start(&self, map: Map, segments: Segments, first: Flight, checkpoint: u64) {
        let mut state = self.state.lock();
        state.map = map;
        state.segments = segments;
        state.next_flight = first;
        state.applied_below = first;
        state.durable_below = first;
        state.checkpoint = checkpoint;
    }
}

fn setting(what: &'static str, found: u64, range: &std::ops::RangeInclusive<u32>) -> Result<()> {
    let (min, max) = (u64::from(*range.start()), u64::from(*range.end()));
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(VolumeError::Setting {
        what,
        found,
        min,
        max,
    })
}
