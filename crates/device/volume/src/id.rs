//! Names of things, each its own type.

use std::fmt;

/// Which volume: chosen at random when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VolumeId(pub u128);

/// An object of a volume: a block device is one, each file of a directory is one. The three highest
/// numbers are marks in tables and cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u64);

/// Objects have numbers below this one.
pub(crate) const OBJECTS_END: ObjectId = ObjectId(u64::MAX - 2);

/// A block of an object, in units of [`crate::BLOCK_BYTES`] from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockIndex(pub u32);

/// A block of the log: segment times blocks of a segment, plus the block in the segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(pub u32);

/// A segment of the log, counted over all disks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Segment(pub u32);

/// A flight: one write to the log. The upper 24 bits count the openings of the volume, the lower 40
/// the flights since then, from 1 without gaps; so no number is ever used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flight(pub u64);

/// One use of a segment: the number of the first flight in it; 0 where it is free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Use(pub u64);

/// Bits that count the flights of one opening.
const FLIGHT_BITS: u32 = 40;

impl Flight {
    /// The first one of an opening; `None` where openings are used up (2^24).
    pub fn first_of(opening: u64) -> Option<Flight> {
        let start = opening.checked_mul(1 << FLIGHT_BITS)?;
        Some(Flight(start + 1))
    }

    /// The opening that it belongs to.
    pub fn opening(self) -> u64 {
        self.0 >> FLIGHT_BITS
    }

    /// The one after it.
    pub fn next(self) -> Flight {
        Flight(self.0 + 1)
    }
}

impl BlockIndex {
    /// The block `count` further on; the callers keep objects below 2^32 blocks.
    pub fn after(self, count: u32) -> BlockIndex {
        BlockIndex(self.0.saturating_add(count))
    }
}

impl Place {
    /// The place `count` further on in the same segment.
    pub fn after(self, count: u32) -> Place {
        Place(self.0.saturating_add(count))
    }
}

impl VolumeId {
    /// As it stands in headers.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
