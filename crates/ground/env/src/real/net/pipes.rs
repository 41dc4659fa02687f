//! A connection through two descriptors, such as standard input and output.

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::errno::Errno;
use crate::net::{Address, Stream};
use crate::poison::Poison;
use crate::real::RealClock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{read, write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A connection that receives from one descriptor and sends to another: pipes or sockets that
/// nobody else reads or writes. Both are made not to block.
pub fn stream_of(input: OwnedFd, output: OwnedFd) -> Result<Arc<dyn Stream>> {
    for file in [&input, &output] {
        fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK)?;
    }
    Ok(Arc::new(Pipes {
        input,
        output: Mutex::new(Some(Arc::new(output))),
        peer: Address::new("pipe", 0),
        wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        out: Poison::default(),
        closed: AtomicBool::new(false),
    }))
}

struct Pipes {
    input: OwnedFd,
    /// Gone when nothing more is sent: the peer sees the end when the last holder lets go.
    output: Mutex<Option<Arc<OwnedFd>>>,
    peer: Address,
    /// Readable once this side has closed.
    wake: OwnedFd,
    out: Poison,
    closed: AtomicBool,
}

impl Pipes {
    fn output(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Errno::CANCELED);
        }
        Ok(())
    }

    fn wait(&self, file: &OwnedFd, events: PollFlags, deadline: Moment) -> Result<()> {
        loop {
            self.check_open()?;
            let left = deadline.since(RealClock.now());
            let timeout = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
            let mut files = [
                PollFd::new(file, events),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            match poll(&mut files, Some(&timeout)) {
                Ok(0) if RealClock.now() >= deadline => return Err(Errno::TIMEDOUT),
                Ok(0) | Err(Errno::INTR) => {}
                answer => return answer.map(drop),
            }
        }
    }

    fn send_all(&self, data: &[u8], deadline: Moment) -> Result<()> {
        let output = self.output().clone().ok_or(Errno::CANCELED)?;
        let mut left = data;
        while !left.is_empty() {
            self.check_open()?;
            match write(&*output, left) {
                Ok(count) => left = left.get(count..).unwrap_or(&[]),
                Err(Errno::AGAIN) => self.wait(&output, PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno @ (Errno::NOMEM | Errno::NOBUFS)) => return Err(errno),
                Err(_) => return Err(Errno::CONNRESET),
            }
        }
        Ok(())
    }
}

impl Stream for Pipes {
    fn peer(&self) -> &Address {
        &self.peer
    }

    fn receive(&self, buffer: &mut [u8], deadline: Moment) -> Result<usize> {
        if buffer.is_empty() {
            return Err(Errno::INVAL);
        }
        loop {
            self.check_open()?;
            match read(&self.input, &mut *buffer) {
                Ok(count) => return Ok(count),
                Err(Errno::AGAIN) => self.wait(&self.input, PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno @ (Errno::NOMEM | Errno::NOBUFS)) => return Err(errno),
                Err(_) => return Err(Errno::CONNRESET),
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
        *self.output() = None;
        // Nothing is sent after it.
        let _ = self.out.synced(Err(Errno::CANCELED));
        Ok(())
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        *self.output() = None;
        // It can only be full, and then it wakes too.
        let _full = write(&self.wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;
    use std::time::Duration;

    fn pair() -> (Arc<dyn Stream>, Arc<dyn Stream>) {
        let ((to_b, from_a), (to_a, from_b)) = (pipe().unwrap(), pipe().unwrap());
        (
            stream_of(to_a.into(), from_a.into()).unwrap(),
            stream_of(to_b.into(), from_b.into()).unwrap(),
        )
    }

    #[test]
    fn bytes_arrive_both_ways_and_a_finish_is_an_end() {
        let (a, b) = pair();
        let data = vec![7; 300_000];
        let (sender, sent) = (a.clone(), data.clone());
        let sending = std::thread::spawn(move || {
            sender.send(&sent, Moment::NEVER).unwrap();
            sender.finish().unwrap();
            assert_eq!(sender.send(b"more", Moment::NEVER), Err(Errno::CANCELED));
        });
        let mut got = Vec::new();
        let mut buffer = [0; 9000];
        loop {
            match b.receive(&mut buffer, Moment::NEVER).unwrap() {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
        }
        sending.join().unwrap();
        assert!(got == data);
        b.send(b"back", Moment::NEVER).unwrap();
        assert_eq!(a.receive(&mut buffer, Moment::NEVER), Ok(4));
        drop(b);
        assert_eq!(a.receive(&mut buffer, Moment::NEVER), Ok(0));
    }

    #[test]
    fn who_waits_is_woken_and_deadlines_hold() {
        let (a, b) = pair();
        let soon = RealClock.now().after(Duration::from_millis(20));
        assert_eq!(a.receive(&mut [0; 4], soon), Err(Errno::TIMEDOUT));
        let waiting = {
            let a = a.clone();
            std::thread::spawn(move || a.receive(&mut [0; 4], Moment::NEVER))
        };
        a.close();
        assert_eq!(waiting.join().unwrap(), Err(Errno::CANCELED));
        assert_eq!(b.receive(&mut [0; 4], Moment::NEVER), Ok(0));
        drop(a);
        let sent = b.send(&[0; 300_000], Moment::NEVER);
        assert_eq!(sent, Err(Errno::CONNRESET));
    }
}
