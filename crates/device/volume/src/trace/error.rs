//! What can go wrong with a trace.

use super::event::EventNumber;
use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};

/// Results of this module.
pub type Result<T> = core::result::Result<T, TraceError>;

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// It does not begin as a trace does.
    #[error("not a trace: {0}")]
    NotATrace(Corruption),
    /// An event verifies and cannot be.
    #[error("event {} of the trace makes no sense: {corruption}", event.0)]
    Senseless {
        /// Which.
        event: EventNumber,
        /// What is wrong.
        corruption: Corruption,
    },
    /// The trace does not go as far.
    #[error("the trace has no event {}, the last one is {}", wanted.0, last.0)]
    NoEvent {
        /// What was asked for.
        wanted: EventNumber,
        /// The last.
        last: EventNumber,
    },
    /// A write that was to be lost is not one that can be.
    #[error("event {} is no write that may be lost there", event.0)]
    NotInFlight {
        /// Which was named.
        event: EventNumber,
    },
    /// The image to begin with has another length.
    #[error("the base has {found} bytes, the disk of the trace had {expected}")]
    BaseLength {
        /// Bytes of the disk that was recorded.
        expected: u64,
        /// Bytes of the base.
        found: u64,
    },
    /// The image to begin with is not what the disk was.
    #[error("the base is not what the disk was when the trace began")]
    OtherBase,
    /// A disk.
    #[error("{doing}: {errno}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The error.
        errno: Errno,
    },
}

impl TraceError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TraceError::NotATrace(_) | TraceError::Senseless { .. } => ErrorKind::Corrupt,
            TraceError::NoEvent { .. }
            | TraceError::NotInFlight { .. }
            | TraceError::BaseLength { .. }
            | TraceError::OtherBase => ErrorKind::Misuse,
            TraceError::Io { errno, .. } => fault(*errno).into(),
        }
    }

    /// Turns an error number into an error that says what was tried.
    pub(super) fn io(doing: &'static str) -> impl FnOnce(Errno) -> TraceError {
        move |errno| TraceError::Io { doing, errno }
    }
}
