//! Segments of differentials, and their records.

use redundancy::stripes::delayed::inspect::{recode, recode_with_checksum, segment, with_header};

/// Any bytes are refused, or read back as the same; with their checksum made right, too.
pub(crate) fn check(bytes: &[u8]) {
    drop(segment(bytes, bytes.len() as u64));
    for at in [0, 128] {
        for again in [recode(at, bytes), recode_with_checksum(at, bytes)] {
            let Some(once) = again else { continue };
            assert_eq!(recode(at, &once).as_ref(), Some(&once));
        }
    }
    // As the content of a segment whose header is right.
    let whole = with_header(bytes);
    assert!(segment(&whole, whole.len() as u64).is_ok());
}
