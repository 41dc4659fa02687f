//! Byte streams between hosts.

use crate::Result;
use crate::clock::Moment;
use crate::errno::Errno;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Connections that a listener keeps until somebody accepts them; more wait outside, their
/// [`Net::connect`] with them.
pub const BACKLOG: usize = 128;

/// Where somebody listens, as people write it: `host:port`, with square brackets around a host that
/// has colons.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// A name, or an IP address without brackets.
    pub host: String,
    /// The TCP port; 0 for [`Net::listen`] to choose one.
    pub port: u16,
}

impl Address {
    /// The address of a port on a host.
    pub fn new(host: impl Into<String>, port: u16) -> Address {
        Address {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = Errno;

    /// EINVAL for what is not of the form.
    fn from_str(text: &str) -> Result<Address> {
        let (host, port) = text.rsplit_once(':').ok_or(Errno::INVAL)?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let plain = bracketed.is_some() || !host.contains([':', '[', ']']);
        let host = bracketed.unwrap_or(host);
        // The standard parser takes a sign.
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if plain && digits && !host.is_empty() => Ok(Address::new(host, port)),
            _ => Err(Errno::INVAL),
        }
    }
}

/// The network as one host sees it. All calls block, each no longer than to its deadline, a moment
/// of the clock that belongs to the network (on the real one
/// [`RealClock`](crate::real::RealClock)). What has not happened by then is ETIMEDOUT; with a
/// deadline that has passed a call does what it can without waiting.
pub trait Net: Send + Sync {
    /// Starts to listen. EADDRINUSE where somebody does already, EADDRNOTAVAIL where the host is
    /// another.
    fn listen(&self, at: &Address) -> Result<Arc<dyn Listener>>;

    /// Connects. ECONNREFUSED where nobody listens, EHOSTUNREACH where the name is not known. To
    /// look a name up takes as long as the system's resolver lets it, whatever the deadline.
    ///
    /// After an error the other side may still have accepted a connection, which then ends.
    fn connect(&self, to: &Address, deadline: Moment) -> Result<Arc<dyn Stream>>;

    /// Runs `work` on a thread of its own. A program that starts its threads here and waits nowhere
    /// but in calls of this crate runs in the simulation the same way each time.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Task>>;

    /// A bell, for threads that wait for each other.
    fn bell(&self) -> Arc<dyn Bell>;
}

/// How threads of one process wait for each other, also in the simulation: who has changed
/// something that they share rings, and who waits looks again. It counts, so that no ring is missed
/// between a look and the wait.
pub trait Bell: Send + Sync {
    /// How often it was rung.
    fn count(&self) -> u64;

    /// Wakes everybody who waits.
    fn ring(&self);

    /// Returns when it has been rung more often than `seen`. ETIMEDOUT at the deadline.
    fn wait(&self, seen: u64, deadline: Moment) -> Result<()>;
}

/// A thread that [`Net::spawn`] started; it goes on where this is dropped.
pub trait Task: Send {
    /// Waits for its end; its panic is the error.
    fn join(self: Box<Self>) -> std::thread::Result<()>;
}

/// Connections to come. Dropped, it is closed.
pub trait Listener: Send + Sync {
    /// Where it listens, with the port that was chosen.
    fn address(&self) -> &Address;

    /// The next connection.
    fn accept(&self, deadline: Moment) -> Result<Arc<dyn Stream>>;

    /// Listens no more: connections that nobody has accepted are lost, calls of
    /// [`accept`](Listener::accept) end with ECANCELED, those under way too, and the address is
    /// free.
    fn close(&self);
}

/// A connection: bytes in both directions, each in order. Dropped, it is closed.
///
/// What arrives is a prefix of what was sent, so whoever sends messages says how long they are.
/// Neither end proves that the other is well: the process of a peer may have ended
/// ([`receive`](Stream::receive) answers 0), and a peer whose host is gone is only silent.
///
/// Errors: ETIMEDOUT at the deadline, ECANCELED where this side has finished or closed, ECONNRESET
/// where the connection is lost in whatever way; others are shortages of this host.
///
/// One thread may send while another receives and a third closes.
pub trait Stream: Send + Sync {
    /// The other end.
    fn peer(&self) -> &Address;

    /// Waits for bytes, and says how many of `buffer` they fill, at least 1; 0 where the peer has
    /// finished and all it sent was received. After ETIMEDOUT it may be called again, and nothing
    /// is missing. EINVAL for an empty buffer.
    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> Result<usize>;

    /// Hands all of `data` to the network, waiting while the peer is behind. Success does not say
    /// that it arrived.
    ///
    /// After an error nobody knows how much of it went out, so that every later `send` and
    /// [`finish`](Stream::finish) answers with the same error: nothing can follow a gap.
    fn send(&self, data: &[u8], deadline: Moment) -> Result<()>;

    /// Says that nothing more will be sent; receiving goes on.
    fn finish(&self) -> Result<()>;

    /// Ends both directions. Calls under way and later ones answer ECANCELED. The peer gets what
    /// was sent and then an end, or, where it has sent what was not received here, a lost
    /// connection.
    fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, host, port) in [
            ("store-a:7400", "store-a", 7400),
            ("10.0.0.7:0", "10.0.0.7", 0),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address, Address::new(host, port));
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "host",
            ":1",
            "[]:1",
            "host:",
            "host:+1",
            "host:65536",
            "::1:80",
            "[::1]",
            "[::1:80",
            "ho[s]t:1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(Errno::INVAL), "{text}");
        }
    }
}
