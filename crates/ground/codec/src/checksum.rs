//! CRC-32C.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    narrow(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// A CRC-32C over bytes that come in several pieces.
pub struct Checksum(Digest);

impl Checksum {
    /// Over nothing yet.
    pub fn new() -> Checksum {
        Checksum(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds `bytes`.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Checksum {
        self.0.update(bytes);
        self
    }

    /// The CRC-32C of everything added.
    pub fn finish(&self) -> u32 {
        narrow(self.0.finalize())
    }
}

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum::new()
    }
}

/// The library returns every width in 64 bits; a 32-bit CRC fills the lower half.
fn narrow(checksum: u64) -> u32 {
    u32::try_from(checksum).expect("a 32-bit CRC has at most 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_catalogue_is_met() {
        // "123456789" -> 0xe3069283: RFC 3720 and the CRC RevEng catalogue, CRC-32/ISCSI.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720 B.4, 32 zeros");
    }

    proptest! {
        #[test]
        fn both_libraries_agree(bytes in prop::collection::vec(any::<u8>(), 0..5000), cut in 0usize..5000) {
            let expected = crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(&bytes), expected);
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(Checksum::new().with(head).with(tail).finish(), expected);
        }
    }
}
