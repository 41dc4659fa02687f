//! Where things lie on the disks.

use crate::block::{BLOCK_BYTES, blocks_for};
use crate::id::{Place, Segment};
use crate::table::{ENTRY_BYTES, TABLE_HEAD_BYTES};

/// Fewest segments: heads, what is being cleaned, the reserve, and something to use.
pub const SEGMENTS_MIN: u32 = 24;

/// Fewest and most blocks of a segment.
pub const SEGMENT_BLOCKS: std::ops::RangeInclusive<u32> = 16..=4096;

/// Most disks of a volume.
pub const DISKS_MAX: usize = 16;

/// Bytes that a checkpoint slot has for each block of the log, in two copies: 12 each. A block of a
/// large object costs at most 8, an object 24 and each of its leaves 16 more.
const SLOT_BYTES_PER_BLOCK: u64 = 24;

/// Blocks of a slot besides, in two copies: a header, and five sheets that need not be full.
const SLOT_BLOCKS_MORE: u64 = 42;

/// The shape of a volume; fixed when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Disks, in their order.
    pub disks: u16,
    /// Blocks of a segment, its table included.
    pub segment_blocks: u32,
    /// Segments on each disk.
    pub segments_per_disk: u32,
    /// Blocks of each of the two checkpoint slots, on the first disk.
    pub slot_blocks: u32,
}

impl Geometry {
    /// The largest that fits on disks of these lengths in bytes. `None` where that is less than
    /// [`SEGMENTS_MIN`] segments.
    pub fn fit(disk_bytes: &[u64], segment_blocks: u32) -> Option<Geometry> {
        let disks = u16::try_from(disk_bytes.len()).ok().filter(|n| *n > 0)?;
        let block = BLOCK_BYTES as u64;
        let shape = |segments_per_disk: u32| {
            let log = u64::from(segments_per_disk) * u64::from(disks) * u64::from(segment_blocks);
            let slot = (log * SLOT_BYTES_PER_BLOCK).div_ceil(block) + SLOT_BLOCKS_MORE;
            let geometry = Geometry {
                disks,
                segment_blocks,
                segments_per_disk,
                slot_blocks: u32::try_from(slot).ok()?,
            };
            // The last two places are marks of the map.
            let fits = log < u64::from(u32::MAX) - 1
                && (disk_bytes.iter().enumerate())
                    .all(|(disk, bytes)| geometry.disk_blocks(disk) <= bytes / block);
            fits.then_some(geometry)
        };
        // Largest number that fits, by halving.
        let (mut fits, mut too_many) = (0_u32, u32::MAX / segment_blocks);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if shape(middle).is_some() {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        shape(fits).filter(|geometry| geometry.segments() >= SEGMENTS_MIN)
    }

    /// Whether the fields are in their ranges and this many bytes of `disk` are enough.
    pub(crate) fn holds(&self, disk: usize, bytes: u64) -> bool {
        let log = u64::from(self.segments_per_disk)
            .checked_mul(u64::from(self.disks) * u64::from(self.segment_blocks));
        (1..=DISKS_MAX).contains(&usize::from(self.disks))
            && SEGMENT_BLOCKS.contains(&self.segment_blocks)
            && log.is_some_and(|log| log < u64::from(u32::MAX) - 1)
            && self.segments() >= SEGMENTS_MIN
            && self.slot_blocks >= 4
            && self.disk_blocks(disk) <= bytes / BLOCK_BYTES as u64
    }

    /// Blocks of a disk that the volume uses: both superblocks, checkpoint slots, segments.
    fn disk_blocks(&self, disk: usize) -> u64 {
        self.log_start(disk)
            + u64::from(self.segments_per_disk) * u64::from(self.segment_blocks)
            + 1
    }

    /// First block of the log on a disk.
    fn log_start(&self, disk: usize) -> u64 {
        match disk {
            0 => 1 + 2 * u64::from(self.slot_blocks),
            _ => 1,
        }
    }

    /// Bytes where the second superblock of a disk lies.
    pub(crate) fn last_superblock(&self, disk: usize) -> u64 {
        (self.disk_blocks(disk) - 1) * BLOCK_BYTES as u64
    }

    /// Bytes where checkpoint slot 0 or 1 starts, on the first disk.
    pub(crate) fn slot_offset(&self, slot: u64) -> u64 {
        (1 + (slot % 2) * u64::from(self.slot_blocks)) * BLOCK_BYTES as u64
    }

    /// Segments of all disks.
    pub fn segments(&self) -> u32 {
        self.segments_per_disk * u32::from(self.disks)
    }

    /// Blocks of a segment's table, at its end.
    pub fn table_blocks(&self) -> u32 {
        blocks_for(TABLE_HEAD_BYTES + self.segment_blocks as usize * ENTRY_BYTES) as u32
    }

    /// Blocks of a segment that flights may take.
    pub fn flight_blocks(&self) -> u32 {
        self.segment_blocks - self.table_blocks()
    }

    /// The segment of a place.
    pub fn segment(&self, place: Place) -> Segment {
        Segment(place.0 / self.segment_blocks)
    }

    /// The block in its segment.
    pub fn index(&self, place: Place) -> u32 {
        place.0 % self.segment_blocks
    }

    /// Block `index` of a segment.
    pub fn place(&self, segment: Segment, index: u32) -> Place {
        Place(segment.0 * self.segment_blocks + index)
    }

    /// The disk that a place is on, and where, in bytes.
    pub fn locate(&self, place: Place) -> (usize, u64) {
        let segment = self.segment(place).0;
        let disk = (segment % u32::from(self.disks)) as usize;
        let local = u64::from(segment / u32::from(self.disks));
        let block = self.log_start(disk)
            + local * u64::from(self.segment_blocks)
            + u64::from(self.index(place));
        (disk, block * BLOCK_BYTES as u64)
    }

    /// Where the table of a segment lies.
    pub(crate) fn table_place(&self, segment: Segment) -> Place {
        self.place(segment, self.flight_blocks())
    }

    /// Segments that only the cleaner may take: 1 of 32, at least 6.
    pub fn reserve_segments(&self) -> u32 {
        (self.segments() / 32).max(6)
    }

    /// Blocks that objects may have mapped, all together: 3/4 of what is left besides the reserve and
    /// the two heads. So a pass of the cleaner that fills its reserve empties a third more segments
    /// than it fills, and the more room there is the less has to be moved.
    pub fn capacity_blocks(&self) -> u64 {
        let segments = self.segments().saturating_sub(self.reserve_segments() + 2);
        // The cleaner's headers take a block of every 129, and one where a segment ends.
        let usable = self.flight_blocks() - self.flight_blocks().div_ceil(128) - 1;
        u64::from(segments) * u64::from(usable) * 3 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_stay_on_their_disks() {
        let bytes = [3 << 20, 4 << 20, 5 << 20];
        let geometry = Geometry::fit(&bytes, 16).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for segment in 0..geometry.segments() {
            let (disk, offset) = geometry.locate(geometry.place(Segment(segment), 0));
            assert!(offset + 16 * 4096 <= geometry.last_superblock(disk));
            assert!(geometry.last_superblock(disk) + 4096 <= bytes[disk]);
            assert!(seen.insert((disk, offset)), "{segment}");
            if disk == 0 {
                assert!(offset >= geometry.slot_offset(1) + u64::from(geometry.slot_blocks) * 4096);
            }
        }
    }

    #[test]
    fn a_disk_that_is_too_small_has_no_geometry() {
        assert_eq!(Geometry::fit(&[1 << 20], 1024), None);
        assert_eq!(Geometry::fit(&[], 1024), None);
        assert!(Geometry::fit(&[256 << 20], 1024).is_some());
    }

    #[test]
    fn a_full_pass_of_the_cleaner_gains_room_at_capacity() {
        for segments in [24, 64, 1000, 100_000] {
            let geometry = Geometry {
                disks: 1,
                segment_blocks: 1024,
                segments_per_disk: segments,
                slot_blocks: 100,
            };
            let used = segments - geometry.reserve_segments() - 2;
            let live = geometry.capacity_blocks() as f64 / f64::from(used);
            // Blocks that one segment of the cleaner takes, with a header for every 256.
            let taken = f64::from(geometry.flight_blocks()) * 0.98;
            assert!(taken / live > 1.1, "{segments}");
        }
    }
}
