//! Labels of objects.

use redundancy::label::{LABEL_BYTES, Label};

/// Any bytes are refused or round-trip; then the same with a checksum that fits.
pub(crate) fn check(bytes: &[u8]) {
    check_one(bytes);
    let Some(fitting) = bytes.get(..LABEL_BYTES) else {
        return;
    };
    let mut fitting = fitting.to_vec();
    fitting[4..8].fill(0);
    let checksum = codec::crc32c(&fitting);
    fitting[4..8].copy_from_slice(&checksum.to_le_bytes());
    check_one(&fitting);
}

fn check_one(bytes: &[u8]) {
    if let Some(label) = Label::decode(bytes) {
        assert_eq!(label.encode(), bytes);
        assert!(label.home.0 < 64 && label.id.0 != 0);
    }
}
