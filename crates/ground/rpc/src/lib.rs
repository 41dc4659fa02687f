//! Framed, checksummed streams between hosts, with flow control and mutual TLS.
//!
//! # Promise
//! Messages of a stream arrive whole, as they were sent, in order and once, or the connection ends
//! with an error that says why. Neither side holds more in memory than the limits it has set,
//! whatever the other does.
//!
//! # What it rests on
//! An [`env::Stream`] that carries bytes in order, and CRC-32C: separate sums of header, body and
//! bulk, the header's covering sequence and side. They find accidents; against people there has to
//! be `ssh` below, or TLS ([`tls`], on rustls and ring). Bodies are postcard.
//!
//! # Invariants
//! - frames taken behind one that did not verify = 0
//! - memory for a frame is taken only for lengths <= [`BODY_MAX`] and [`BULK_MAX`], from a header that
//!   verified
//! - bytes held for a user <= streams x window; bytes waiting to go out <= [`BACKLOG_BYTES`] + one
//!   frame + what control takes
//! - what a sender has under way on a stream <= the receiver's window
//!
//! # On disk
//! Nothing. On the wire: `docs/formats/rpc.md`.
//!
//! # How it is tested
//! [`Session`] has no I/O: every bit of a conversation is flipped, every frame lost, doubled and
//! moved, and sessions with planted bugs have to be found by that. Connections run over the
//! simulated network, cut after each byte; over TLS too, where who is not trusted is sent away. Any bytes: a fuzz target, whose corpus `cargo test`
//! replays.
//!
//! ```
//! # use holdfast_rpc as rpc;
//! use env::{Clock, Net, real::{RealClock, RealNet, connected_pair}};
//! use rpc::{Connection, Limits, Role};
//! use std::time::Duration;
//! let soon = RealClock.now().after(Duration::from_secs(30));
//! let (here, there) = connected_pair()?;
//! let server = RealNet.spawn("server", Box::new(move || {
//!     let connection = Connection::start(there, &RealNet, Role::Server, Limits::default()).unwrap();
//!     let stream = connection.accept(soon).unwrap();
//!     let request = stream.receive(soon).unwrap().expect("a request");
//!     stream.send(&request.body, b"pong", soon).unwrap();
//!     stream.finish().unwrap();
//!     connection.close(soon).unwrap();
//! }))?;
//! let client = Connection::start(here, &RealNet, Role::Client, Limits::default())?;
//! let answer = client.call(b"ping", b"", soon)?;
//! assert_eq!((&answer.body[..], &answer.bulk[..]), (&b"ping"[..], &b"pong"[..]));
//! client.close(soon)?;
//! server.join().expect("no panic");
//! # Ok::<(), rpc::RpcError>(())
//! ```

mod connection;
mod error;
mod header;
mod hello;
mod session;
pub mod tls;

pub use connection::{Channel, Connection};
pub use error::RpcError;
pub use header::{BODY_MAX, BULK_MAX, HEADER_BYTES, Role};
pub use hello::{Hello, Limits, VERSION_MAX, VERSION_MIN, WINDOW_BYTES};
pub use session::{BACKLOG_BYTES, Message, Sent, Session, StreamId, Taken, decode, encode};
