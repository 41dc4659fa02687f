//! A value of a key.

use crate::{Hash, List, Set, SortedSet, Stream, StringValue};

/// A value of any type. It takes 24 bytes and what [`Self::memory_bytes`] says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string; HyperLogLogs are strings too.
    String(StringValue),
    /// A list.
    List(Box<List>),
    /// A hash.
    Hash(Box<Hash>),
    /// A set.
    Set(Box<Set>),
    /// A sorted set; geo sets are sorted sets too.
    SortedSet(Box<SortedSet>),
    /// A stream.
    Stream(Box<Stream>),
}

impl Value {
    /// What TYPE answers.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
        }
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::String(string) => string.encoding(),
            Self::List(list) => list.encoding(),
            Self::Hash(hash) => hash.encoding(),
            Self::Set(set) => set.encoding(),
            Self::SortedSet(set) => set.encoding(),
            Self::Stream(_) => "stream",
        }
    }

    /// Elements: bytes of a string, members, fields, entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::String(string) => string.len(),
            Self::List(list) => list.len(),
            Self::Hash(hash) => hash.len(),
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
            Self::Stream(stream) => stream.len(),
        }
    }

    /// Whether there are none. The key of an empty list, hash, set or sorted set goes; strings and
    /// streams may be empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An estimate of the bytes of memory that the value takes, itself included. What the allocator
    /// adds is not known here. It costs a step for each node of a list, a stream or a sorted set's
    /// tree (about a hundred elements), and for each thousand rows of a table.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let behind = match self {
            Self::String(string) => string.heap_bytes(),
            Self::List(list) => size_of::<List>() + list.heap_bytes(),
            Self::Hash(hash) => size_of::<Hash>() + hash.heap_bytes(),
            Self::Set(set) => size_of::<Set>() + set.heap_bytes(),
            Self::SortedSet(set) => size_of::<SortedSet>() + set.heap_bytes(),
            Self::Stream(stream) => size_of::<Stream>() + stream.heap_bytes(),
        };
        size_of::<Self>() + behind
    }
}

impl From<StringValue> for Value {
    fn from(string: StringValue) -> Self {
        Self::String(string)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::List(Box::new(list))
    }
}

impl From<Hash> for Value {
    fn from(hash: Hash) -> Self {
        Self::Hash(Box::new(hash))
    }
}

impl From<Set> for Value {
    fn from(set: Set) -> Self {
        Self::Set(Box::new(set))
    }
}

impl From<SortedSet> for Value {
    fn from(set: SortedSet) -> Self {
        Self::SortedSet(Box::new(set))
    }
}

impl From<Stream> for Value {
    fn from(stream: Stream) -> Self {
        Self::Stream(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn a_value_takes_24_bytes() {
        assert_eq!(size_of::<Value>(), 24);
    }
}
