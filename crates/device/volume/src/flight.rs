//! A flight: one write to the log, headers first, then blocks.

use crate::block::{BLOCK_BYTES, blocks_for};
use crate::corrupt::{equal, wrong};
use crate::entry::{ENTRY_BYTES, Entry, RawEntry};
use crate::id::{BlockIndex, Flight, ObjectId, Place, Use, VolumeId};
use codec::{Checksum, Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of a flight's header.
const VERSION: u16 = 1;

/// Most data blocks of a flight: 1 MiB is where drives reach their sequential rate.
pub const DATA_BLOCKS_MAX: u32 = 256;

/// Most entries of a flight.
pub const ENTRIES_MAX: usize = 320;

/// Bytes of the fixed part of the payload.
const FIXED_BYTES: usize = 40;

/// Most blocks of a header: with the most entries and sums.
pub const HEADER_BLOCKS_MAX: usize = blocks_for(
    OBJECT_HEADER_BYTES + FIXED_BYTES + ENTRIES_MAX * ENTRY_BYTES + DATA_BLOCKS_MAX as usize * 4,
);

/// Which of the two heads of the log a flight belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// What callers write.
    Callers,
    /// What the cleaner moves: blocks that have lived for a while.
    Cleaner,
}

impl Stream {
    /// Both.
    pub const ALL: [Stream; 2] = [Stream::Callers, Stream::Cleaner];

    /// 0 or 1.
    pub fn number(self) -> usize {
        match self {
            Stream::Callers => 0,
            Stream::Cleaner => 1,
        }
    }
}

/// The header of a flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The volume.
    pub volume: VolumeId,
    /// Where the header starts.
    pub place: Place,
    /// The flight.
    pub flight: Flight,
    /// The use of its segment.
    pub segment_use: Use,
    /// Every flight below this one was durable before this one was issued.
    pub durable_below: Flight,
    /// Number of the newest checkpoint that was durable by then.
    pub checkpoint: u64,
    /// Which head of the log.
    pub stream: Stream,
    /// The changes in order, each with whether it ends its group.
    pub entries: Vec<(Entry, bool)>,
    /// Checksums of the data blocks, in order.
    pub sums: Vec<u32>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    segment_use: U64,
    durable_below: U64,
    checkpoint: U64,
    data_blocks: U32,
    entries: U16,
    stream: u8,
    reserved: [u8; 9],
}

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// Blocks of a header with so many entries and sums.
pub(crate) fn header_blocks(entries: usize, data_blocks: u32) -> u32 {
    let payload = FIXED_BYTES + entries * ENTRY_BYTES + data_blocks as usize * 4;
    blocks_for(OBJECT_HEADER_BYTES + payload) as u32
}

/// What a block is and where; its checksum covers both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockKey {
    pub(crate) volume: VolumeId,
    pub(crate) object: ObjectId,
    pub(crate) block: BlockIndex,
    pub(crate) place: Place,
    pub(crate) segment_use: Use,
}

impl BlockKey {
    /// The checksum of a block whose content has the CRC-32C `content`.
    pub(crate) fn sum(&self, content: u32) -> u32 {
        Checksum::new()
            .with(&self.volume.bytes())
            .with(&self.object.0.to_le_bytes())
            .with(&self.block.0.to_le_bytes())
            .with(&self.place.0.to_le_bytes())
            .with(&self.segment_use.0.to_le_bytes())
            .with(&content.to_le_bytes())
            .finish()
    }

    /// Holds the content of a block against its stored checksum.
    pub(crate) fn check(&self, content: &[u8], stored: u32) -> Result<(), Corruption> {
        let found = self.sum(codec::crc32c(content));
        equal("block checksum", 0, stored, found)
    }
}

impl Header {
    fn identity(&self) -> Identity {
        Identity {
            set: self.volume.bytes(),
            object: self.place.0.into(),
            generation: self.flight.0,
        }
    }

    /// Data blocks that follow the header.
    pub fn data_blocks(&self) -> u32 {
        self.sums.len() as u32
    }

    /// Blocks of the header itself.
    pub fn header_blocks(&self) -> u32 {
        header_blocks(self.entries.len(), self.data_blocks())
    }

    /// Where its data starts.
    pub fn data_place(&self) -> Place {
        self.place.after(self.header_blocks())
    }

    /// Each data block: object, block and place.
    pub fn blocks(&self) -> impl Iterator<Item = (ObjectId, BlockIndex, Place)> {
        let start = self.data_place();
        let numbered = self.entries.iter().flat_map(|(entry, _)| {
            let (object, first) = match entry {
                Entry::Write { object, block, .. } | Entry::Move { object, block, .. } => {
                    (*object, *block)
                }
                other => (other.object(), BlockIndex(0)),
            };
            (0..entry.data_blocks()).map(move |at| (object, first.after(at)))
        });
        (0..)
            .zip(numbered)
            .map(move |(at, (object, block))| (object, block, start.after(at)))
    }

    /// The key of a data block of this flight.
    pub(crate) fn key(&self, object: ObjectId, block: BlockIndex, place: Place) -> BlockKey {
        BlockKey {
            volume: self.volume,
            object,
            block,
            place,
            segment_use: self.segment_use,
        }
    }

    /// As it stands in the log, without the zeros that fill its last block.
    ///
    /// # Panics
    /// Where it has more entries or blocks than a flight may have, or sums for other blocks.
    pub fn encode(&self) -> Vec<u8> {
        let blocks: u32 = self
            .entries
            .iter()
            .map(|(entry, _)| entry.data_blocks())
            .sum();
        assert_eq!(blocks as usize, self.sums.len(), "one sum for each block");
        assert!(blocks <= DATA_BLOCKS_MAX && self.entries.len() <= ENTRIES_MAX);
        let raw = Raw {
            segment_use: U64::new(self.segment_use.0),
            durable_below: U64::new(self.durable_below.0),
            checkpoint: U64::new(self.checkpoint),
            data_blocks: U32::new(blocks),
            entries: U16::new(self.entries.len() as u16),
            stream: self.stream.number() as u8,
            reserved: [0; 9],
        };
        let mut payload = Vec::with_capacity(BLOCK_BYTES);
        payload.extend_from_slice(raw.as_bytes());
        for (entry, ends) in &self.entries {
            payload.extend_from_slice(entry.encode(*ends).as_bytes());
        }
        for sum in &self.sums {
            payload.extend_from_slice(&sum.to_le_bytes());
        }
        codec::seal_object(kind::VOLUME_FLIGHT, VERSION, &self.identity(), &payload)
    }

    /// Blocks that a header takes whose first block this is: what to read before
    /// [`Header::decode`]. `None` where it is not the start of one.
    pub fn blocks_from_start(first: &[u8]) -> Option<usize> {
        if codec::object_kind(first).ok()? != kind::VOLUME_FLIGHT {
            return None;
        }
        let length: [u8; 8] = first.get(48..56)?.try_into().ok()?;
        let payload = usize::try_from(u64::from_le_bytes(length)).ok()?;
        let blocks = blocks_for(payload.checked_add(OBJECT_HEADER_BYTES)?);
        (blocks <= HEADER_BLOCKS_MAX).then_some(blocks)
    }

    /// Reads one from whole blocks.
    ///
    /// # Errors
    /// The first thing that does not fit. Whether volume, place and use are the ones that the
    /// reader expects is for the reader to see.
    pub fn decode(bytes: &[u8]) -> Result<Header, Corruption> {
        let object = open_object(bytes, kind::VOLUME_FLIGHT, None)?;
        equal("version of the flight", 12, VERSION, object.version)?;
        let start = OBJECT_HEADER_BYTES as u64;
        let short =
            |found: usize| wrong("bytes of the flight", 48, FIXED_BYTES as u64, found as u64);
        let (raw, rest) =
            Raw::ref_from_prefix(object.payload).map_err(|_| short(object.payload.len()))?;
        equal(
            "reserved bytes",
            start + 31,
            0_u64,
            u64::from(raw.reserved != [0; 9]),
        )?;
        let stream = *Stream::ALL.get(usize::from(raw.stream)).ok_or(wrong(
            "stream",
            start + 30,
            1,
            raw.stream.into(),
        ))?;
        let data_blocks = raw.data_blocks.get();
        let count = usize::from(raw.entries.get());
        if count > ENTRIES_MAX || count == 0 {
            let max = ENTRIES_MAX as u64;
            return Err(wrong(
                "entries of the flight",
                start + 28,
                max,
                count as u64,
            ));
        }
        if data_blocks > DATA_BLOCKS_MAX {
            let max = DATA_BLOCKS_MAX.into();
            return Err(wrong(
                "blocks of the flight",
                start + 24,
                max,
                data_blocks.into(),
            ));
        }
        let (raw_entries, raw_sums) = <[RawEntry]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| short(object.payload.len()))?;
        let mut entries = Vec::with_capacity(count);
        let mut offset = start + FIXED_BYTES as u64;
        let mut listed = 0_u64;
        for raw in raw_entries {
            let (entry, ends) = Entry::decode(raw, offset)?;
            listed += u64::from(entry.data_blocks());
            entries.push((entry, ends));
            offset += ENTRY_BYTES as u64;
        }
        equal("blocks that entries name", start + 24, data_blocks, listed)?;
        let sums = <[U32]>::ref_from_bytes(raw_sums)
            .ok()
            .filter(|sums| sums.len() as u64 == listed)
            .ok_or(wrong(
                "checksums of blocks",
                offset,
                listed * 4,
                raw_sums.len() as u64,
            ))?;
        let flight = Flight(object.identity.generation);
        let durable_below = Flight(raw.durable_below.get());
        let segment_use = Use(raw.segment_use.get());
        if flight.0 == 0 || durable_below > flight {
            return Err(wrong(
                "durable flights",
                start + 8,
                flight.0,
                durable_below.0,
            ));
        }
        if segment_use.0 == 0 || segment_use.0 > flight.0 {
            return Err(wrong("use of the segment", start, flight.0, segment_use.0));
        }
        let address = object.identity.object;
        let place = u32::try_from(address)
            .ok()
            .filter(|place| *place < u32::MAX - 4096)
            .ok_or(wrong(
                "place of the flight",
                32,
                u64::from(u32::MAX) - 4096,
                address,
            ))?;
        Ok(Header {
            volume: VolumeId(u128::from_le_bytes(object.identity.set)),
            place: Place(place),
            flight,
            segment_use,
            durable_below,
            checkpoint: raw.checkpoint.get(),
            stream,
            entries,
            sums: sums.iter().map(|sum| sum.get()).collect(),
        })
    }
}
