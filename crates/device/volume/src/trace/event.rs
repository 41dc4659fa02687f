//! The bytes of a trace: `docs/formats/trace.md`.

use crate::corrupt::{equal, wrong};
use codec::{
    Corruption, FRAME_HEADER_BYTES, Field, Frame, FrameHeader, FrameKey, Identity,
    OBJECT_HEADER_BYTES, frame_bytes, kind, open_object, seal_object,
};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the format.
pub(super) const VERSION: u16 = 1;

/// Bytes before the first event.
pub const HEADER_BYTES: u64 = 4096;

/// Most bytes of a mark.
pub const MARK_BYTES_MAX: usize = 4096;

/// Which event of a trace, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventNumber(pub u64);

/// What stands at the start of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Which trace: chosen at random.
    pub trace: u128,
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// What [`super::base_sum`] gives of the disk before the first event.
    pub base_sum: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    disk_bytes: U64,
    base_sum: U32,
    reserved: [u8; 4],
}

impl Header {
    /// The first [`HEADER_BYTES`] of a trace.
    pub fn encode(&self) -> Vec<u8> {
        let raw = RawHeader {
            disk_bytes: U64::new(self.disk_bytes),
            base_sum: U32::new(self.base_sum),
            reserved: [0; 4],
        };
        let identity = Identity {
            set: self.trace.to_le_bytes(),
            object: 0,
            generation: 0,
        };
        let mut bytes = seal_object(kind::TRACE, VERSION, &identity, raw.as_bytes());
        bytes.resize(HEADER_BYTES as usize, 0);
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Header, Corruption> {
        let object = open_object(bytes, kind::TRACE, None)?;
        equal("version of the trace", 12, VERSION, object.version)?;
        let head = OBJECT_HEADER_BYTES as u64;
        let length = object.payload.len() as u64;
        let raw = RawHeader::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the header", 48, 16, length))?;
        let reserved = u64::from(raw.reserved != [0; 4]);
        equal("reserved bytes", head + 12, 0_u64, reserved)?;
        Ok(Header {
            trace: u128::from_le_bytes(object.identity.set),
            disk_bytes: raw.disk_bytes.get(),
            base_sum: raw.base_sum.get(),
        })
    }

    /// What its events are sealed with.
    pub(super) fn key(&self) -> FrameKey {
        FrameKey::new(self.trace, 0)
    }
}

/// Something that happened. Offsets and lengths are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A write came in; its content follows in the trace.
    Write {
        /// Where.
        offset: u64,
        /// How much; not 0.
        length: u64,
        /// CRC-32C of the content.
        sum: u32,
    },
    /// A range is to become zeros.
    Zero {
        /// Where.
        offset: u64,
        /// How much; not 0.
        length: u64,
        /// Whether its room was given back.
        free: bool,
    },
    /// A flush came in.
    Sync,
    /// A request was answered.
    Done {
        /// The event with which it came in.
        request: EventNumber,
        /// 0, or the error number.
        errno: u32,
    },
    /// A program left a note.
    Mark(
        /// Up to [`MARK_BYTES_MAX`] bytes, mostly text.
        Vec<u8>,
    ),
    /// The recorder ended as it should.
    End,
}

const WRITE: u16 = 1;
const ZERO: u16 = 2;
const SYNC: u16 = 3;
const DONE: u16 = 4;
const MARK: u16 = 5;
const END: u16 = 6;

/// Of a write and of a range of zeros.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRange {
    offset: U64,
    length: U64,
    /// Of a write the sum, of zeros 1 where they are free.
    detail: U32,
    reserved: U32,
}

/// Of an answer.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDone {
    request: U64,
    errno: U32,
    reserved: U32,
}

/// Most bytes that an event takes without the content of a write.
pub(super) const EVENT_BYTES_MAX: usize = frame_bytes(MARK_BYTES_MAX);

/// An event that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Decoded {
    pub(super) number: EventNumber,
    pub(super) event: Event,
    /// Bytes that it takes without its content.
    pub(super) bytes: u64,
}

impl Event {
    /// Its bytes, without the content of a write.
    ///
    /// # Panics
    /// Where a mark is longer than [`MARK_BYTES_MAX`].
    pub(super) fn encode(&self, key: &FrameKey, number: EventNumber) -> Vec<u8> {
        let range = |offset: &u64, length: &u64, detail: u32| {
            let raw = RawRange {
                offset: U64::new(*offset),
                length: U64::new(*length),
                detail: U32::new(detail),
                reserved: U32::ZERO,
            };
            raw.as_bytes().to_vec()
        };
        let (kind, payload) = match self {
            Event::Write {
                offset,
                length,
                sum,
            } => (WRITE, range(offset, length, *sum)),
            Event::Zero {
                offset,
                length,
                free,
            } => (ZERO, range(offset, length, u32::from(*free))),
            Event::Sync => (SYNC, Vec::new()),
            Event::Done { request, errno } => {
                let raw = RawDone {
                    request: U64::new(request.0),
                    errno: U32::new(*errno),
                    reserved: U32::ZERO,
                };
                (DONE, raw.as_bytes().to_vec())
            }
            Event::Mark(text) => {
                assert!(text.len() <= MARK_BYTES_MAX, "a mark is too long");
                (MARK, text.clone())
            }
            Event::End => (END, Vec::new()),
        };
        let header = FrameHeader {
            kind,
            sequence: number.0,
            durable_below: number.0,
            ends_write: false,
        };
        let sealed = key.seal(&header, payload.len(), codec::crc32c(&payload));
        let mut bytes = Vec::with_capacity(frame_bytes(payload.len()));
        bytes.extend_from_slice(&sealed);
        bytes.extend_from_slice(&payload);
        bytes.resize(frame_bytes(payload.len()), 0);
        bytes
    }

    /// Where it is counted.
    fn place(&self) -> usize {
        match self {
            Event::Write { .. } => 0,
            Event::Zero { .. } => 1,
            Event::Sync => 2,
            Event::Done { .. } => 3,
            Event::Mark(_) => 4,
            Event::End => 5,
        }
    }

    /// Reads one from the start of `bytes`. Offsets of what is wrong count from there.
    pub(super) fn decode(key: &FrameKey, bytes: &[u8]) -> Result<Decoded, Corruption> {
        let frame = key.open(bytes)?;
        let number = frame.header.sequence;
        equal("flags", 6, 0_u64, u64::from(frame.header.ends_write))?;
        equal("durable distance", 16, number, frame.header.durable_below)?;
        let event = Event::of(&frame)?;
        Ok(Decoded {
            number: EventNumber(number),
            event,
            bytes: frame_bytes(frame.payload.len()) as u64,
        })
    }

    fn of(frame: &Frame<'_>) -> Result<Event, Corruption> {
        let head = FRAME_HEADER_BYTES as u64;
        let payload = frame.payload;
        let bytes = payload.len() as u64;
        let long = |wanted| wrong("bytes of the event", 20, wanted, bytes);
        let range = || {
            let raw = RawRange::ref_from_bytes(payload).map_err(|_| long(24))?;
            equal("reserved bytes", head + 20, 0_u64, raw.reserved.get())?;
            let (offset, length) = (raw.offset.get(), raw.length.get());
            let end = offset.checked_add(length).filter(|_| length > 0);
            end.ok_or(wrong("length of a range", head + 8, 1, length))?;
            Ok((offset, length, raw.detail.get()))
        };
        match frame.header.kind {
            WRITE => range().map(|(offset, length, sum)| Event::Write {
                offset,
                length,
                sum,
            }),
            ZERO => {
                let (offset, length, free) = range()?;
                if free > 1 {
                    return Err(wrong("kind of zeros", head + 16, 1, free.into()));
                }
                Ok(Event::Zero {
                    offset,
                    length,
                    free: free == 1,
                })
            }
            SYNC if bytes == 0 => Ok(Event::Sync),
            END if bytes == 0 => Ok(Event::End),
            SYNC | END => Err(long(0)),
            DONE => {
                let raw = RawDone::ref_from_bytes(payload).map_err(|_| long(16))?;
                equal("reserved bytes", head + 12, 0_u64, raw.reserved.get())?;
                Ok(Event::Done {
                    request: EventNumber(raw.request.get()),
                    errno: raw.errno.get(),
                })
            }
            MARK if payload.len() <= MARK_BYTES_MAX => Ok(Event::Mark(payload.to_vec())),
            MARK => Err(long(MARK_BYTES_MAX as u64)),
            other => Err(wrong("kind of the event", 4, END.into(), other.into())),
        }
    }
}

/// The fields of a trace of `length` bytes, of which `head` is the start: its header, and its events as
/// far as they are in it.
///
/// # Errors
/// What is wrong with the bytes. A trace whose end is missing is whole.
pub fn inspect(head: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let first = head.get(..HEADER_BYTES as usize).unwrap_or(head);
    let header = Header::decode(first)?;
    let mut counts = [0_u64; 6];
    let mut at = HEADER_BYTES as usize;
    let mut number = 0_u64;
    let complete = head.len() as u64 >= length;
    // What is cut off by the end of what was read is none of the trace's faults.
    while let Some(bytes) = head.get(at..).filter(|rest| match complete {
        true => !rest.is_empty(),
        false => rest.len() >= EVENT_BYTES_MAX,
    }) {
        let moved = |corruption: Corruption| corruption.moved(at as u64);
        let decoded = Event::decode(&header.key(), bytes).map_err(moved)?;
        number += 1;
        equal("number of the event", 8, number, decoded.number.0).map_err(moved)?;
        let mut next = decoded.bytes;
        if let Event::Write { length, sum, .. } = decoded.event {
            let rest = bytes.get(next as usize..).unwrap_or_default();
            match rest.get(..usize::try_from(length).unwrap_or(usize::MAX)) {
                Some(content) => equal("checksum of content", next, sum, codec::crc32c(content)),
                None if complete => Err(wrong("bytes of content", next, length, rest.len() as u64)),
                None => Ok(()),
            }
            .map_err(moved)?;
            next = next.saturating_add(content_bytes(length));
        }
        if let Some(count) = counts.get_mut(decoded.event.place()) {
            *count += 1;
        }
        at = usize::try_from((at as u64).saturating_add(next)).unwrap_or(usize::MAX);
    }
    let mut fields = vec![
        ("trace".to_owned(), format!("{:032x}", header.trace)),
        (
            "bytes of the disk".to_owned(),
            header.disk_bytes.to_string(),
        ),
        (
            "sum of the base".to_owned(),
            format!("{:08x}", header.base_sum),
        ),
    ];
    let place = match complete {
        true => "",
        false => " at its start",
    };
    let names = ["writes", "zeros", "flushes", "answers", "marks", "ends"];
    for (name, count) in names.iter().zip(counts) {
        fields.push((format!("{name}{place}"), count.to_string()));
    }
    Ok(fields)
}

/// Bytes that the content of a write takes in the trace.
pub(super) fn content_bytes(length: u64) -> u64 {
    length.saturating_add(7) & !7
}
