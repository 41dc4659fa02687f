//! Entries, as commands use them.

use super::typed::Outcome;
use super::{Engine, Mode};
use crate::changes::Dirty;
use crate::entry::{Entry, Flags, TEXT_BYTES_MAX};
use crate::fault::{Fault, WRONG_TYPE};
use crate::record;
use crate::slot::ShardId;
use crate::value::Value;

/// Collections smaller than this are logged as a whole whenever they change.
pub(crate) const WHOLE_BYTES_MAX: usize = 512;

impl Engine {
    /// Remembers that what is answered has to be durable first.
    fn note_due(&mut self, shard: ShardId) {
        if let Some(journal) = &self.journal {
            self.due = self.due.max(journal.due(shard));
        }
    }

    /// As [`Engine::note_due`], for an answer that tells something of all keys.
    pub(crate) fn note_due_all(&mut self) {
        if let Some(journal) = &self.journal {
            self.due = self.due.max(journal.due_all());
        }
    }

    pub(super) fn is_over(&self, entry: &Entry) -> bool {
        self.mode == Mode::Serving && entry.expires_ms().is_some_and(|at| at <= self.now_ms)
    }

    /// Removes an entry whose time is over; says whether an entry is there.
    fn settle(&mut self, database: u8, shard: ShardId, key: &[u8]) -> bool {
        self.note_due(shard);
        let entry = self.keyspace.shard(shard).get(database, key);
        match entry {
            None => false,
            Some(entry) if self.is_over(entry) => {
                self.expire(database, key);
                false
            }
            Some(_) => true,
        }
    }

    /// Whether a key has an entry. It does not count as a use.
    pub(crate) fn exists(&mut self, database: u8, key: &[u8]) -> bool {
        self.settle(database, ShardId::of(key), key)
    }

    /// An entry; it does not count as a use.
    pub(crate) fn peek(&mut self, database: u8, key: &[u8]) -> Option<&Entry> {
        let shard = ShardId::of(key);
        match self.settle(database, shard, key) {
            true => self.keyspace.shard(shard).get(database, key),
            false => None,
        }
    }

    /// An entry that is read.
    pub(crate) fn read(&mut self, database: u8, key: &[u8]) -> Option<&Entry> {
        let shard = ShardId::of(key);
        self.note_due(shard);
        let now_ms = self.now_ms;
        // Where nothing expires the entry is looked up once.
        if self.keyspace.shard(shard).table(database).expiring > 0
            && let Some(entry) = self.keyspace.shard(shard).get(database, key)
            && self.is_over(entry)
        {
            self.expire(database, key);
            self.stats.misses += 1;
            return None;
        }
        match self.keyspace.shard_mut(shard).get_mut(database, key) {
            None => {
                self.stats.misses += 1;
                None
            }
            Some(entry) => {
                self.stats.hits += 1;
                self.config.eviction.used(entry, now_ms, &mut self.rng);
                Some(entry)
            }
        }
    }

    /// A string that is read.
    pub(crate) fn text(&mut self, database: u8, key: &[u8]) -> Result<Option<&[u8]>, Fault> {
        match self.read(database, key) {
            None => Ok(None),
            Some(entry) => entry.as_text().map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// An entry of a key gets another value, and expires at another time. What was there is gone.
    pub(crate) fn put(&mut self, database: u8, key: &[u8], value: Value, expires_ms: Option<u64>) {
        let access = self.config.eviction.fresh(self.now_ms);
        self.insert(database, Entry::new(key, value, expires_ms, access));
    }

    /// As [`Engine::put`], of a string.
    pub(crate) fn put_text(
        &mut self,
        database: u8,
        key: &[u8],
        text: &[u8],
        expires_ms: Option<u64>,
    ) {
        if text.len() > TEXT_BYTES_MAX {
            return self.put(database, key, Value::Text(text.to_vec()), expires_ms);
        }
        let access = self.config.eviction.fresh(self.now_ms);
        let shard = ShardId::of(key);
        self.keep(database, key);
        if expires_ms.is_none()
            && let Some(entry) = self.keyspace.shard_mut(shard).get_mut(database, key)
            && entry.overwrite(text)
        {
            entry.set_access(access);
            entry.set_flag(Flags::RAW, false);
            if !entry.has(Flags::WHOLE) {
                entry.set_flag(Flags::WHOLE, true);
                self.changes.note_whole(database, shard, key);
            }
            return self.signal(database, key);
        }
        self.insert(database, Entry::text(key, text, expires_ms, access));
    }

    fn insert(&mut self, database: u8, entry: Entry) {
        let key: Box<[u8]> = entry.key().into();
        let shard = ShardId::of(&key);
        self.keep(database, &key);
        let old = self.keyspace.shard_mut(shard).insert(database, entry);
        if let Some(mut old) = old {
            self.bury_changes(shard, &mut old);
            // The new record takes the old one's place.
            if let Some(position) = old.position()
                && let Some(entry) = self.keyspace.shard_mut(shard).get_mut(database, &key)
            {
                entry.set_position(Some(position));
            }
        }
        self.touch(database, &key);
    }

    /// Records of changes of an entry are dead.
    fn bury_changes(&mut self, shard: ShardId, entry: &mut Entry) {
        if let Entry::Object(object) = entry {
            let graves = object.changes.drain(..).map(|position| (shard, position));
            self.changes.graves.extend(graves);
            object.changes_bytes = 0;
        }
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, database: u8, key: &[u8]) -> Option<Entry> {
        let shard = ShardId::of(key);
        if !self.settle(database, shard, key) {
            return None;
        }
        self.take(database, key)
    }

    /// As [`Engine::remove`], whether or not its time is over.
    pub(crate) fn take(&mut self, database: u8, key: &[u8]) -> Option<Entry> {
        let shard = ShardId::of(key);
        self.keep(database, key);
        let mut entry = self.keyspace.shard_mut(shard).remove(database, key)?;
        self.bury(shard, &mut entry);
        self.signal(database, key);
        Some(entry)
    }

    /// All records of an entry are dead.
    pub(crate) fn bury(&mut self, shard: ShardId, entry: &mut Entry) {
        self.bury_changes(shard, entry);
        if let Some(position) = entry.position() {
            self.changes.graves.push((shard, position));
            entry.set_position(None);
        }
    }

    /// Changes a value in place. The entry goes where that leaves nothing in a collection. The log
    /// gets it as a whole, or, of a large one, the command that `change` gives.
    pub(crate) fn update<T: Outcome>(
        &mut self,
        database: u8,
        key: &[u8],
        change: Option<&[&[u8]]>,
        work: impl FnOnce(&mut Value) -> T,
    ) -> Option<T> {
        let shard = ShardId::of(key);
        self.keep(database, key);
        let entry = self.keyspace.shard_mut(shard).get_mut(database, key)?;
        let (before, result, after, empty);
        match entry {
            Entry::Text(_) => {
                // A short string becomes a value for the time being.
                let (mut value, expires) = (entry.to_value(), entry.expires_ms());
                result = work(&mut value);
                let (position, access) = (entry.position(), entry.access());
                let whole = entry.has(Flags::WHOLE);
                let mut new = Entry::new(key, value, expires, access);
                new.set_position(position);
                new.set_flag(Flags::WHOLE, whole);
                new.set_flag(Flags::RAW, true);
                before = entry.memory_bytes();
                *entry = new;
                (after, empty) = (entry.memory_bytes(), false);
            }
            Entry::Object(_) => {
                before = entry.memory_bytes();
                let Entry::Object(object) = entry else {
                    return None;
                };
                result = work(&mut object.value);
                empty = object.value.is_empty();
                entry.count_memory(false);
                after = entry.memory_bytes();
            }
        }
        let table = self.keyspace.shard_mut(shard).table_mut(database);
        table.bytes = (table.bytes + after).saturating_sub(before);
        if empty {
            self.take(database, key);
        } else if result.changed() {
            match change {
                Some(change) => self.touch_with(database, key, change),
                None => self.touch(database, key),
            }
        }
        Some(result)
    }

    /// Sets when an entry goes.
    pub(crate) fn set_expiry(&mut self, database: u8, key: &[u8], expires_ms: Option<u64>) {
        let shard = ShardId::of(key);
        self.keep(database, key);
        let Some(entry) = self.keyspace.shard_mut(shard).get_mut(database, key) else {
            return;
        };
        let before = (entry.memory_bytes(), entry.expires_ms().is_some());
        entry.set_expires_ms(expires_ms);
        let after = (entry.memory_bytes(), entry.expires_ms().is_some());
        let table = self.keyspace.shard_mut(shard).table_mut(database);
        table.bytes = (table.bytes + after.0).saturating_sub(before.0);
        table.expiring =
            (table.expiring + usize::from(after.1)).saturating_sub(usize::from(before.1));
        let at = expires_ms.map(|at| at.to_string());
        match &at {
            Some(at) => self.touch_with(database, key, &[b"PEXPIREAT", key, at.as_bytes()]),
            None => self.touch_with(database, key, &[b"PERSIST", key]),
        }
    }

    /// The log has to get an entry as a whole.
    pub(crate) fn touch(&mut self, database: u8, key: &[u8]) {
        self.signal(database, key);
        let shard = ShardId::of(key);
        let entry = self.keyspace.shard_mut(shard).get_mut(database, key);
        if let Some(entry) = entry.filter(|entry| !entry.has(Flags::WHOLE)) {
            entry.set_flag(Flags::WHOLE, true);
            self.changes.note_whole(database, shard, key);
        }
    }

    /// The log has to get a change of an entry: a command that gives the same whenever it is run, on
    /// this key alone. A small entry is logged as a whole.
    pub(crate) fn touch_with(&mut self, database: u8, key: &[u8], change: &[&[u8]]) {
        let shard = ShardId::of(key);
        let bytes = change
            .iter()
            .map(|argument| argument.len() + 4)
            .sum::<usize>();
        let entry = self.keyspace.shard_mut(shard).get_mut(database, key);
        let small = match entry {
            Some(Entry::Object(object)) => {
                let whole = object.whole_bytes;
                object.is_unlogged()
                    || whole < WHOLE_BYTES_MAX as u64
                    || object.changes_bytes + bytes as u64 > whole
            }
            _ => true,
        };
        if small {
            return self.touch(database, key);
        }
        self.signal(database, key);
        let entry = self.keyspace.shard_mut(shard).get_mut(database, key);
        let Some(entry) = entry.filter(|entry| !entry.has(Flags::WHOLE)) else {
            return;
        };
        entry.set_flag(Flags::CHANGED, true);
        let mut body = Vec::with_capacity(bytes + 4);
        record::push_arguments(&mut body, change);
        self.changes.dirty.push(Dirty {
            database,
            shard,
            key: key.into(),
            change: Some(body),
        });
    }

    /// Tells those who wait for a key, or watch it.
    pub(crate) fn signal(&mut self, database: u8, key: &[u8]) {
        self.stats.changes += 1;
        if self.tracking.is_on() {
            self.invalidate(key);
        }
        if self.waiters.is_empty() && self.watchers.is_empty() {
            return;
        }
        let place = (database, key.into());
        self.waiters.changed(&place);
        for token in self.watchers.of(&place).to_vec() {
            self.broken.push(token);
        }
    }

    /// Whether changes of the log are made again.
    pub(crate) fn replays(&self) -> bool {
        self.mode == Mode::Replaying
    }

    /// The type of an entry, as TYPE answers it.
    pub(crate) fn type_of(entry: &Entry) -> &'static str {
        match entry.as_value() {
            None => "string",
            Some(value) => value.type_name(),
        }
    }
}
