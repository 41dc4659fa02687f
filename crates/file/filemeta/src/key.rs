//! Names of things in a metadata store.

use crate::cursor::Cursor;
use codec::{Corruption, Identity, crc32c};
use std::fmt;

/// Longest name of a system object in bytes.
pub const SYSTEM_NAME_BYTES_MAX: usize = 64;

/// Which metadata store it is; in every object and in the checksum of every attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StoreId(pub u128);

impl StoreId {
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

/// A slot of a file for one piece of metadata, 0 to 63; what it means is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(u8);

impl Tag {
    /// The largest tag.
    pub const MAX: Tag = Tag(63);

    /// `None` above 63.
    pub const fn new(tag: u8) -> Option<Tag> {
        if tag <= Tag::MAX.0 {
            Some(Tag(tag))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The number of a linked or shared object, 1 to 2^48 - 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Number(u64);

impl Number {
    /// The largest number.
    pub const MAX: Number = Number((1 << 48) - 1);

    /// `None` for 0 and for 2^48 or more.
    pub const fn new(number: u64) -> Option<Number> {
        if number > 0 && number <= Number::MAX.0 {
            Some(Number(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn read(from: &mut Cursor<'_>, what: &'static str) -> Result<Number, Corruption> {
        let number = from.integer(what, 6)?;
        Number::new(number).ok_or_else(|| from.wrong(what, 1, number))
    }

    pub(crate) fn write(self, to: &mut Vec<u8>) {
        to.extend(self.0.to_le_bytes().iter().take(6));
    }
}

/// The name of a system object: 1 to 64 of `a-z 0-9 - _ .`, not beginning with a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SystemName(String);

impl SystemName {
    /// `None` where the name is not of that form.
    pub fn new(name: &str) -> Option<SystemName> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        let fits = (1..=SYSTEM_NAME_BYTES_MAX).contains(&name.len());
        (fits && name.chars().all(plain) && !name.starts_with('.'))
            .then(|| SystemName(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an object file holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// Metadata of one owner.
    Linked = 1,
    /// One content for many owners.
    Shared = 2,
    /// The owners of a shared object.
    Roster = 3,
    /// Metadata of the file system, by name.
    System = 4,
}

/// One object of a store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKey {
    /// Metadata of one owner.
    Linked(Number),
    /// One content for many owners.
    Shared(Number),
    /// The owners of the shared object of that number.
    Roster(Number),
    /// Metadata of the file system, by name.
    System(SystemName),
}

impl ObjectKey {
    /// Its class.
    pub fn class(&self) -> Class {
        match self {
            ObjectKey::Linked(_) => Class::Linked,
            ObjectKey::Shared(_) => Class::Shared,
            ObjectKey::Roster(_) => Class::Roster,
            ObjectKey::System(_) => Class::System,
        }
    }

    /// Its file in the directory of objects.
    pub fn file_name(&self) -> String {
        match self {
            ObjectKey::Linked(number) => format!("l{:012x}", number.0),
            ObjectKey::Shared(number) => format!("s{:012x}", number.0),
            ObjectKey::Roster(number) => format!("r{:012x}", number.0),
            ObjectKey::System(name) => format!("n-{}", name.0),
        }
    }

    /// The object of a file, `None` where the name is not one of an object's file.
    pub fn from_file_name(file: &str) -> Option<ObjectKey> {
        if let Some(name) = file.strip_prefix("n-") {
            return SystemName::new(name).map(ObjectKey::System);
        }
        let digits = file.get(1..)?;
        let number = Number::new(u64::from_str_radix(digits, 16).ok()?)?;
        let key = match file.get(..1)? {
            "l" => ObjectKey::Linked(number),
            "s" => ObjectKey::Shared(number),
            "r" => ObjectKey::Roster(number),
            _ => return None,
        };
        (key.file_name() == file).then_some(key)
    }

    /// What its header and its page checksums are sealed for.
    pub(crate) fn identity(&self, store: StoreId, generation: u64) -> Identity {
        let number = match self {
            ObjectKey::Linked(number) | ObjectKey::Shared(number) | ObjectKey::Roster(number) => {
                number.0
            }
            ObjectKey::System(name) => u64::from(crc32c(name.0.as_bytes())),
        };
        Identity {
            set: store.bytes(),
            object: (self.class() as u64) << 48 | number,
            generation,
        }
    }

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        to.push(self.class() as u8);
        match self {
            ObjectKey::Linked(number) | ObjectKey::Shared(number) | ObjectKey::Roster(number) => {
                number.write(to);
            }
            ObjectKey::System(name) => {
                to.push(name.0.len() as u8);
                to.extend_from_slice(name.0.as_bytes());
            }
        }
    }

    pub(crate) fn read(from: &mut Cursor<'_>) -> Result<ObjectKey, Corruption> {
        let number = |from: &mut Cursor<'_>| Number::read(from, "number of an object");
        match from.byte("class of an object")? {
            1 => number(from).map(ObjectKey::Linked),
            2 => number(from).map(ObjectKey::Shared),
            3 => number(from).map(ObjectKey::Roster),
            4 => {
                let length = from.byte("length of a name")?;
                let bytes = from.take("name of a system object", length.into())?;
                let name = std::str::from_utf8(bytes).ok().and_then(SystemName::new);
                let wrong = from.wrong("name of a system object", 0, length.into());
                name.map(ObjectKey::System).ok_or(wrong)
            }
            other => Err(from.wrong("class of an object", 4, other.into())),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectKey::Linked(number) => write!(f, "linked object {:x}", number.0),
            ObjectKey::Shared(number) => write!(f, "shared object {:x}", number.0),
            ObjectKey::Roster(number) => write!(f, "roster of shared object {:x}", number.0),
            ObjectKey::System(name) => write!(f, "system object {}", name.0),
        }
    }
}
