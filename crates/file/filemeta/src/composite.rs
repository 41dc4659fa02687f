//! The composite attribute: the one small extended attribute of a file, root of its metadata.

use crate::cursor::Cursor;
use crate::key::{Number, StoreId, Tag};
use codec::{Checksum, Corruption};
use env::handle::Handle;
use std::collections::BTreeMap;

/// Bytes of an attribute without entries.
pub const COMPOSITE_BYTES_MIN: usize = 5;

/// Longest attribute in bytes: ext4 with blocks of 1 KiB takes no more beside others.
pub const COMPOSITE_BYTES_MAX: usize = 1024;

/// Longest tiny value in bytes.
pub const VALUE_BYTES_MAX: usize = 255;

const VERSION: u8 = 1;

/// What a tag of a file stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A tiny value, kept in the attribute; at most [`VALUE_BYTES_MAX`] bytes.
    Value(Vec<u8>),
    /// A linked object.
    Linked(Number),
    /// A shared object, and the owner's place in its roster.
    Shared {
        /// The object.
        number: Number,
        /// Index of the roster's entry, from 0.
        place: u32,
    },
}

/// A file's entries, by tag.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Composite {
    /// The entries.
    pub entries: BTreeMap<Tag, Entry>,
}

impl Composite {
    /// The attribute's bytes for `owner`, padded to at least `bytes_min`; `None` where it is longer
    /// than [`COMPOSITE_BYTES_MAX`].
    pub fn encode(&self, store: StoreId, owner: &Handle, bytes_min: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![VERSION, 0, 0, 0, 0];
        for (tag, entry) in &self.entries {
            let head = |kind: u8| kind << 6 | tag.get();
            match entry {
                Entry::Value(value) => {
                    bytes.push(head(1));
                    bytes.push(u8::try_from(value.len()).ok()?);
                    bytes.extend_from_slice(value);
                }
                Entry::Linked(number) => {
                    bytes.push(head(2));
                    number.write(&mut bytes);
                }
                Entry::Shared { number, place } => {
                    bytes.push(head(3));
                    number.write(&mut bytes);
                    bytes.extend_from_slice(&place.to_le_bytes());
                }
            }
        }
        bytes.resize(bytes.len().max(bytes_min), 0);
        if bytes.len() > COMPOSITE_BYTES_MAX {
            return None;
        }
        let sum = checksum(&bytes, store, owner);
        bytes.get_mut(1..5)?.copy_from_slice(&sum.to_le_bytes());
        Some(bytes)
    }

    /// Verifies an attribute that was found on `owner`.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(bytes: &[u8], store: StoreId, owner: &Handle) -> Result<Composite, Corruption> {
        // Before the checksum, so that a newer version is told from damage only when whole.
        let mut at = Cursor::new(bytes);
        let version = at.byte("version of the attribute")?;
        let stored = at.integer("checksum of the attribute", 4)?;
        let found = u64::from(checksum(bytes, store, owner));
        if stored != found {
            return Err(Corruption {
                what: "checksum of the attribute",
                offset: 1,
                expected: stored,
                found,
            });
        }
        if version != VERSION {
            return Err(Corruption {
                what: "version of the attribute",
                offset: 0,
                expected: VERSION.into(),
                found: version.into(),
            });
        }
        Composite::decode_unverified(bytes)
    }

    /// The entries of an attribute whoever's it is: for a look at what does not verify.
    ///
    /// # Errors
    /// The first thing that is not of the form.
    pub fn decode_unverified(bytes: &[u8]) -> Result<Composite, Corruption> {
        if bytes.len() > COMPOSITE_BYTES_MAX {
            return Err(Corruption {
                what: "bytes of the attribute",
                offset: 0,
                expected: COMPOSITE_BYTES_MAX as u64,
                found: bytes.len() as u64,
            });
        }
        let mut at = Cursor::new(bytes);
        at.take("version and checksum", COMPOSITE_BYTES_MIN)?;
        let mut entries = BTreeMap::new();
        while !at.is_at_end() {
            let head = at.byte("kind and tag")?;
            let tag = Tag::new(head & 63).ok_or_else(|| at.wrong("tag", 63, head.into()))?;
            let entry = match head >> 6 {
                1 => {
                    let length = at.byte("length of a value")?;
                    Entry::Value(at.take("value", length.into())?.to_vec())
                }
                2 => Entry::Linked(Number::read(&mut at, "number of a linked object")?),
                3 => Entry::Shared {
                    number: Number::read(&mut at, "number of a shared object")?,
                    place: at.integer("place in a roster", 4)? as u32,
                },
                _ if head == 0 && at.rest().iter().all(|byte| *byte == 0) => break,
                _ => return Err(at.wrong("padding", 0, head.into())),
            };
            let last = entries.keys().next_back().copied();
            if last.is_some_and(|last| last >= tag) {
                return Err(at.wrong("order of tags", 0, tag.get().into()));
            }
            entries.insert(tag, entry);
        }
        Ok(Composite { entries })
    }
}

fn checksum(bytes: &[u8], store: StoreId, owner: &Handle) -> u32 {
    let handle = owner.as_bytes();
    let version = bytes.get(..1).unwrap_or_default();
    let entries = bytes.get(COMPOSITE_BYTES_MIN..).unwrap_or_default();
    Checksum::new()
        .with(&store.bytes())
        .with(&[handle.len() as u8])
        .with(handle)
        .with(version)
        .with(&[0; 4])
        .with(entries)
        .finish()
}

#[cfg(test)]
mod tests;
