//! A store as stripes see it.

use super::{Base, PAGE_BYTES, Result, StripeError};
use crate::label::StoreIndex;
use env::errno::Errno;
use env::{Dir, Disk, Open};
use std::sync::Arc;

/// The files in which bases lie.
pub trait Bases: Send + Sync {
    /// Opens the file of a base for reading and writing.
    fn open(&self, base: &Base) -> env::Result<Arc<dyn Disk>>;
}

/// Bases in the files of one directory; a node is the name of a file.
pub struct NamedBases(pub Arc<dyn Dir>);

impl Bases for NamedBases {
    fn open(&self, base: &Base) -> env::Result<Arc<dyn Disk>> {
        let name = std::str::from_utf8(&base.node.0).map_err(|_| Errno::INVAL)?;
        self.0.open(name, Open::Write)
    }
}

/// What one store offers.
pub struct Site {
    /// Which store it is.
    pub store: StoreIndex,
    /// A directory for shard files, used by nothing else.
    pub shards: Arc<dyn Dir>,
    /// A metadata store for the notes of merges.
    pub notes: filemeta::Store,
    /// The files with bases.
    pub bases: Arc<dyn Bases>,
}

/// Pages that are worked on at once: 256 KiB of each shard.
const RUN_PAGES: u32 = 64;

/// A page-aligned run of pages that is being read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pages {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Pages {
    /// The pages that a byte range of a shard touches.
    pub(super) fn of(offset: u64, length: usize) -> Result<Pages> {
        let page = PAGE_BYTES as u64;
        let end = offset.checked_add(length as u64);
        let end = end.ok_or(StripeError::Misuse("a range beyond every shard"))?;
        let first = offset / page;
        let count = end.div_ceil(page) - first;
        let number = |n: u64| u32::try_from(n);
        match (number(first), number(count)) {
            (Ok(first), Ok(count)) => Ok(Pages { first, count }),
            _ => Err(StripeError::Misuse("a range beyond every shard")),
        }
    }

    pub(super) fn offset(self) -> u64 {
        u64::from(self.first) * PAGE_BYTES as u64
    }

    pub(super) fn bytes(self) -> usize {
        self.count as usize * PAGE_BYTES
    }

    /// In runs of at most [`RUN_PAGES`].
    pub(super) fn runs(self) -> impl Iterator<Item = Pages> {
        let end = self.first + self.count;
        let firsts = (self.first..end).step_by(RUN_PAGES as usize);
        firsts.map(move |first| Pages {
            first,
            count: RUN_PAGES.min(end - first),
        })
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        self.first..self.first + self.count
    }
}
