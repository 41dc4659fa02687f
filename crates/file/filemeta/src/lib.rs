//! Custom file metadata of any size on a plain Linux file system.
//!
//! # Promise
//! A [`Request`] changes metadata of any number of files as one: after a crash at any point all of
//! it is there or nothing, and all of it once [`Request::commit`] has returned. What is read under
//! a file's handle was written for that file and by this store, or is refused: a copied attribute,
//! an inode number used again, a stale or damaged block never give another file's metadata.
//!
//! # What it rests on
//! A file system with file handles (ext4, XFS, btrfs) whose extended attributes change as a whole,
//! and whose `syncfs(2)` makes content, names and attributes durable. The record log (`log`) for
//! the journal. One process has a store open at a time.
//!
//! # Invariants
//! - an action is in a file only after its request is durable in the journal
//! - the journal is truncated only before requests that are applied and synced
//! - numbers of linked objects rise; each is used once
//! - bytes of a file's attribute <= [`COMPOSITE_BYTES_MAX`] = 1024; 12 for one linked object
//! - references of a shared object = used entries of its roster
//! - journal read by an open <= [`Options::journal_bytes`] and two segments, as long as no note is
//!   open, however many files there are
//!
//! # On disk
//! `docs/formats/filemeta.md`.
//!
//! # How it is tested
//! Crash enumeration over the recorded trace with requests of every kind, a model test against a
//! plain map with crashes, planted bugs that both must find, damaged and foreign objects and
//! attributes, full disks, kill -9 of a writing process on ext4 and XFS, golden bytes, and fuzz
//! targets for every decoder.
//!
//! ```
//! # use holdfast_filemeta as filemeta;
//! # use env::{Dir, Open};
//! # let world = env::sim::World::new(1);
//! # let places = filemeta::Places {
//! #     files: world.files(), objects: world.dir("objects"), journal: world.dir("journal"),
//! # };
//! # let user = world.dir("user");
//! # user.replace("letter", b"")?;
//! use filemeta::{Options, Store, StoreId, Tag};
//! const TABLE: Tag = Tag::new(1).unwrap();
//! let store = Store::create(&places, StoreId(7), c"trusted.hfm", Options::default())?;
//! let letter = user.handle("letter")?;
//! let mut request = store.request();
//! request.put(&letter, TABLE, &[0; 100])?.set_value(&letter, Tag::new(2).unwrap(), b"tiny");
//! request.commit()?;
//! let mut request = store.request();
//! request.patch(&letter, TABLE, 40, b"sixteen bytes on");
//! request.commit()?;
//! user.rename("letter", "moved")?;
//! assert_eq!(&store.get(&user.handle("moved")?, TABLE)?[40..56], b"sixteen bytes on");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod action;
mod block;
mod check;
pub mod composite;
mod cursor;
mod error;
mod garbage;
pub mod header;
pub mod inspect;
mod key;
mod request;
mod store;
pub mod superblock;

pub use block::{BLOCK_BYTES, CONTENT_BYTES, FIRST_CONTENT_BYTES};
pub use check::{CheckReport, Finding};
pub use composite::{COMPOSITE_BYTES_MAX, Composite, Entry, VALUE_BYTES_MAX};
pub use error::{MetaError, Result};
pub use garbage::{GarbageReport, Unlinked};
pub use header::{Header, OBJECT_BYTES_MAX};
pub use key::{Class, Number, ObjectKey, SYSTEM_NAME_BYTES_MAX, StoreId, SystemName, Tag};
pub use request::{JOURNALED_BYTES_MAX, Request};
pub use store::{
    OpenNote, Opened, Options, Places, QUEUED_BYTES_MAX, REQUEST_BYTES_MAX, ROSTER_ENTRY_BYTES,
    Replay, SHARED_BYTES_MAX, Status, Store, Ticket,
};
