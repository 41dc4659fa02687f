//! Sealed objects.

use codec::{Identity, OBJECT_HEADER_BYTES, crc32c, inspect, open_object, seal_object};

/// Any bytes are refused or round-trip; then the same with checksums that fit, so that the checks
/// behind them are reached.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    let mut fitting = bytes.to_vec();
    let length = fitting.get(48..56).map(|field| {
        let mut value = [0; 8];
        value.copy_from_slice(field);
        u64::from_le_bytes(value)
    });
    let (Some(length), Some(rest)) = (length, fitting.get(OBJECT_HEADER_BYTES..)) else {
        return;
    };
    let payload = usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length));
    let payload_crc = crc32c(payload.unwrap_or_default());
    fitting[..8].copy_from_slice(b"HOLDFAST");
    fitting[56..60].copy_from_slice(&payload_crc.to_le_bytes());
    fitting[60..64].fill(0);
    let header_crc = crc32c(&fitting[..OBJECT_HEADER_BYTES]);
    fitting[60..64].copy_from_slice(&header_crc.to_le_bytes());
    check_one(&fitting);
}

fn check_one(bytes: &[u8]) {
    let kind = bytes
        .get(10..12)
        .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let opened = open_object(bytes, kind, None);
    assert_eq!(opened.is_ok(), inspect(bytes).is_ok());
    let Ok(object) = opened else { return };
    let sealed = seal_object(kind, object.version, &object.identity, object.payload);
    assert_eq!(sealed, bytes[..sealed.len()]);
    assert!(bytes[sealed.len()..].iter().all(|byte| *byte == 0));
    let other = Identity {
        object: !object.identity.object,
        ..object.identity
    };
    assert!(open_object(bytes, kind, Some(&object.identity)).is_ok());
    assert!(open_object(bytes, kind, Some(&other)).is_err());
    assert!(open_object(bytes, !kind, None).is_err());
}
