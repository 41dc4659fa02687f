//! Records of the log of differentials: layout in docs/formats/differential.md.

use super::super::PAGE_BYTES;
use crate::encoding::{CHUNK_BYTES_MAX, StripeId};
use crate::label::StoreIndex;
use crate::set::SetId;
use codec::{Checksum, Corruption, Identity, open_object, seal_object};
use parity::Shard;
use std::num::NonZeroU64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const VERSION: u16 = 1;
pub(super) const MAGIC: [u8; 4] = *b"HDIF";

/// Records begin at multiples of this, so that after damage the next one is found.
pub(super) const ALIGNMENT: u32 = 64;

/// Bytes of a segment's header; the first record follows, at a multiple of [`ALIGNMENT`].
pub(super) const SEGMENT_HEADER_BYTES: u32 = 128;

/// Bytes of a record before its checksums.
pub(super) const HEAD_BYTES: usize = 48;

/// Most bytes of one record's content.
pub(super) const CONTENT_BYTES_MAX: usize = 256 << 10;

/// Most bytes of a record before its content: 256 KiB may touch 65 pages.
pub(super) const HEAD_BYTES_MAX: usize = HEAD_BYTES + 4 * (CONTENT_BYTES_MAX / PAGE_BYTES + 1);

/// A place in the log of a store. Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Spot {
    pub(super) segment: u64,
    pub(super) offset: u32,
}

/// Which segment of which store: what checksums cover besides the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentKey {
    pub(super) set: SetId,
    pub(super) store: StoreIndex,
    pub(super) number: u64,
}

/// A byte range of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) stripe: StripeId,
    pub(super) shard: Shard,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The part of a span that lies in one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) page: u32,
    /// In the page, 0 to 4096.
    pub(super) start: u16,
    pub(super) end: u16,
    /// Where it begins in the span.
    pub(super) at: u32,
}

impl Part {
    pub(super) fn bytes(self) -> usize {
        usize::from(self.end - self.start)
    }
}

impl Span {
    /// Pages that it touches.
    fn pages(self) -> u32 {
        let page = PAGE_BYTES as u32;
        (self.offset + self.length).div_ceil(page) - self.offset / page
    }

    pub(super) fn parts(self) -> impl Iterator<Item = Part> {
        let page = PAGE_BYTES as u32;
        let (begin, end) = (self.offset, self.offset + self.length);
        let first = begin / page;
        (first..first + self.pages()).map(move |number| {
            let from = begin.max(number * page);
            let to = end.min((number + 1) * page);
            Part {
                page: number,
                start: (from - number * page) as u16,
                end: (to - number * page) as u16,
                at: from - begin,
            }
        })
    }
}

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Bytes of a shard follow.
    Write(Span),
    /// The stripe is being given up: every copy of its chunks has its bytes, earlier writes to it
    /// are on their way into the bases.
    GiveUp(StripeId),
    /// The stripe was given up: earlier writes to it do not count.
    Forget(StripeId),
    /// Nothing, for so many bytes, this record's own among them.
    Void(u32),
    /// Nothing but the mark.
    Mark,
}

/// A record without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// Rises with each write of the set.
    pub(super) sequence: u64,
    /// Everything before this was durable when the record was written.
    pub(super) durable: Spot,
    pub(super) content: Content,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    crc: U32,
    sequence: U64,
    stripe: U64,
    durable_segment: U64,
    durable_offset: U32,
    offset: U32,
    length: U32,
    kind: u8,
    shard: u8,
    reserved: U16,
}

const _: () = assert!(size_of::<Raw>() == HEAD_BYTES);

const WRITE: u8 = 1;
const FORGET: u8 = 2;
const VOID: u8 = 3;
const MARK: u8 = 4;
const GIVE_UP: u8 = 5;

impl Content {
    /// Bytes of the head, the checksums included.
    pub(super) fn head_bytes(&self) -> usize {
        match self {
            Content::Write(span) => HEAD_BYTES + 4 * span.pages() as usize,
            _ => HEAD_BYTES,
        }
    }

    /// Bytes from the record's begin to the next one's.
    pub(super) fn bytes(&self) -> u32 {
        let bytes = match self {
            Content::Write(span) => self.head_bytes() as u32 + span.length,
            Content::Void(bytes) => *bytes,
            _ => HEAD_BYTES as u32,
        };
        bytes.next_multiple_of(ALIGNMENT)
    }
}

fn checksum(key: &SegmentKey, at: u32, head: &[u8]) -> u32 {
    Checksum::new()
        .with(&key.set.0.to_le_bytes())
        .with(&[key.store.0])
        .with(&key.number.to_le_bytes())
        .with(&at.to_le_bytes())
        .with(head.get(8..).unwrap_or_default())
        .finish()
}

impl Head {
    /// Writes the head in front of a record whose checksums, for a write, are in `bytes` already.
    ///
    /// # Panics
    /// Where `bytes` is shorter than the head.
    pub(super) fn seal(&self, key: &SegmentKey, at: u32, bytes: &mut [u8]) {
        let (kind, stripe, shard, offset, length) = match self.content {
            Content::Write(span) => {
                let Span { stripe, shard, .. } = span;
                (WRITE, stripe.0.get(), shard.0, span.offset, span.length)
            }
            Content::GiveUp(stripe) => (GIVE_UP, stripe.0.get(), 0, 0, 0),
            Content::Forget(stripe) => (FORGET, stripe.0.get(), 0, 0, 0),
            Content::Void(bytes) => (VOID, 0, 0, 0, bytes),
            Content::Mark => (MARK, 0, 0, 0, 0),
        };
        let raw = Raw {
            magic: MAGIC,
            crc: U32::ZERO,
            sequence: U64::new(self.sequence),
            stripe: U64::new(stripe),
            durable_segment: U64::new(self.durable.segment),
            durable_offset: U32::new(self.durable.offset),
            offset: U32::new(offset),
            length: U32::new(length),
            kind,
            shard,
            reserved: U16::ZERO,
        };
        let head_bytes = self.content.head_bytes();
        assert!(bytes.len() >= head_bytes, "room for the head of a record");
        bytes[..HEAD_BYTES].copy_from_slice(raw.as_bytes());
        let crc = checksum(key, at, &bytes[..head_bytes]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The head of the record that begins with `bytes`, and for a write the checksums of its
    /// parts. The bytes of its content need not be there.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn open(
        key: &SegmentKey,
        at: u32,
        bytes: &[u8],
    ) -> Result<(Head, Vec<u32>), Corruption> {
        let wrong = |what, expected, found| Corruption {
            what,
            offset: at.into(),
            expected,
            found,
        };
        let short = || wrong("bytes of a record", HEAD_BYTES as u64, bytes.len() as u64);
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| short())?;
        if raw.magic != MAGIC {
            let found = u32::from_le_bytes(raw.magic);
            return Err(wrong(
                "magic of a record",
                u32::from_le_bytes(MAGIC).into(),
                found.into(),
            ));
        }
        let content = raw
            .content()
            .map_err(|(what, found)| wrong(what, 0, found))?;
        let head = bytes.get(..content.head_bytes()).ok_or_else(short)?;
        let found = checksum(key, at, head);
        if found != raw.crc.get() {
            let expected = raw.crc.get().into();
            return Err(wrong("checksum of a record", expected, found.into()));
        }
        let sums = head.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(4);
        let sums = sums.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let head = Head {
            sequence: raw.sequence.get(),
            durable: Spot {
                segment: raw.durable_segment.get(),
                offset: raw.durable_offset.get(),
            },
            content,
        };
        Ok((head, sums.collect()))
    }
}

impl Head {
    /// The head in front of `bytes` with the checksum that it would have; `None` where it is no
    /// head for another reason.
    pub(super) fn with_checksum(key: &SegmentKey, at: u32, bytes: &[u8]) -> Option<Vec<u8>> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        let head_bytes = raw.content().ok()?.head_bytes();
        let mut sealed = bytes.get(..head_bytes)?.to_vec();
        sealed.get_mut(..4)?.copy_from_slice(&MAGIC);
        let crc = checksum(key, at, &sealed);
        sealed.get_mut(4..8)?.copy_from_slice(&crc.to_le_bytes());
        Some(sealed)
    }
}

impl Raw {
    /// What the record says; else what is wrong with it, and its value.
    fn content(&self) -> Result<Content, (&'static str, u64)> {
        let (offset, length) = (self.offset.get(), self.length.get());
        let stripe = NonZeroU64::new(self.stripe.get()).map(StripeId);
        let zeros = match self.kind {
            WRITE => true,
            FORGET | GIVE_UP => (offset, length, self.shard) == (0, 0, 0),
            VOID => (offset, self.shard, stripe) == (0, 0, None),
            _ => (offset, length, self.shard, stripe) == (0, 0, 0, None),
        };
        if self.reserved.get() != 0 || !zeros {
            return Err(("reserved bytes of a record", self.reserved.get().into()));
        }
        match (self.kind, stripe) {
            (WRITE, Some(stripe)) => {
                let end = u64::from(offset) + u64::from(length);
                let fits = (1..=CONTENT_BYTES_MAX as u32).contains(&length);
                if !fits || end > CHUNK_BYTES_MAX {
                    return Err(("length of a record", length.into()));
                }
                Ok(Content::Write(Span {
                    stripe,
                    shard: Shard(self.shard),
                    offset,
                    length,
                }))
            }
            (GIVE_UP, Some(stripe)) => Ok(Content::GiveUp(stripe)),
            (FORGET, Some(stripe)) => Ok(Content::Forget(stripe)),
            (VOID, None) if length > 0 && length.is_multiple_of(ALIGNMENT) => {
                Ok(Content::Void(length))
            }
            (VOID, None) => Err(("length of a void record", length.into())),
            (MARK, None) => Ok(Content::Mark),
            _ => Err(("kind of a record", self.kind.into())),
        }
    }
}

/// What a segment's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    pub(super) key: SegmentKey,
    /// Where the segment before it ends; 0 where there is none.
    pub(super) previous_end: u32,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let identity = Identity {
            set: self.key.set.0.to_le_bytes(),
            object: self.key.store.0.into(),
            generation: self.key.number,
        };
        let payload = self.previous_end.to_le_bytes();
        let mut bytes = seal_object(codec::kind::DIFFERENTIAL, VERSION, &identity, &payload);
        bytes.resize(SEGMENT_HEADER_BYTES as usize, 0);
        bytes
    }

    /// # Errors
    /// What does not fit.
    pub(super) fn decode(bytes: &[u8]) -> Result<SegmentHeader, Corruption> {
        let wrong = |what, expected, found| Corruption {
            what,
            offset: codec::OBJECT_HEADER_BYTES as u64,
            expected,
            found,
        };
        let object = open_object(bytes, codec::kind::DIFFERENTIAL, None)?;
        if object.version != VERSION {
            let (expected, found) = (VERSION.into(), object.version.into());
            return Err(wrong("version of a log of differentials", expected, found));
        }
        let store = u8::try_from(object.identity.object)
            .ok()
            .filter(|store| *store < 64);
        let store = store.ok_or(wrong("store of a segment", 63, object.identity.object))?;
        let end: [u8; 4] = object
            .payload
            .try_into()
            .map_err(|_| wrong("payload of a segment", 4, object.payload.len() as u64))?;
        Ok(SegmentHeader {
            key: SegmentKey {
                set: SetId(u128::from_le_bytes(object.identity.set)),
                store: StoreIndex(store),
                number: object.identity.generation,
            },
            previous_end: u32::from_le_bytes(end),
        })
    }
}

/// Name of a segment's file.
pub(super) fn name(number: u64) -> String {
    format!("{number:016x}")
}

/// The number that a name says; `None` for a file of another kind.
pub(super) fn parse(file: &str) -> Option<u64> {
    let number = u64::from_str_radix(file, 16).ok()?;
    (name(number) == file).then_some(number)
}
