//! Entries whose time is over.

use super::{Engine, Mode};
use crate::entry::Entry;
use crate::keyspace::DATABASES;
use crate::slot::{SHARDS, ShardId};

/// Entries that one look visits at most, about.
const LOOK_ENTRIES: usize = 20_000;

impl Engine {
    /// An entry goes because its time is over.
    pub(crate) fn expire(&mut self, database: u8, key: &[u8]) {
        let refuses = |journal: &crate::journal::Journal| journal.refuses().is_some();
        if self.is_paused() || self.journal.as_ref().is_some_and(refuses) {
            // It is not there for anybody, and is removed when clients run again, and the log takes that.
            return;
        }
        // Nobody's own change, whoever came upon it.
        let by = self.changing.take();
        if self.take(database, key).is_some() {
            self.stats.expired += 1;
            self.notify(b'x', "expired", database, key);
        }
        self.changing = by;
    }

    /// Looks for entries whose time is over, in a part of all tables, and removes them. To be called
    /// ten times a second.
    pub fn sweep(&mut self) {
        if self.mode != Mode::Serving || !self.sweeps || self.is_paused() {
            return;
        }
        self.changing = None;
        let mut visited = 0;
        let mut over = Vec::new();
        for _ in 0..SHARDS * DATABASES {
            if visited >= LOOK_ENTRIES {
                break;
            }
            let at = self.sweep % (SHARDS * DATABASES);
            self.sweep = at + 1;
            let (shard, database) = (ShardId((at / DATABASES) as u8), (at % DATABASES) as u8);
            let table = self.keyspace.shard(shard).table(database);
            if table.expiring == 0 {
                continue;
            }
            visited += table.len();
            let is_over = |entry: &&Entry| entry.expires_ms().is_some_and(|ms| ms <= self.now_ms);
            let found = table.iter().filter(is_over);
            over.extend(found.map(|entry| (database, entry.key().to_vec())));
        }
        for (database, key) in over {
            self.expire(database, &key);
        }
        self.after_all();
    }
}
