//! The only door to disk, directory, clock, network and randomness.
//!
//! # Promise
//! A crate that reaches the world through these traits runs unchanged on the real machine
//! ([`real`]) and on a simulated one (`sim`, behind the feature of that name) that crashes, tears
//! and rots by seed, or joins hosts by a network that delays, parts and cuts. One function,
//! [`errno::fault`], decides what an error number means.
//!
//! # What it rests on
//! Linux system calls through `rustix` (never `std::fs`: under a preloaded library that would
//! re-enter it), and io_uring for batches where the kernel allows it. [`Disk::sync`] is worth what
//! the drive's cache flush is worth. A directory that is synced keeps its entries (POSIX `fsync(2)`
//! on a directory; ext4, xfs and btrfs honour it). On the network TCP, whose checksum of 16 bits is
//! the only guard on a [`Stream`]'s bytes: who needs more brings it.
//!
//! # Invariants
//! - bytes lost by a crash <= bytes written since the last sync that succeeded
//! - a crash tears at multiples of 512 bytes <= 4096, the alignment of durable writes
//! - retries of a failed sync = 0; a write or sync that failed is never repeated here
//! - writes and syncs accepted by a handle after a failed sync, or after a write that failed for
//!   the medium's sake = 0
//! - requests of a batch under way at once <= [`BATCH_DEPTH`]
//! - bytes received from a stream = a prefix of the bytes sent, in order; sends accepted after a
//!   send that failed = 0
//! - losses of a connection that look like an end = 0; an end says that the peer finished or closed,
//!   or that its process ended
//!
//! # On disk
//! Nothing of its own: files hold exactly what callers write. While [`Dir::replace`] runs, the new
//! content stands under the name with `~` appended, which [`Dir::list`] leaves out.
//!
//! # How it is tested
//! One contract test-suite runs against the real and the simulated implementation
//! (`tests/contract.rs` for disks and batches, `tests/network.rs` for the network), with deviants
//! that it must find. The crash harness (`sim::crash`) has a canary: logs with planted bugs
//! that it must find (`tests/canary.rs`), among them a disk whose batches sync before they write. So
//! have the faults of the network: protocols that go wrong when a connection is cut.
//!
//! ```
//! # use holdfast_env as env;
//! use env::{Dir, Open};
//! # let home = tempfile::tempdir()?;
//! # let path = home.path();
//! let dir = env::real::RealDir::open(path)?;
//! dir.replace("state", b"one")?;
//! let disk = dir.open("blocks", Open::Create(8192))?;
//! dir.sync()?;
//! disk.write_at(4096, b"data")?;
//! disk.sync()?;
//! assert_eq!(dir.list()?, ["blocks", "state"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod batch;
pub mod descriptors;
pub mod errno;
pub mod extents;
pub mod handle;
pub mod net;
pub mod page_cache;
pub mod priority;
pub mod real;
#[cfg(feature = "sim")]
pub mod sim;
pub mod umask;
pub mod writeback;

mod clock;
mod files;
mod poison;
mod rng;
mod wall;

pub use batch::{BATCH_DEPTH, Request};
pub use clock::{Clock, Moment};
pub use files::{Files, Lock};
pub use net::{Address, Bell, Listener, Net, Stream, Task};
pub use rng::Rng;
pub use wall::{WallTime, wall_time};

use std::sync::Arc;

/// Results of this crate carry the error number.
pub type Result<T> = core::result::Result<T, errno::Errno>;

/// A file or device of fixed or growing length, addressed by position. All calls block.
///
/// After a failed sync, or a write that failed for the medium's sake
/// ([`Fault::Medium`](errno::Fault::Medium)), the handle is poisoned: it goes on reading and refuses
/// the rest with the error of that failure. The kernel may have dropped the pages that it could not
/// write (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020), so a later
/// success would mean nothing.
#[expect(
    clippy::len_without_is_empty,
    reason = "the length costs a system call that may fail; nobody asks only for emptiness"
)]
pub trait Disk: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// Fills `buffer` from `offset`; the bytes past the end read as an error (EIO is not used for
    /// that: EINVAL).
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Makes all earlier writes durable.
    fn sync(&self) -> Result<()>;
    /// Has earlier writes go on their way, so that a [`Disk::sync`] that follows waits less; it
    /// makes nothing durable, waits for nothing, and leaves errors to that sync.
    fn start_sync(&self) {}
    /// Frees a range; it reads as zeros or as before.
    fn discard(&self, offset: u64, length: u64) -> Result<()>;

    /// Runs a batch and returns when all of it is complete, with one result per request, at the
    /// request's position.
    ///
    /// Between two syncs, requests run and complete in any order and at the same time, at most
    /// [`BATCH_DEPTH`] at once: of writes that overlap either may win, a read may see a write
    /// beside it or not, and a crash keeps any subset of the writes that no sync covers. A
    /// [`Request::Sync`] is a barrier: it begins when every request before it in the batch is
    /// complete, it covers all their writes that succeeded, and what stands after it begins when
    /// it has ended.
    ///
    /// One request's error stops no other, but for a poisoned handle: requests to write or sync
    /// that had not begun get the error that poisoned it. So a sync that succeeds
    /// says that no write before it failed for the medium's sake.
    ///
    /// The provided method runs the requests one after the other.
    fn submit(&self, batch: &mut [Request<'_>]) -> Vec<Result<()>> {
        batch::one_by_one(self, batch)
    }
}

/// How to open a file of a [`Dir`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file of this many bytes, all allocated and zero, for writing (EEXIST where the
    /// name is taken). Its name is durable only after [`Dir::sync`].
    Create(u64),
    /// The same, quicker, for who writes all of it at once, or syncs rarely: it is durable with the
    /// file's next sync, and until a part has been written, and that synced, its sync costs more.
    Allocate(u64),
    /// As `Write`, each write durable when it returns (O_DSYNC), past the page cache where
    /// the offset, the length and the memory are multiples of 4096.
    WriteDurable,
}

/// A directory of Holdfast's own files. Names are plain: no slash.
pub trait Dir: Send + Sync {
    /// Opens a file.
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>>;
    /// The whole of a small file.
    fn read(&self, name: &str) -> Result<Vec<u8>>;
    /// Replaces (or makes) a small file so that after any crash the old or the new content is
    /// there whole, and the new one once this has returned.
    fn replace(&self, name: &str, content: &[u8]) -> Result<()>;
    /// Renames, durable once this has returned; a target is replaced.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// As [`Dir::rename`], durable only after [`Dir::sync`]: cheaper for who renames many files.
    fn rename_unsynced(&self, from: &str, to: &str) -> Result<()> {
        self.rename(from, to)
    }
    /// Removes a file; durable only after [`Dir::sync`].
    fn remove(&self, name: &str) -> Result<()>;
    /// All names, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Makes creations and removals durable.
    fn sync(&self) -> Result<()>;
    /// A new, empty file for writing (EEXIST where the name is taken), of which nothing is durable
    /// yet: cheaper than [`Open::Create`] for an owner who syncs many files at once.
    fn make(&self, name: &str) -> Result<Arc<dyn Disk>> {
        self.open(name, Open::Create(0))
    }
    /// The handle of a file: what finds it under any name it gets. EOPNOTSUPP where the file
    /// system, or this implementation, has none.
    fn handle(&self, _name: &str) -> Result<handle::Handle> {
        Err(errno::Errno::OPNOTSUPP)
    }
    /// Keeps every other caller, in this process or another, from the lock of this name until the
    /// value is dropped or its process ends; the file is made where it is missing. EAGAIN where
    /// somebody has it, EOPNOTSUPP where this implementation has no locks.
    fn lock(&self, _name: &str) -> Result<Lock> {
        Err(errno::Errno::OPNOTSUPP)
    }
}
