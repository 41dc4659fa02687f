//! One connection: bytes in, requests, bytes out.

use super::tls::TlsStream;
use crate::engine::Engine;
use crate::protocol::{Parsed, Parser};
use crate::session::{Session, Token};
use mio::event::Event;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry};
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Instant;

/// Bytes that are read at once at least.
const READ_BYTES: usize = 16 << 10;

/// Bytes that one connection reads before others have their turn.
const TURN_BYTES: usize = 1 << 20;

/// Bytes of replies that wait for a client before its requests do.
const REPLY_BYTES: usize = 4 << 20;

/// The same for one that has not said who it is.
const STRANGER_REPLY_BYTES: usize = 16 << 10;

/// Bytes of memory that an idle connection keeps for reading.
const KEPT_BYTES: usize = 64 << 10;

/// Whether replies to more requests may wait for a client.
fn has_room(engine: &Engine, session: &Session) -> bool {
    let most = match engine.needs_auth(session) {
        true => STRANGER_REPLY_BYTES,
        false => REPLY_BYTES,
    };
    session.reply.len() < most
}

/// A socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(super) fn register(
        &mut self,
        registry: &Registry,
        token: mio::Token,
    ) -> std::io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => registry.register(stream, token, interest),
            Stream::Unix(stream) => registry.register(stream, token, interest),
            Stream::Tls(stream) => registry.register(&mut stream.socket, token, interest),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Says a last word; nobody may hear it, and who has not said who it is gets none.
    pub(super) fn refuse(&mut self, word: &[u8]) {
        if self.tls().is_none() {
            let _ = self.write(word);
        }
    }

    /// Says that nothing more comes, where the protocol has a word for it.
    fn end(&mut self) {
        if let Some(tls) = self.tls() {
            tls.end();
        }
    }

    fn tls(&mut self) -> Option<&mut TlsStream> {
        match self {
            Stream::Tls(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether bytes that were written have not reached the socket.
    fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_unsent())
    }

    /// Gives the socket what it did not take before; whether it took all.
    fn push(&mut self) -> std::io::Result<bool> {
        self.tls().map_or(Ok(true), TlsStream::push)
    }
}

/// What is to be done behind a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    Nothing,
    /// Requests that waited can be run.
    Serve,
    /// The connection is over.
    Gone,
}

/// A connection.
pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    input: Vec<u8>,
    /// Bytes of `input` that are filled.
    filled: usize,
    /// Bytes of `input` that were requests that ran.
    consumed: usize,
    readable: bool,
    writable: bool,
    /// The client sends no more.
    ended: bool,
    /// The socket is of no use.
    broken: bool,
    /// Requests wait until replies are out.
    waits: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Connection {
        Connection {
            stream,
            parser: Parser::default(),
            input: Vec::new(),
            filled: 0,
            consumed: 0,
            readable: true,
            writable: true,
            ended: false,
            broken: false,
            waits: false,
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        // It closes the socket in a moment, which does the same.
        let _ = match &mut self.stream {
            Stream::Tcp(stream) => registry.deregister(stream),
            Stream::Unix(stream) => registry.deregister(stream),
            Stream::Tls(stream) => registry.deregister(&mut stream.socket),
        };
    }

    /// Whether it is not known yet who the client is.
    pub(super) fn shakes_hands(&mut self) -> bool {
        let tls = self.stream.tls();
        tls.is_some_and(|tls| tls.shakes_hands())
    }

    /// Whether the client took too long to say who it is.
    pub(super) fn is_overdue(&mut self, now: Instant) -> bool {
        let tls = self.stream.tls();
        tls.is_some_and(|tls| tls.is_overdue(now))
    }

    /// The next flush finds it over.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Events may have come that were not seen: tries tell.
    pub(super) fn note_missed(&mut self) {
        self.readable = true;
        self.writable = true;
    }

    pub(super) fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    /// Reads and runs requests; whether there is more to do at once.
    pub(super) fn serve(&mut self, engine: &mut Engine, token: Token) -> bool {
        let mut turn = 0;
        self.waits = false;
        self.run(engine, token);
        while self.readable && !self.ended && !self.broken && !self.stalls(engine, token) {
            if turn >= TURN_BYTES {
                return true;
            }
            turn += self.fill(engine);
            self.run(engine, token);
        }
        if self.ended
            && !self.stalls(engine, token)
            && let Some(session) = engine.session_mut(token)
        {
            session.closing = true;
        }
        false
    }

    /// Whether no request is to run now.
    fn stalls(&mut self, engine: &Engine, token: Token) -> bool {
        let Some(session) = engine.session(token) else {
            return true;
        };
        if !has_room(engine, session) || (session.is_blocked() && self.filled > self.consumed) {
            self.waits = true;
        }
        self.waits || session.closing
    }

    /// Reads once; how many bytes came.
    fn fill(&mut self, engine: &mut Engine) -> usize {
        if self.consumed > 0 {
            self.input.copy_within(self.consumed..self.filled, 0);
            self.filled -= self.consumed;
            self.consumed = 0;
        }
        let wanted = self.parser.wanted().max(self.filled + READ_BYTES);
        if self.input.len() < wanted {
            // A client that says that much is coming gets the room as it comes.
            let most = self.filled.saturating_mul(2).max(self.filled + READ_BYTES);
            self.input.resize(wanted.min(most), 0);
        } else if self.filled == 0 && self.input.len() > KEPT_BYTES {
            self.input.truncate(KEPT_BYTES);
            self.input.shrink_to_fit();
        }
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        let length = room.len();
        match self.stream.read(room) {
            Ok(0) => {
                self.ended = true;
                0
            }
            Ok(count) => {
                self.filled += count;
                engine.stats.input_bytes += count as u64;
                // A short read took all, of a socket; an event says when there is more.
                self.readable = count == length || self.stream.tls().is_some();
                count
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                0
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            Err(_) => {
                self.broken = true;
                0
            }
        }
    }

    /// Runs the requests that are there.
    fn run(&mut self, engine: &mut Engine, token: Token) {
        let mut before = None;
        while !self.stalls(engine, token) {
            let bytes = self
                .input
                .get(self.consumed..self.filled)
                .unwrap_or_default();
            let limits = engine.limits(token);
            match self.parser.parse(bytes, &limits) {
                Ok(Parsed::Incomplete) => return,
                Ok(Parsed::Request(length)) => {
                    let arguments = self.parser.arguments(bytes);
                    let start = before.unwrap_or_else(Instant::now);
                    if !engine.execute(token, &arguments) {
                        // It stays where it is until the session goes on.
                        continue;
                    }
                    let now = Instant::now();
                    before = Some(now);
                    engine.took(
                        token,
                        &arguments,
                        now.duration_since(start).as_micros() as u64,
                    );
                    self.consumed += length;
                }
                Err(error) => {
                    if let Some(session) = engine.session_mut(token) {
                        session.reply.error(&format!("ERR Protocol error: {error}"));
                        session.closing = true;
                    }
                }
            }
        }
    }

    /// Writes what may go out.
    pub(super) fn flush(&mut self, engine: &mut Engine, token: Token) -> After {
        if self.writable && self.stream.has_unsent() {
            match self.stream.push() {
                Ok(all) => self.writable = all,
                Err(_) => self.broken = true,
            }
        }
        loop {
            let ready = engine.ready(token);
            let Some(session) = engine.session(token) else {
                return After::Gone;
            };
            if self.broken
                || session.is_killed()
                || session.reply.len() > engine.config.output_bytes_max
            {
                return After::Gone;
            }
            if ready == 0 {
                let done = session.reply.is_empty() && !self.stream.has_unsent();
                let goes_on = !session.is_blocked() && has_room(engine, session);
                return match session.closing && done {
                    true => {
                        self.stream.end();
                        After::Gone
                    }
                    false if self.waits && goes_on => After::Serve,
                    false => After::Nothing,
                };
            }
            if !self.writable {
                return After::Nothing;
            }
            let bytes = session.reply.bytes().get(..ready).unwrap_or_default();
            match self.stream.write(bytes) {
                Ok(count) => {
                    self.writable = count == ready && !self.stream.has_unsent();
                    engine.stats.output_bytes += count as u64;
                    engine.sent(token, count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
        }
    }
}
