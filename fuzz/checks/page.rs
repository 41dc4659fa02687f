//! Page checksums. The input is a page behind its identity: set (16 bytes), object, generation,
//! index (8 each), the stored checksum (4).

use codec::{Identity, PAGE_BYTES, check_page, page_sum};

/// A page verifies under its own sum and under no other.
pub(crate) fn check(bytes: &[u8]) {
    let Some((head, page)) = bytes.split_at_checked(44) else {
        return;
    };
    let page = page.get(..PAGE_BYTES).unwrap_or(page);
    let word = |at: usize| {
        let mut value = [0; 8];
        value.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(value)
    };
    let mut set = [0; 16];
    set.copy_from_slice(&head[..16]);
    let identity = Identity {
        set,
        object: word(16),
        generation: word(24),
    };
    let index = word(32);
    let stored = u32::from_le_bytes([head[40], head[41], head[42], head[43]]);
    let sum = page_sum(&identity, index, page);
    assert!(check_page(&identity, index, page, sum).is_ok());
    assert_eq!(
        check_page(&identity, index, page, stored).is_ok(),
        sum == stored
    );
    assert!(check_page(&identity, index ^ 1, page, sum).is_err());
}
