//! Files stored as plain local files and kept redundant on other stores.
//!
//! # Promise
//! One tree over several stores. Each file is a plain file on `copies` of them, readable without
//! Holdfast; directories are on all. Any `copies - 1` stores may be lost and every synced byte is
//! there; a store that comes back is brought up to date from what it missed, an empty one is
//! rebuilt. After a crash only what was being changed is compared.
//!
//! # What it rests on
//! [`mount`] for the requests, [`store::Store`] for the stores (a local directory on ext4, XFS or
//! btrfs whose fsync is honest), `log` for the journal. One process serves a set at a time.
//!
//! # Invariants
//! - copies of a file on members at the time of an acknowledgement = its copies that members hold
//! - 2 |members left| >= |members before|; 2 |members that start| > |members last known|
//! - objects that may differ after a crash <= objects in the journal + objects younger than its mark
//! - a store that decides is a member
//!
//! # On disk
//! `docs/formats/label.md`, `docs/formats/store-header.md`, `docs/formats/intent-journal.md`,
//! `docs/formats/shard.md`, `docs/formats/differential.md`.
//!
//! # How it is tested
//! A model test on simulated stores with crashes and faults, canaries with planted bugs, unit
//! tests of each decision, pjdfstest and fsx on the real mount, and `holdfast torture redundancy`.
//!
//! ```
//! use holdfast_redundancy::label::{Label, ObjectId, StoreIndex, StoreMask};
//! let label = Label {
//!     id: ObjectId(7),
//!     home: StoreIndex(0),
//!     copies: StoreMask::first(2),
//!     set: 42,
//! };
//! assert_eq!(Label::decode(&label.encode()), Some(label));
//! ```

pub mod check;
pub mod config;
mod encoded;
pub mod encoding;
mod engine;
mod fanout;
mod inode;
mod journal;
pub mod label;
#[cfg(feature = "model")]
pub mod model;
mod resync;
pub mod set;
pub mod status;
pub mod store;
pub mod stripes;

/// Records of the write-intent journal, for `holdfast inspect` and the fuzz targets.
pub mod intent {
    pub use crate::journal::text::{describe, recode};
}

pub use config::{Config, ConfigError};
pub use engine::{Attach, AttachError, Candidate, Engine, EngineOptions, OpenError, Round};
