//! The list of a file's extended attributes.

use crate::corrupt::{equal, wrong};
use crate::id::{ObjectId, VolumeId};
use codec::{Corruption, Identity, OBJECT_HEADER_BYTES, kind, open_object, seal_object};
use std::collections::BTreeMap;

const VERSION: u16 = 1;

/// Most bytes of the whole list: what the kernel takes as the names of a file (64 KiB) and several
/// values of the most that it takes (64 KiB).
pub const LIST_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a value (`XATTR_SIZE_MAX` of linux/limits.h).
pub const VALUE_BYTES_MAX: usize = 65_536;

/// Bytes of an entry before its name.
const HEAD_BYTES: usize = 8;

/// Names and values.
pub type Attributes = BTreeMap<Vec<u8>, Vec<u8>>;

fn identity(volume: VolumeId, object: ObjectId) -> Identity {
    Identity {
        set: volume.bytes(),
        object: object.0,
        generation: 0,
    }
}

/// The list as it stands in its object; `None` where it would be too long.
pub fn encode(volume: VolumeId, object: ObjectId, attributes: &Attributes) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    for (name, value) in attributes {
        let name_bytes = u32::try_from(name.len()).ok()?;
        let value_bytes = u32::try_from(value.len()).ok()?;
        payload.extend_from_slice(&name_bytes.to_le_bytes());
        payload.extend_from_slice(&value_bytes.to_le_bytes());
        payload.extend_from_slice(name);
        payload.extend_from_slice(value);
    }
    if payload.len() + OBJECT_HEADER_BYTES > LIST_BYTES_MAX {
        return None;
    }
    let identity = identity(volume, object);
    let kind = kind::VOLUME_ATTRIBUTES;
    Some(seal_object(kind, VERSION, &identity, &payload))
}

/// Reads a list.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(bytes: &[u8], volume: VolumeId, object: ObjectId) -> Result<Attributes, Corruption> {
    let identity = identity(volume, object);
    let object = open_object(bytes, kind::VOLUME_ATTRIBUTES, Some(&identity))?;
    equal("version of the attributes", 12, VERSION, object.version)?;
    list(object.payload)
}

/// The attributes of a payload.
pub(super) fn list(payload: &[u8]) -> Result<Attributes, Corruption> {
    let mut attributes = Attributes::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let at = (OBJECT_HEADER_BYTES + payload.len() - rest.len()) as u64;
        let cut = |found: u64| wrong("bytes of an attribute", at, found, rest.len() as u64);
        let (head, tail) = (rest.split_first_chunk::<HEAD_BYTES>()).ok_or(cut(8))?;
        let [a, b, c, d, value_bytes @ ..] = *head;
        let name_bytes = u32::from_le_bytes([a, b, c, d]);
        let value_bytes = u32::from_le_bytes(value_bytes);
        let (name, tail) = usize::try_from(name_bytes)
            .ok()
            .and_then(|length| tail.split_at_checked(length))
            .ok_or(cut(name_bytes.into()))?;
        let (value, tail) = usize::try_from(value_bytes)
            .ok()
            .and_then(|length| tail.split_at_checked(length))
            .ok_or(cut(value_bytes.into()))?;
        let is_name = (1..=255).contains(&name.len()) && !name.contains(&0);
        // In the order of their names, so that there is one way to say a list.
        let follows = (attributes.last_key_value()).is_none_or(|(last, _)| last.as_slice() < name);
        if !is_name || !follows {
            return Err(wrong("name of an attribute", at, 1, 0));
        }
        attributes.insert(name.to_vec(), value.to_vec());
        rest = tail;
    }
    Ok(attributes)
}
