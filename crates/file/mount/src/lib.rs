//! The FUSE edge of Holdfast.
//!
//! # Promise
//! Every request of the kernel reaches a [`Layer`] as a call on inode numbers, never on rebuilt
//! path strings; the caller's ids come along; warm reads are served by the kernel; every write,
//! shared mmap included, reaches the layer before it is acknowledged (a mapping: before `msync`,
//! `munmap` or the kernel's own writeback is done with it).
//!
//! # What it rests on
//! Linux 5.11 or newer and fuser 0.18. The layer below the mount is the only source of change, so
//! the kernel may keep names, attributes, pages, directories and link targets for good:
//! it drops by itself what its own requests change (fs/fuse: a directory's attributes and entries
//! with each create, link, rename and removal in it; size, blocks and times with each write; ctime
//! with each change of links or extended attributes; cached ACLs with each change of mode).
//! `sync(2)` and `syncfs(2)` bring mapped pages to the layer but are not passed on by the kernel;
//! `fsync(2)` is.
//!
//! # Invariants
//! - references counted per inode = answers that named it - what the kernel has forgotten
//! - calls of [`Layer::forget`] per inode = times its count has come to 0
//! - inodes the kernel holds <= [`Options::inode_limit`] + those in use (open, mapped, a working
//!   directory, a directory with such below), after the trimmer has caught up; on kernels
//!   before 6.18 directories are not trimmed
//! - opens, closes and reads of cached pages ask the layer 0 times; opens and closes ask one that
//!   has [`opens::Opens`]
//!
//! # On disk
//! Nothing.
//!
//! # How it is tested
//! Unit tests for the table, the directory snapshots, times and the mount table; `tests/session.rs`
//! mounts for real and goes through the errors. `tests/posix` at the root of the repository runs
//! pjdfstest, fsx and `semantics.py` on mounts of real layers.
//!
//! ```no_run
//! # fn serve(layer: std::sync::Arc<dyn holdfast_mount::Layer>) -> Result<(), holdfast_mount::MountError> {
//! use holdfast_mount::{Options, Session};
//! let mountpoint = std::path::Path::new("/srv/data");
//! Session::clear_stale(mountpoint)?;
//! let session = Session::start(layer, mountpoint, &Options::default())?;
//! session.wait()?; // until somebody unmounts it
//! # Ok(())
//! # }
//! ```

pub mod fixed;
pub mod layer;
pub mod opens;

mod convert;
mod device;
mod edge;
mod error;
mod session;
mod table;
mod trimmer;

pub use error::MountError;
pub use layer::{
    AllocateFlags, Attr, Caller, Errno, Ino, Kind, Layer, Listing, NewObject, RenameFlags, Result,
    SetAttr, SetTime, Space, Timestamp,
};
pub use session::{Options, Session};
