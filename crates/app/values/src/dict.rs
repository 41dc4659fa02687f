//! A table of rows by key, from which a row can be drawn at random and that can be scanned while it
//! changes.
//!
//! Rows lie densely; a table of four-byte numbers finds them. A row that is removed is replaced by
//! the last one. A scan goes from the last row down to the first: a row that it has yet to meet can
//! only move to a place further down, where it is still to be met, so what is there all the time is
//! returned, as the SCAN commands promise; rows that move may be met twice.

#[cfg(test)]
mod tests;

use std::{
    hash::{BuildHasher, RandomState},
    sync::LazyLock,
};

use hashbrown::HashTable;

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
    rows: Vec<R>,
    index: HashTable<u32>,
    /// Sum of the rows' `heap_bytes`.
    heap: usize,
}

impl<R: Row> Dict<R> {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            index: HashTable::with_capacity(rows),
            heap: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn rows(&self) -> &[R] {
        &self.rows
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let found = self
            .index
            .find(hash(key), |&row| self.rows[row as usize].key() == key);
        found.map(|&row| row as usize)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&R> {
        self.find(key).map(|row| &self.rows[row])
    }

    /// Adds a row whose key is not there; returns its number.
    pub(crate) fn add(&mut self, row: R) -> usize {
        let number = u32::try_from(self.rows.len()).expect("fewer than 2^32 elements");
        let rows = &self.rows;
        self.index.insert_unique(hash(row.key()), number, |&row| {
            hash(rows[row as usize].key())
        });
        self.heap += row.heap_bytes();
        self.rows.push(row);
        number as usize
    }

    /// Puts a row of the same key in the place of one.
    pub(crate) fn replace(&mut self, number: usize, row: R) -> R {
        debug_assert!(self.rows[number].key() == row.key(), "the key stays");
        self.heap = self.heap + row.heap_bytes() - self.rows[number].heap_bytes();
        std::mem::replace(&mut self.rows[number], row)
    }

    /// Changes a row in a way that leaves its key and its bytes of memory.
    pub(crate) fn row_mut(&mut self, number: usize) -> &mut R {
        &mut self.rows[number]
    }

    /// Removes a row; the last one takes its number.
    pub(crate) fn remove(&mut self, number: usize) -> R {
        let last = self.rows.len() - 1;
        self.unlink(number);
        if number != last {
            let moved = hash(self.rows[last].key());
            let entry = self.index.find_mut(moved, |&row| row as usize == last);
            *entry.expect("every row is in the table") = u32::try_from(number).expect("below last");
        }
        let row = self.rows.swap_remove(number);
        self.heap -= row.heap_bytes();
        if self.rows.capacity() > 64 && self.rows.len() < self.rows.capacity() / 4 {
            let rows = &self.rows;
            self.index
                .shrink_to(rows.len() * 2, |&row| hash(rows[row as usize].key()));
            self.rows.shrink_to(self.rows.len() * 2);
        }
        row
    }

    fn unlink(&mut self, number: usize) {
        let key = hash(self.rows[number].key());
        let entry = self.index.find_entry(key, |&row| row as usize == number);
        entry.expect("every row is in the table").remove();
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
        for row in self.rows[end..start].iter().rev() {
            visit(row);
        }
        end as u64
    }

    /// Bytes of memory behind this value.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<R>() + self.index.allocation_size() + self.heap
    }
}
