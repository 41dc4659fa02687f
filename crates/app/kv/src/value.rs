//! A value, and how records have it: `docs/formats/kv.md`.

use crate::entry::allocated;
use crate::fault::Fault;
use values::{AddOptions, Element, End, Hash, List, Set, SortedSet, Stream, Thresholds};

/// A value of an entry.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(Vec<u8>),
    /// A list.
    List(Box<List>),
    /// A hash.
    Hash(Box<Hash>),
    /// A set.
    Set(Box<Set>),
    /// A sorted set.
    SortedSet(Box<SortedSet>),
    /// A stream.
    Stream(Box<Stream>),
}

/// A collection that an entry may have.
pub(crate) trait Collection: Default {
    /// The collection, if the value is one.
    fn of(value: &Value) -> Option<&Self>;
    /// As [`Collection::of`], to change it.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// As a value.
    fn wrap(self) -> Value;
}

macro_rules! collection {
    ($type:ty, $variant:ident) => {
        impl Collection for $type {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$variant(one) => Some(one),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(one) => Some(one),
                    _ => None,
                }
            }

            fn wrap(self) -> Value {
                Value::$variant(Box::new(self))
            }
        }
    };
}

collection!(List, List);
collection!(Hash, Hash);
collection!(Set, Set);
collection!(SortedSet, SortedSet);
collection!(Stream, Stream);

/// Kinds of values in records.
mod kind {
    pub(super) const TEXT: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const HASH: u8 = 3;
    pub(super) const SORTED_SET: u8 = 4;
    pub(super) const STREAM: u8 = 5;
}

impl Value {
    /// What TYPE answers.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::Set(_) => "set",
            Value::SortedSet(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }

    /// What OBJECT ENCODING answers, but for strings, whose entry knows.
    pub fn encoding(&self) -> &'static str {
        match self {
            Value::Text(_) => "raw",
            Value::List(list) => list.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::Set(set) => set.encoding(),
            Value::SortedSet(set) => set.encoding(),
            Value::Stream(_) => "stream",
        }
    }

    /// Elements, or bytes of a string.
    pub fn len(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::List(list) => list.len(),
            Value::Hash(hash) => hash.len(),
            Value::Set(set) => set.len(),
            Value::SortedSet(set) => set.len(),
            Value::Stream(stream) => stream.len(),
        }
    }

    /// Whether the entry has to go: a collection without elements. Strings and streams may be empty.
    pub fn is_empty(&self) -> bool {
        !matches!(self, Value::Text(_) | Value::Stream(_)) && self.len() == 0
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Value::Text(text) => allocated(text.capacity()),
            Value::List(list) => allocated(size_of::<List>()) + list.heap_bytes(),
            Value::Hash(hash) => allocated(size_of::<Hash>()) + hash.heap_bytes(),
            Value::Set(set) => allocated(size_of::<Set>()) + set.heap_bytes(),
            Value::SortedSet(set) => allocated(size_of::<SortedSet>()) + set.heap_bytes(),
            Value::Stream(stream) => allocated(size_of::<Stream>()) + stream.heap_bytes(),
        }
    }

    /// Whether it is counted anew now: that of a long list or stream visits its nodes.
    pub(crate) fn counts_fast(&self) -> bool {
        match self {
            Value::List(list) => list.len() <= 4096,
            Value::Stream(stream) => stream.node_count() <= 64 || stream.len() % 1024 == 0,
            _ => true,
        }
    }

    /// As DUMP answers it.
    pub fn dump(self) -> Vec<u8> {
        values::rdb::dump(&self.into_plain())
    }

    /// As RDB files are written from.
    pub(crate) fn into_plain(self) -> values::Value {
        match self {
            Value::Text(text) => values::StringValue::new(&text).into(),
            Value::List(list) => values::Value::List(list),
            Value::Hash(hash) => values::Value::Hash(hash),
            Value::Set(set) => values::Value::Set(set),
            Value::SortedSet(set) => values::Value::SortedSet(set),
            Value::Stream(stream) => values::Value::Stream(stream),
        }
    }

    /// As RESTORE reads it.
    pub(crate) fn restore(payload: &[u8], thresholds: &Thresholds) -> Result<Value, Fault> {
        Ok(values::rdb::restore(payload, thresholds)?.into())
    }

    /// Writes it as records have it.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Value::Text(text) => {
                into.push(kind::TEXT);
                into.extend_from_slice(text);
            }
            Value::List(list) => {
                into.push(kind::LIST);
                push_length(into, list.len());
                list.iter().for_each(|element| push_element(into, element));
            }
            Value::Set(set) => {
                into.push(kind::SET);
                push_length(into, set.len());
                set.iter().for_each(|element| push_element(into, element));
            }
            Value::Hash(hash) => {
                into.push(kind::HASH);
                push_length(into, hash.len());
                for (field, value) in hash.iter() {
                    push_element(into, field);
                    push_element(into, value);
                }
            }
            Value::SortedSet(set) => {
                into.push(kind::SORTED_SET);
                push_length(into, set.len());
                for (member, score) in set.iter() {
                    push_element(into, member);
                    into.extend_from_slice(&score.to_le_bytes());
                }
            }
            Value::Stream(stream) => {
                into.push(kind::STREAM);
                into.extend_from_slice(&values::rdb::dump_stream(stream));
            }
        }
    }

    /// Reads what [`Value::encode`] wrote; `None` where it did not.
    pub fn decode(bytes: &[u8], thresholds: &Thresholds) -> Option<Value> {
        let (kind, mut rest) = bytes.split_first()?;
        let value = match *kind {
            kind::TEXT => return Some(Value::Text(rest.to_vec())),
            kind::LIST => {
                let mut list = List::default();
                for _ in 0..split_length(&mut rest)? {
                    list.push(End::Back, split(&mut rest)?, thresholds);
                }
                list.wrap()
            }
            kind::SET => {
                let mut set = Set::default();
                for _ in 0..split_length(&mut rest)? {
                    set.add(split(&mut rest)?, thresholds);
                }
                set.wrap()
            }
            kind::HASH => {
                let mut hash = Hash::default();
                for _ in 0..split_length(&mut rest)? {
                    let field = split(&mut rest)?;
                    hash.set(field, split(&mut rest)?, thresholds);
                }
                hash.wrap()
            }
            kind::SORTED_SET => {
                let mut set = SortedSet::default();
                for _ in 0..split_length(&mut rest)? {
                    let member = split(&mut rest)?;
                    let (score, behind) = rest.split_first_chunk()?;
                    rest = behind;
                    let score = f64::from_le_bytes(*score);
                    set.add(score, member, AddOptions::default(), thresholds)
                        .ok()?;
                }
                set.wrap()
            }
            kind::STREAM => match values::rdb::restore(rest, thresholds).ok()? {
                values::Value::Stream(stream) => return Some(Value::Stream(stream)),
                _ => return None,
            },
            _ => return None,
        };
        (rest.is_empty() && !value.is_empty()).then_some(value)
    }
}

impl From<values::Value> for Value {
    fn from(value: values::Value) -> Value {
        match value {
            values::Value::String(text) => Value::Text(text.to_vec()),
            values::Value::List(list) => Value::List(list),
            values::Value::Hash(hash) => Value::Hash(hash),
            values::Value::Set(set) => Value::Set(set),
            values::Value::SortedSet(set) => Value::SortedSet(set),
            values::Value::Stream(stream) => Value::Stream(stream),
        }
    }
}

/// A length: one byte, or 255 and four.
fn push_length(into: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 255 => into.push(short),
        _ => {
            let long = u32::try_from(length).expect("a record has less than 4 GiB");
            into.push(255);
            into.extend_from_slice(&long.to_le_bytes());
        }
    }
}

fn push_element(into: &mut Vec<u8>, element: Element<'_>) {
    push_length(into, element.len());
    element.append_to(into);
}

fn split_length(bytes: &mut &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    if *first < 255 {
        *bytes = rest;
        return Some(usize::from(*first));
    }
    let (long, rest) = rest.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*long) as usize)
}

fn split<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = split_length(bytes)?;
    let (one, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let word = prop::collection::vec(any::<u8>(), 0..70);
        prop::collection::vec(word, 1..12)
    }

    proptest! {
        #[test]
        fn a_collection_comes_back(words in words(), scores in prop::collection::vec(-1e9f64..1e9, 40)) {
            let limits = Thresholds::REDIS;
            let mut list = List::default();
            let (mut set, mut hash, mut sorted) =
                (Set::default(), Hash::default(), SortedSet::default());
            for (word, score) in words.iter().zip(scores) {
                list.push(End::Back, word, &limits);
                set.add(word, &limits);
                hash.set(word, word, &limits);
                sorted.add(score, word, AddOptions::default(), &limits).unwrap();
            }
            let mut stream = Stream::default();
            for word in &words {
                stream.add(values::stream::NewId::Auto, 7, &[(word, word)], &limits).unwrap();
            }
            stream.create_group(b"g", values::StreamId::MIN, None);
            stream.deliver(b"g", b"c", 3, false, 9).unwrap();
            for value in [list.wrap(), set.wrap(), hash.wrap(), sorted.wrap(), stream.wrap()] {
                let mut bytes = Vec::new();
                value.encode(&mut bytes);
                let back = Value::decode(&bytes, &limits).unwrap();
                let mut again = Vec::new();
                back.encode(&mut again);
                prop_assert_eq!(back.len(), value.len());
                prop_assert_eq!(back.encoding(), value.encoding());
                if !matches!(value, Value::Set(_) | Value::Hash(_)) {
                    prop_assert_eq!(again, bytes.clone());
                }
                for end in (0..bytes.len()).step_by(7) {
                    prop_assert!(Value::decode(&bytes[..end], &limits).is_none());
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Value::decode(&bytes, &Thresholds::REDIS);
        }
    }
}
