//! DUMP payloads and RDB files, in the format of Redis: `docs/formats/rdb.md`.
//!
//! What is read may be anything: lengths are believed only as far as bytes follow, listpacks,
//! intsets, streams and their older kin are checked before they are used. What is written is
//! version 10, which Redis 7.0 and later read; nothing is compressed.

mod error;
mod file;
mod input;
mod inspect;
mod lzf;
mod object;
mod output;
mod payload;
mod streams;
#[cfg(test)]
mod tests;
mod zipped;

pub use error::{Corrupt, RdbError};
pub use file::{Item, KeyItem, Reader, Writer};
pub use inspect::inspect;
pub use payload::{dump, dump_functions, dump_stream, restore, restore_functions};

/// The newest version that is read, and the one that is written.
pub const VERSION: u16 = 10;

/// Numbers in front of objects.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const SORTED_SET: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const SORTED_SET_2: u8 = 5;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_QUICKLIST: u8 = 14;
    pub(super) const STREAM: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const LIST_QUICKLIST_2: u8 = 18;
    pub(super) const STREAM_2: u8 = 19;
}

/// The two highest bits of a length, and the lengths that are none.
mod length {
    pub(super) const BITS_14: u8 = 0x40;
    pub(super) const BITS_32: u8 = 0x80;
    pub(super) const BITS_64: u8 = 0x81;
    pub(super) const SPECIAL: u8 = 0xc0;
    pub(super) const INTEGER_8: u8 = 0;
    pub(super) const INTEGER_16: u8 = 1;
    pub(super) const INTEGER_32: u8 = 2;
    pub(super) const LZF: u8 = 3;
}

/// CRC-64 as Redis computes it (the polynomial of Jones, from 0).
fn crc() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Redis)
}
