//! A flight: one write to the log, headers first, then blocks.

use crate::block::{BLOCK_BYTES, blocks_for};
use crate::corrupt::{equal, wrong};
use crate::entry::{ENTRY_BYTES, Entry, RawEntry};
use crate::id::{BlockIndex, Flight, ObjectId, Place, Use, VolumeId};
use crate::pack;
use codec::{Checksum, Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of a flight's header without packs, and with them.
const PLAIN: u16 = 1;
const PACKED: u16 = 2;

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
    /// Blocks behind the header that are packs.
    pub packs: u16,
    /// Checksums of the packs, then of the data blocks, in order.
    pub sums: Vec<u32>,
    /// The pack in the header, where it has one: only in a header of one block.
    pub inline: Vec<u8>,
}

/// Where the blocks of a flight lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spots {
    /// Its header, and the pack in that.
    pub header: Place,
    /// The first of its packs.
    pub packs: Place,
    /// The first of its data blocks.
    pub data: Place,
}

impl Spots {
    pub(crate) fn new(header: Place, header_blocks: u32, packs: u16) -> Spots {
        let first = header.after(header_blocks);
        Spots {
            header,
            packs: first,
            data: first.after(packs.into()),
        }
    }

    /// Where a pack is.
    pub(crate) fn pack(&self, slot: u16) -> Place {
        match slot.checked_sub(1) {
            None => self.header,
            Some(at) => self.packs.after(at.into()),
        }
    }
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
    reserved: u8,
    packs: U16,
    reserved_too: [u8; 6],
}

const _: () = assert!(size_of::<Raw>() == FIXED_BYTES);

/// Blocks of a header with so many entries and sums.
pub(crate) fn header_blocks(entries: usize, sums: u32) -> u32 {
    blocks_for(header_bytes(entries, sums)) as u32
}

/// Bytes of it, without a pack.
fn header_bytes(entries: usize, sums: u32) -> usize {
    OBJECT_HEADER_BYTES + FIXED_BYTES + entries * ENTRY_BYTES + sums as usize * 4
}

/// Bytes of a header of one block that are left for a pack.
pub(crate) fn inline_room(entries: usize, sums: u32) -> usize {
    BLOCK_BYTES.saturating_sub(header_bytes(entries, sums))
}

/// What the checksum of a pack names in place of an object.
pub const PACK_OBJECT: ObjectId = ObjectId(u64::MAX - 1);

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

    /// Data blocks of it.
    pub fn data_blocks(&self) -> u32 {
        self.data_sums().len() as u32
    }

    fn data_sums(&self) -> &[u32] {
        self.sums.get(self.packs.into()..).unwrap_or_default()
    }

    /// Blocks of the header itself.
    pub fn header_blocks(&self) -> u32 {
        header_blocks(self.entries.len(), self.sums.len() as u32)
    }

    /// All its blocks.
    pub fn blocks_in_all(&self) -> u32 {
        self.header_blocks() + self.sums.len() as u32
    }

    /// Where they lie.
    pub fn spots(&self) -> Spots {
        Spots::new(self.place, self.header_blocks(), self.packs)
    }

    /// Each pack behind the header: its place and checksum.
    pub fn packs(&self) -> impl Iterator<Item = (Place, u32)> {
        let first = self.spots().packs;
        let sums = self.sums.iter().take(self.packs.into());
        (0..)
            .zip(sums)
            .map(move |(at, sum)| (first.after(at), *sum))
    }

    /// Each data block: what it is, where, and its checksum.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (BlockKey, u32)> {
        let start = self.spots().data;
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
            .zip(numbered.zip(self.data_sums()))
            .map(move |(at, ((object, block), sum))| {
                (self.key(object, block, start.after(at)), *sum)
            })
    }

    /// The key of a pack of this flight.
    pub(crate) fn pack_key(&self, place: Place) -> BlockKey {
        self.key(PACK_OBJECT, BlockIndex(0), place)
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
        let sums = self.sums.len();
        assert_eq!(blocks, self.data_blocks(), "one sum for each block");
        assert!(sums <= DATA_BLOCKS_MAX as usize && self.entries.len() <= ENTRIES_MAX);
        let slots = self.entries.iter().filter_map(|(entry, _)| entry.slot());
        assert!(
            slots.max().unwrap_or(0) <= self.packs,
            "a pack for each slot"
        );
        let room = inline_room(self.entries.len(), sums as u32);
        assert!(self.inline.len() <= room, "the pack in the header fits");
        let raw = Raw {
            segment_use: U64::new(self.segment_use.0),
            durable_below: U64::new(self.durable_below.0),
            checkpoint: U64::new(self.checkpoint),
            data_blocks: U32::new(blocks),
            entries: U16::new(self.entries.len() as u16),
            stream: self.stream.number() as u8,
            reserved: 0,
            packs: U16::new(self.packs),
            reserved_too: [0; 6],
        };
        let mut payload = Vec::with_capacity(BLOCK_BYTES);
        payload.extend_from_slice(raw.as_bytes());
        for (entry, ends) in &self.entries {
            payload.extend_from_slice(entry.encode(*ends).as_bytes());
        }
        for sum in &self.sums {
            payload.extend_from_slice(&sum.to_le_bytes());
        }
        payload.extend_from_slice(&self.inline);
        let version = match self.packs == 0 && self.inline.is_empty() {
            true => PLAIN,
            false => PACKED,
        };
        codec::seal_object(kind::VOLUME_FLIGHT, version, &self.identity(), &payload)
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
        if object.version != PLAIN && object.version != PACKED {
            let found = object.version.into();
            return Err(wrong("version of the flight", 12, PACKED.into(), found));
        }
        let start = OBJECT_HEADER_BYTES as u64;
        let short =
            |found: usize| wrong("bytes of the flight", 48, FIXED_BYTES as u64, found as u64);
        let (raw, rest) =
            Raw::ref_from_prefix(object.payload).map_err(|_| short(object.payload.len()))?;
        equal(
            "reserved bytes",
            start + 31,
            0_u64,
            u64::from(raw.reserved != 0 || raw.reserved_too != [0; 6]),
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
        let packs = raw.packs.get();
        let all_blocks = data_blocks.saturating_add(packs.into());
        if all_blocks > DATA_BLOCKS_MAX {
            let max = DATA_BLOCKS_MAX.into();
            return Err(wrong(
                "blocks of the flight",
                start + 24,
                max,
                all_blocks.into(),
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
        let (sums, inline) = <[U32]>::ref_from_prefix_with_elems(raw_sums, all_blocks as usize)
            .map_err(|_| {
                let needed = u64::from(all_blocks) * 4;
                wrong("checksums of blocks", offset, needed, raw_sums.len() as u64)
            })?;
        offset += u64::from(all_blocks) * 4;
        let packed = packs > 0 || !inline.is_empty();
        let version = if packed { PACKED } else { PLAIN };
        equal("version of the flight", 12, version, object.version)?;
        if !inline.is_empty() {
            if inline.len() > inline_room(count, all_blocks) {
                let room = inline_room(count, all_blocks) as u64;
                let found = inline.len() as u64;
                return Err(wrong("bytes of the pack in it", offset, room, found));
            }
            pack::decode(inline).map_err(|corruption| corruption.moved(offset))?;
        }
        let slots = entries.iter().filter_map(|(entry, _)| entry.slot());
        let fits = |slot: u16| slot <= packs && (slot > 0 || !inline.is_empty());
        if let Some(slot) = slots.into_iter().find(|slot| !fits(*slot)) {
            let first = start + FIXED_BYTES as u64;
            return Err(wrong("pack of an entry", first, packs.into(), slot.into()));
        }
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
            packs,
            sums: sums.iter().map(|sum| sum.get()).collect(),
            inline: inline.to_vec(),
        })
    }
}
