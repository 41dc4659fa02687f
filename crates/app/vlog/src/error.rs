//! What can go wrong with a validity-tracked log.

use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};

/// Results of this crate.
pub type Result<T> = core::result::Result<T, VlogError>;

/// An error of an operation on a log. Unless it says otherwise, nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VlogError {
    /// An option is out of range.
    #[error("{what} is {found}; it has to be from {min} to {max}")]
    Option {
        /// Which.
        what: &'static str,
        /// What was asked for.
        found: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// [`crate::Vlog::create`] where a log, or a directory of another, is there already.
    #[error(
        "{file} is there already: a log of that name has this directory; open it, or choose another \
         directory or name"
    )]
    Exists {
        /// What is there.
        file: String,
    },
    /// [`crate::Vlog::open`] where there is none.
    #[error("there is no log here: {file} is missing; create one, or look for the right directory")]
    Missing {
        /// What would have to be there.
        file: String,
    },
    /// Another process, or another value in this one, has it open.
    #[error("the log is in use: {file} is locked by another process; end that one first")]
    Busy {
        /// The lock.
        file: String,
    },
    /// A directory that belongs to another log, or stands in another's place.
    #[error("{file} belongs to another log than the first directory; give this log's directories")]
    Foreign {
        /// The directory's own file.
        file: String,
    },
    /// The log has another number of directories.
    #[error("the log has {expected} directories, and {found} were given; give all of them")]
    Directories {
        /// How many it has.
        expected: u32,
        /// How many were given.
        found: u32,
    },
    /// Written by a newer version of this library.
    #[error(
        "{file} is of version {found}, and this program reads up to {known}; use the program that \
         wrote it, or a newer one. Nothing was changed"
    )]
    Version {
        /// Which file.
        file: String,
        /// Its version.
        found: u16,
        /// The newest that is known here.
        known: u16,
    },
    /// A record, or the part of a group on one lane, is too long.
    #[error("{found} bytes are more than the {max} that a record or a group may have")]
    TooLong {
        /// Bytes.
        found: u64,
        /// The most.
        max: u64,
    },
    /// A position that names no live record.
    #[error("the position names no live record: it was killed before, or is of another opening")]
    NotLive,
    /// 2^24 segments have live records.
    #[error("the log has live records in 2^24 segments, which is the most it can tell apart")]
    Segments,
    /// What was appended waits in memory up to the bound, and cannot be written now.
    #[error(
        "{errno} while {doing} {file}: what was appended waits in memory; make room on that disk"
    )]
    Full {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        file: String,
        /// The error.
        errno: Errno,
    },
    /// An earlier write failed, so what is on the medium is not known.
    #[error("the log stopped after {errno} while {doing} {file}; open it again to recover")]
    Stopped {
        /// What failed.
        doing: &'static str,
        /// On which file.
        file: String,
        /// With which error.
        errno: Errno,
    },
    /// A file operation failed.
    #[error("{doing} {file}: {errno}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        file: String,
        /// The error.
        errno: Errno,
    },
    /// Bytes are not what was written and had been durable.
    #[error(
        "{file} is damaged: {corruption}. Nothing was changed; put back a good copy of this file"
    )]
    Corrupt {
        /// Which file.
        file: String,
        /// What and where.
        corruption: Corruption,
    },
    /// A file that belongs to the log is not there.
    #[error(
        "{file} is missing; records in it are lost without it. Nothing was changed; put it back"
    )]
    Lost {
        /// Which file.
        file: String,
    },
}

impl VlogError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            VlogError::Option { .. }
            | VlogError::Exists { .. }
            | VlogError::Missing { .. }
            | VlogError::Foreign { .. }
            | VlogError::Directories { .. }
            | VlogError::Version { .. }
            | VlogError::TooLong { .. }
            | VlogError::NotLive => ErrorKind::Misuse,
            VlogError::Busy { .. } => ErrorKind::Transient,
            VlogError::Segments | VlogError::Full { .. } => ErrorKind::NoSpace,
            VlogError::Stopped { .. } => ErrorKind::Fatal,
            VlogError::Io { errno, .. } => fault(*errno).into(),
            VlogError::Corrupt { .. } | VlogError::Lost { .. } => ErrorKind::Corrupt,
        }
    }

    /// A number for each kind of error, for C; a number never changes its meaning.
    pub fn code(&self) -> i32 {
        match self {
            VlogError::Option { .. } => 1,
            VlogError::Exists { .. } => 2,
            VlogError::Missing { .. } => 3,
            VlogError::Busy { .. } => 4,
            VlogError::Foreign { .. } => 5,
            VlogError::Directories { .. } => 6,
            VlogError::Version { .. } => 7,
            VlogError::TooLong { .. } => 8,
            VlogError::NotLive => 9,
            VlogError::Segments => 10,
            VlogError::Full { .. } => 11,
            VlogError::Stopped { .. } => 12,
            VlogError::Io { .. } => 13,
            VlogError::Corrupt { .. } => 14,
            VlogError::Lost { .. } => 15,
        }
    }

    pub(crate) fn io(doing: &'static str, file: &str) -> impl FnOnce(Errno) -> VlogError {
        move |errno| VlogError::Io {
            doing,
            file: file.to_owned(),
            errno,
        }
    }

    pub(crate) fn corrupt(file: &str) -> impl FnOnce(Corruption) -> VlogError {
        move |corruption| VlogError::Corrupt {
            file: file.to_owned(),
            corruption,
        }
    }

    /// Whether the same may be tried again once there is room.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, VlogError::Io { errno, .. } if fault(*errno) == env::errno::Fault::NoSpace)
    }
}
