//! The bound of memory, and which entries go for it.

use super::Engine;
use crate::command::Command;
use crate::entry::Entry;
use crate::eviction::Eviction;
use crate::fault::{Answer, Fault};
use crate::keyspace::DATABASES;
use crate::slot::{SHARDS, ShardId};
use crate::value::Value;

/// Most entries that go for one command.
const EVICTIONS_MAX: usize = 1000;

impl Engine {
    /// Whether entries may become so much longer that the log takes them as a whole. What is refused here
    /// has changed nothing.
    pub(crate) fn may_be_longer(
        &mut self,
        database: u8,
        command: &Command,
        arguments: &[&[u8]],
    ) -> Answer {
        let more: usize = arguments.iter().map(|argument| argument.len() + 5).sum();
        let bytes_max = self.config.entry_bytes_max as u64;
        if !self.has_long && more as u64 <= bytes_max / 2 {
            return Ok(());
        }
        // What these give is not longer by their arguments; the commit looks at it.
        let makes_new = command.name.ends_with("store")
            || ["sort", "copy", "georadius", "georadiusbymember"].contains(&command.name);
        if makes_new {
            return Ok(());
        }
        for index in command.key_indices(arguments) {
            let key = arguments.get(index).copied().unwrap_or_default();
            let entry = self.keyspace.shard(ShardId::of(key)).get(database, key);
            let Some(Entry::Object(object)) = entry else {
                continue;
            };
            // The length of strings is looked at where they are made.
            if matches!(object.value, Value::Text(_)) {
                continue;
            }
            // What the changes since then have, the value has at most.
            let length = object.whole_bytes + object.changes_bytes + more as u64;
            if (object.is_unlogged() || length > bytes_max) && !self.replays() {
                return Err(Fault::text(format!(
                    "ERR the value of this key would take more than the {bytes_max} bytes that the log \
                     keeps of one key; nothing was changed"
                )));
            }
        }
        Ok(())
    }

    /// Bytes that entries take, about. Counted anew when a request comes in another millisecond.
    pub(crate) fn used(&mut self) -> usize {
        if self.used_at != self.now_ms {
            self.used_bytes = self.keyspace.memory_bytes();
            self.used_at = self.now_ms;
        }
        self.used_bytes
    }

    /// Makes room below `maxmemory`.
    pub(crate) fn may_grow(&mut self) -> Answer {
        let max = self.config.maxmemory;
        // What the log has is not refused: it may be of a server that had more.
        if max == 0 || self.replays() || self.is_paused() || self.used() <= max {
            return Ok(());
        }
        self.changing = None;
        let mut used = self.keyspace.memory_bytes();
        for _ in 0..EVICTIONS_MAX {
            if used <= max {
                break;
            }
            let Some((database, key)) = self.victim() else {
                break;
            };
            if let Some(entry) = self.take(database, &key) {
                used = used.saturating_sub(entry.memory_bytes());
                self.stats.evicted += 1;
                self.notify(b'e', "evicted", database, &key);
            }
        }
        self.used_at = u64::MAX;
        match used <= max {
            true => Ok(()),
            false => Err(Fault::of(
                "OOM command not allowed when used memory > 'maxmemory'.",
            )),
        }
    }

    /// The entry that is missed least, of some that are looked at.
    fn victim(&mut self) -> Option<(u8, Vec<u8>)> {
        let policy = self.config.eviction;
        if policy == Eviction::None {
            return None;
        }
        let samples = self.config.maxmemory_samples.max(1);
        let mut best: Option<(u64, u8, Vec<u8>)> = None;
        let mut seen = 0;
        // A table may have none that may go, so all are tried.
        let start = self.rng.index(SHARDS * DATABASES);
        for step in 0..SHARDS * DATABASES {
            if seen >= samples {
                break;
            }
            let at = (start + step * 17) % (SHARDS * DATABASES);
            let (shard, database) = (ShardId((at / DATABASES) as u8), (at % DATABASES) as u8);
            let table = self.keyspace.shard(shard).table(database);
            if table.is_empty() || (policy.is_volatile() && table.expiring == 0) {
                continue;
            }
            let random = self.rng.next_u64();
            let may_go = |entry: &&Entry| !policy.is_volatile() || entry.expires_ms().is_some();
            let sample = table.sample(random, table.len().min(samples * 4));
            for entry in sample.filter(may_go).take(2) {
                seen += 1;
                let worth = policy.worth(entry, self.now_ms, random);
                if best.as_ref().is_none_or(|(least, ..)| worth < *least) {
                    best = Some((worth, database, entry.key().to_vec()));
                }
            }
        }
        best.map(|(_, database, key)| (database, key))
    }
}
