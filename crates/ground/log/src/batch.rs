//! Records that wait in memory for one device write.

use crate::{BLOCK_BYTES, Sequence};
use codec::{FRAME_HEADER_BYTES, FrameHeader, FrameKey, crc32c, frame_bytes};

/// Most bytes of records that wait in memory; an append that would pass it commits first.
pub const PENDING_BYTES_MAX: usize = 4 << 20;

/// Frames laid out one after the other, their headers still empty: a header says in which device
/// write its frame is, which is known only when the write is made.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<Waiting>,
}

struct Waiting {
    at: usize,
    kind: u16,
    sequence: Sequence,
    payload_bytes: usize,
    payload_crc: u32,
}

impl Waiting {
    fn end(&self) -> usize {
        self.at + frame_bytes(self.payload_bytes)
    }
}

impl Batch {
    /// Whether a payload of this many bytes still fits.
    pub(crate) fn has_room(&self, payload_bytes: usize) -> bool {
        self.bytes.len() + frame_bytes(payload_bytes) <= PENDING_BYTES_MAX
    }

    /// Adds a record; `payload_crc` is its CRC-32C.
    pub(crate) fn push(&mut self, sequence: Sequence, kind: u16, payload: &[u8], payload_crc: u32) {
        debug_assert_eq!(payload_crc, crc32c(payload));
        let at = self.bytes.len();
        self.bytes.resize(at + FRAME_HEADER_BYTES, 0);
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(at + frame_bytes(payload.len()), 0);
        self.frames.push(Waiting {
            at,
            kind,
            sequence,
            payload_bytes: payload.len(),
            payload_crc,
        });
    }

    /// The first record.
    pub(crate) fn first(&self) -> Option<Sequence> {
        self.frames.first().map(|frame| frame.sequence)
    }

    /// Bytes of the first frame, 0 for an empty batch.
    pub(crate) fn first_bytes(&self) -> usize {
        self.frames
            .first()
            .map_or(0, |frame| frame.end() - frame.at)
    }

    /// Splits off the frames from the front that fit into `room` bytes.
    pub(crate) fn split_front(&mut self, room: usize) -> Batch {
        let count = self.frames.partition_point(|frame| frame.end() <= room);
        let rest_frames = self.frames.split_off(count);
        let end = self.frames.last().map_or(0, Waiting::end);
        let rest = Batch {
            bytes: self.bytes.split_off(end),
            frames: rest_frames
                .into_iter()
                .map(|frame| Waiting {
                    at: frame.at - end,
                    ..frame
                })
                .collect(),
        };
        std::mem::replace(self, rest)
    }

    /// Adds all of `later` behind.
    pub(crate) fn extend(&mut self, later: Batch) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&later.bytes);
        self.frames
            .extend(later.frames.into_iter().map(|frame| Waiting {
                at: frame.at + start,
                ..frame
            }));
    }

    /// Fills in the headers for one device write and pads to whole blocks. Returns the bytes to
    /// write and the sequence after the last record.
    pub(crate) fn seal(&mut self, key: &FrameKey) -> Option<(&[u8], Sequence)> {
        let durable_below = self.first()?.0;
        let last = self.frames.last()?.sequence;
        for frame in &self.frames {
            let header = FrameHeader {
                kind: frame.kind,
                sequence: frame.sequence.0,
                durable_below,
                ends_write: frame.sequence == last,
            };
            let sealed = key.seal(&header, frame.payload_bytes, frame.payload_crc);
            self.bytes[frame.at..frame.at + FRAME_HEADER_BYTES].copy_from_slice(&sealed);
        }
        let padded = self.bytes.len().next_multiple_of(BLOCK_BYTES);
        self.bytes.resize(padded, 0);
        Some((&self.bytes, last.next()))
    }
}
