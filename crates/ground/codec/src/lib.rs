//! Self-verifying bytes.
/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
