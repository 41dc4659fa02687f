//! A connection of TCP, or between two sockets of this machine.

use super::wait;
use crate::Result;
use crate::clock::Moment;
use crate::errno::Errno;
use crate::net::{Address, Stream};
use crate::poison::Poison;
use crate::real::uninterrupted;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct RealStream {
    socket: OwnedFd,
    peer: Address,
    /// Of the direction out: the first failed send, or the end of it.
    out: Poison,
    /// Whether the connection is known to be lost. The kernel says so once, to whoever asks first;
    /// after that it calls the lost connection's end an end.
    lost: AtomicBool,
    closed: AtomicBool,
}

impl RealStream {
    /// Of a connected socket that does not block.
    pub(super) fn new(socket: OwnedFd, peer: Address) -> Result<RealStream> {
        // Callers send whole messages; to hold them back for more only costs time.
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(RealStream::of(socket, peer))
    }

    /// As [`RealStream::new`], of a socket that is not TCP's.
    pub(super) fn of(socket: OwnedFd, peer: Address) -> RealStream {
        RealStream {
            socket,
            peer,
            out: Poison::default(),
            lost: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Errno::CANCELED);
        }
        Ok(())
    }

    /// The error of this crate for one of the kernel's.
    fn failure(&self, errno: Errno) -> Errno {
        if self.check_open().is_err() {
            return Errno::CANCELED;
        }
        match errno {
            Errno::NOMEM | Errno::NOBUFS => errno,
            _ => {
                self.lost.store(true, Ordering::Release);
                Errno::CONNRESET
            }
        }
    }

    fn send_all(&self, data: &[u8], deadline: Moment) -> Result<()> {
        let mut left = data;
        while !left.is_empty() {
            self.check_open()?;
            match send(&self.socket, left, SendFlags::NOSIGNAL) {
                Ok(count) => left = left.get(count..).unwrap_or(&[]),
                Err(Errno::AGAIN) => wait(&self.socket, PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failure(errno)),
            }
        }
        Ok(())
    }
}

impl Stream for RealStream {
    fn peer(&self) -> &Address {
        &self.peer
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> Result<usize> {
        if buffer.is_empty() {
            return Err(Errno::INVAL);
        }
        loop {
            self.check_open()?;
            match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    self.check_open()?;
                    let lost = self.lost.load(Ordering::Acquire);
                    return if lost { Err(Errno::CONNRESET) } else { Ok(0) };
                }
                Ok((_, count)) => return Ok(count),
                Err(Errno::AGAIN) => wait(&self.socket, PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failure(errno)),
            }
        }
    }

    fn send(&self, data: &[u8], deadline: Moment) -> Result<()> {
        self.check_open()?;
        self.out.check()?;
        self.out.synced(self.send_all(data, deadline))
    }

    fn finish(&self) -> Result<()> {
        self.check_open()?;
        self.out.check()?;
        let answer = uninterrupted(|| shutdown(&self.socket, Shutdown::Write));
        let answer = answer.map_err(|errno| self.failure(errno));
        // Nothing is sent after it, whether it failed or not.
        let _ = self.out.synced(answer.and(Err(Errno::CANCELED)));
        answer
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // It wakes who waits. A connection that is lost has nothing to shut down (ENOTCONN).
        let _ = uninterrupted(|| shutdown(&self.socket, Shutdown::Both));
    }
}
