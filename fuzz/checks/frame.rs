//! Record frames.

use codec::{FRAME_HEADER_BYTES, FrameKey, crc32c};

/// Any bytes are refused or round-trip; then the same with checksums that fit.
pub(crate) fn check(bytes: &[u8]) {
    let key = FrameKey::new(7, 1);
    check_one(&key, bytes);
    let Some(length) = bytes.get(20..24) else {
        return;
    };
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let mut fitting = bytes.to_vec();
    let Some(rest) = fitting.get(FRAME_HEADER_BYTES..) else {
        return;
    };
    let payload_crc = crc32c(rest.get(..length).unwrap_or_default());
    fitting[..4].copy_from_slice(b"HREC");
    fitting[24..28].copy_from_slice(&payload_crc.to_le_bytes());
    fitting[28..32].fill(0);
    let mut covered = Vec::from(7u128.to_le_bytes());
    covered.extend_from_slice(&1u64.to_le_bytes());
    covered.extend_from_slice(&fitting[..FRAME_HEADER_BYTES]);
    let header_crc = crc32c(&covered);
    fitting[28..32].copy_from_slice(&header_crc.to_le_bytes());
    check_one(&key, &fitting);
}

fn check_one(key: &FrameKey, bytes: &[u8]) {
    let Ok(frame) = key.open(bytes) else { return };
    assert_eq!(key.peek(bytes), Ok(frame.header));
    let payload = frame.payload;
    let header = key.seal(&frame.header, payload.len(), crc32c(payload));
    assert_eq!(header, bytes[..FRAME_HEADER_BYTES]);
    assert_eq!(*payload, bytes[FRAME_HEADER_BYTES..][..payload.len()]);
    assert!(FrameKey::new(7, 2).open(bytes).is_err());
}
