//! The FUSE edge of Holdfast.
//!
//! # Promise
//! Every request of the kernel reaches a [`Layer`] as a call on inode numbers, never on rebuilt
//! path strings; the caller's ids come along; warm reads are served by the kernel; every write,
//! shared mmap included, reaches the layer.
pub mod layer;

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
