//! What was written to a disk and when it was flushed: recorded, and replayed as the image that a
//! power cut may have left at any moment.
//!
//! A [`Recorder`] stands before a disk and notes each request as it comes and each answer as it
//! goes. A [`Walk`] goes through such a trace; at every event of it, it gives the images that are
//! *legal* there, those of a disk with a volatile write cache:
//!
//! - A write (or range of zeros) that was answered before a flush came in that was answered before
//!   the cut is there.
//! - Of every other write that came in before the cut, any part may be there: whole, not at all, or
//!   any of its sectors, each whole.
//! - Where writes overlap the later one counts. The recorder passes overlapping ones on one after the
//!   other, so which is later is never in doubt.
//!
//! So a program that writes, flushes, and says that it is done has to find what it wrote on every
//! legal image from then on; one that leaves the flush out is found.

mod base;
mod cut;
mod error;
mod event;
mod image;
mod pieces;
mod reader;
mod recorder;
mod walk;

pub use base::sum as base_sum;
pub use cut::{Fate, Kept, Loss};
pub use error::{Result, TraceError};
pub use event::{Event, EventNumber, HEADER_BYTES, Header, MARK_BYTES_MAX, inspect};
pub use image::Image;
pub use reader::{Ending, Found, Reader, Trace};
pub use recorder::{Marks, Recorded, Recorder};
pub use walk::{Cut, Walk};

#[cfg(test)]
mod tests;
