//! A store as stripes see it.

use super::{Base, PAGE_BYTES, Result, StripeError};
use crate::label::StoreIndex;
use env::Dir;
use std::sync::Arc;

/// The files in which bases lie.
pub trait Bases: Send + Sync {
    /// Opens the file of a base for reading and writing.
    fn open(&self, base: &Base) -> env::Result<Arc<dyn BaseFile>>;
}

/// An open file with bases.
pub trait BaseFile: Send + Sync {
    /// Fills `buffer` from `offset`; what lies behind the end of the file is zeros.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()>;
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()>;
    /// Makes content durable.
    fn sync(&self) -> env::Result<()>;
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

    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        self.first..self.first + self.count
    }
}
