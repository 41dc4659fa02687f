//! All sockets, and what they have for the engine to do.

use super::connection::{After, Connection, Stream};
use super::tls::{Tls, TlsStream};
use crate::engine::Engine;
use crate::script::Outside;
use crate::session::Token;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Events, Poll};
use std::any::Any;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const WAKER: mio::Token = mio::Token(0);
/// Listeners have the tokens from here on.
pub(super) const LISTENERS: usize = 1;
/// Connections have the tokens from here on: there are fewer listeners.
const CONNECTIONS: usize = 1024;

pub(super) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
    Unix(UnixListener, PathBuf),
}

/// All sockets.
pub(super) struct Sockets {
    poll: Poll,
    pub(super) listeners: Vec<Listener>,
    connections: Vec<Option<Connection>>,
    /// Connections with something to do before the next wait.
    busy: Vec<Token>,
    /// Connections whose turn it is; a script that takes long may be one's.
    turn: Vec<Token>,
    accept_again: bool,
    /// Clients that may not have said who they are, in the order that they came.
    handshakes: VecDeque<Token>,
    began: Instant,
    /// Whether the log said that more is durable.
    durable: Arc<AtomicBool>,
    /// Whether events came in while a connection was away, serving a script.
    missed: bool,
}

impl Sockets {
    pub(super) fn new(poll: Poll, listeners: Vec<Listener>, durable: Arc<AtomicBool>) -> Sockets {
        Sockets {
            poll,
            listeners,
            connections: Vec::new(),
            busy: Vec::new(),
            turn: Vec::new(),
            accept_again: false,
            handshakes: VecDeque::new(),
            began: Instant::now(),
            durable,
            missed: false,
        }
    }

    /// Waits for events.
    pub(super) fn wait(&mut self, events: &mut Events, wait: Duration) -> std::io::Result<()> {
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    /// Takes events in.
    pub(super) fn note(&mut self, events: &Events, engine: &mut Engine) {
        for event in events {
            match event.token() {
                WAKER => {}
                mio::Token(at) if at < CONNECTIONS => self.accept(engine, at - LISTENERS),
                mio::Token(at) => {
                    let token = Token(at - CONNECTIONS);
                    match self.connection(token) {
                        Some(connection) => {
                            connection.note(event);
                            self.busy.push(token);
                        }
                        None => self.missed = true,
                    }
                }
            }
        }
    }

    /// Whether [`Sockets::work`] has something to do at once.
    pub(super) fn has_work(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Takes clients that could not be taken before.
    pub(super) fn accept_again(&mut self, engine: &mut Engine) {
        if std::mem::take(&mut self.accept_again) {
            (0..self.listeners.len()).for_each(|listener| self.accept(engine, listener));
        }
    }

    /// Writes what may go out, for the last time.
    pub(super) fn flush_all(&mut self, engine: &mut Engine) {
        for (at, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.flush(engine, Token(at));
            }
        }
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        self.connections.get_mut(token.0).and_then(Option::as_mut)
    }

    fn accept(&mut self, engine: &mut Engine, listener: usize) {
        loop {
            let accepted = match self.listeners.get(listener) {
                Some(Listener::Tcp(listener)) => {
                    let accepted = accept_tcp(listener);
                    accepted.map(|(stream, address)| (Stream::Tcp(stream), address))
                }
                Some(Listener::Tls(listener, tls)) => {
                    accept_tcp(listener).and_then(|(stream, address)| {
                        let stream = TlsStream::new(stream, tls)?;
                        Ok((Stream::Tls(Box::new(stream)), address))
                    })
                }
                Some(Listener::Unix(listener, path)) => listener.accept().map(|(stream, _)| {
                    let path = format!("{}:0", path.display());
                    (Stream::Unix(stream), [path.clone(), path])
                }),
                None => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    self.welcome(engine, stream, address);
                    if let Some(Listener::Tls(_, tls)) = self.listeners.get(listener) {
                        self.bound_handshakes(tls.handshakes_max);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "a client could not be taken; it is tried again");
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, engine: &mut Engine, mut stream: Stream, address: [String; 2]) {
        let Some(token) = engine.connect(address) else {
            stream.refuse(b"-ERR max number of clients reached\r\n");
            return;
        };
        let at = mio::Token(CONNECTIONS + token.0);
        if let Err(error) = stream.register(self.poll.registry(), at) {
            tracing::warn!(%error, "a client could not be taken");
            engine.disconnect(token);
            return;
        }
        if self.connections.len() <= token.0 {
            self.connections.resize_with(token.0 + 1, || None);
        }
        if let Some(place) = self.connections.get_mut(token.0) {
            let mut connection = Connection::new(stream);
            if connection.shakes_hands() {
                self.handshakes.push_back(token);
            }
            *place = Some(connection);
        }
        self.busy.push(token);
    }

    /// Lets the client go that has been trying for the longest time, where there are too many.
    fn bound_handshakes(&mut self, most: usize) {
        if self.handshakes.len() <= most {
            return;
        }
        self.forget_known();
        if self.handshakes.len() > most
            && let Some(oldest) = self.handshakes.pop_front()
            && let Some(connection) = self.connection(oldest)
        {
            connection.give_up();
            self.busy.push(oldest);
        }
    }

    /// Lets clients go that took too long to say who they are.
    pub(super) fn end_handshakes(&mut self) {
        self.forget_known();
        let now = Instant::now();
        for token in self.handshakes.clone() {
            if let Some(connection) = self.connection(token)
                && connection.is_overdue(now)
            {
                connection.give_up();
                self.busy.push(token);
            }
        }
    }

    /// Clients that have said who they are, or are gone, are not waited for.
    fn forget_known(&mut self) {
        let connections = &mut self.connections;
        self.handshakes.retain(|token| {
            let connection = connections.get_mut(token.0).and_then(Option::as_mut);
            connection.is_some_and(Connection::shakes_hands)
        });
    }

    fn take(&mut self, token: Token) -> Option<Connection> {
        self.connections.get_mut(token.0)?.take()
    }

    fn put_back(&mut self, token: Token, mut connection: Connection) {
        if std::mem::take(&mut self.missed) {
            connection.note_missed();
            self.busy.push(token);
        }
        if let Some(place) = self.connections.get_mut(token.0) {
            *place = Some(connection);
        }
    }

    /// Reads, runs and writes for all connections that have something to do. A script that takes long
    /// has the sockets meanwhile.
    pub(super) fn work(mut self: Box<Self>, engine: &mut Engine) -> Box<Sockets> {
        engine.end_waits();
        self.turn = std::mem::take(&mut self.busy);
        let mut again = Vec::new();
        for at in 0..self.turn.len() {
            let Some(token) = self.turn.get(at).copied() else {
                break;
            };
            let Some(mut connection) = self.take(token) else {
                continue;
            };
            engine.outside = Some(self);
            let more = connection.serve(engine, token);
            let outside: Option<Box<dyn Any>> = engine.outside.take().map(|outside| outside as _);
            self = match outside.map(Box::<dyn Any>::downcast) {
                Some(Ok(sockets)) => sockets,
                _ => unreachable!("a script gives the sockets back"),
            };
            self.put_back(token, connection);
            if more {
                again.push(token);
            }
        }
        let served = std::mem::take(&mut self.turn);
        self.flush(engine, &served, again);
        self
    }

    /// Writes for connections that did something, or were given something.
    fn flush(&mut self, engine: &mut Engine, busy: &[Token], mut again: Vec<Token>) {
        engine.end_turn();
        let touched = engine.take_touched();
        for token in busy.iter().chain(&touched) {
            let Some(connection) = self.connections.get_mut(token.0).and_then(Option::as_mut)
            else {
                continue;
            };
            match connection.flush(engine, *token) {
                After::Nothing => {}
                After::Serve => again.push(*token),
                After::Gone => {
                    if let Some(mut connection) =
                        self.connections.get_mut(token.0).and_then(Option::take)
                    {
                        connection.deregister(self.poll.registry());
                    }
                    engine.disconnect(*token);
                }
            }
        }
        again.append(&mut self.busy);
        again.sort_unstable();
        again.dedup();
        self.busy = again;
    }
}

/// A client, and where it comes from and came to.
fn accept_tcp(listener: &TcpListener) -> std::io::Result<(TcpStream, [String; 2])> {
    let (stream, from) = listener.accept()?;
    // A reply does not wait for more.
    let _ = stream.set_nodelay(true);
    let here = stream.local_addr().map(|address| address.to_string());
    let address = [from.to_string(), here.unwrap_or_default()];
    Ok((stream, address))
}

impl Outside for Sockets {
    fn set_time(&mut self, engine: &mut Engine) {
        let process_us = self.began.elapsed().as_micros() as u64;
        engine.set_time(wall_ms(), process_us);
    }

    fn serve(&mut self, engine: &mut Engine) {
        let mut events = Events::with_capacity(128);
        if let Err(error) = self.wait(&mut events, Duration::ZERO) {
            tracing::warn!(%error, "clients cannot be served while a script runs");
            return;
        }
        if self.durable.swap(false, Ordering::AcqRel) {
            engine.note_durable();
        }
        self.note(&events, engine);
        // Those whose turn it is as well: some wait for it, some for their replies to be written.
        let mut busy = std::mem::take(&mut self.busy);
        busy.extend_from_slice(&self.turn);
        busy.sort_unstable();
        busy.dedup();
        let mut again = Vec::new();
        for token in &busy {
            let Some(mut connection) = self.take(*token) else {
                continue;
            };
            if connection.serve(engine, *token) {
                again.push(*token);
            }
            if let Some(place) = self.connections.get_mut(token.0) {
                *place = Some(connection);
            }
        }
        self.flush(engine, &busy, again);
    }
}

pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
