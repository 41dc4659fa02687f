//! The Redis serialisation protocol: requests in, replies out. No I/O.

mod reply;
mod request;

pub use reply::{Reply, Version, push_number};
pub use request::{Limits, Parsed, Parser, ProtocolError, UNAUTHENTICATED, split_words};
