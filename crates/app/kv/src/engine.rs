//! The engine: sessions ask, entries change, the log gets records. It has no sockets and no clock, so
//! that a test can drive it on a simulated disk.

use crate::acl::Acl;
use crate::blocking::Waiters;
use crate::changes::Changes;
use crate::command::{self, Call, Command, Flags as Does};
use crate::config::Config;
use crate::fault::{Answer, Fault};
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::latency::Sample;
use crate::protocol::UNAUTHENTICATED;
use crate::pubsub::PubSub;
use crate::script::{Outside, Scripts};
use crate::session::{ClientId, Replies, Session, Token};
use crate::stats::Stats;
use crate::tracking::Tracking;
use crate::transaction::Watchers;
use std::sync::Arc;

mod access;
mod commit;
#[cfg(test)]
mod contents;
mod expiry;
mod load;
mod memory;
mod pause;
mod permit;
mod publish;
mod save;
mod tracking;
mod typed;
mod wait;
mod whole;

pub(crate) use load::load_new;
pub use load::{LOG_NAME, LoadError, Loaded, load};
pub(crate) use pause::Pause;
pub use save::Saving;
pub(crate) use typed::{Changed, Count, Told};

/// What the engine is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The log is being read; most commands are refused.
    Loading,
    /// Changes of the log are made again: nothing expires, nothing is logged.
    Replaying,
    /// It serves.
    Serving,
}

/// The engine.
pub struct Engine {
    pub(crate) keyspace: Keyspace,
    pub(crate) journal: Option<Journal>,
    pub(crate) mode: Mode,
    /// Settings.
    pub config: Config,
    /// Counters.
    pub stats: Stats,
    pub(crate) sessions: Vec<Option<Box<Session>>>,
    pub(crate) clients: usize,
    next_client: u64,
    pub(crate) changes: Changes,
    pub(crate) waiters: Waiters,
    pub(crate) watchers: Watchers,
    pub(crate) pubsub: PubSub,
    pub(crate) acl: Acl,
    pub(crate) latency: crate::latency::Latency,
    pub(crate) monitors: usize,
    pub(crate) tracking: Tracking,
    /// Whose command changes keys now.
    changing: Option<ClientId>,
    pub(crate) scripts: Scripts,
    /// What drives it, where a script that takes long may reach it.
    pub outside: Option<Box<dyn Outside>>,
    /// Sessions that got replies they did not ask for, or have to end.
    touched: Vec<Token>,
    /// Messages for the session that runs a command now: they come behind its reply.
    own_messages: Vec<Vec<u8>>,
    /// Sessions that watch a key that was changed.
    broken: Vec<Token>,
    /// Whether a command that waits is tried again.
    pub(crate) retrying: bool,
    /// Whether EXEC or a script runs: nothing waits.
    pub(crate) in_transaction: bool,
    /// What has to be durable before the reply of the command under way may go out.
    pub(crate) due: u64,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Microseconds of the process, for durations.
    pub(crate) now_us: u64,
    pub(crate) rng: env::Rng,
    /// What was asked to be done by who drives the engine.
    pub(crate) orders: Vec<Order>,
    /// Whether an entry is, or was, so long that more of it may not fit the log.
    pub(crate) has_long: bool,
    pub(crate) pause: Option<Pause>,
    save: Option<Box<save::Save>>,
    pub(crate) saves: save::Saves,
    /// A planted fault: a save does not keep what commands change.
    #[cfg(test)]
    pub(crate) forgets: bool,
    /// Whether the log is being compacted because a client asked for it.
    pub compacts: bool,
    scratch: commit::Scratch,
    sweep: usize,
    /// Whether [`Engine::sweep`] looks for entries whose time is over.
    pub(crate) sweeps: bool,
    pub(crate) used_bytes: usize,
    used_at: u64,
}

/// What becomes of a request that is not refused.
enum Admitted {
    /// It runs now.
    Runs(&'static Command),
    /// MULTI has it.
    Queued,
    /// It waits for the end of a pause.
    Postponed,
}

/// What a command asks of who drives the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// End the process in good order.
    Shutdown,
    /// Compact the log now.
    Compact,
}

impl Engine {
    /// An empty one, that loads.
    pub fn new(config: Config, rng: env::Rng) -> Engine {
        Engine {
            acl: Acl::new(&config),
            keyspace: Keyspace::default(),
            journal: None,
            mode: Mode::Loading,
            config,
            stats: Stats::default(),
            sessions: Vec::new(),
            clients: 0,
            next_client: 0,
            changes: Changes::default(),
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            pubsub: PubSub::default(),
            latency: Default::default(),
            monitors: 0,
            tracking: Tracking::default(),
            changing: None,
            scripts: Scripts::default(),
            outside: None,
            touched: Vec::new(),
            own_messages: Vec::new(),
            broken: Vec::new(),
            retrying: false,
            in_transaction: false,
            due: 0,
            now_ms: 0,
            now_us: 0,
            rng,
            orders: Vec::new(),
            has_long: false,
            pause: None,
            save: None,
            saves: save::Saves::default(),
            #[cfg(test)]
            forgets: false,
            compacts: false,
            scratch: commit::Scratch::default(),
            sweep: 0,
            sweeps: true,
            used_bytes: 0,
            used_at: u64::MAX,
        }
    }

    /// Has other users: those of a file. To be called before clients come.
    pub fn set_acl(&mut self, acl: Acl) {
        self.acl = acl;
    }

    /// What it is doing.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Says what time it is: milliseconds since 1970, and microseconds of a clock that never goes back.
    pub fn set_time(&mut self, now_ms: u64, now_us: u64) {
        self.now_ms = now_ms;
        self.now_us = now_us;
    }

    /// Serves from what was loaded.
    pub fn serve(&mut self, loaded: Loaded) {
        self.keyspace = loaded.keyspace;
        self.journal = Some(loaded.journal);
        self.mode = Mode::Serving;
        self.stats.loaded = loaded.entries;
        // What was loaded may be long.
        self.has_long = loaded.has_long;
        self.take_libraries(loaded.libraries);
    }

    /// Has replies wait for nothing: a fault that tests plant, and have to find.
    #[doc(hidden)]
    pub fn plant_hasty_replies(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.hasty = true;
        }
    }

    /// Has each command of a script be a group of its own: a fault that tests plant, and have to find.
    #[doc(hidden)]
    pub fn plant_scripts_apart(&mut self) {
        self.scripts.apart = true;
    }

    /// A client came. `None` where there are too many.
    pub fn connect(&mut self, address: [String; 2]) -> Option<Token> {
        if self.clients >= self.config.maxclients() {
            self.stats.rejected_connections += 1;
            return None;
        }
        self.next_client += 1;
        self.clients += 1;
        self.stats.connections += 1;
        // The place of who runs a script is not free.
        let taken = self
            .scripts
            .running
            .as_ref()
            .map(|running| running.caller.0);
        let mut places = self.sessions.iter().enumerate();
        let free = places.find(|(at, place)| place.is_none() && Some(*at) != taken);
        let free = free.map(|(at, _)| at);
        let at = free.unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        let (id, token) = (ClientId(self.next_client), Token(at));
        let user = self.acl.default_user().clone();
        let mut session = Session::new(id, token, address, self.now_ms, user);
        session.authenticated = self.acl.is_open();
        if let Some(place) = self.sessions.get_mut(at) {
            *place = Some(Box::new(session));
        }
        Some(token)
    }

    /// A client went.
    pub fn disconnect(&mut self, token: Token) {
        let place = self.sessions.get_mut(token.0);
        if let Some(mut session) = place.and_then(Option::take) {
            self.clients = self.clients.saturating_sub(1);
            self.forget(&mut session);
            self.tracking.note_gone(session.id);
        }
    }

    /// Ends the connection of a session that does not run a command now.
    pub(crate) fn kill_session(&mut self, token: Token) {
        let Some(session) = self.session_mut(token) else {
            return;
        };
        session.kill();
        // What comes for it from now on is for others.
        let (id, blocked) = (session.id, session.blocked.take());
        if let Some(blocked) = blocked {
            self.waiters.remove(token, id, &blocked);
        }
        self.touch_session(token);
    }

    /// Ends all that a session has under way.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        if let Some(blocked) = session.blocked.take() {
            self.waiters.remove(session.token, session.id, &blocked);
        }
        self.unwatch(session);
        self.unsubscribe_all(session);
        self.tracking.end(session.id);
        if std::mem::take(&mut session.monitor) {
            self.monitors = self.monitors.saturating_sub(1);
        }
        session.queue = None;
    }

    /// A session.
    pub fn session(&self, token: Token) -> Option<&Session> {
        self.sessions.get(token.0).and_then(Option::as_deref)
    }

    /// As [`Engine::session`], to change it.
    pub fn session_mut(&mut self, token: Token) -> Option<&mut Session> {
        self.sessions
            .get_mut(token.0)
            .and_then(Option::as_deref_mut)
    }

    /// What a request of this session may have.
    pub fn limits(&self, token: Token) -> crate::protocol::Limits {
        match self.session(token) {
            Some(session) if !self.needs_auth(session) => self.config.limits(),
            _ => UNAUTHENTICATED,
        }
    }

    /// Replies of a session that may go out now, of at most so many bytes.
    pub fn ready(&mut self, token: Token) -> usize {
        let durable = self.journal.as_ref().map_or(u64::MAX, Journal::durable);
        self.session_mut(token)
            .map_or(0, |session| session.ready(durable))
    }

    /// Replies of a session went out.
    pub fn sent(&mut self, token: Token, bytes: usize) {
        if let Some(session) = self.session_mut(token) {
            session.sent += bytes as u64;
            session.reply.drain(bytes);
        }
    }

    /// Sessions whose replies or state changed without a request of theirs.
    pub fn take_touched(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.touched)
    }

    /// Whether [`Engine::take_touched`] has something.
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    pub(crate) fn touch_session(&mut self, token: Token) {
        if !self.touched.contains(&token) {
            self.touched.push(token);
        }
    }

    /// What commands asked for.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// The log says that more is durable. Sessions that waited for it are to be flushed.
    pub fn note_durable(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        journal.look();
        let held = self.sessions.iter().flatten();
        let held: Vec<Token> = held
            .filter(|session| session.is_held())
            .map(|session| session.token)
            .collect();
        held.into_iter().for_each(|token| self.touch_session(token));
    }

    /// Runs one request of a session; the reply is in the session. Says whether it ran, or was refused: one that
    /// did not is to be given again when [`Session::is_blocked`] is over.
    pub fn execute(&mut self, token: Token, arguments: &[&[u8]]) -> bool {
        let place = self.sessions.get_mut(token.0);
        let Some(mut session) = place.and_then(Option::take) else {
            return true;
        };
        self.request(&mut session, arguments);
        let ran = !session.postponed;
        if let Some(place) = self.sessions.get_mut(token.0) {
            *place = Some(session);
        }
        self.wake_waiters();
        if self.tracking.has_pending() {
            self.tell_pending();
        }
        ran
    }

    /// Runs one request, from looking it up to the commit.
    pub(crate) fn request(&mut self, session: &mut Session, arguments: &[&[u8]]) {
        let Some(name) = arguments.first() else {
            return;
        };
        let before = session.reply.len();
        session.active_ms = self.now_ms;
        self.due = 0;
        let changes = self.stats.changes;
        match self.admit(session, name, arguments) {
            Ok(Admitted::Runs(command)) => {
                session.last_command = match command.does(Does::CONTAINER) {
                    true => {
                        command::about::look_up(arguments).map_or(command.name, |about| about.name)
                    }
                    false => command.name,
                };
                self.run(session, command, arguments);
                self.finish(session, before, changes);
            }
            Ok(Admitted::Queued) => session.reply.simple("QUEUED"),
            Ok(Admitted::Postponed) => {
                session.postponed = true;
                return;
            }
            Err(fault) if name.eq_ignore_ascii_case(b"exec") => {
                session.queue = None;
                self.unwatch(session);
                self.stats.count_error(&fault);
                session.reply.error(&format!(
                    "EXECABORT Transaction discarded because of: {fault}"
                ));
                self.end_caching(session);
            }
            Err(fault) => {
                if let Some(queue) = &mut session.queue {
                    queue.refused = true;
                }
                self.stats.count_error(&fault);
                session.reply.error(&fault.0);
                self.end_caching(session);
            }
        }
        match session.replies {
            Replies::On => {}
            Replies::SkipNext => session.replies = Replies::Skip,
            Replies::Skip => {
                session.replies = Replies::On;
                session.reply.truncate(before);
            }
            Replies::Off => session.reply.truncate(before),
        }
    }

    /// Whether a request may run now.
    fn admit(
        &mut self,
        session: &mut Session,
        name: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Admitted, Fault> {
        let Some(command) = command::find(name) else {
            return Err(command::unknown(name, arguments));
        };
        command.check_arity(arguments)?;
        if command.does(Does::CONTAINER) {
            command::about::check_subcommand(arguments)?;
        }
        if !session.authenticated && !command.does(Does::NO_AUTH) && self.needs_auth(session) {
            return Err(Fault::of("NOAUTH Authentication required."));
        }
        if !session.user.is_unrestricted() {
            self.permit_request(session, arguments)?;
        }
        if self.mode == Mode::Loading && !command.does(Does::LOADING) {
            return Err(Fault::of("LOADING Redis is loading the dataset in memory"));
        }
        if session.reply.version == crate::protocol::Version::Two
            && session.is_subscribed()
            && !command.does(Does::PUBSUB)
        {
            let name = command.name;
            return Err(Fault::text(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context"
            )));
        }
        self.scripts.may_admit(command.name, arguments)?;
        if command.does(Does::WRITE) {
            self.may_write()?;
        }
        if command.does(Does::DENY_OOM) {
            self.may_grow()?;
            self.may_be_longer(session.database, command, arguments)?;
        }
        if self.pause.is_some() && self.postpones(session, command, arguments) {
            return Ok(Admitted::Postponed);
        }
        if session.queue.is_some() && !command.does(Does::NO_QUEUE) {
            if command.does(Does::NO_MULTI) {
                return Err(Fault::text(format!(
                    "ERR {} is not allowed in transactions",
                    command.name.to_ascii_uppercase()
                )));
            }
            if let Some(queue) = &mut session.queue {
                let owned = arguments.iter().map(|argument| argument.to_vec());
                queue.commands.push(owned.collect());
            }
            return Ok(Admitted::Queued);
        }
        Ok(Admitted::Runs(command))
    }

    /// Whether the log takes changes.
    pub(crate) fn may_write(&mut self) -> Answer {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        if let Some(error) = journal.refuses() {
            self.stats.refused_writes += 1;
            return Err(Fault::text(format!(
                "MISCONF Writes are refused, reads are served: {error}"
            )));
        }
        if !self.changes.is_empty() {
            // What came between a full disk and the answer that it is full.
            self.commit().map_err(|error| {
                Fault::text(format!(
                    "MISCONF Writes are refused, reads are served: {error}"
                ))
            })?;
        }
        Ok(())
    }

    /// Runs a command; its reply or its refusal is behind what the session has.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        arguments: &[&[u8]],
    ) {
        let before = session.reply.len();
        if self.monitors > 0 {
            self.show_to_monitors(session, command, arguments);
        }
        self.stats.commands += 1;
        self.changing = Some(session.id);
        let mut call = Call {
            engine: self,
            session,
            arguments,
        };
        let answer = (command.handler)(&mut call);
        // In a transaction or a script there is no place for them among its replies.
        if !self.in_transaction {
            for message in std::mem::take(&mut self.own_messages) {
                session.reply.raw(&message);
            }
        }
        if self.tracking.is_on() {
            self.note_run(session, command, arguments);
        }
        let failed = answer.is_err();
        if let Err(fault) = answer {
            session.reply.truncate(before);
            session.reply.error(&fault.0);
            self.stats.count_error(&fault);
        }
        self.stats.count_command(command, failed, 0);
    }

    /// Brings what a request changed to the log, and holds its reply back as long as it has to be.
    /// `changes` is how many there were before it.
    fn finish(&mut self, session: &mut Session, before: usize, changes: u64) {
        // While a script runs, other clients are served; what it changed goes to the log at its end.
        if !self.changes.is_empty() && self.scripts.running.is_none() {
            match self.commit() {
                Ok(chunk) => self.due = self.due.max(chunk),
                // What an earlier request left is not the fault of one that reads.
                Err(_) if self.stats.changes == changes => {}
                Err(error) => {
                    session.reply.truncate(before);
                    session.reply.error(&format!(
                        "MISCONF The change is made in memory, and not in the log: {error}"
                    ));
                }
            }
        }
        if self.due > 0 {
            session.hold(before, self.due);
        }
    }

    /// Writes all to the log and ends it in good order.
    ///
    /// # Errors
    /// What the log ended with.
    pub fn close(&mut self) -> vlog::Result<()> {
        if !self.changes.is_empty() {
            self.commit()?;
        }
        match self.journal.take() {
            Some(journal) => match Arc::try_unwrap(journal.log) {
                Ok(log) => log.close(),
                // Somebody compacts still; that one ends it, and what was promised is durable.
                Err(shared) => {
                    let receipts = shared.receipts();
                    receipts
                        .into_iter()
                        .try_for_each(|receipt| shared.durable(receipt))
                }
            },
            None => Ok(()),
        }
    }

    /// The log, where one is open.
    pub fn log(&self) -> Option<&vlog::Vlog> {
        self.journal.as_ref().map(|journal| &*journal.log)
    }

    /// The log, for a thread that compacts it.
    pub(crate) fn shared_log(&self) -> Option<Arc<vlog::Vlog>> {
        self.journal.as_ref().map(|journal| journal.log.clone())
    }

    /// The last request of a session took so long.
    pub fn took(&mut self, token: Token, arguments: &[&[u8]], micros: u64) {
        let least_ms = self.config.latency_ms;
        if least_ms > 0 && micros / 1000 >= least_ms {
            let command = arguments.first().and_then(|name| command::find(name));
            let event = match command.is_some_and(|command| command.does(Does::FAST)) {
                true => "fast-command",
                false => "command",
            };
            let (at_s, ms) = (self.now_ms / 1000, micros / 1000);
            self.latency.note(event, Sample { at_s, ms });
        }
        let least = self.config.slowlog_us;
        if least.is_none_or(|least| micros < least) {
            return;
        }
        let Some(session) = self.session(token) else {
            return;
        };
        let cut = |argument: &&[u8]| argument.get(..128).unwrap_or(argument).to_vec();
        let slow = crate::stats::Slow {
            id: self.stats.next_slow,
            at_s: self.now_ms / 1000,
            micros,
            arguments: command::without_secrets(arguments)
                .iter()
                .take(32)
                .map(cut)
                .collect(),
            address: session.address[0].clone(),
            name: session.name.clone(),
        };
        self.stats.next_slow += 1;
        self.stats.slow.push_front(slow);
        self.stats.slow.truncate(self.config.slowlog_len);
    }

    /// Ends connections that were idle for longer than `timeout` allows.
    pub fn end_idle(&mut self) {
        let limit_s = self.config.timeout_s;
        if limit_s == 0 {
            return;
        }
        let now_ms = self.now_ms;
        let idle: Vec<Token> = self
            .sessions
            .iter_mut()
            .flatten()
            .filter(|session| {
                !session.is_blocked()
                    && !session.is_subscribed()
                    && !session.monitor
                    && now_ms.saturating_sub(session.active_ms) > limit_s * 1000
            })
            .map(|session| {
                session.closing = true;
                session.token
            })
            .collect();
        idle.into_iter().for_each(|token| self.touch_session(token));
    }
}
