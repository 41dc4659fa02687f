//! The file `store`: who a metadata store is.

use crate::key::{Number, StoreId};
use codec::{Corruption, Identity, kind};
use std::ffi::{CStr, CString};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Name of the file.
pub const STORE_FILE: &str = "store";

/// Longest name of a composite attribute in bytes.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 63;

const VERSION: u16 = 1;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    numbers: U64,
    name_bytes: u8,
    name: [u8; ATTRIBUTE_NAME_BYTES_MAX],
}

const _: () = assert!(size_of::<RawSuperblock>() == 72);

/// What the file `store` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Which store it is.
    pub store: StoreId,
    /// How often the file was written.
    pub writes: u64,
    /// Every number at or above was never used.
    pub numbers: u64,
    /// Name of the composite attribute, with its namespace: "trusted.hfm".
    pub attribute: CString,
}

impl Superblock {
    fn identity(&self) -> Identity {
        Identity {
            set: self.store.bytes(),
            object: 0,
            generation: self.writes,
        }
    }

    /// The file.
    ///
    /// # Panics
    /// Where the name is longer than 63 bytes: `create` refuses that.
    pub fn encode(&self) -> Vec<u8> {
        let name = self.attribute.to_bytes();
        let mut raw = RawSuperblock {
            numbers: U64::new(self.numbers),
            name_bytes: name.len() as u8,
            name: [0; ATTRIBUTE_NAME_BYTES_MAX],
        };
        assert!(name.len() <= raw.name.len(), "the name was checked");
        raw.name
            .iter_mut()
            .zip(name)
            .for_each(|(to, from)| *to = *from);
        codec::seal_object(
            kind::METADATA_STORE,
            VERSION,
            &self.identity(),
            raw.as_bytes(),
        )
    }

    /// Verifies the file.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, Corruption> {
        let object = codec::open_object(bytes, kind::METADATA_STORE, None)?;
        let wrong = |what, offset, expected, found| Corruption {
            what,
            offset,
            expected,
            found,
        };
        if object.version != VERSION {
            let found = object.version.into();
            return Err(wrong(
                "version of the metadata store",
                12,
                VERSION.into(),
                found,
            ));
        }
        if object.identity.object != 0 {
            return Err(wrong("object number", 32, 0, object.identity.object));
        }
        let raw = RawSuperblock::ref_from_bytes(object.payload).map_err(|_| {
            wrong(
                "bytes of the store file",
                48,
                72,
                object.payload.len() as u64,
            )
        })?;
        let length = usize::from(raw.name_bytes);
        let name = raw.name.split_at_checked(length);
        let attribute = name
            .filter(|(name, padding)| !name.is_empty() && padding.iter().all(|byte| *byte == 0))
            .and_then(|(name, _)| CString::new(name).ok())
            .ok_or_else(|| wrong("name of the attribute", 72, 63, length as u64))?;
        let numbers = raw.numbers.get();
        if numbers == 0 || numbers > Number::MAX.get() {
            return Err(wrong("numbers used", 64, Number::MAX.get(), numbers));
        }
        Ok(Superblock {
            store: StoreId(u128::from_le_bytes(object.identity.set)),
            writes: object.identity.generation,
            numbers,
            attribute,
        })
    }
}

/// Whether a name can be that of the composite attribute.
pub(crate) fn is_attribute_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let namespaces = [&b"trusted."[..], b"user.", b"security."];
    bytes.len() <= ATTRIBUTE_NAME_BYTES_MAX
        && namespaces.iter().any(|namespace| {
            bytes
                .strip_prefix(*namespace)
                .is_some_and(|rest| !rest.is_empty())
        })
}

#[cfg(test)]
mod tests;
