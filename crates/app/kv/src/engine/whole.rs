//! Whole databases.

use super::Engine;
use crate::entry::{Entry, Flags};
use crate::keyspace::DATABASES;
use crate::slot::{SHARDS, ShardId};

impl Engine {
    /// Removes all entries of a database, or of all.
    pub(crate) fn clear(&mut self, only: Option<u8>) {
        self.keep_all();
        for shard in (0..SHARDS).map(|shard| ShardId(shard as u8)) {
            for database in 0..DATABASES as u8 {
                if only.is_some_and(|only| only != database) {
                    continue;
                }
                let entries: Vec<Entry> = self
                    .keyspace
                    .shard_mut(shard)
                    .table_mut(database)
                    .drain()
                    .collect();
                for mut entry in entries {
                    self.stats.changes += 1;
                    self.bury(shard, &mut entry);
                }
            }
        }
        self.signal_all(only);
        if self.tracking.is_on() {
            self.invalidate_all();
        }
    }

    /// Gives the entries of two databases to each other.
    pub(crate) fn swap_databases(&mut self, one: u8, other: u8) {
        self.keep_all();
        for shard in (0..SHARDS).map(|shard| ShardId(shard as u8)) {
            let tables = self.keyspace.shard_mut(shard);
            tables.swap(one, other);
            for database in [one, other] {
                for entry in tables.table_mut(database).iter_mut() {
                    // One that was changed before, in the same transaction, is noted under its old
                    // database: all are noted anew, and each is logged once.
                    entry.set_flag(Flags::WHOLE, true);
                    self.changes.note_whole(database, shard, entry.key());
                }
            }
        }
        self.signal_all(Some(one));
        self.signal_all(Some(other));
    }

    fn signal_all(&mut self, database: Option<u8>) {
        self.waiters.all_changed(database);
        for place in self.watchers.places(database) {
            self.broken.extend_from_slice(self.watchers.of(&place));
        }
    }
}
