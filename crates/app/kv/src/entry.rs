//! An entry: key, value, when it expires, and where the log keeps it.
//!
//! A short string is one allocation with its key: 12 bytes, 8 more if it expires, 1 or 5 for the length
//! of the key, the key, the value.

use crate::value::Value;
use vlog::Position;

/// Longest string that is kept in one piece with its key, and that the log gets as a whole each time.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// Longest string whose encoding is `embstr` (Redis: OBJ_ENCODING_EMBSTR_SIZE_LIMIT).
const EMBEDDED_BYTES_MAX: usize = 44;

const POSITION: usize = 0;
const FLAGS: usize = 6;
const ACCESS: usize = 8;
const FIXED_BYTES: usize = 12;

/// What is known of an entry besides key and value; a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u8);

impl Flags {
    /// The log has a record of it.
    pub const LOGGED: Flags = Flags(1);
    /// The log has to get all of it.
    pub const WHOLE: Flags = Flags(2);
    /// The log has to get a change of it.
    pub const CHANGED: Flags = Flags(4);
    /// It was written to in place, so its encoding is `raw`.
    pub const RAW: Flags = Flags(8);
    const EXPIRES: Flags = Flags(16);
    /// It is too long for the log, which has an older whole of it, or none.
    pub const UNLOGGED: Flags = Flags(32);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    fn with(self, other: Flags, on: bool) -> Flags {
        match on {
            true => Flags(self.0 | other.0),
            false => Flags(self.0 & !other.0),
        }
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A short string, with its key.
    Text(Box<[u8]>),
    /// Any other.
    Object(Box<Object>),
}

/// An entry that is more than a short string.
#[derive(Clone, Debug)]
pub struct Object {
    key: Box<[u8]>,
    position: Option<Position>,
    flags: Flags,
    access: u32,
    expires_ms: Option<u64>,
    /// The value.
    pub value: Value,
    /// Records of changes since the one of the whole.
    pub changes: Vec<Position>,
    /// Bytes of these records.
    pub changes_bytes: u64,
    /// Bytes of the record of the whole.
    pub whole_bytes: u64,
    /// Bytes of memory, about, when they were last counted.
    counted: usize,
}

fn key_bounds(text: &[u8], expires: bool) -> (usize, usize) {
    let at = FIXED_BYTES + if expires { 8 } else { 0 };
    match text.get(at) {
        Some(255) => {
            let long = text
                .get(at + 1..at + 5)
                .and_then(|four| four.try_into().ok());
            let length = long.map_or(0, u32::from_le_bytes) as usize;
            (at + 5, at + 5 + length)
        }
        Some(short) => (at + 1, at + 1 + usize::from(*short)),
        None => (at, at),
    }
}

impl Object {
    /// Whether the log has not what it is: the next record has to be a whole.
    pub(crate) fn is_unlogged(&self) -> bool {
        self.flags.has(Flags::UNLOGGED)
    }
}

impl Entry {
    /// An entry that the log does not know yet.
    pub fn new(key: &[u8], value: Value, expires_ms: Option<u64>, access: u32) -> Entry {
        match value {
            Value::Text(text) if text.len() <= TEXT_BYTES_MAX => {
                Entry::text(key, &text, expires_ms, access)
            }
            value => Entry::Object(Box::new(Object {
                counted: object_bytes(key, &value),
                key: key.into(),
                position: None,
                flags: Flags::default(),
                access,
                expires_ms,
                value,
                changes: Vec::new(),
                changes_bytes: 0,
                whole_bytes: 0,
            })),
        }
    }

    /// As [`Entry::new`], of a string of at most [`TEXT_BYTES_MAX`].
    pub fn text(key: &[u8], text: &[u8], expires_ms: Option<u64>, access: u32) -> Entry {
        let expires = expires_ms.map_or(0, |_| 8);
        let head = if key.len() < 255 { 1 } else { 5 };
        let mut bytes = Vec::with_capacity(FIXED_BYTES + expires + head + key.len() + text.len());
        bytes.extend_from_slice(&[0; FIXED_BYTES]);
        if let Some(expires_ms) = expires_ms {
            bytes.extend_from_slice(&expires_ms.to_le_bytes());
        }
        match u8::try_from(key.len()) {
            Ok(short) if short < 255 => bytes.push(short),
            _ => {
                bytes.push(255);
                bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            }
        }
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(text);
        let mut entry = Entry::Text(bytes.into_boxed_slice());
        entry.set_flag(Flags::EXPIRES, expires_ms.is_some());
        entry.set_access(access);
        entry
    }

    fn flags(&self) -> Flags {
        match self {
            Entry::Text(text) => Flags(text.get(FLAGS).copied().unwrap_or(0)),
            Entry::Object(object) => object.flags,
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: Flags) -> bool {
        self.flags().has(flag)
    }

    /// Sets or clears a flag.
    pub fn set_flag(&mut self, flag: Flags, on: bool) {
        match self {
            Entry::Text(text) => {
                if let Some(byte) = text.get_mut(FLAGS) {
                    *byte = Flags(*byte).with(flag, on).0;
                }
            }
            Entry::Object(object) => object.flags = object.flags.with(flag, on),
        }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Entry::Text(text) => {
                let (start, end) = key_bounds(text, self.has(Flags::EXPIRES));
                text.get(start..end).unwrap_or_default()
            }
            Entry::Object(object) => &object.key,
        }
    }

    /// The value, if it is a string.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Entry::Text(text) => {
                let (_, end) = key_bounds(text, self.has(Flags::EXPIRES));
                Some(text.get(end..).unwrap_or_default())
            }
            Entry::Object(object) => match &object.value {
                Value::Text(text) => Some(text),
                _ => None,
            },
        }
    }

    /// The value, if it is not kept with its key.
    pub fn as_value(&self) -> Option<&Value> {
        match self {
            Entry::Text(_) => None,
            Entry::Object(object) => Some(&object.value),
        }
    }

    /// A copy of the value.
    pub fn to_value(&self) -> Value {
        match self {
            Entry::Text(_) => Value::Text(self.as_text().unwrap_or_default().to_vec()),
            Entry::Object(object) => object.value.clone(),
        }
    }

    /// The value.
    pub fn into_value(self) -> Value {
        match self {
            Entry::Text(_) => self.to_value(),
            Entry::Object(object) => object.value,
        }
    }

    /// What OBJECT ENCODING answers.
    pub fn encoding(&self) -> &'static str {
        match self.as_text() {
            Some(_) if self.has(Flags::RAW) => "raw",
            Some(text) if values::number::parse_integer(text).is_some() => "int",
            Some(text) if text.len() <= EMBEDDED_BYTES_MAX => "embstr",
            Some(_) => "raw",
            None => self.as_value().map_or("raw", Value::encoding),
        }
    }

    /// When it goes, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        match self {
            Entry::Text(text) => {
                let bytes = match self.has(Flags::EXPIRES) {
                    true => text.get(FIXED_BYTES..FIXED_BYTES + 8),
                    false => None,
                };
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.map(u64::from_le_bytes)
            }
            Entry::Object(object) => object.expires_ms,
        }
    }

    /// Sets when it goes.
    pub fn set_expires_ms(&mut self, expires_ms: Option<u64>) {
        match self {
            Entry::Text(text) => {
                let has = self_expires(text);
                if let (true, Some(expires_ms)) = (has, expires_ms) {
                    if let Some(place) = text.get_mut(FIXED_BYTES..FIXED_BYTES + 8) {
                        place.copy_from_slice(&expires_ms.to_le_bytes());
                    }
                    return;
                }
                if !has && expires_ms.is_none() {
                    return;
                }
                let position = self.position();
                let (flags, access) = (self.flags(), self.access());
                let content = self.as_text().unwrap_or_default();
                let mut entry = Entry::text(self.key(), content, expires_ms, access);
                for flag in [Flags::WHOLE, Flags::CHANGED, Flags::RAW] {
                    entry.set_flag(flag, flags.has(flag));
                }
                entry.set_position(position);
                *self = entry;
            }
            Entry::Object(object) => object.expires_ms = expires_ms,
        }
    }

    /// Where the log keeps it.
    pub fn position(&self) -> Option<Position> {
        match self {
            Entry::Text(text) => {
                let bytes = match self.has(Flags::LOGGED) {
                    true => text.get(POSITION..POSITION + 6),
                    false => None,
                };
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.map(Position::from_bytes)
            }
            Entry::Object(object) => object.position,
        }
    }

    /// Says where the log keeps it.
    pub fn set_position(&mut self, position: Option<Position>) {
        self.set_flag(Flags::LOGGED, position.is_some());
        match self {
            Entry::Text(text) => {
                let bytes = position.map_or([0; 6], Position::to_bytes);
                if let Some(place) = text.get_mut(POSITION..POSITION + 6) {
                    place.copy_from_slice(&bytes);
                }
            }
            Entry::Object(object) => object.position = position,
        }
    }

    /// When or how often it was used: what eviction goes by.
    pub fn access(&self) -> u32 {
        match self {
            Entry::Text(text) => {
                let bytes = text.get(ACCESS..ACCESS + 4);
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u32::from_le_bytes)
            }
            Entry::Object(object) => object.access,
        }
    }

    /// Says when or how often it was used.
    pub fn set_access(&mut self, access: u32) {
        match self {
            Entry::Text(text) => {
                if let Some(place) = text.get_mut(ACCESS..ACCESS + 4) {
                    place.copy_from_slice(&access.to_le_bytes());
                }
            }
            Entry::Object(object) => object.access = access,
        }
    }

    /// Overwrites a string where the new one is as long and nothing else changes; whether it did.
    pub fn overwrite(&mut self, value: &[u8]) -> bool {
        let Entry::Text(text) = self else {
            return false;
        };
        let expires = self_expires(text);
        let (_, end) = key_bounds(text, expires);
        match text.get_mut(end..) {
            Some(place) if !expires && place.len() == value.len() => {
                place.copy_from_slice(value);
                true
            }
            _ => false,
        }
    }

    /// Bytes of memory that it takes, about: with what an allocation costs.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Entry::Text(text) => allocated(text.len()),
            Entry::Object(object) => object.counted,
        }
    }

    /// Counts the memory anew, where that is fast or has to be.
    pub fn count_memory(&mut self, always: bool) {
        if let Entry::Object(object) = self
            && (always || object.value.counts_fast())
        {
            object.counted = object_bytes(&object.key, &object.value)
                + object.changes.capacity() * size_of::<Position>();
        }
    }
}

fn object_bytes(key: &[u8], value: &Value) -> usize {
    allocated(size_of::<Object>()) + allocated(key.len()) + value.memory_bytes()
}

fn self_expires(text: &[u8]) -> bool {
    Flags(text.get(FLAGS).copied().unwrap_or(0)).has(Flags::EXPIRES)
}

/// What an allocation takes: whole 16 bytes, 8 of them the allocator's.
pub(crate) fn allocated(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_packed_entry_keeps_everything(
            key in prop::collection::vec(any::<u8>(), 0..600),
            text in prop::collection::vec(any::<u8>(), 0..100),
            times in prop::collection::vec(prop::option::of(any::<u64>()), 1..5),
            access: u32,
            place: [u8; 6],
        ) {
            let mut entry = Entry::text(&key, &text, None, access);
            prop_assert_eq!(entry.position(), None);
            entry.set_position(Some(Position::from_bytes(place)));
            entry.set_flag(Flags::RAW, true);
            for expires in times {
                entry.set_expires_ms(expires);
                prop_assert_eq!(entry.expires_ms(), expires);
                prop_assert_eq!(entry.key(), &key[..]);
                prop_assert_eq!(entry.as_text(), Some(&text[..]));
                prop_assert_eq!(entry.access(), access);
                prop_assert_eq!(entry.position(), Some(Position::from_bytes(place)));
                prop_assert!(entry.has(Flags::RAW) && !entry.has(Flags::WHOLE));
            }
        }
    }

    #[test]
    fn a_string_of_the_same_length_is_written_in_place() {
        let mut entry = Entry::text(b"k", b"one", None, 0);
        assert!(entry.overwrite(b"two"));
        assert_eq!(entry.as_text(), Some(&b"two"[..]));
        assert!(!entry.overwrite(b"three"));
        entry.set_expires_ms(Some(1));
        assert!(!entry.overwrite(b"one"), "a new string does not expire");
    }
}
