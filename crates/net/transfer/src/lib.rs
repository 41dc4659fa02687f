//! Moves file trees and proves what reached the medium.
//!
//! # Promise
//! A file is under its name in the destination only when its bytes were proved at the level that
//! was asked for ([`Level`]), and then it is whole: a reader sees the old file or the new one. What
//! could not be proved or kept is named. After any cut the same call goes on where proof ended.
//!
//! # What it rests on
//! [`rpc`] for what arrives; `fsync` and `syncfs` of Linux for what is synced; `cachestat` (Linux
//! 6.5) for what the page cache has let go; CRC-32C for each 4 KiB, which lets one random change in
//! 2^32 pass. `docs/decisions/0018-transfer.md` says what each level can claim and what not.
//!
//! # Invariants
//! - files renamed into place before their proof = 0
//! - batches that a sender is ahead of their acknowledgement <= 2; bytes of a batch <= 33 MiB
//! - pages sent again after a cut that had reached their file = 0, of the last 256 MiB of it
//! - objects deleted while anything of the source is not in place = 0
//! - repairs of a file <= 3, then it is in the quarantine and not in place
//! - calls of the receiver on what is below its root that take a path with a slash = those of
//!   `openat2` with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS
//!
//! # On disk
//! The files themselves, and while a transfer is under way `.holdfast-transfer` in the
//! destination: `docs/formats/transfer-note.md`.
//!
//! # How it is tested
//! Trees with all kinds of objects are compared by an independent walk; connections are cut at
//! bytes drawn by seed, and the transfer called again; each level has to find the faults that it
//! claims to, in memory and on a loop device, and no others; peers that lie are sent away.
//!
//! ```
//! # use holdfast_transfer as transfer;
//! use transfer::{Options, Settings, local};
//! let place = tempfile::tempdir()?;
//! let (source, destination) = (place.path().join("source"), place.path().join("destination"));
//! std::fs::create_dir(&source)?;
//! std::fs::write(source.join("letter"), "dear reader")?;
//! // Temporary directories may be in memory, of which no device can be asked.
//! let options = Options { level: transfer::Level::Cache, ..Options::default() };
//! let report = local(&source, &destination, &options, &Settings::default(), &mut |_| ())?;
//! assert!(report.is_whole());
//! assert_eq!(std::fs::read_to_string(destination.join("letter"))?, "dear reader");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunks;
mod content;
mod entry;
mod error;
pub mod filter;
mod level;
mod local;
pub mod manifest;
mod message;
mod receiver;
mod report;
mod root_sum;
mod sender;
pub mod verify;
mod walk;

pub use chunks::Chunk;
pub use entry::{Attributes, Entry, Meta, STAGING, Source, Time, TreePath, What};
pub use error::TransferError;
pub use level::{Level, UnknownLevel};
pub use local::local;
pub use message::{FailureKind, Piece, Plan, Problem, ToReceiver, ToSender};
pub use receiver::Plant;
pub use receiver::{AfterSync, Destination, NOTE_VERSION, Note, Settings, held_notes, receive};
pub use report::{Planned, Progress, Report};
pub use root_sum::RootSum;
pub use sender::{BATCH_BYTES, BATCH_ENTRIES, Deletion, Delta, Options, send};
pub use sender::{Order, UnknownDelta, UnknownOrder};
