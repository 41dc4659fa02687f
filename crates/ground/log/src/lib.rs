//! The one record log.
//!
//! # Promise
//! [`Log::commit`] returns when the record and all before it are on the medium; concurrent callers
//! share one device write. After a crash at any point [`Log::open`] returns, in order and without
//! a gap, every committed record that was not truncated, then perhaps some that were appended but
//! not committed, and nothing else. Damage below committed records is reported, never cut off.
//!
//! # What it rests on
//! [`env::Dir`] with durable renames and [`env::Open::WriteDurable`]: a write is on the medium
//! when it returns, and a torn write harms no byte outside the 4096-byte blocks it was given. The
//! medium keeps one copy: damage to the last write before a crash cannot be told from a torn
//! write, so an owner who must survive that keeps the log on two stores.
//!
//! # Invariants
//! - durable sequence <= next sequence; a record is durable only after all before it
//! - payload bytes <= [`RECORD_BYTES_MAX`] = 1 MiB, and a record never spans two segments
//! - bytes waiting in memory <= [`PENDING_BYTES_MAX`] = 4 MiB
//! - writes per 4096-byte block of a segment <= 1 in its life
//! - spare segments <= [`SPARE_SEGMENTS_MAX`] = 2
//! - retries after a failed write = 0: the handle is poisoned
//!
//! # On disk
//! `docs/formats/log.md`.
//!
//! # How it is tested
//! Crash enumeration over the recorded trace of writes and syncs (every prefix, sampled subsets of
//! the unsynced, torn at 512 bytes), a model test, corrupted and stale bytes, a full and a failing
//! disk, kill -9 of a writing process, and fuzz targets for the segment scan.
//!
//! ```
//! # use holdfast_log as log;
//! use log::{Log, LogId, Options};
//! # let home = tempfile::tempdir()?;
//! let dir = std::sync::Arc::new(env::real::RealDir::open(home.path())?);
//! let options = Options { segment_bytes: 1 << 20 };
//! let journal = Log::create(dir.clone(), "journal", LogId(7), options)?;
//! let sequence = journal.append(1, b"intent")?;
//! journal.commit(sequence)?;
//! drop(journal);
//! let (_journal, records) = Log::open(dir, "journal", LogId(7), options)?;
//! assert_eq!(records[0].payload, b"intent");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod error;
mod group;
mod inspect;
mod name;
mod recovery;
mod scan;
mod segment;
mod segments;

pub use batch::PENDING_BYTES_MAX;
pub use error::{LogError, Result};
pub use group::Log;
pub use inspect::{inspect, inspect_with};
pub use scan::{Scan, Stop, scan};
pub use segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_VERSION, SegmentHeader};
pub use segments::SPARE_SEGMENTS_MAX;

/// Longest payload of a record in bytes.
pub const RECORD_BYTES_MAX: usize = codec::FRAME_PAYLOAD_MAX;

/// The unit of device writes: everything in a segment is laid out in blocks of this many bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Which log it is. The checksum of every frame covers it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogId(pub u128);

/// A record's place in its log: the first is 1, each next one more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The first record of every log.
    pub const FIRST: Sequence = Sequence(1);

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Sequence {
        Sequence(self.0.checked_add(1).expect("a log has under 2^64 records"))
    }
}

/// A record that recovery found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its place.
    pub sequence: Sequence,
    /// What it means to the owner.
    pub kind: u16,
    /// Its content, at most [`RECORD_BYTES_MAX`] bytes.
    pub payload: Vec<u8>,
}

/// How a log lies on its directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of each new segment, a multiple of 4096 from [`SEGMENT_BYTES_MIN`] to
    /// [`SEGMENT_BYTES_MAX`]. A record must fit in one segment, so with less than 1 MiB + 8 KiB
    /// the longest record is shorter than [`RECORD_BYTES_MAX`].
    pub segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
        }
    }
}

/// What a log holds now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The oldest record that an open would return (or the next one, where it holds none).
    pub first: Sequence,
    /// The next record to be appended.
    pub next: Sequence,
    /// Segments in use.
    pub segments: usize,
    /// Bytes of those segments on disk.
    pub bytes: u64,
}
