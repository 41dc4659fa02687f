//! What is wrong with a dump.

use std::io;

use thiserror::Error;

/// Why a file could not be read or written.
#[derive(Debug, Error)]
pub enum RdbError {
    /// The reader or the writer failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not those of an RDB file.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The bytes may be right, but this cannot read them.
    #[error(
        "at byte {offset}: {what} ({number}) is not supported; what stands before it can be read"
    )]
    Unsupported {
        /// Where it starts.
        offset: u64,
        /// What it is.
        what: &'static str,
        /// Its number in the format.
        number: u64,
    },
}

/// Bytes that are not what they have to be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at byte {offset}: expected {expected}, found {found}; what stands before it can be read")]
pub struct Corrupt {
    /// Where it was seen: behind the bytes that are wrong.
    pub offset: u64,
    /// What has to be there.
    pub expected: &'static str,
    /// What is there.
    pub found: String,
}
