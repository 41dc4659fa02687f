//! What goes wrong with a connection.

use crate::tls::Distrust;
use codec::Corruption;
use env::errno::{Errno, ErrorKind, fault};

/// Why a connection, or a stream of it, does not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RpcError {
    /// A frame is not what was sent. The connection is lost.
    #[error("a frame arrived damaged: {0}")]
    Corrupt(#[from] Corruption),
    /// The peer does what no peer may. The connection is lost.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
    /// No version of frames is spoken by both.
    #[error("no common version: here {}-{}, there {}-{}", ours.0, ours.1, theirs.0, theirs.1)]
    NoCommonVersion {
        /// Oldest and newest of this side.
        ours: (u16, u16),
        /// Oldest and newest of the peer.
        theirs: (u16, u16),
    },
    /// The peer left, and said why.
    #[error("the peer refused: {0}")]
    Refused(String),
    /// The peer ended this stream, for a reason of the protocol above.
    #[error("the peer gave this stream up (code {0})")]
    Reset(u32),
    /// This side has ended the stream or the connection.
    #[error("this side has closed it")]
    Closed,
    /// The peer ended the connection without a word.
    #[error("the connection ended")]
    Ended,
    /// A body that is not what was expected there.
    #[error("a message could not be read")]
    Undecodable,
    /// More than a frame takes.
    #[error("a message of {body_bytes} and {bulk_bytes} bytes is too long")]
    TooLong {
        /// Bytes of the body.
        body_bytes: usize,
        /// Bulk bytes.
        bulk_bytes: usize,
    },
    /// The peer allows no further stream.
    #[error("the peer allows no more than {0} streams")]
    StreamsInUse(u16),
    /// The peer has shown no certificate that this side accepts.
    #[error("the certificate of the peer is not accepted: {0}")]
    Distrusts(Distrust),
    /// The peer does not accept the certificate of this side.
    #[error("the peer does not accept the certificate of this machine: {0}")]
    Distrusted(Distrust),
    /// The peer speaks no TLS, or another.
    #[error("the peer does not speak TLS as this machine does: {0}")]
    Tls(String),
    /// The network, or this machine.
    #[error("the network: {0}")]
    Net(Errno),
}

impl From<Errno> for RpcError {
    fn from(errno: Errno) -> RpcError {
        match Distrust::from_errno(errno) {
            Some(why) => RpcError::Distrusted(why),
            None => RpcError::Net(errno),
        }
    }
}

impl RpcError {
    /// Whether nothing came in time.
    pub fn is_timeout(&self) -> bool {
        *self == RpcError::Net(Errno::TIMEDOUT)
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            RpcError::Corrupt(_) => ErrorKind::Corrupt,
            RpcError::Ended | RpcError::Reset(_) => ErrorKind::Transient,
            RpcError::Net(Errno::CONNRESET | Errno::CONNREFUSED | Errno::TIMEDOUT) => {
                ErrorKind::Transient
            }
            RpcError::Net(errno) => fault(*errno).into(),
            _ => ErrorKind::Misuse,
        }
    }
}
