//! What can go wrong, and what to do about it.

use crate::composite::COMPOSITE_BYTES_MAX;
use crate::header::OBJECT_BYTES_MAX;
use crate::key::{ObjectKey, StoreId, Tag};
use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};
use env::handle::Handle;
use log::LogError;

/// Results of this crate.
pub type Result<T> = core::result::Result<T, MetaError>;

/// Why a call failed. Unless a variant says otherwise nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The file system has no usable file handles (or this process may not use them).
    #[error(
        "the file system has no usable file handles ({errno}); ext4, XFS and btrfs have them, and \
         CAP_DAC_READ_SEARCH is needed"
    )]
    NoHandles {
        /// What it answered.
        errno: Errno,
    },
    /// A handle is longer than a place on disk takes.
    #[error("a file handle of {found} bytes is longer than the {max} that fit here")]
    HandleTooLong {
        /// Its bytes, type included.
        found: usize,
        /// The most.
        max: usize,
    },
    /// There is no store where one was to be opened.
    #[error("there is no metadata store here (no file `store`)")]
    NoStore,
    /// There is one where a new one was to be made.
    #[error("there is a metadata store here already")]
    Exists,
    /// Another process has the store open.
    #[error("another process has this metadata store open")]
    Busy,
    /// Another store than the one asked for.
    #[error("this is metadata store {:032x}, not {:032x}", found.0, expected.0)]
    WrongStore {
        /// The one asked for.
        expected: StoreId,
        /// The one that is here.
        found: StoreId,
    },
    /// The file `store` does not verify.
    #[error("the file `store` is corrupt: {0}; nothing was changed")]
    StoreCorrupt(Corruption),
    /// The name cannot be that of an attribute.
    #[error("an attribute's name is trusted.NAME, user.NAME or security.NAME, at most 63 bytes")]
    AttributeName,
    /// The owner was removed.
    #[error("the file is gone")]
    OwnerGone,
    /// The attribute belongs to another file: it came along with a copy or from a backup.
    #[error(
        "the metadata attribute of this file was written for another file, of which this is a \
         copy; reset the file's metadata to use it"
    )]
    Foreign {
        /// The file that it was written for.
        owner: Handle,
    },
    /// The attribute does not verify.
    #[error(
        "the metadata attribute of this file was not written for it, or is damaged ({0}); reset \
         the file's metadata to use it"
    )]
    AttributeCorrupt(Corruption),
    /// The file has no metadata under that tag, or the system no object of that name.
    #[error("there is no such metadata")]
    NoSuchEntry,
    /// The tag stands for metadata of another kind (tiny value, linked, shared).
    #[error("tag {} of this file is metadata of another kind", tag.get())]
    WrongKind {
        /// The tag.
        tag: Tag,
    },
    /// An object's file is not there though something refers to it.
    #[error("the file of {object} is missing")]
    Missing {
        /// The object.
        object: ObjectKey,
    },
    /// An object's file is one of another store.
    #[error("the file of {object} belongs to metadata store {:032x}", found.0)]
    OtherStore {
        /// The object.
        object: ObjectKey,
        /// The store that wrote it.
        found: StoreId,
    },
    /// Bytes of an object's file are not what was written.
    #[error("{object} is corrupt: {corruption}")]
    Corrupt {
        /// The object.
        object: ObjectKey,
        /// What and where in its file.
        corruption: Corruption,
    },
    /// A range that is not inside the content.
    #[error("bytes {offset} to {end} are not inside the {length} bytes of the metadata")]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// The byte behind the last.
        end: u64,
        /// Bytes of the content.
        length: u64,
    },
    /// Something is longer than it may be.
    #[error("{what} of {found} bytes is longer than the {max} that are allowed")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its bytes.
        found: u64,
        /// The most.
        max: u64,
    },
    /// The file's attribute space is used up.
    #[error("the file has no room for {bytes} bytes of attribute ({errno}); nothing was changed")]
    NoAttributeSpace {
        /// Bytes of the attribute.
        bytes: usize,
        /// What the file system answered.
        errno: Errno,
    },
    /// The file system is full.
    #[error("no room on the file system while {doing} ({errno}); nothing was changed")]
    NoSpace {
        /// What was tried.
        doing: &'static str,
        /// What it answered.
        errno: Errno,
    },
    /// The journal is full of requests whose notes are open.
    #[error("the journal holds {bytes} bytes, kept by notes that are not done; finish them first")]
    JournalFull {
        /// Its bytes.
        bytes: u64,
    },
    /// An earlier write or sync failed: the journal has what was acknowledged, the files may not.
    #[error("the metadata store stopped after {errno} while {doing}; open it again to recover")]
    Stopped {
        /// What failed.
        doing: &'static str,
        /// With which error.
        errno: Errno,
    },
    /// The journal.
    #[error("the metadata journal: {0}")]
    Log(#[from] LogError),
    /// A record of the journal verifies, yet says nothing that this version understands.
    #[error("record {sequence} of the metadata journal is not understood: {corruption}")]
    Record {
        /// Its sequence.
        sequence: u64,
        /// What and where.
        corruption: Corruption,
    },
    /// A file operation failed.
    #[error("{doing}: {errno}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl MetaError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            MetaError::NoHandles { .. }
            | MetaError::HandleTooLong { .. }
            | MetaError::NoStore
            | MetaError::Exists
            | MetaError::WrongStore { .. }
            | MetaError::AttributeName
            | MetaError::OwnerGone
            | MetaError::NoSuchEntry
            | MetaError::WrongKind { .. }
            | MetaError::OutOfRange { .. }
            | MetaError::TooLong { .. } => ErrorKind::Misuse,
            MetaError::Busy | MetaError::JournalFull { .. } => ErrorKind::Transient,
            MetaError::StoreCorrupt(_)
            | MetaError::Foreign { .. }
            | MetaError::AttributeCorrupt(_)
            | MetaError::Missing { .. }
            | MetaError::OtherStore { .. }
            | MetaError::Corrupt { .. }
            | MetaError::Record { .. } => ErrorKind::Corrupt,
            MetaError::NoAttributeSpace { .. } | MetaError::NoSpace { .. } => ErrorKind::NoSpace,
            MetaError::Stopped { .. } => ErrorKind::Fatal,
            MetaError::Log(error) => error.kind(),
            MetaError::Io { errno, .. } => fault(*errno).into(),
        }
    }

    /// A number for callers in other languages; it never changes its meaning. 0 is success.
    pub fn code(&self) -> i32 {
        match self {
            MetaError::NoHandles { .. } => 1,
            MetaError::HandleTooLong { .. } => 2,
            MetaError::NoStore => 3,
            MetaError::Exists => 4,
            MetaError::Busy => 5,
            MetaError::WrongStore { .. } => 6,
            MetaError::StoreCorrupt(_) => 7,
            MetaError::AttributeName => 8,
            MetaError::OwnerGone => 9,
            MetaError::Foreign { .. } => 10,
            MetaError::AttributeCorrupt(_) => 11,
            MetaError::NoSuchEntry => 12,
            MetaError::WrongKind { .. } => 13,
            MetaError::Missing { .. } => 14,
            MetaError::OtherStore { .. } => 15,
            MetaError::Corrupt { .. } => 16,
            MetaError::OutOfRange { .. } => 17,
            MetaError::TooLong { .. } => 18,
            MetaError::NoAttributeSpace { .. } => 19,
            MetaError::NoSpace { .. } => 20,
            MetaError::JournalFull { .. } => 21,
            MetaError::Stopped { .. } => 22,
            MetaError::Log(_) => 23,
            MetaError::Record { .. } => 24,
            MetaError::Io { .. } => 25,
        }
    }

    /// Turns an error number into an error that says what was tried.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(Errno) -> MetaError {
        move |errno| match errno {
            Errno::NOSPC | Errno::DQUOT => MetaError::NoSpace { doing, errno },
            errno => MetaError::Io { doing, errno },
        }
    }

    /// An object longer than [`OBJECT_BYTES_MAX`].
    pub(crate) fn object_too_long(found: u64) -> MetaError {
        MetaError::TooLong {
            what: "metadata",
            found,
            max: OBJECT_BYTES_MAX,
        }
    }

    pub(crate) fn attribute_too_long() -> MetaError {
        MetaError::TooLong {
            what: "the file's attribute",
            found: COMPOSITE_BYTES_MAX as u64 + 1,
            max: COMPOSITE_BYTES_MAX as u64,
        }
    }
}
