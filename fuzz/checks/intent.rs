//! Records of the write-intent journal.

use redundancy::intent::{describe, recode};

/// Any bytes are refused, or are a record that adds up and reads back as the same.
pub(crate) fn check(bytes: &[u8]) {
    let Some(once) = recode(bytes) else {
        assert!(describe(1, 1, bytes).is_err());
        return;
    };
    assert_eq!(recode(&once).as_ref(), Some(&once));
    assert_eq!(describe(1, 1, bytes), describe(1, 1, &once));
    assert!(describe(1, 0, bytes).is_err());
}
