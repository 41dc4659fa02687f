//! The header of an object file.

use crate::key::{Class, ObjectKey, StoreId, SystemName};
use codec::{Corruption, Identity, kind};
use env::handle::Handle;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes at the start of the first block that belong to the header.
pub const HEADER_AREA_BYTES: usize = 512;

/// Longest content of an object in bytes.
pub const OBJECT_BYTES_MAX: u64 = 1 << 30;

const VERSION: u16 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    class: u8,
    tag: u8,
    key_bytes: u8,
    reserved: u8,
    free: U32,
    length: U64,
    references: U64,
    key: [u8; 64],
}

const _: () = assert!(size_of::<RawHeader>() == 88);

/// What an object is: everything but its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Tells it from every other object of the store, of whatever name.
    pub generation: u64,
    /// Of a linked object: the tag of its owner; else 0.
    pub tag: u8,
    /// Of a roster: its first free entry, counted from 1; 0 for none.
    pub free: u32,
    /// Bytes of its content.
    pub length: u64,
    /// Of a shared object: how many owners refer to it. Of a linked object: 1, or 0 while it is
    /// written aside and no request has taken it.
    pub references: u64,
    /// Of a linked object: the owner's handle. Of a system object: the name. Else empty.
    pub owner: Vec<u8>,
}

impl Header {
    /// An empty object.
    pub(crate) fn new(generation: u64, tag: u8, owner: &[u8]) -> Header {
        Header {
            generation,
            tag,
            free: 0,
            length: 0,
            references: 0,
            owner: owner.to_vec(),
        }
    }

    /// The owner of a linked object.
    pub fn owner_handle(&self) -> Option<Handle> {
        Handle::from_bytes(&self.owner)
    }

    /// The first 152 bytes of the file; zeros fill the rest of the header area.
    ///
    /// # Panics
    /// Where the owner is longer than 64 bytes: such a header must not reach a disk.
    pub fn encode(&self, key: &ObjectKey, store: StoreId) -> Vec<u8> {
        let mut owner = [0; 64];
        assert!(self.owner.len() <= owner.len(), "handles and names fit");
        owner
            .iter_mut()
            .zip(&self.owner)
            .for_each(|(to, from)| *to = *from);
        let raw = RawHeader {
            class: key.class() as u8,
            tag: self.tag,
            key_bytes: self.owner.len() as u8,
            reserved: 0,
            free: U32::new(self.free),
            length: U64::new(self.length),
            references: U64::new(self.references),
            key: owner,
        };
        let identity = key.identity(store, self.generation);
        codec::seal_object(kind::METADATA_OBJECT, VERSION, &identity, raw.as_bytes())
    }

    /// Verifies the header area of an object file, and says whose it is: its store and its
    /// identity's object, class in the upper 16 bits.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(area: &[u8]) -> Result<(StoreId, Identity, Header), Corruption> {
        let object = codec::open_object(area, kind::METADATA_OBJECT, None)?;
        let wrong = |what, offset: usize, expected, found| Corruption {
            what,
            offset: (codec::OBJECT_HEADER_BYTES + offset) as u64,
            expected,
            found,
        };
        if object.version != VERSION {
            let (expected, found) = (VERSION.into(), object.version.into());
            return Err(Corruption {
                what: "version of the metadata object",
                offset: 12,
                expected,
                found,
            });
        }
        let raw = RawHeader::ref_from_bytes(object.payload)
            .map_err(|_| wrong("bytes of the header", 0, 88, object.payload.len() as u64))?;
        let class = u64::from(raw.class);
        if class != object.identity.object >> 48 || !(1..=4).contains(&class) {
            return Err(wrong("class", 0, object.identity.object >> 48, class));
        }
        if raw.reserved != 0 {
            return Err(wrong("reserved field", 3, 0, raw.reserved.into()));
        }
        let length = raw.length.get();
        if length > OBJECT_BYTES_MAX {
            return Err(wrong("length of the content", 8, OBJECT_BYTES_MAX, length));
        }
        let wants_key = class == Class::Linked as u64 || class == Class::System as u64;
        let key_bytes = usize::from(raw.key_bytes);
        let (owner, padding) = raw
            .key
            .split_at_checked(key_bytes)
            .filter(|(owner, _)| owner.is_empty() != wants_key)
            .ok_or_else(|| wrong("bytes of the key", 2, 64, raw.key_bytes.into()))?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(wrong("padding of the key", 24 + key_bytes, 0, 1));
        }
        let header = Header {
            generation: object.identity.generation,
            tag: raw.tag,
            free: raw.free.get(),
            length,
            references: raw.references.get(),
            owner: owner.to_vec(),
        };
        let store = StoreId(u128::from_le_bytes(object.identity.set));
        Ok((store, object.identity, header))
    }

    /// The object that the header, which was decoded with `identity`, is of.
    pub fn key(&self, identity: &Identity) -> Option<ObjectKey> {
        let number = crate::key::Number::new(identity.object & ((1 << 48) - 1));
        match identity.object >> 48 {
            1 => number.map(ObjectKey::Linked),
            2 => number.map(ObjectKey::Shared),
            3 => number.map(ObjectKey::Roster),
            4 => {
                let name = std::str::from_utf8(&self.owner).ok();
                name.and_then(SystemName::new).map(ObjectKey::System)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
