//! Why a transfer does not go on.

use crate::message::FailureKind;
use crate::walk::words;
use env::errno::{Errno, ErrorKind, Fault, fault};
use rpc::RpcError;

/// A transfer that ended before its end. What was put in place stays, and is whole.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// The connection, or the peer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// This side cannot use something.
    #[error("{doing}: {}", words(*errno))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// How it ended.
        errno: Errno,
    },
    /// The receiver's manifest cannot be kept here.
    #[error("the manifest cannot be written: {}", words(*.0))]
    Manifest(Errno),
    /// The receiver cannot go on.
    #[error("{what}")]
    Failed {
        /// What kind of failure.
        kind: FailureKind,
        /// What happened, in words.
        what: String,
    },
    /// The peer said what it may not.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
}

impl TransferError {
    pub(crate) fn io(doing: &'static str) -> impl Fn(Errno) -> TransferError {
        move |errno| TransferError::Io { doing, errno }
    }

    pub(crate) fn failed(kind: FailureKind, what: impl Into<String>) -> TransferError {
        TransferError::Failed {
            kind,
            what: what.into(),
        }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            TransferError::Rpc(error) => error.kind(),
            TransferError::Io { errno, .. } | TransferError::Manifest(errno) => {
                fault(*errno).into()
            }
            TransferError::Failed { kind, .. } => match kind {
                FailureKind::Full => ErrorKind::NoSpace,
                FailureKind::Medium => ErrorKind::Fatal,
                FailureKind::Busy => ErrorKind::Transient,
                _ => ErrorKind::Misuse,
            },
            TransferError::Violation(_) => ErrorKind::Misuse,
        }
    }

    /// As a receiver tells it to its sender.
    pub(crate) fn to_failure(&self) -> (FailureKind, String) {
        let kind = match self {
            TransferError::Failed { kind, .. } => *kind,
            // Before anything was written: it is mounted like that.
            TransferError::Io { errno, .. } if *errno == Errno::ROFS => FailureKind::Destination,
            TransferError::Io { errno, .. } => match fault(*errno) {
                Fault::NoSpace => FailureKind::Full,
                Fault::Medium => FailureKind::Medium,
                _ => FailureKind::Destination,
            },
            _ => FailureKind::Destination,
        };
        (kind, self.to_string())
    }
}
