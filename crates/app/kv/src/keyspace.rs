//! All entries: a table for each shard and database.

use crate::entry::{Entry, allocated};
use crate::slot::{SHARDS, ShardId};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

/// Databases that SELECT knows.
pub(crate) const DATABASES: usize = 16;

/// Bits of a cursor that say where in a shard it is.
const CURSOR_BITS: u32 = 56;

/// The entries of one shard of one database.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: HashTable<Entry>,
    /// How many of them expire.
    pub(crate) expiring: usize,
    /// What they take, about.
    pub(crate) bytes: usize,
}

/// One shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    hasher: DefaultHashBuilder,
    tables: [Table; DATABASES],
}

impl Shard {
    fn new(hasher: DefaultHashBuilder) -> Shard {
        Shard {
            hasher,
            tables: std::array::from_fn(|_| Table::default()),
        }
    }

    /// The entries of a database.
    pub(crate) fn table(&self, database: u8) -> &Table {
        &self.tables[usize::from(database) % DATABASES]
    }

    /// As [`Shard::table`], to change it.
    pub(crate) fn table_mut(&mut self, database: u8) -> &mut Table {
        &mut self.tables[usize::from(database) % DATABASES]
    }

    /// Makes room for so many entries of a database.
    pub(crate) fn reserve(&mut self, database: u8, entries: usize) {
        let hasher = self.hasher.clone();
        let table = self.table_mut(database);
        table
            .entries
            .reserve(entries, |entry| hasher.hash_one(entry.key()));
    }

    /// Gives room back that a database does not need.
    pub(crate) fn fit(&mut self, database: u8) {
        let hasher = self.hasher.clone();
        let table = self.table_mut(database);
        if table.entries.len() * 2 < table.entries.capacity() {
            table
                .entries
                .shrink_to(0, |entry| hasher.hash_one(entry.key()));
        }
    }

    /// Gives two databases each other's entries.
    pub(crate) fn swap(&mut self, one: u8, other: u8) {
        self.tables
            .swap(usize::from(one) % DATABASES, usize::from(other) % DATABASES);
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// An entry.
    pub(crate) fn get(&self, database: u8, key: &[u8]) -> Option<&Entry> {
        let hash = self.hash(key);
        let table = self.table(database);
        table.entries.find(hash, |entry| entry.key() == key)
    }

    /// An entry, to change it. Who changes how much memory it takes, or whether it expires, says so
    /// with [`Table::bytes`] and [`Table::expiring`].
    pub(crate) fn get_mut(&mut self, database: u8, key: &[u8]) -> Option<&mut Entry> {
        let hash = self.hash(key);
        let table = self.table_mut(database);
        table.entries.find_mut(hash, |entry| entry.key() == key)
    }

    /// Puts an entry in place of the one of its key, which it returns.
    pub(crate) fn insert(&mut self, database: u8, entry: Entry) -> Option<Entry> {
        let hash = self.hash(entry.key());
        let hasher = self.hasher.clone();
        let table = self.table_mut(database);
        table.bytes += entry.memory_bytes();
        table.expiring += usize::from(entry.expires_ms().is_some());
        if let Some(place) = table.entries.find_mut(hash, |old| old.key() == entry.key()) {
            let old = std::mem::replace(place, entry);
            table.left(&old);
            return Some(old);
        }
        let rehash = |entry: &Entry| hasher.hash_one(entry.key());
        table.entries.insert_unique(hash, entry, rehash);
        None
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, database: u8, key: &[u8]) -> Option<Entry> {
        let hash = self.hash(key);
        let table = self.table_mut(database);
        let found = table.entries.find_entry(hash, |entry| entry.key() == key);
        let (entry, _) = found.ok()?.remove();
        table.left(&entry);
        // Half of the memory at least is given back where most entries went.
        if table.entries.capacity() > 64 && table.entries.len() * 8 < table.entries.capacity() {
            let hasher = self.hasher.clone();
            let table = self.table_mut(database);
            let len = table.entries.len();
            table
                .entries
                .shrink_to(len * 2, |entry| hasher.hash_one(entry.key()));
        }
        Some(entry)
    }

    /// Visits entries of a database from a place in the order of their hashes, about `count`, and
    /// returns where the next call goes on; `None` at the end. The order never changes, so an entry
    /// that is there all the time is seen.
    fn scan<'a>(
        &'a self,
        database: u8,
        from: u64,
        count: usize,
        visit: &mut dyn FnMut(&'a Entry),
    ) -> Option<u64> {
        let place = |entry: &Entry| self.hash(entry.key()) >> (64 - CURSOR_BITS);
        let mut found: Vec<(u64, &Entry)> = self
            .table(database)
            .entries
            .iter()
            .map(|entry| (place(entry), entry))
            .filter(|(place, _)| *place >= from)
            .collect();
        let mut next = None;
        if found.len() > count {
            let (_, (at, _), _) = found.select_nth_unstable_by_key(count, |(place, _)| *place);
            let at = *at;
            // Those of one place go together.
            let at = match at == from {
                true => at + 1,
                false => at,
            };
            found.retain(|(place, _)| *place < at);
            next = Some(at);
        }
        found.into_iter().for_each(|(_, entry)| visit(entry));
        next
    }
}

impl Table {
    fn left(&mut self, entry: &Entry) {
        self.bytes = self.bytes.saturating_sub(entry.memory_bytes());
        self.expiring = self
            .expiring
            .saturating_sub(usize::from(entry.expires_ms().is_some()));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// All, in no order, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// Takes all entries out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        let table = std::mem::take(self);
        table.entries.into_iter()
    }

    /// About `count` entries that stand together, from a random place: a sample.
    pub(crate) fn sample(&self, random: u64, count: usize) -> impl Iterator<Item = &Entry> {
        let len = self.entries.len().max(1) as u64;
        let skip = (random % len) as usize;
        let (front, back) = (self.entries.iter(), self.entries.iter());
        back.skip(skip).chain(front.take(skip)).take(count)
    }

    /// What it takes, about, with the table itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + allocated(self.entries.capacity() * 8 / 7 * (size_of::<Entry>() + 1))
    }
}

/// All shards.
#[derive(Debug)]
pub(crate) struct Keyspace {
    shards: Vec<Shard>,
}

impl Default for Keyspace {
    fn default() -> Keyspace {
        let hasher = DefaultHashBuilder::default();
        Keyspace {
            shards: (0..SHARDS).map(|_| Shard::new(hasher.clone())).collect(),
        }
    }
}

impl Keyspace {
    /// All shards, each for itself.
    pub(crate) fn into_shards(self) -> Vec<Shard> {
        self.shards
    }

    /// Of shards that [`Keyspace::into_shards`] gave.
    pub(crate) fn from_shards(shards: Vec<Shard>) -> Keyspace {
        assert_eq!(shards.len(), SHARDS, "all shards of a keyspace");
        Keyspace { shards }
    }

    /// One shard. There is one for each [`ShardId`].
    pub(crate) fn shard(&self, shard: ShardId) -> &Shard {
        &self.shards[shard.index() % SHARDS]
    }

    /// As [`Keyspace::shard`], to change it.
    pub(crate) fn shard_mut(&mut self, shard: ShardId) -> &mut Shard {
        &mut self.shards[shard.index() % SHARDS]
    }

    /// All tables of a database.
    pub(crate) fn tables(&self, database: u8) -> impl Iterator<Item = &Table> {
        self.shards.iter().map(move |shard| shard.table(database))
    }

    /// Entries of a database.
    pub(crate) fn len(&self, database: u8) -> usize {
        self.tables(database).map(Table::len).sum()
    }

    /// What all entries take, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let tables = self.shards.iter().flat_map(|shard| &shard.tables);
        tables.map(Table::memory_bytes).sum()
    }

    /// Where [`Keyspace::scan`] comes by a key: it has been, if its next cursor is above.
    pub(crate) fn cursor_of(&self, key: &[u8]) -> u64 {
        let shard = ShardId::of(key);
        let place = self.shard(shard).hash(key) >> (64 - CURSOR_BITS);
        (shard.index() as u64) << CURSOR_BITS | place
    }

    /// Entries of the table that a cursor is in.
    pub(crate) fn table_len(&self, database: u8, cursor: u64) -> usize {
        let shard = self.shards.get((cursor >> CURSOR_BITS) as usize);
        shard.map_or(0, |shard| shard.table(database).len())
    }

    /// Visits about `count` entries from a cursor on; returns the next, 0 at the end.
    pub(crate) fn scan<'a>(
        &'a self,
        database: u8,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&'a Entry),
    ) -> u64 {
        let mut left = count.max(1);
        let mut shard = (cursor >> CURSOR_BITS) as usize;
        let mut from = cursor & ((1 << CURSOR_BITS) - 1);
        while let Some(table) = self.shards.get(shard) {
            let mut seen = 0;
            let next = table.scan(database, from, left, &mut |entry| {
                seen += 1;
                visit(entry);
            });
            if let Some(next) = next {
                return (shard as u64) << CURSOR_BITS | next;
            }
            shard += 1;
            from = 0;
            left = left.saturating_sub(seen);
            if left == 0 {
                break;
            }
        }
        match shard < SHARDS {
            true => (shard as u64) << CURSOR_BITS,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(number: u32) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    fn put(keyspace: &mut Keyspace, number: u32) {
        let key = key(number);
        let entry = Entry::text(&key, b"v", None, 0);
        keyspace.shard_mut(ShardId::of(&key)).insert(3, entry);
    }

    #[test]
    fn a_scan_sees_all_that_is_there_all_the_time_while_tables_grow_and_shrink() {
        let mut keyspace = Keyspace::default();
        (0..5000).for_each(|number| put(&mut keyspace, number));
        let mut seen = BTreeSet::new();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            cursor = keyspace.scan(3, cursor, 7, |entry| {
                seen.insert(entry.key().to_vec());
            });
            calls += 1;
            if cursor == 0 {
                break;
            }
            put(&mut keyspace, 10_000 + calls * 3);
            let gone = key(2000 + calls);
            keyspace.shard_mut(ShardId::of(&gone)).remove(3, &gone);
        }
        assert!(calls > 500);
        (0..2000).for_each(|number| assert!(seen.contains(&key(number)), "{number}"));
        assert_eq!(
            keyspace.scan(0, 0, 10, |_| panic!("database 0 is empty")),
            0
        );
    }

    #[test]
    fn sizes_are_kept() {
        let mut keyspace = Keyspace::default();
        (0..100).for_each(|number| put(&mut keyspace, number));
        assert_eq!(keyspace.len(3), 100);
        (0..100).for_each(|number| put(&mut keyspace, number));
        for number in 0..100 {
            let key = key(number);
            let shard = keyspace.shard_mut(ShardId::of(&key));
            assert!(shard.remove(3, &key).is_some());
            assert!(shard.get(3, &key).is_none());
        }
        assert!(keyspace.tables(3).all(|table| table.bytes == 0));
    }
}
