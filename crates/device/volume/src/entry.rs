//! What a group changes, as it stands in the log.

use crate::corrupt::wrong;
use crate::id::{BlockIndex, ObjectId, Place};
use codec::Corruption;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One change of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The next `count` blocks of the flight are these blocks of the object.
    Write {
        /// The object; it is made where it is not there.
        object: ObjectId,
        /// First block.
        block: BlockIndex,
        /// How many.
        count: u32,
    },
    /// The next `count` blocks of the flight are copies by the cleaner: each counts where the map
    /// still has the block at its old place.
    Move {
        /// The object.
        object: ObjectId,
        /// First block.
        block: BlockIndex,
        /// How many.
        count: u32,
        /// Place of the first block before.
        from: Place,
    },
    /// These blocks read as zeros.
    Punch {
        /// The object.
        object: ObjectId,
        /// First block.
        block: BlockIndex,
        /// How many.
        count: u32,
    },
    /// The object has at least this many bytes.
    Grow {
        /// The object; it is made where it is not there.
        object: ObjectId,
        /// Bytes.
        size: u64,
    },
    /// The object has exactly this many bytes; blocks behind them are gone.
    Resize {
        /// The object; it is made where it is not there.
        object: ObjectId,
        /// Bytes.
        size: u64,
    },
    /// The object and all its blocks are gone.
    Remove {
        /// The object.
        object: ObjectId,
    },
    /// These blocks of the object are in a pack of the flight, all in the same.
    Pack {
        /// The object; it is made where it is not there.
        object: ObjectId,
        /// First block.
        block: BlockIndex,
        /// How many.
        count: u32,
        /// Which pack: 0 is in the header, the others are the blocks behind it, in order.
        slot: u16,
    },
    /// This block of the object is a copy by the cleaner in a pack of the flight: it counts where
    /// the map still has the block at its old place.
    Repack {
        /// The object.
        object: ObjectId,
        /// The block.
        block: BlockIndex,
        /// Its place before.
        from: Place,
        /// Which pack.
        slot: u16,
    },
    /// The content of these blocks was found damaged by the cleaner, where the map still has them
    /// at these places: reads fail until they are written again.
    Lost {
        /// The object.
        object: ObjectId,
        /// First block.
        block: BlockIndex,
        /// How many.
        count: u32,
        /// Place of the first block.
        from: Place,
    },
}

/// Bytes of an entry in a flight's header.
pub(crate) const ENTRY_BYTES: usize = 24;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawEntry {
    operation: u8,
    /// 1: the last entry of its group.
    ends: u8,
    slot: U16,
    count: U32,
    object: U64,
    argument: U64,
}

const _: () = assert!(size_of::<RawEntry>() == ENTRY_BYTES);

impl Entry {
    /// Blocks of the flight that are its own.
    pub fn data_blocks(&self) -> u32 {
        match self {
            Entry::Write { count, .. } | Entry::Move { count, .. } => *count,
            _ => 0,
        }
    }

    /// The pack that its blocks are in.
    pub fn slot(&self) -> Option<u16> {
        match self {
            Entry::Pack { slot, .. } | Entry::Repack { slot, .. } => Some(*slot),
            _ => None,
        }
    }

    /// The object that it is about.
    pub fn object(&self) -> ObjectId {
        match self {
            Entry::Write { object, .. }
            | Entry::Move { object, .. }
            | Entry::Punch { object, .. }
            | Entry::Grow { object, .. }
            | Entry::Resize { object, .. }
            | Entry::Remove { object }
            | Entry::Pack { object, .. }
            | Entry::Repack { object, .. }
            | Entry::Lost { object, .. } => *object,
        }
    }

    pub(crate) fn encode(&self, ends: bool) -> RawEntry {
        let both = |block: BlockIndex, from: Place| u64::from(block.0) | u64::from(from.0) << 32;
        let (operation, count, argument) = match *self {
            Entry::Write { block, count, .. } => (1, count, block.0.into()),
            Entry::Move {
                block, count, from, ..
            } => (2, count, both(block, from)),
            Entry::Punch { block, count, .. } => (3, count, block.0.into()),
            Entry::Grow { size, .. } => (4, 0, size),
            Entry::Resize { size, .. } => (5, 0, size),
            Entry::Remove { .. } => (6, 0, 0),
            Entry::Lost {
                block, count, from, ..
            } => (7, count, both(block, from)),
            Entry::Pack { block, count, .. } => (8, count, block.0.into()),
            Entry::Repack { block, from, .. } => (9, 1, both(block, from)),
        };
        RawEntry {
            operation,
            ends: ends.into(),
            slot: U16::new(self.slot().unwrap_or(0)),
            count: U32::new(count),
            object: U64::new(self.object().0),
            argument: U64::new(argument),
        }
    }

    /// Reads one that starts at byte `offset` of its header; also whether it ends its group.
    pub(crate) fn decode(raw: &RawEntry, offset: u64) -> Result<(Entry, bool), Corruption> {
        let object = ObjectId(raw.object.get());
        let argument = raw.argument.get();
        let count = raw.count.get();
        let block = BlockIndex(argument as u32);
        let from = Place((argument >> 32) as u32);
        let slot = raw.slot.get();
        let entry = match raw.operation {
            1 => Entry::Write {
                object,
                block,
                count,
            },
            2 => Entry::Move {
                object,
                block,
                count,
                from,
            },
            3 => Entry::Punch {
                object,
                block,
                count,
            },
            4 => Entry::Grow {
                object,
                size: argument,
            },
            5 => Entry::Resize {
                object,
                size: argument,
            },
            6 => Entry::Remove { object },
            7 => Entry::Lost {
                object,
                block,
                count,
                from,
            },
            8 => Entry::Pack {
                object,
                block,
                count,
                slot,
            },
            9 => Entry::Repack {
                object,
                block,
                from,
                slot,
            },
            other => return Err(wrong("operation of an entry", offset, 9, other.into())),
        };
        // One way to say a thing: what is not used is zero, and ranges end inside of an object.
        let again = entry.encode(raw.ends == 1);
        if again.as_bytes() != raw.as_bytes() {
            return Err(wrong("unused fields of an entry", offset, 0, 1));
        }
        let end = u64::from(block.0) + u64::from(count);
        let size_max = crate::OBJECT_BYTES_MAX;
        match entry {
            Entry::Grow { size, .. } | Entry::Resize { size, .. } if size > size_max => {
                Err(wrong("size of an object", offset + 16, size_max, size))
            }
            Entry::Write { .. }
            | Entry::Move { .. }
            | Entry::Punch { .. }
            | Entry::Pack { .. }
            | Entry::Repack { .. }
            | Entry::Lost { .. }
                if count == 0 || end > crate::OBJECT_BLOCKS_MAX =>
            {
                let max = crate::OBJECT_BLOCKS_MAX;
                Err(wrong("range of an entry", offset + 4, max, end))
            }
            entry => Ok((entry, raw.ends == 1)),
        }
    }
}
