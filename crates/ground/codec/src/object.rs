//! The header that stands before every object of ours that is not a frame.

use crate::{Corruption, crc32c};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First eight bytes of every sealed object.
pub const OBJECT_MAGIC: [u8; 8] = *b"HOLDFAST";

/// Bytes of the header; the payload follows at once.
pub const OBJECT_HEADER_BYTES: usize = 64;

/// Version of the header's own layout that this code writes and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;

/// Which object this is. The header's checksum covers it, so an object in another's place, of
/// another set, or older than expected is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// The set or store that it belongs to.
    pub set: [u8; 16],
    /// Its number or address within the set.
    pub object: u64,
    /// Which writing of it this is, where its owner counts; else 0.
    pub generation: u64,
}

/// An object that verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object<'a> {
    /// What it is, from [`crate::kind`].
    pub kind: u16,
    /// Version of the payload's layout, counted per kind. The caller decides which it reads.
    pub version: u16,
    /// Which one it is.
    pub identity: Identity,
    /// The content.
    pub payload: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) format: U16,
    pub(crate) kind: U16,
    pub(crate) version: U16,
    pub(crate) reserved: U16,
    pub(crate) set: [u8; 16],
    pub(crate) object: U64,
    pub(crate) generation: U64,
    pub(crate) payload_bytes: U64,
    pub(crate) payload_crc: U32,
    pub(crate) header_crc: U32,
}

const _: () = assert!(size_of::<RawHeader>() == OBJECT_HEADER_BYTES);

/// The header alone, for a payload that is written apart from it.
pub fn object_header(
    kind: u16,
    version: u16,
    identity: &Identity,
    payload: &[u8],
) -> [u8; OBJECT_HEADER_BYTES] {
    let mut raw = RawHeader {
        magic: OBJECT_MAGIC,
        format: U16::new(FORMAT_VERSION),
        kind: U16::new(kind),
        version: U16::new(version),
        reserved: U16::ZERO,
        set: identity.set,
        object: U64::new(identity.object),
        generation: U64::new(identity.generation),
        payload_bytes: U64::new(payload.len() as u64),
        payload_crc: U32::new(crc32c(payload)),
        header_crc: U32::ZERO,
    };
    raw.header_crc = U32::new(raw.checksum());
    zerocopy::transmute!(raw)
}

/// Header and payload in one buffer of `64 + payload.len()` bytes.
pub fn seal_object(kind: u16, version: u16, identity: &Identity, payload: &[u8]) -> Vec<u8> {
    let header = object_header(kind, version, identity, payload);
    let mut bytes = Vec::with_capacity(header.len() + payload.len());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(payload);
    bytes
}

/// Verifies an object of `kind` and, where given, of `identity`. What follows the payload must be
/// zeros: the padding of a block.
///
/// # Errors
/// The first thing that does not fit; the offset counts from the start of `bytes`.
pub fn open_object<'a>(
    bytes: &'a [u8],
    kind: u16,
    identity: Option<&Identity>,
) -> Result<Object<'a>, Corruption> {
    let object = open_any(bytes)?;
    Corruption::unless_equal("kind of object", 10, kind.into(), object.kind.into())?;
    if let Some(identity) = identity {
        object.identity.expect(identity)?;
    }
    Ok(object)
}

/// An object and what follows it, where a format has something other than padding behind it. Only
/// the object's header is verified.
///
/// # Errors
/// What is wrong with the header, or a payload that is not all there.
pub fn split_object(bytes: &[u8]) -> Result<(&[u8], &[u8]), Corruption> {
    let (_, payload, rest) = parts(bytes)?;
    let length = OBJECT_HEADER_BYTES + payload.len();
    Ok((bytes.get(..length).unwrap_or_default(), rest))
}

/// The kind of an object whose header verifies; the payload is not looked at. For a reader who
/// does not know what a file is.
///
/// # Errors
/// What is wrong with the header.
pub fn object_kind(bytes: &[u8]) -> Result<u16, Corruption> {
    open_header(bytes).map(|(raw, _)| raw.kind.get())
}

fn open_header(bytes: &[u8]) -> Result<(&RawHeader, &[u8]), Corruption> {
    let (raw, rest) = RawHeader::ref_from_prefix(bytes).map_err(|_| Corruption {
        what: "bytes of an object header",
        offset: 0,
        expected: OBJECT_HEADER_BYTES as u64,
        found: bytes.len() as u64,
    })?;
    raw.verify()?;
    Ok((raw, rest))
}

/// Header, which verifies, payload, and what follows.
fn parts(bytes: &[u8]) -> Result<(&RawHeader, &[u8], &[u8]), Corruption> {
    let (raw, rest) = open_header(bytes)?;
    let length = raw.payload_bytes.get();
    let (payload, behind) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or(Corruption {
            what: "bytes of the payload",
            offset: 48,
            expected: length,
            found: rest.len() as u64,
        })?;
    Ok((raw, payload, behind))
}

/// Verifies an object of any kind.
pub(crate) fn open_any(bytes: &[u8]) -> Result<Object<'_>, Corruption> {
    let (raw, payload, padding) = parts(bytes)?;
    let sum = crc32c(payload);
    Corruption::unless_equal(
        "payload checksum",
        56,
        raw.payload_crc.get().into(),
        sum.into(),
    )?;
    if let Some(at) = padding.iter().position(|byte| *byte != 0) {
        return Err(Corruption {
            what: "padding after the payload",
            offset: (OBJECT_HEADER_BYTES + payload.len() + at) as u64,
            expected: 0,
            found: padding.get(at).copied().unwrap_or_default().into(),
        });
    }
    Ok(Object {
        kind: raw.kind.get(),
        version: raw.version.get(),
        identity: Identity {
            set: raw.set,
            object: raw.object.get(),
            generation: raw.generation.get(),
        },
        payload,
    })
}

impl RawHeader {
    /// Over the whole header with a zero in the checksum's own place.
    fn checksum(&self) -> u32 {
        let mut raw = self.clone();
        raw.header_crc = U32::ZERO;
        crc32c(raw.as_bytes())
    }

    fn verify(&self) -> Result<(), Corruption> {
        let magic = u64::from_le_bytes(self.magic);
        Corruption::unless_equal("magic", 0, u64::from_le_bytes(OBJECT_MAGIC), magic)?;
        let sum = u64::from(self.checksum());
        Corruption::unless_equal("header checksum", 60, self.header_crc.get().into(), sum)?;
        let format = u64::from(self.format.get());
        Corruption::unless_equal("header version", 8, FORMAT_VERSION.into(), format)?;
        Corruption::unless_equal("reserved field", 14, 0, self.reserved.get().into())
    }
}

impl Identity {
    fn expect(&self, wanted: &Identity) -> Result<(), Corruption> {
        let halves = |set: [u8; 16]| {
            let both = u128::from_be_bytes(set);
            ((both >> 64) as u64, both as u64)
        };
        let (found, expected) = (halves(self.set), halves(wanted.set));
        Corruption::unless_equal("set id, first half", 16, expected.0, found.0)?;
        Corruption::unless_equal("set id, second half", 24, expected.1, found.1)?;
        Corruption::unless_equal("object number", 32, wanted.object, self.object)?;
        Corruption::unless_equal("generation", 40, wanted.generation, self.generation)
    }
}

#[cfg(test)]
mod tests;
