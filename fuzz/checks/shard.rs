//! Headers of shards, notes of merges, and the position of a scrub.

use redundancy::stripes::inspect::{recode, recode_note, recode_position, shard};

/// Any bytes are refused, or read back as the same.
pub(crate) fn check(bytes: &[u8]) {
    let shown = shard(bytes, bytes.len() as u64);
    match recode(bytes) {
        Some(once) => {
            assert!(shown.is_ok());
            assert_eq!(recode(&once).as_ref(), Some(&once));
        }
        None => drop(shown),
    }
    if let Some(once) = recode_position(bytes) {
        assert_eq!(recode_position(&once).as_ref(), Some(&once));
    }
    for kind in 0..4 {
        if let Some(once) = recode_note(kind, bytes) {
            assert_eq!(recode_note(kind, &once).as_ref(), Some(&once));
        }
    }
}
