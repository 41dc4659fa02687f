//! Connections that ask, wait for all answers, and ask again: one thread for all of them.

use super::content::{Content, Versions};
use super::resp::{self, Reply};
use super::workload::{Expected, Workload};
use crate::bench::process::check_stop;
use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Values that are asked for at once when all are compared.
const VERIFIED_AT_ONCE: usize = 128;

/// Longest time without any answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Latencies of one phase of a load, in microseconds, of the requests that were answered in it.
pub(super) type Latencies = Histogram<u64>;

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until<'a> {
    /// The workload has nothing more to ask.
    Dry,
    /// After so long.
    After(Duration),
    /// The phase, which somebody else says, is the last one.
    Phase {
        /// Which it is now.
        phase: &'a AtomicUsize,
        /// Which ends the load.
        last: usize,
    },
}

/// What a load came to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Operations of the workload; one may be several requests.
    pub(super) operations: u64,
    pub(super) seconds: f64,
    /// By phase.
    pub(super) latencies: Vec<Latencies>,
}

impl Outcome {
    pub(super) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// A quantile of a phase in microseconds; the largest for 1.
    pub(super) fn quantile(&self, phase: usize, quantile: f64) -> f64 {
        let of = self.latencies.get(phase);
        of.map_or(0.0, |of| match quantile >= 1.0 {
            true => of.max() as f64,
            false => of.value_at_quantile(quantile) as f64,
        })
    }
}

/// A request whose answer is awaited.
struct Awaited {
    expected: Expected,
    sent: Instant,
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    filled: usize,
    awaited: VecDeque<Awaited>,
}

/// Connections to one server, and what it has to have.
pub(super) struct Driver {
    connections: Vec<Connection>,
    poll: OwnedFd,
    /// Requests of each connection that are on their way at once.
    pub(super) pipeline: usize,
    pub(super) content: Content,
    pub(super) versions: Versions,
}

impl Driver {
    pub(super) fn connect(
        address: SocketAddr,
        connections: usize,
        content: Content,
    ) -> anyhow::Result<Driver> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut driver = Driver {
            connections: Vec::new(),
            poll,
            pipeline: 1,
            content,
            versions: Versions::default(),
        };
        for index in 0..connections {
            let stream = TcpStream::connect(address).context("connecting to the server")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&driver.poll, &stream, data, epoll::EventFlags::IN)?;
            driver.connections.push(Connection {
                stream,
                out: Vec::new(),
                written: 0,
                input: vec![0; READ_BYTES],
                filled: 0,
                awaited: VecDeque::new(),
            });
        }
        Ok(driver)
    }

    /// Runs a load until its end and the last answer.
    ///
    /// # Errors
    /// The server refused, answered what it should not, or not at all.
    pub(super) fn run(
        &mut self,
        workload: &mut dyn Workload,
        until: Until<'_>,
        phases: usize,
    ) -> anyhow::Result<Outcome> {
        let latencies = (0..phases).map(|_| Histogram::new_with_max(100_000_000, 3));
        let mut outcome = Outcome {
            operations: 0,
            seconds: 0.0,
            latencies: latencies.collect::<Result<_, _>>()?,
        };
        let begin = Instant::now();
        let mut dry = false;
        for index in 0..self.connections.len() {
            dry |= !self.ask(index, workload)?;
        }
        let mut events = Vec::with_capacity(self.connections.len().max(1));
        let tick = Timespec::try_from(Duration::from_millis(100))?;
        let mut heard = Instant::now();
        while self.connections.iter().any(|one| !one.awaited.is_empty()) {
            events.clear();
            let got = epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&tick),
            );
            match got {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = Instant::now();
            if events.is_empty() {
                check_stop()?;
                ensure!(now - heard < PATIENCE, "no answer for a minute");
            } else {
                heard = now;
            }
            let phase = match until {
                Until::Phase { phase, .. } => phase.load(Ordering::Acquire),
                _ => 0,
            };
            dry |= match until {
                Until::Dry => false,
                Until::After(time) => now - begin >= time,
                Until::Phase { last, .. } => phase >= last,
            };
            for event in &events {
                let index = event.data.u64() as usize;
                let idle = self.hear(index, phase, &mut outcome)?;
                if idle && !dry {
                    dry |= !self.ask(index, workload)?;
                }
            }
        }
        outcome.seconds = begin.elapsed().as_secs_f64();
        Ok(outcome)
    }

    /// Sends a connection's next requests; whether there were any.
    fn ask(&mut self, index: usize, workload: &mut dyn Workload) -> anyhow::Result<bool> {
        let Some(connection) = self.connections.get_mut(index) else {
            return Ok(false);
        };
        connection.out.clear();
        connection.written = 0;
        let sent = Instant::now();
        let mut more = true;
        for _ in 0..self.pipeline {
            let awaited = &mut connection.awaited;
            let mut expect = |expected| awaited.push_back(Awaited { expected, sent });
            let out = &mut connection.out;
            if !workload.next(&self.content, &mut self.versions, out, &mut expect) {
                more = false;
                break;
            }
        }
        connection.write()?;
        Ok(more)
    }

    /// Reads what came for a connection; whether all of its requests are answered.
    fn hear(&mut self, index: usize, phase: usize, outcome: &mut Outcome) -> anyhow::Result<bool> {
        let connection = self.connections.get_mut(index).context("a connection")?;
        if connection.written < connection.out.len() {
            connection.write()?;
        }
        connection.read()?;
        let now = Instant::now();
        let mut taken = 0;
        while let Some(first) = connection.awaited.front() {
            let bytes = connection.input.get(taken..connection.filled);
            let Some((found, length)) = resp::reply(bytes.unwrap_or_default())? else {
                break;
            };
            first
                .expected
                .check(&found, &self.content, &mut self.versions)?;
            if let Some(latencies) = outcome.latencies.get_mut(phase) {
                latencies.saturating_record((now - first.sent).as_micros() as u64);
            }
            outcome.operations += u64::from(first.expected.ends_operation());
            connection.awaited.pop_front();
            taken += length;
        }
        connection.input.copy_within(taken..connection.filled, 0);
        connection.filled -= taken;
        Ok(connection.awaited.is_empty())
    }

    /// Reads every value and compares it with what may be there.
    ///
    /// # Errors
    /// Names the first key that has something else.
    pub(super) fn verify(&self, address: SocketAddr, database_key: Key) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(address)?;
        let mut input = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        let count = self.versions.count();
        for first in (0..count).step_by(VERIFIED_AT_ONCE) {
            let last = count.min(first + VERIFIED_AT_ONCE as u64);
            let mut wanted = Vec::new();
            (first..last).for_each(|key| database_key.ask(&mut wanted, key));
            stream.write_all(&wanted)?;
            let mut next = first;
            while next < last {
                let mut taken = 0;
                while let Some((found, length)) =
                    resp::reply(input.get(taken..).unwrap_or_default())?
                {
                    self.verify_one(next, &found)?;
                    taken += length;
                    next += 1;
                }
                input.drain(..taken);
                if next < last {
                    match stream.read(&mut buffer)? {
                        0 => bail!("the server ended the connection"),
                        read => input.extend_from_slice(buffer.get(..read).unwrap_or_default()),
                    }
                }
            }
        }
        Ok(self.versions.count())
    }

    fn verify_one(&self, key: u64, found: &Reply<'_>) -> anyhow::Result<()> {
        let allowed = self.versions.allowed(key);
        let Reply::Bulk(value) = found else {
            bail!("key {key} should have a version of {allowed:?}, and has none");
        };
        let is_right = |version: u32| self.content.is(key, version, value);
        ensure!(
            allowed.clone().any(is_right),
            "key {key} should have a version of {allowed:?}, and says that it has {:?}",
            self.content.version(key, value)
        );
        Ok(())
    }
}

/// How a key's value is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// A string.
    Text,
    /// A field of a hash.
    Field(usize),
}

impl Key {
    fn ask(self, into: &mut Vec<u8>, key: u64) {
        let name = super::workload::name(key);
        match self {
            Key::Text => resp::push(into, &[b"GET", &name]),
            Key::Field(field) => {
                resp::push(into, &[b"HGET", &name, &super::workload::field(field)]);
            }
        }
    }
}

impl Connection {
    fn write(&mut self) -> anyhow::Result<()> {
        while self.written < self.out.len() {
            let left = self.out.get(self.written..).unwrap_or_default();
            match self.stream.write(left) {
                Ok(0) => bail!("the server takes no more"),
                Ok(count) => self.written += count,
                // What is left goes when something was answered, which the server has room for.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("sending requests"),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        match self.stream.read(room) {
            Ok(0) => bail!("the server ended the connection"),
            Ok(count) => self.filled += count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("reading answers"),
        }
        Ok(())
    }
}
