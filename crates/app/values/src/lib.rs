//! The data types of the Redis protocol.
//!
//! # Promise
//! Strings, lists, hashes, sets, sorted sets, streams, HyperLogLogs and geo sets that do what the
//! commands of Redis 7.0 say, with methods that commands map to one to one. Numbers and patterns are
//! read and written as Redis does. A collection is one packed piece of memory while it is small, and
//! says so under the names that clients know. DUMP payloads and RDB files of Redis up to 7.0 are
//! read, and written so that Redis 7.0 reads them.
//!
//! # What it rests on
//! Nothing outside: no I/O (RDB files go through the reader or writer that the caller gives), no
//! clock and no randomness (the caller passes times and draws), no threads, no unsafe code.
//!
//! # Invariants
//! - bytes from outside that are indexed before they were checked = 0
//! - memory taken while reading from outside <= what was read * a constant
//! - elements that are there during all of a scan and are not visited = 0
//! - members of a listpack <= [`Thresholds`], but for lists, whose nodes hold at least one element
//! - rows that one addition rehashes or copies <= 8192, however large the hash, set or sorted set
//! - a method that returns an error has changed nothing
//!
//! # On disk
//! `docs/formats/rdb.md`. Payloads and files are Redis's format; this crate owns none.
//!
//! # How it is tested
//! Each type against a plain model of the standard library under random edits; DUMP and RDB round
//! trips; files that Redis 7.0.15 wrote; a real `redis-server` that loads what this crate writes and
//! whose files this crate loads; fuzz targets for payloads, files and HyperLogLogs.
//!
//! ```
//! # use holdfast_values as values;
//! use values::{AddOptions, SortedSet, Thresholds};
//! let limits = Thresholds::REDIS;
//! let mut set = SortedSet::new();
//! set.add(2.0, b"two", AddOptions::default(), &limits)?;
//! set.add(1.0, b"one", AddOptions::default(), &limits)?;
//! assert_eq!(set.rank(b"two"), Some(1));
//! assert_eq!(set.encoding(), "listpack");
//! # Ok::<(), values::ValueError>(())
//! ```

pub mod bits;
mod dict;
mod element;
mod error;
pub mod geo;
pub mod glob;
mod hash;
pub mod hyperloglog;
mod list;
mod listpack;
pub mod number;
pub mod range;
pub mod rdb;
mod sample;
pub mod set;
pub mod sorted_set;
pub mod stream;
mod string;
mod thresholds;
mod value;

pub use element::Element;
pub use error::ValueError;
pub use hash::{FieldValue, Hash};
pub use list::{End, List};
pub use sample::Draw;
pub use set::Set;
pub use sorted_set::{AddOptions, Added, LexRange, Members, ScoreRange, Scored, SortedSet};
pub use stream::{Stream, StreamId};
pub use string::{CommonRun, LongestCommon, StringValue};
pub use thresholds::Thresholds;
pub use value::Value;
