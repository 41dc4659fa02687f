//! The validity-tracked log for in-memory databases.
//!
//! # Promise
//! A database whose data is in memory appends a record for each entry, and names the record that
//! it replaces. After a crash at any point [`Vlog::open`] hands back each live record exactly once:
//! all that [`Vlog::durable`] has answered for, and of what came later on each lane a prefix, with
//! groups whole or absent. Dead records are dropped by copying files beside the work: no fork, no
//! snapshot, no stop, and no position that the database keeps ever changes. Damage of what had been
//! durable is reported with file and offset.
//!
//! # What it rests on
//! [`env::Dir`] with durable renames and [`env::Disk::sync`]. Sectors of 512 bytes are written
//! whole. The database keeps an entry on one stream, names what it replaces, and keeps six bytes
//! for each entry ([`Position`]). The medium has one copy; damage to the last write before a crash
//! cannot be told from a torn write.
//!
//! # Invariants
//! - records handed out for an entry <= 1
//! - a dead bit or a drop on disk only after its killer is durable, with its group
//! - positions that change while their record is live = 0
//! - memory for tracking <= 8 1/4 bytes for each live record (6 of them the database's), and a fixed
//!   part of a few hundred bytes for each segment
//! - bytes that wait in memory <= 2 * [`Options::pending_bytes_max`] for each lane (those being
//!   written, those that wait), and a group for each thread that appends
//! - retries after a failed sync = 0: the log stops
//!
//! # On disk
//! `docs/formats/vlog.md`; why it is so: `docs/decisions/0017-validity-log.md`.
//!
//! # How it is tested
//! Crash enumeration over appends, groups, barriers, compactions and recoveries, with every rule of the
//! decision left out once, which has to be found; a model test; damage in every file; kill -9 of a
//! process under load; a full disk; golden files; fuzz targets for the decoders.
//!
//! ```
//! # use holdfast_vlog as vlog;
//! use vlog::{Directory, Options, Vlog, VlogId};
//! # let home = tempfile::tempdir()?;
//! # let path = home.path().to_str().unwrap();
//! Vlog::create("db", vec![Directory::open(path)?], VlogId(7))?;
//! let (log, _) = Vlog::open_all("db", vec![Directory::open(path)?], Options::default())?;
//! let (position, _) = log.append(0, b"color=red", None)?;
//! let (_, receipt) = log.append(0, b"color=blue", Some(position))?;
//! log.durable(receipt)?;
//! drop(log);
//! let (_log, records) = Vlog::open_all("db", vec![Directory::open(path)?], Options::default())?;
//! assert_eq!(records.len(), 1);
//! assert_eq!(records[0].payload, b"color=blue");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod block;
mod compaction;
mod cut;
mod error;
mod flush;
pub mod inspect;
mod lane;
mod live;
pub mod manifest;
mod open;
mod options;
mod place;
mod position;
mod recovery;
mod scan;
mod segment;
mod shared;
mod status;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod threads;
mod validity;
mod vlog;

pub use append::{CHANGES_MAX, Change, RECORD_BYTES_MAX, Receipt};
pub use compaction::Compacted;
pub use error::{Result, VlogError};
pub use options::{Compaction, Expect, Options, Sync, Wake};
pub use place::Directory;
pub use position::Position;
pub use recovery::{Record, Sink};
pub use segment::{Origin, SECTOR_BYTES, SegmentHeader};
pub use status::Status;
pub use vlog::{OwnedRecord, Vlog};

/// Which log it is; the checksum of every block covers it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VlogId(pub u128);

impl VlogId {
    /// One that no other log has.
    ///
    /// # Errors
    /// Where the kernel gives no random numbers.
    pub fn from_kernel() -> Result<VlogId> {
        let mut rng =
            env::Rng::from_kernel().map_err(VlogError::io("making an id for", "the log"))?;
        Ok(VlogId(
            u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()),
        ))
    }
}
