//! Files.

mod read;
mod write;

pub use read::Reader;
pub use write::Writer;

use crate::Value;

const MAGIC: &[u8; 5] = b"REDIS";

pub(super) mod code {
    pub(in crate::rdb) const FUNCTION: u8 = 245;
    pub(super) const FUNCTION_EARLY: u8 = 246;
    pub(super) const MODULE: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const EXPIRES_MS: u8 = 252;
    pub(super) const EXPIRES_S: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// One thing that a file holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A note of the program that wrote the file, such as `redis-ver`.
    Note {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The keys that follow are of this database.
    Database(u64),
    /// How many keys of the database follow, and how many of them expire. It may be wrong.
    Sizes {
        /// All keys.
        keys: u64,
        /// Those that expire.
        expires: u64,
    },
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// A key.
    Key(Box<KeyItem>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyItem {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Value,
    /// When it expires, in milliseconds since the epoch.
    pub expires_ms: Option<i64>,
    /// Seconds since it was used, of a server that evicts by time.
    pub idle_s: Option<u64>,
    /// How often it was used, of a server that evicts by frequency.
    pub frequency: Option<u8>,
}
