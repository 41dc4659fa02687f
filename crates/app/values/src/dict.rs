//! A table of rows by key, from which a row can be drawn at random and that can be scanned while it
//! changes.
//!
//! Rows lie densely; an index of four-byte numbers finds them. Both grow in pieces: no addition
//! copies or rehashes everything. A row that is removed is replaced by
//! the last one. A scan goes from the last row down to the first: a row that it has yet to meet can
//! only move to a place further down, where it is still to be met, so what is there all the time is
//! returned, as the SCAN commands promise; rows that move may be met twice.

mod index;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use index::Index;
use rows::Rows;

/// Keyed anew for each process, so that nobody can choose keys that collide.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn hash(key: &[u8]) -> u64 {
    HASHES.hash_one(key)
}

/// What a table holds.
pub(crate) trait Row {
    /// What it is found by.
    fn key(&self) -> &[u8];
    /// Bytes of memory behind it.
    fn heap_bytes(&self) -> usize;
}

impl Row for Box<[u8]> {
    fn key(&self) -> &[u8] {
        self
    }

    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Dict<R> {
    rows: Rows<R>,
    index: Index,
    /// Sum of the rows' `heap_bytes`.
    heap: usize,
}

impl<R: Row> Dict<R> {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Rows::with_capacity(rows),
            index: Index::with_capacity(rows),
            heap: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &R> {
        self.rows.iter()
    }

    /// The row of a number below the length.
    pub(crate) fn row(&self, number: usize) -> &R {
        self.rows.get(number)
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let found = self
            .index
            .find(hash(key), |row| self.rows.get(row as usize).key() == key);
        found.map(|row| row as usize)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&R> {
        self.find(key).map(|row| self.rows.get(row))
    }

    /// Adds a row whose key is not there; returns its number.
    pub(crate) fn add(&mut self, row: R) -> usize {
        let number = u32::try_from(self.rows.len()).expect("fewer than 2^32 elements");
        let rows = &self.rows;
        self.index.insert(hash(row.key()), number, &|row| {
            hash(rows.get(row as usize).key())
        });
        self.heap += row.heap_bytes();
        self.rows.push(row);
        number as usize
    }

    /// Puts a row of the same key in the place of one.
    pub(crate) fn replace(&mut self, number: usize, row: R) -> R {
        let old = std::mem::replace(self.rows.get_mut(number), row);
        debug_assert!(old.key() == self.rows.get(number).key(), "the key stays");
        self.heap = self.heap + self.rows.get(number).heap_bytes() - old.heap_bytes();
        old
    }

    /// Changes a row in a way that leaves its key and its bytes of memory.
    pub(crate) fn row_mut(&mut self, number: usize) -> &mut R {
        self.rows.get_mut(number)
    }

    /// Removes a row; the last one takes its number.
    pub(crate) fn remove(&mut self, number: usize) -> R {
        let last = self.rows.len() - 1;
        let rows = &self.rows;
        let hash_of = |row: u32| hash(rows.get(row as usize).key());
        let of_row = |number: usize| u32::try_from(number).expect("the number of a row");
        self.index
            .remove(hash_of(of_row(number)), of_row(number), &hash_of);
        if number != last {
            self.index
                .renumber(hash_of(of_row(last)), of_row(last), of_row(number));
        }
        let row = self.rows.swap_remove(number);
        self.heap -= row.heap_bytes();
        let rows = &self.rows;
        self.index
            .gather(rows.len(), &|row| hash(rows.get(row as usize).key()));
        row
    }

    /// Visits up to `count` rows from a cursor on; returns the next cursor, 0 at the end. The first
    /// cursor is 0.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&R)) -> u64 {
        let length = self.rows.len();
        let start = match usize::try_from(cursor).unwrap_or(length) {
            0 => length,
            cursor => cursor.min(length),
        };
        let end = start.saturating_sub(count.max(1));
        for row in (end..start).rev() {
            visit(self.rows.get(row));
        }
        end as u64
    }

    /// Bytes of memory behind this value.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes() + self.index.heap_bytes() + self.heap
    }
}
