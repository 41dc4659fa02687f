//! Checksums of the 4 KiB pages of data that lies elsewhere.

use crate::{Checksum, Corruption, Identity};

/// Bytes that one checksum covers.
pub const PAGE_BYTES: usize = 4096;

/// CRC-32C of page `page_index` of the object `identity`. Identity, index and length go in, so a
/// page of another object, at another place, or of another length does not verify. The last page
/// of an object may be shorter than [`PAGE_BYTES`].
///
/// # Panics
/// Where `bytes` is longer than a page.
pub fn page_sum(identity: &Identity, page_index: u64, bytes: &[u8]) -> u32 {
    assert!(bytes.len() <= PAGE_BYTES, "a page has at most 4096 bytes");
    Checksum::new()
        .with(&identity.set)
        .with(&identity.object.to_le_bytes())
        .with(&identity.generation.to_le_bytes())
        .with(&page_index.to_le_bytes())
        .with(&(bytes.len() as u64).to_le_bytes())
        .with(bytes)
        .finish()
}

/// Holds a page against its stored checksum.
///
/// # Errors
/// A [`Corruption`] whose offset is that of the page in the object.
pub fn check_page(
    identity: &Identity,
    page_index: u64,
    bytes: &[u8],
    stored: u32,
) -> Result<(), Corruption> {
    let found = page_sum(identity, page_index, bytes);
    if found == stored {
        return Ok(());
    }
    Err(Corruption {
        what: "page checksum",
        offset: page_index.saturating_mul(PAGE_BYTES as u64),
        expected: stored.into(),
        found: found.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        set: [1; 16],
        object: 2,
        generation: 3,
    };

    #[test]
    fn the_sums_of_version_1_do_not_change() {
        assert_eq!(page_sum(&IDENTITY, 4, &[5; PAGE_BYTES]), 0x27a9_8a88);
        assert_eq!(page_sum(&IDENTITY, 4, b"short"), 0xf7c8_79b6);
    }

    #[test]
    fn a_page_elsewhere_or_of_another_object_is_found() {
        let page = [5; PAGE_BYTES];
        let sum = page_sum(&IDENTITY, 4, &page);
        assert_eq!(check_page(&IDENTITY, 4, &page, sum), Ok(()));
        let moved = check_page(&IDENTITY, 5, &page, sum).unwrap_err();
        assert_eq!(moved.offset, 5 * 4096);
        let other = Identity {
            object: 9,
            ..IDENTITY
        };
        assert!(check_page(&other, 4, &page, sum).is_err());
        assert!(check_page(&IDENTITY, 4, &page[..4095], sum).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let page = [0; PAGE_BYTES];
        let sum = page_sum(&IDENTITY, 0, &page);
        for bit in 0..PAGE_BYTES * 8 {
            let mut bad = page;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(check_page(&IDENTITY, 0, &bad, sum).is_err(), "bit {bit}");
        }
    }
}
