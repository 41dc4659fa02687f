//! What can go wrong with a log.

use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};

/// Results of this crate.
pub type Result<T> = core::result::Result<T, LogError>;

/// An error of a log operation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// [`crate::Log::create`] where the log is there already.
    #[error("the log {name} exists already")]
    Exists {
        /// Its name.
        name: String,
    },
    /// [`crate::Log::open`] where there is none.
    #[error("there is no log {name} here")]
    Missing {
        /// Its name.
        name: String,
    },
    /// An option is out of range.
    #[error("segment size {found} is not a multiple of 4096 from {min} to {max}")]
    SegmentBytes {
        /// What was asked for.
        found: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// The record is longer than [`crate::RECORD_BYTES_MAX`] or than a segment has room for.
    #[error("a record of {found} bytes is longer than the {max} that this log takes")]
    TooLong {
        /// Bytes of its payload.
        found: u64,
        /// The most.
        max: u64,
    },
    /// A commit of a record that was never appended.
    #[error("record {sequence} was not appended yet; the next is {next}")]
    NotAppended {
        /// The record asked for.
        sequence: u64,
        /// The next to be appended.
        next: u64,
    },
    /// An earlier write or sync failed, so what is on the medium is not known: the log takes no
    /// more records until it is opened anew.
    #[error("the log stopped after {errno} while {doing}; open it again to recover")]
    Poisoned {
        /// What failed.
        doing: &'static str,
        /// With which error.
        errno: Errno,
    },
    /// A file operation failed.
    #[error("{doing} {file}: {errno}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file of the log's directory.
        file: String,
        /// The error.
        errno: Errno,
    },
    /// Bytes of a segment are not what was written, though they had been committed.
    #[error("{file} is corrupt: {corruption}")]
    Corrupt {
        /// The segment's file.
        file: String,
        /// What and where.
        corruption: Corruption,
    },
}

impl LogError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LogError::Exists { .. }
            | LogError::Missing { .. }
            | LogError::SegmentBytes { .. }
            | LogError::TooLong { .. }
            | LogError::NotAppended { .. } => ErrorKind::Misuse,
            LogError::Poisoned { .. } => ErrorKind::Fatal,
            LogError::Io { errno, .. } => fault(*errno).into(),
            LogError::Corrupt { .. } => ErrorKind::Corrupt,
        }
    }

    /// Turns an error number into an error about `file`.
    pub(crate) fn io(doing: &'static str, file: &str) -> impl FnOnce(Errno) -> LogError {
        move |errno| LogError::Io {
            doing,
            file: file.to_owned(),
            errno,
        }
    }

    /// Turns a corruption into an error about `file`.
    pub(crate) fn corrupt(file: &str) -> impl FnOnce(Corruption) -> LogError {
        move |corruption| LogError::Corrupt {
            file: file.to_owned(),
            corruption,
        }
    }
}
