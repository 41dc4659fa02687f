//! Groups of consumers.

mod claim;
mod deliver;

use std::collections::{BTreeMap, BTreeSet};

pub use claim::{Claim, Claimed, Sweep, Swept};

use super::{Stream, StreamId};

/// A group: what it has read, and what its consumers have yet to acknowledge.
#[derive(Debug, Clone, Default)]
pub struct Group {
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: BTreeMap<StreamId, PendingEntry>,
    consumers: BTreeMap<u32, Consumer>,
    names: BTreeMap<Vec<u8>, u32>,
    /// The number of the next new consumer.
    next: u32,
}

/// A delivery that is not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingEntry {
    consumer: u32,
    delivered_ms: u64,
    deliveries: u64,
}

/// A consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    name: Vec<u8>,
    /// When it was heard of last, in milliseconds since the epoch.
    pub seen_ms: u64,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Ids that it has yet to acknowledge.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = StreamId> + '_ {
        self.pending.iter().copied()
    }
}

/// What XPENDING says of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending<'a> {
    /// The entry.
    pub id: StreamId,
    /// Who has it.
    pub consumer: &'a [u8],
    /// When it was delivered last, in milliseconds since the epoch.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl Group {
    pub(crate) fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self {
            last_id,
            entries_read,
            ..Self::default()
        }
    }

    /// The last id that was delivered.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// How many entries it has read, where that is known.
    #[must_use]
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// Sets what it has read (XGROUP SETID).
    pub fn set_id(&mut self, last_id: StreamId, entries_read: Option<u64>) {
        self.last_id = last_id;
        self.entries_read = entries_read;
    }

    /// Makes a consumer (XGROUP CREATECONSUMER); false if there is one of that name.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: u64) -> bool {
        if self.names.contains_key(name) {
            return false;
        }
        self.next += 1;
        self.names.insert(name.to_vec(), self.next);
        let consumer = Consumer {
            name: name.to_vec(),
            seen_ms: now_ms,
            pending: BTreeSet::new(),
        };
        self.consumers.insert(self.next, consumer);
        true
    }

    /// Removes a consumer and its deliveries (XGROUP DELCONSUMER); returns how many these were.
    pub fn delete_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers.remove(&number)?;
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<&Consumer> {
        self.consumers.get(self.names.get(name)?)
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.names
            .values()
            .filter_map(|number| self.consumers.get(number))
    }

    /// Notes that a consumer was heard of, making it if there is none of that name.
    pub fn touch(&mut self, name: &[u8], now_ms: u64) {
        self.number(name, now_ms);
    }

    /// Acknowledges a delivery (XACK); returns whether there was one.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(entry) = self.pending.remove(&id) else {
            return false;
        };
        if let Some(consumer) = self.consumers.get_mut(&entry.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Deliveries that are not acknowledged.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// The first and the last id that is not acknowledged.
    #[must_use]
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        let (first, _) = self.pending.first_key_value()?;
        let (last, _) = self.pending.last_key_value()?;
        Some((*first, *last))
    }

    /// Deliveries that are not acknowledged, from `start` to `end`, both included (XPENDING).
    pub fn pending(&self, start: StreamId, end: StreamId) -> impl Iterator<Item = Pending<'_>> {
        let range = (start <= end).then(|| self.pending.range(start..=end));
        range
            .into_iter()
            .flatten()
            .filter_map(|(id, entry)| self.describe(*id, entry))
    }

    /// The same of one consumer.
    pub fn pending_of(
        &self,
        name: &[u8],
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = Pending<'_>> {
        let consumer = self.consumer(name).filter(|_| start <= end);
        let ids = consumer.map(|consumer| consumer.pending.range(start..=end));
        ids.into_iter()
            .flatten()
            .filter_map(|id| self.describe(*id, self.pending.get(id)?))
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let id = size_of::<StreamId>();
        let pending = self.pending.len() * (2 * id + size_of::<PendingEntry>()) * 4 / 3;
        let names: usize = self.names.keys().map(|name| 2 * name.len() + 28).sum();
        pending + names + self.consumers.len() * (size_of::<Consumer>() + 4)
    }

    /// Takes a consumer of a dump. None if the name is taken.
    pub(crate) fn push_consumer(&mut self, name: &[u8], seen_ms: u64) -> Option<()> {
        self.create_consumer(name, seen_ms).then_some(())
    }

    /// Takes a delivery of a dump. None if the id comes twice or there is no such consumer.
    pub(crate) fn push_pending(
        &mut self,
        id: StreamId,
        name: &[u8],
        delivered_ms: u64,
        deliveries: u64,
    ) -> Option<()> {
        let consumer = *self.names.get(name)?;
        let entry = PendingEntry {
            consumer,
            delivered_ms,
            deliveries,
        };
        self.consumers.get_mut(&consumer)?.pending.insert(id);
        self.pending.insert(id, entry).is_none().then_some(())
    }

    fn describe(&self, id: StreamId, entry: &PendingEntry) -> Option<Pending<'_>> {
        let consumer = self.consumers.get(&entry.consumer)?;
        let PendingEntry {
            delivered_ms,
            deliveries,
            ..
        } = *entry;
        Some(Pending {
            id,
            consumer: &consumer.name,
            delivered_ms,
            deliveries,
        })
    }

    /// The number of a consumer, which is made if there is none of that name.
    fn number(&mut self, name: &[u8], now_ms: u64) -> u32 {
        self.create_consumer(name, now_ms);
        let number = self.names.get(name).copied().unwrap_or(0);
        if let Some(consumer) = self.consumers.get_mut(&number) {
            consumer.seen_ms = now_ms;
        }
        number
    }

    /// Gives a delivery to a consumer, taking it from the one that has it.
    fn assign(&mut self, id: StreamId, entry: PendingEntry) {
        let before = self.pending.insert(id, entry);
        if let Some(owner) = before.and_then(|before| self.consumers.get_mut(&before.consumer)) {
            owner.pending.remove(&id);
        }
        if let Some(owner) = self.consumers.get_mut(&entry.consumer) {
            owner.pending.insert(id);
        }
    }
}

/// Numbers of consumers do not count.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.last_id == other.last_id
            && self.entries_read == other.entries_read
            && self.consumers().eq(other.consumers())
            && self
                .pending(StreamId::MIN, StreamId::MAX)
                .eq(other.pending(StreamId::MIN, StreamId::MAX))
    }
}

impl Stream {
    /// How many entries a group has yet to read, where that is known (XINFO GROUPS: lag). Below 0 where
    /// a command said that it has read more than there were, as in Redis.
    #[must_use]
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_deleted_from(group.last_id) => read,
            _ => self.position(group.last_id)?,
        };
        Some(
            self.entries_added
                .cast_signed()
                .saturating_sub_unsigned(read),
        )
    }

    /// Whether an entry between `start` and the end may have been deleted by XDEL.
    pub(super) fn has_deleted_from(&self, start: StreamId) -> bool {
        self.length > 0
            && self.max_deleted_id != StreamId::MIN
            && self.first_id() <= self.max_deleted_id
            && start <= self.max_deleted_id
    }

    /// How many entries were ever added up to an id, where that can be told.
    pub(super) fn position(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id == self.last_id {
            return Some(self.entries_added);
        }
        let first = self.first_id();
        if id > self.last_id
            || (self.max_deleted_id != StreamId::MIN && self.max_deleted_id >= first)
        {
            return None;
        }
        let before = self.entries_added.saturating_sub(self.length as u64);
        match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before + 1),
            std::cmp::Ordering::Greater => None,
        }
    }
}
