//! Reading the frames of a segment: pure, over bytes that may be anything.

use crate::{BLOCK_BYTES, Sequence};
use codec::{Corruption, FRAME_ALIGNMENT, FRAME_MAGIC, Frame, FrameKey, frame_bytes};

/// What a segment holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan<'a> {
    /// The frames in order, their sequences without a gap.
    pub frames: Vec<Frame<'a>>,
    /// The sequence that would have come next.
    pub next: Sequence,
    /// Why reading stopped.
    pub stop: Stop,
}

/// Why the reading of a segment stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// At the record where the next segment begins, or at the end of the file.
    Limit,
    /// At bytes that are no next frame. Nothing behind them says that one had been durable: they
    /// were never written, or their write was cut by a crash.
    Tail(Corruption),
    /// As `Tail`, but a frame behind them says that records from here on had been durable.
    Damage(Corruption),
}

/// Reads the frames of a whole segment (its first block included), whose first record is `first`,
/// up to but without the record `limit`.
pub fn scan<'a>(
    bytes: &'a [u8],
    key: &FrameKey,
    first: Sequence,
    limit: Option<Sequence>,
) -> Scan<'a> {
    let mut scan = Scan {
        frames: Vec::new(),
        next: first,
        stop: Stop::Limit,
    };
    let mut at = BLOCK_BYTES;
    // The first record of the device write that the next frame belongs to; none between writes.
    let mut write_start = None;
    while limit.is_none_or(|limit| scan.next < limit) {
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        match next_frame(rest, key, scan.next, write_start) {
            Ok(frame) => {
                write_start = (!frame.header.ends_write).then_some(frame.header.durable_below);
                at = at.saturating_add(frame_bytes(frame.payload.len()));
                if frame.header.ends_write {
                    at = at.next_multiple_of(BLOCK_BYTES);
                }
                scan.frames.push(frame);
                scan.next = scan.next.next();
            }
            Err(corruption) => {
                let corruption = corruption.moved(at as u64);
                let damaged = limit.is_some() || durable_later(rest, key) > scan.next.0;
                scan.stop = if damaged {
                    Stop::Damage(corruption)
                } else {
                    Stop::Tail(corruption)
                };
                break;
            }
        }
    }
    scan
}

/// The frame at the start of `bytes`, if it is the one that comes next.
fn next_frame<'a>(
    bytes: &'a [u8],
    key: &FrameKey,
    expected: Sequence,
    write_start: Option<u64>,
) -> Result<Frame<'a>, Corruption> {
    let frame = key.open(bytes)?;
    let differs = |what, offset, expected, found| Corruption {
        what,
        offset,
        expected,
        found,
    };
    let found = frame.header.sequence;
    if found != expected.0 || found == u64::MAX {
        return Err(differs("sequence of the record", 8, expected.0, found));
    }
    // Within a write all frames name the write's first record; a new write names its own.
    let start = write_start.unwrap_or(expected.0);
    let durable_below = frame.header.durable_below;
    if durable_below != start {
        return Err(differs("start of the write", 16, start, durable_below));
    }
    Ok(frame)
}

/// The largest sequence below which some frame header in `bytes` says that all was durable. Only
/// headers of this very segment verify, and each frame was sealed after what it says was true.
fn durable_later(bytes: &[u8], key: &FrameKey) -> u64 {
    let mut durable = 0;
    let mut rest = bytes;
    while let Some((word, _)) = rest.split_at_checked(FRAME_ALIGNMENT) {
        if word.starts_with(&FRAME_MAGIC)
            && let Ok(header) = key.peek(rest)
        {
            durable = durable.max(header.durable_below);
        }
        rest = rest.get(FRAME_ALIGNMENT..).unwrap_or_default();
    }
    durable
}

#[cfg(test)]
mod tests;
