//! A client, as the engine sees it: no socket.

use crate::acl::User;
use crate::blocking::Blocked;
use crate::protocol::{Reply, Version};
use crate::transaction::Queue;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A client's number, as CLIENT ID answers it; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// Where a client's session is; used again after its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub usize);

/// What CLIENT REPLY was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replies {
    /// Every command is answered.
    #[default]
    On,
    /// None is.
    Off,
    /// The next one is not.
    SkipNext,
    /// This one is not.
    Skip,
}

/// A reply that may not go out before a part of the log is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Bytes of all replies of the session in front of it.
    pub(crate) start: u64,
    /// What has to be durable.
    pub(crate) chunk: u64,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: ClientId,
    /// Where it is.
    pub token: Token,
    /// What SELECT chose.
    pub database: u8,
    /// Who it is.
    pub(crate) user: Arc<User>,
    /// Whether it has said who it is, or need not.
    pub authenticated: bool,
    /// What CLIENT SETNAME said.
    pub name: Vec<u8>,
    /// Where it comes from and where it came to, for people.
    pub address: [String; 2],
    /// When it came, in milliseconds since 1970.
    pub since_ms: u64,
    /// When it last asked for something.
    pub active_ms: u64,
    /// Name of its last command.
    pub last_command: &'static str,
    /// Replies that were not sent yet.
    pub reply: Reply,
    /// Bytes of replies that were taken.
    pub(crate) sent: u64,
    pub(crate) marks: VecDeque<Mark>,
    /// What CLIENT REPLY was told.
    pub replies: Replies,
    /// Whether the connection ends when all replies are out.
    pub closing: bool,
    /// MULTI, until EXEC.
    pub(crate) queue: Option<Queue>,
    /// What WATCH named.
    pub(crate) watched: Vec<(u8, Box<[u8]>)>,
    /// Whether one of them was changed.
    pub(crate) watch_broken: bool,
    /// A command that waits.
    pub(crate) blocked: Option<Blocked>,
    /// Whether its next request waits for the end of a pause.
    pub(crate) postponed: bool,
    /// Whether it was ended by another client, with all that waits to be sent.
    pub(crate) killed: bool,
    /// Channels, patterns, and shard channels.
    pub(crate) subscriptions: [BTreeSet<Box<[u8]>>; 3],
    /// Whether MONITOR was asked for.
    pub(crate) monitor: bool,
    /// Whether it is kept from eviction and idle timeouts.
    pub(crate) no_evict: bool,
}

impl Session {
    /// A client that just came.
    pub fn new(
        id: ClientId,
        token: Token,
        address: [String; 2],
        now_ms: u64,
        user: Arc<User>,
    ) -> Session {
        Session {
            id,
            token,
            database: 0,
            user,
            authenticated: false,
            name: Vec::new(),
            address,
            since_ms: now_ms,
            active_ms: now_ms,
            last_command: "NULL",
            reply: Reply::new(Version::Two),
            sent: 0,
            marks: VecDeque::new(),
            replies: Replies::On,
            closing: false,
            queue: None,
            watched: Vec::new(),
            watch_broken: false,
            blocked: None,
            postponed: false,
            killed: false,
            subscriptions: Default::default(),
            monitor: false,
            no_evict: false,
        }
    }

    /// Channels and patterns that it is subscribed to.
    pub fn subscription_count(&self) -> usize {
        self.subscriptions[0].len() + self.subscriptions[1].len()
    }

    /// Whether it is subscribed to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.iter().any(|set| !set.is_empty())
    }

    /// Whether a command of it waits for a key, or a request for the end of a pause.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some() || self.postponed
    }

    /// Whether the connection is to be ended at once.
    pub fn is_killed(&self) -> bool {
        self.killed
    }

    /// Ends the connection at once.
    pub(crate) fn kill(&mut self) {
        self.killed = true;
        self.closing = true;
    }

    /// Holds what comes behind `length` bytes of the reply back until `chunk` is durable.
    pub(crate) fn hold(&mut self, length: usize, chunk: u64) {
        let start = self.sent + length as u64;
        if self.marks.back().is_none_or(|mark| mark.chunk < chunk) {
            self.marks.push_back(Mark { start, chunk });
        }
    }

    /// Whether some replies wait for the log.
    pub fn is_held(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Bytes of replies that may go out, when the log is durable up to `chunk`.
    pub(crate) fn ready(&mut self, chunk: u64) -> usize {
        while self.marks.front().is_some_and(|mark| mark.chunk <= chunk) {
            self.marks.pop_front();
        }
        match self.marks.front() {
            Some(mark) => mark.start.saturating_sub(self.sent) as usize,
            None => self.reply.len(),
        }
    }
}
