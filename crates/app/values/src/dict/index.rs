//! From hashes to numbers of rows, in tables of bounded size.
//!
//! A table that is full is split in two by one more bit of the hashes (extendible hashing), so that
//! adding a row never costs more than the rehashing of one table, however many rows there are.

use hashbrown::HashTable;

/// Rows of a table that is split before it takes one more.
const TABLE_MAX: usize = 1 << 13;

/// Gives the hash of a row's key.
pub(super) type HashOf<'a> = &'a dyn Fn(u32) -> u64;

#[derive(Debug, Clone)]
pub(super) enum Index {
    One(HashTable<u32>),
    Many(Box<Split>),
}

#[derive(Debug, Clone)]
pub(super) struct Split {
    tables: Vec<Table>,
    /// Which table has the hashes that end, above [`SHIFT`], in these bits; a power of two of them.
    directory: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Table {
    rows: HashTable<u32>,
    /// How many bits all its hashes have in common.
    bits: u32,
}

/// The tables themselves use the lowest and the highest bits of hashes.
const SHIFT: u32 = 24;

impl Split {
    fn slot(&self, hash: u64) -> usize {
        (hash >> SHIFT) as usize & (self.directory.len() - 1)
    }

    /// Splits a table by its next bit.
    fn split(&mut self, number: usize, hash_of: HashOf<'_>) {
        let bits = self.tables[number].bits;
        if 1usize << bits == self.directory.len() {
            self.directory.extend_from_within(..);
        }
        let old = std::mem::take(&mut self.tables[number].rows);
        let mut halves = [
            HashTable::with_capacity(old.len() / 2),
            HashTable::with_capacity(old.len() / 2),
        ];
        for row in old {
            let hash = hash_of(row);
            let half = &mut halves[(hash >> SHIFT >> bits) as usize & 1];
            half.insert_unique(hash, row, |&row| hash_of(row));
        }
        let [low, high] = halves;
        let new = u32::try_from(self.tables.len()).expect("fewer tables than rows");
        self.tables[number] = Table {
            rows: low,
            bits: bits + 1,
        };
        self.tables.push(Table {
            rows: high,
            bits: bits + 1,
        });
        for (slot, table) in self.directory.iter_mut().enumerate() {
            if *table as usize == number && slot >> bits & 1 == 1 {
                *table = new;
            }
        }
    }
}

impl Index {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self::One(HashTable::with_capacity(rows.min(TABLE_MAX)))
    }

    fn table(&self, hash: u64) -> &HashTable<u32> {
        match self {
            Self::One(table) => table,
            Self::Many(split) => &split.tables[split.directory[split.slot(hash)] as usize].rows,
        }
    }

    fn table_mut(&mut self, hash: u64) -> &mut HashTable<u32> {
        match self {
            Self::One(table) => table,
            Self::Many(split) => {
                let slot = split.slot(hash);
                &mut split.tables[split.directory[slot] as usize].rows
            }
        }
    }

    pub(super) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.table(hash).find(hash, |&row| is(row)).copied()
    }

    pub(super) fn insert(&mut self, hash: u64, row: u32, hash_of: HashOf<'_>) {
        while self.table(hash).len() >= TABLE_MAX {
            if let Self::One(table) = self {
                let rows = std::mem::take(table);
                let split = Split {
                    tables: vec![Table { rows, bits: 0 }],
                    directory: vec![0],
                };
                *self = Self::Many(Box::new(split));
            }
            if let Self::Many(split) = self {
                let number = split.directory[split.slot(hash)];
                // Only hashes that agree in all bits could not be told apart; they do not occur
                // thousands of times in keyed hashes.
                if split.tables[number as usize].bits >= 32 {
                    break;
                }
                split.split(number as usize, hash_of);
            }
        }
        self.table_mut(hash)
            .insert_unique(hash, row, |&row| hash_of(row));
    }

    /// Gives a row another number.
    pub(super) fn renumber(&mut self, hash: u64, from: u32, to: u32) {
        let entry = self.table_mut(hash).find_mut(hash, |&row| row == from);
        *entry.expect("every row is in the index") = to;
    }

    pub(super) fn remove(&mut self, hash: u64, row: u32, hash_of: HashOf<'_>) {
        let table = self.table_mut(hash);
        let entry = table.find_entry(hash, |&own| own == row);
        entry.expect("every row is in the index").remove();
        if table.capacity() > 64 && table.len() < table.capacity() / 4 {
            let capacity = table.len() * 2;
            table.shrink_to(capacity, |&row| hash_of(row));
        }
    }

    /// Makes one table of several that have become small.
    pub(super) fn gather(&mut self, rows: usize, hash_of: HashOf<'_>) {
        if rows > TABLE_MAX / 4 {
            return;
        }
        if let Self::Many(split) = self {
            let mut table = HashTable::with_capacity(rows);
            for row in split.tables.iter().flat_map(|table| table.rows.iter()) {
                table.insert_unique(hash_of(*row), *row, |&row| hash_of(row));
            }
            *self = Self::One(table);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::One(table) => table.allocation_size(),
            Self::Many(split) => {
                let tables: usize = split
                    .tables
                    .iter()
                    .map(|table| table.rows.allocation_size())
                    .sum();
                let own =
                    split.tables.capacity() * size_of::<Table>() + split.directory.capacity() * 4;
                size_of::<Split>() + own + tables
            }
        }
    }
}
