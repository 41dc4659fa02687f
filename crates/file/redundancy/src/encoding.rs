//! The policy of adaptive erasure coding with delayed parity: what to encode, what to swap, what
//! to return to copies, and which differential pages to merge. Pure: counts and layouts in,
//! decisions out. Whoever carries the decisions out does the I/O; `holdfast simulate redundancy`
//! runs the same code over a block trace.
//!
//! Source: \[F\], T. Fukatani, "A Study on Applications of Custom File Metadata", chapters 4
//! (adaptive encoding) and 5 (delayed parity). What the thesis leaves open and we chose is in
//! docs/decisions/0008-encoding-policy.md.
//!
//! One round, once each [`Parameters::interval`]:
//!
//! 1. Requests count into [`FileCounters`] as they are served.
//! 2. A [`Crawler`] visits every chunk in bounded steps, takes its counts, and gives a
//!    [`ChunkList`] with the [`Load`] of each.
//! 3. A [`Plan`] over that list yields [`Decision`]s one at a time. After each of them the limits
//!    of [`Limits`] hold again or are nearer, so it may be left off at any point.
//!
//! Counts live in memory, so after a start a whole interval has to pass before the first round:
//! a chunk that nobody has watched would look cold.
//!
//! Between rounds, [`DifferentialPages`] names the pages to merge, the least recently written
//! first.

mod counters;
mod crawler;
mod differential;
mod parameters;
mod priority;
mod selection;

pub use counters::{Counts, FileCounters};
pub use crawler::{Census, ChunkId, ChunkIndex, ChunkList, Crawler, Entry, FileView, Progress};
pub use differential::{DifferentialPages, Due, PAGE_BYTES, PageId, Written};
pub use parameters::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, ChunkBytes, DATA_MAX, Geometry, ParameterError, Parameters,
    READ_WEIGHT_MAX, ReadWeight, Share,
};
pub use priority::Load;
pub use selection::{Decision, Limits, Member, Plan, StripeId};
