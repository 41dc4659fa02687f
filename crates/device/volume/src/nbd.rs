//! Objects of a volume as block devices for others, by the protocol NBD: fixed newstyle
//! negotiation, structured replies, several connections to one device, trim, write zeroes, FUA.
//!
//! Source: the protocol's own description, `doc/proto.md` of the NetworkBlockDevice project. There
//! is no encryption and nobody is asked who he is: a Unix socket is as open as its directory, a TCP
//! port as its network.

mod handshake;
mod transmission;
pub mod wire;

use crate::{ObjectId, Volume};
use std::io::{self, Read, Write};

/// Requests of a connection that are worked on at once; more wait in the socket.
pub const WORKERS: usize = 4;

/// Bytes that a request may carry or ask for.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Options that a client may send before it chooses a device.
const OPTIONS_MAX: usize = 64;

/// A connection that both sides can use at once.
pub trait Connection: Read + Write + Send {
    /// A second handle to the same connection.
    ///
    /// # Errors
    /// Of the system.
    fn again(&self) -> io::Result<Box<dyn Connection>>;
}

impl Connection for std::os::unix::net::UnixStream {
    fn again(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Connection for std::net::TcpStream {
    fn again(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }
}

/// A device that a client chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Export {
    object: ObjectId,
    size: u64,
}

/// The device of a name: the object of that number, or the first for the empty name.
fn export(volume: &Volume, name: &[u8]) -> Option<Export> {
    let mut objects = volume.objects().into_iter();
    let (object, size) = match name {
        [] => objects.next()?,
        name => {
            let number: u64 = std::str::from_utf8(name).ok()?.parse().ok()?;
            objects.find(|(object, _)| object.0 == number)?
        }
    };
    Some(Export { object, size })
}

/// Serves one client until it leaves.
///
/// # Errors
/// The connection is lost, or the client does not speak the protocol. The volume goes on.
pub fn serve(volume: &Volume, mut connection: Box<dyn Connection>) -> io::Result<()> {
    match handshake::run(volume, connection.as_mut())? {
        Some(chosen) => transmission::run(volume, connection, &chosen),
        None => Ok(()),
    }
}

/// What the client does is not in the protocol.
fn confused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
