//! A log-structured store of 4 KiB blocks in named objects: several writes commit as one atomic
//! group.
//!
//! # Promise
//! - [`Volume::commit`] takes any number of ranges of any number of objects as one group. After a
//!   crash at any point each group is there whole or not at all, and the groups that are there are
//!   the first ones, in the order in which they were committed. What [`Volume::sync`] has returned
//!   for is there.
//! - A block that is read is the block that was written: as that block of that object, at that
//!   place of the log, in that use of its segment. Damage to it is an error that names it; other
//!   blocks go on.
//! - A group that was left ([`Volume::leave`]) is read as any other, and written in its turn, not later
//!   than a sync returns.
//! - Blocks that compress well share a block of the log, or the rest of a flight's header ([`pack`]). What is
//!   said above holds for each of them; damage to the block of the log is damage to all that it has.
//! - A group that does not fit is refused whole. A full volume can still be overwritten, discarded
//!   and cleaned.
//! - [`directory::Tree`] shows a volume as a directory: each call that changes it is one group, and so
//!   is what a program writes between the commands start and commit of F2FS. After a crash it is
//!   what it was at one moment, not before the last sync.
//! - [`trace::Recorder`] keeps what is done to a disk, and [`trace::Walk`] gives every image that a power
//!   cut may leave of it, and none that it may not.
//!
//! # What it rests on
//! [`env::Disk`]: what was written before a sync that succeeded stays. It does not rely on the
//! order of writes between two syncs, nor on a write being whole. The idea is that of Ouyang et
//! al., "Beyond Block I/O: Rethinking Traditional Storage Primitives" (HPCA 2011), section 3: in a
//! log nothing is overwritten, so a mark at the end of a run of blocks makes it atomic for nothing.
//! The choice of what to clean is after Rosenblum and Ousterhout, "The Design and Implementation
//! of a Log-Structured File System" (TOCS 1992), section 3.6.
//!
//! # Invariants
//! - flights applied to the map = the first ones that are written, without a gap
//! - flights below `durable_below` <= flights that a sync covered <= flights applied
//! - blocks of a segment that is taken again that the newest durable checkpoint, or a flight that it
//!   replays, refers to = 0
//! - blocks of a group that are in packs + data blocks of its flights that are its own = its blocks; a name
//!   in a pack <= once
//! - memory of the map <= 8 bytes for a block that is mapped + 128 bytes for each 2 MiB of an object
//!   that have any
//! - mapped blocks <= [`geometry::Geometry::capacity_blocks`]; segments that callers leave free >=
//!   [`geometry::Geometry::reserve_segments`]
//! - flights that are being written at once <= [`FLIGHTS_MAX`]
//! - I/O done while a lock of the map is held = 0
//! - changes of a recorded disk that overlap and are under way at once = 0; events of a trace =
//!   requests + their answers + marks
//! - in a tree: links of an inode = names that lead to it (of a directory: 2 + directories in it);
//!   objects = those of inodes; memory of the table, of names and of batches <= the limits in
//!   `directory/catalogue.rs` and `directory/batch.rs`
//!
//! # On disk
//! `docs/formats/volume.md`, `docs/formats/trace.md`.
//!
//! # How it is tested
//! Every crash of a run of groups, of the cleaner and of checkpoints is enumerated on a simulated
//! disk and compared with a model, with planted bugs that this must find (`engine/tests/crash.rs`,
//! for trees `directory/tests/crash.rs`, with SQLite on a real mount `tests/sqlite.rs`);
//! cuts of traces against a model of what is legal, with writers that leave a flush out
//! (`trace/tests/`); random histories against a plain model; flipped bits in every part; threads that write at once;
//! golden bytes; fuzz targets for every decoder.
//!
//! ```
//! # use holdfast_volume as volume;
//! use env::{Dir, Open};
//! use volume::{ObjectId, Options, Volume, VolumeId};
//! # let home = tempfile::tempdir()?;
//! let dir = env::real::RealDir::open(home.path())?;
//! let disk = dir.open("volume", Open::Create(16 << 20))?;
//! let options = Options { segment_blocks: 64, ..Options::default() };
//! let volume = Volume::create(vec![disk.clone()], VolumeId(7), options)?;
//! // Two pages of one file and one of another, all or none.
//! let (table, index) = (ObjectId(1), ObjectId(2));
//! volume.atomic_write(&[(table, 0, &[1; 8192]), (table, 65536, &[2; 4096]), (index, 100, b"key")])?;
//! volume.sync()?;
//! drop(volume);
//! let volume = Volume::open(vec![disk], options)?;
//! let mut found = [0; 3];
//! volume.read(index, 100, &mut found)?;
//! assert_eq!(&found, b"key");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod checkpoint;
pub mod device;
pub mod directory;
pub mod entry;
pub mod flight;
pub mod geometry;
pub mod id;
pub mod inspect;
pub mod nbd;
pub mod pack;
pub mod superblock;
pub mod table;
pub mod trace;
#[cfg(feature = "ublk")]
pub mod ublk;

mod block;
mod corrupt;
mod engine;
mod error;
pub mod map;
mod segments;

pub use block::BLOCK_BYTES;
pub use engine::{
    Change, CheckReport, Damage, FLIGHTS_MAX, GivenUp, Options, Stats, Ticket, Volume, identify,
};
pub use error::{Result, VolumeError};
pub use id::{BlockIndex, ObjectId, Place, VolumeId};

/// Most blocks of an object: 2^32 less one leaf of the map, so that no sum of two overflows.
pub const OBJECT_BLOCKS_MAX: u64 = (1 << 32) - 512;

/// Most bytes of an object, a little less than 16 TiB.
pub const OBJECT_BYTES_MAX: u64 = OBJECT_BLOCKS_MAX * BLOCK_BYTES as u64;
