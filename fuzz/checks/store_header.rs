//! Headers of stores.

use codec::{Identity, kind, seal_object};
use redundancy::set::Header;

/// Any bytes are refused or read back as the same; then the input is taken as the payload of a
/// sound object, so that the checks behind the checksums are reached.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    let number = |at: usize| {
        let field = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
        field.map_or(0, u64::from_le_bytes)
    };
    let identity = Identity {
        set: bytes
            .get(..16)
            .and_then(|b| b.try_into().ok())
            .unwrap_or_default(),
        object: number(32) & 0xff,
        generation: number(64),
    };
    check_one(&seal_object(kind::STORE_HEADER, 1, &identity, bytes));
}

fn check_one(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
}
