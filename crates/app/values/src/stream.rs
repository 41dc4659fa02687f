//! Streams: entries by id, and groups of consumers.
//!
//! Entries lie in listpacks of Redis's stream format, each under the id of its first entry, so that
//! a stream costs little more than its bytes, and DUMP and RDB files copy the nodes as they are.

mod append;
mod group;
mod id;
mod node;
mod read;
#[cfg(test)]
mod tests;
mod trim;

use std::collections::BTreeMap;

pub use append::NewId;
pub use group::{Claim, Claimed, Consumer, Group, Pending, Sweep, Swept};
pub use id::StreamId;
pub use read::StreamEntry;
pub use trim::TrimBy;

use crate::{error::ValueError, listpack::Listpack};

/// A stream. It stays when its last entry goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    nodes: BTreeMap<StreamId, Listpack>,
    length: usize,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: BTreeMap<Vec<u8>, Group>,
}

/// What a dump says of a stream besides its nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) length: u64,
    pub(crate) last_id: StreamId,
    pub(crate) max_deleted_id: StreamId,
    pub(crate) entries_added: u64,
}

impl Stream {
    /// Without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries (XLEN).
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The highest id that was ever given.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The id of the first entry; 0-0 without entries.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        self.iter(StreamId::MIN, StreamId::MAX)
            .next()
            .map_or(StreamId::MIN, |entry| entry.id)
    }

    /// The highest id that XDEL removed.
    #[must_use]
    pub fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// Entries that were ever added.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Nodes (XINFO STREAM: radix-tree-keys).
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes of the radix tree that Redis would have for these keys (XINFO STREAM: radix-tree-nodes): a
    /// leaf for each key, a node where keys part, and one for what keys share in between.
    #[must_use]
    pub fn radix_nodes(&self) -> usize {
        let keys: Vec<[u8; 16]> = self.nodes.keys().map(|id| id.to_bytes()).collect();
        match keys.as_slice() {
            [] => 1,
            keys => radix_nodes(keys, 0),
        }
    }

    /// Sets what XSETID sets.
    ///
    /// # Errors
    /// [`ValueError::SetIdSmall`] if `last_id` is below the last entry's.
    pub fn set_id(
        &mut self,
        last_id: StreamId,
        entries_added: Option<u64>,
        max_deleted_id: Option<StreamId>,
    ) -> Result<(), ValueError> {
        let top = self
            .iter_back(StreamId::MIN, StreamId::MAX)
            .next()
            .map(|entry| entry.id);
        if top.is_some_and(|top| last_id < top) {
            return Err(ValueError::SetIdSmall);
        }
        self.last_id = last_id;
        self.entries_added = entries_added.unwrap_or(self.entries_added);
        self.max_deleted_id = max_deleted_id.unwrap_or(self.max_deleted_id);
        Ok(())
    }

    /// Makes a group that has read up to `last_id` (XGROUP CREATE); false if there is one of that
    /// name.
    pub fn create_group(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.groups
            .insert(name.to_vec(), Group::new(last_id, entries_read));
        true
    }

    /// Removes a group (XGROUP DESTROY); returns whether there was one.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        self.groups.remove(name).is_some()
    }

    /// A group.
    #[must_use]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// A group, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Every group with its name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &Group)> {
        self.groups
            .iter()
            .map(|(name, group)| (name.as_slice(), group))
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // A key and a value of a B-tree take their size, and a third of it for what is free.
        let nodes: usize = self.nodes.values().map(Listpack::heap_bytes).sum();
        let slots = self.nodes.len() * (size_of::<StreamId>() + size_of::<Listpack>()) * 4 / 3;
        let groups = self.groups.iter().map(|(name, group)| {
            name.capacity() + size_of::<Vec<u8>>() + size_of::<Group>() + group.heap_bytes()
        });
        nodes + slots + groups.sum::<usize>()
    }

    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = (StreamId, &Listpack)> {
        self.nodes.iter().map(|(id, pack)| (*id, pack))
    }

    /// Takes a node of a dump. None if it is not well-formed, empty, or not behind the last one.
    pub(crate) fn push_node(&mut self, master: StreamId, pack: Listpack) -> Option<()> {
        let count = node::checked_count(master, &pack)?;
        if count == 0
            || self
                .nodes
                .last_key_value()
                .is_some_and(|(last, _)| *last >= master)
        {
            return None;
        }
        self.length = self.length.checked_add(count)?;
        self.nodes.insert(master, pack);
        Some(())
    }

    /// Takes the rest of a dump. None if it contradicts the nodes.
    pub(crate) fn set_counts(&mut self, counts: Counts) -> Option<()> {
        let top = self
            .iter_back(StreamId::MIN, StreamId::MAX)
            .next()
            .map(|entry| entry.id);
        if counts.length != self.length as u64 || top.is_some_and(|top| counts.last_id < top) {
            return None;
        }
        self.last_id = counts.last_id;
        self.max_deleted_id = counts.max_deleted_id;
        self.entries_added = counts.entries_added;
        Some(())
    }

    /// Takes a group of a dump. None if the name is taken.
    pub(crate) fn push_group(&mut self, name: Vec<u8>, group: Group) -> Option<()> {
        self.groups.insert(name, group).is_none().then_some(())
    }
}

/// Nodes of a radix tree of keys in ascending order, which share their first `depth` bytes.
fn radix_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return 0;
    };
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let above = usize::from(shared > depth) + 1;
    if shared == first.len() {
        return above;
    }
    let groups = keys.chunk_by(|a, b| a.get(shared) == b.get(shared));
    above
        + groups
            .map(|group| radix_nodes(group, shared + 1))
            .sum::<usize>()
}
