//! TCP, and pairs of sockets inside one machine.

mod bell;
mod pipes;
mod stream;

pub use pipes::stream_of;

use super::{RealClock, uninterrupted};
use crate::Result;
use crate::clock::{Clock, Moment};
use crate::errno::Errno;
use crate::net::{Address, BACKLOG, Bell, Listener, Net, Stream, Task};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stream::RealStream;

/// Two ends of one connection inside this machine, over no network: what one sends the other
/// receives.
pub fn connected_pair() -> Result<(Arc<dyn Stream>, Arc<dyn Stream>)> {
    let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    let end = |socket| RealStream::of(socket, Address::new("local", 0));
    Ok((Arc::new(end(a)), Arc::new(end(b))))
}

/// A connection to a process that is to be started: this end, and the other for its standard input
/// and output.
pub fn connected_child() -> Result<(Arc<dyn Stream>, OwnedFd)> {
    let kind = SocketType::STREAM;
    let flags = SocketFlags::CLOEXEC;
    let (ours, its) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
    // Only this end: the child's own reads and writes are to wait.
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((
        Arc::new(RealStream::of(ours, Address::new("child", 0))),
        its,
    ))
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The host's TCP, over IP versions 4 and 6.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealNet;

impl Net for RealNet {
    fn listen(&self, at: &Address) -> Result<Arc<dyn Listener>> {
        let mut answer = Err(Errno::HOSTUNREACH);
        for address in resolve(at)? {
            answer = RealListener::bind(at, &address);
            // One that somebody has is not made up for by another of the same name: a client would
            // reach either.
            if matches!(answer, Ok(_) | Err(Errno::ADDRINUSE)) {
                break;
            }
        }
        Ok(Arc::new(answer?))
    }

    fn connect(&self, to: &Address, deadline: Moment) -> Result<Arc<dyn Stream>> {
        let mut answer = Err(Errno::HOSTUNREACH);
        let addresses: Vec<SocketAddr> = resolve(to)?.collect();
        for (address, left) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
            // Each has its share of the time: one that is silent does not keep us from the others.
            let now = RealClock.now();
            answer = connect(address, now.after(deadline.since(now) / left));
            if answer.is_ok() {
                break;
            }
        }
        Ok(Arc::new(RealStream::new(answer?, to.clone())?))
    }

    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Task>> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        match thread.spawn(work) {
            Ok(thread) => Ok(Box::new(RealTask(thread))),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(bell::RealBell::default())
    }
}

struct RealTask(std::thread::JoinHandle<()>);

impl Task for RealTask {
    fn join(self: Box<Self>) -> std::thread::Result<()> {
        self.0.join()
    }
}

/// The system's resolver says why a name cannot be looked up only in words.
fn resolve(address: &Address) -> Result<impl Iterator<Item = SocketAddr>> {
    (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::HOSTUNREACH))
}

fn socket(address: &SocketAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)
}

fn connect(address: &SocketAddr, deadline: Moment) -> Result<OwnedFd> {
    let socket = socket(address)?;
    match rustix::net::connect(&socket, address) {
        // After a signal the attempt goes on in the background (connect(2)).
        Err(Errno::INPROGRESS | Errno::INTR) => {
            wait(&socket, PollFlags::OUT, deadline)?;
            sockopt::socket_error(&socket)??;
        }
        answer => answer?,
    }
    Ok(socket)
}

/// Waits until the socket is ready for one of `events`, has failed, or was shut down.
fn wait(socket: &OwnedFd, events: PollFlags, deadline: Moment) -> Result<()> {
    loop {
        let left = deadline.since(RealClock.now());
        let timeout = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(socket, events)], Some(&timeout)) {
            Ok(0) if RealClock.now() >= deadline => return Err(Errno::TIMEDOUT),
            Ok(0) | Err(Errno::INTR) => {}
            answer => return answer.map(drop),
        }
    }
}

struct RealListener {
    socket: OwnedFd,
    address: Address,
    closed: AtomicBool,
}

impl RealListener {
    fn bind(at: &Address, address: &SocketAddr) -> Result<RealListener> {
        let socket = socket(address)?;
        // Connections of an earlier process that linger do not keep the port from this one.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, address)?;
        rustix::net::listen(&socket, BACKLOG as i32)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(RealListener {
            socket,
            address: Address::new(at.host.clone(), bound.port()),
            closed: AtomicBool::new(false),
        })
    }
}

impl Listener for RealListener {
    fn address(&self) -> &Address {
        &self.address
    }

    fn accept(&self, deadline: Moment) -> Result<Arc<dyn Stream>> {
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(Errno::CANCELED);
            }
            match rustix::net::acceptfrom_with(&self.socket, FLAGS) {
                Ok((socket, peer)) => {
                    let peer = SocketAddr::try_from(peer.ok_or(Errno::AFNOSUPPORT)?)?;
                    let peer = Address::new(peer.ip().to_string(), peer.port());
                    return Ok(Arc::new(RealStream::new(socket, peer)?));
                }
                Err(Errno::AGAIN) => wait(&self.socket, PollFlags::IN, deadline)?,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // What shutdown(2) makes of the socket.
                Err(Errno::INVAL) if self.closed.load(Ordering::Acquire) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // On a listening socket it ends the listening and wakes who waits (inet_shutdown,
        // net/ipv4/af_inet.c). It fails only where that was done before.
        let _ = uninterrupted(|| rustix::net::shutdown(&self.socket, Shutdown::Read));
    }
}
