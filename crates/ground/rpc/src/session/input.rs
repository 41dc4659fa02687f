//! Bytes that have arrived and are not understood yet.

use super::Message;
use crate::header::{HEADER_BYTES, Header};

/// A frame, of which nothing but the header was verified.
pub(super) struct Frame {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) bulk: Vec<u8>,
}

impl From<Frame> for Message {
    fn from(frame: Frame) -> Message {
        Message {
            body: frame.body,
            bulk: frame.bulk,
        }
    }
}

/// At most one frame that is not whole, and what came with its bytes.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// How many whole frames there were.
    pub(super) frames: u64,
}

impl Input {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The frame behind this header, once all of it is there.
    pub(super) fn take(&mut self, header: &Header) -> Option<Frame> {
        let payload = self.rest().get(HEADER_BYTES..)?;
        let length = header.body_bytes + header.bulk_bytes;
        let (body, bulk) = payload.get(..length)?.split_at_checked(header.body_bytes)?;
        let frame = Frame {
            header: *header,
            body: body.to_vec(),
            bulk: bulk.to_vec(),
        };
        self.start += HEADER_BYTES + length;
        self.frames += 1;
        Some(frame)
    }
}
