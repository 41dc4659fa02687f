//! Commands that wait, transactions that watch, and what a change does to both.

use super::Engine;
use crate::blocking::{Blocked, Timeout};
use crate::command;
use crate::session::{Session, Token};
use crate::transaction::Place;

/// Turns of waking for one request: a waiter that is served may wake another.
const TURNS_MAX: usize = 1 << 20;

impl Engine {
    /// A command waits for one of its keys.
    pub(crate) fn block(
        &mut self,
        session: &mut Session,
        arguments: &[&[u8]],
        places: Vec<Place>,
        until_ms: Option<u64>,
        timeout: Timeout,
    ) {
        let blocked = Blocked {
            arguments: arguments.iter().map(|argument| argument.to_vec()).collect(),
            places,
            until_ms,
            timeout,
        };
        self.waiters.add(session.token, session.id, &blocked);
        session.blocked = Some(blocked);
    }

    /// Brings what was changed outside of a request to the log, and tells everybody.
    pub(crate) fn after_all(&mut self) {
        if !self.changes.is_empty() {
            // What fails is tried again with the next request, which is told.
            let _ = self.commit();
        }
        self.wake_waiters();
        self.end_turn();
    }

    /// Runs commands whose keys were changed again, and breaks transactions.
    pub(crate) fn wake_waiters(&mut self) {
        for token in std::mem::take(&mut self.broken) {
            if let Some(session) = self.session_mut(token) {
                session.watch_broken = true;
            }
        }
        // What a script has changed so far is nobody's before its end.
        if self.waiters.ready.is_empty() || self.scripts.running.is_some() {
            return;
        }
        for _ in 0..TURNS_MAX {
            if self.waiters.ready.is_empty() {
                break;
            }
            let place = self.waiters.ready.remove(0);
            for token in self.waiters.waiting(&place) {
                self.retry(token);
            }
        }
        for token in std::mem::take(&mut self.broken) {
            if let Some(session) = self.session_mut(token) {
                session.watch_broken = true;
            }
        }
    }

    /// Runs a command that waits again.
    fn retry(&mut self, token: Token) {
        let place = self.sessions.get_mut(token.0);
        let Some(mut session) = place.and_then(Option::take) else {
            return;
        };
        if let Some(blocked) = session.blocked.take() {
            let before = session.reply.len();
            let arguments: Vec<&[u8]> = blocked.arguments.iter().map(Vec::as_slice).collect();
            self.due = 0;
            let changes = self.stats.changes;
            if let Some(command) = arguments.first().and_then(|name| command::find(name)) {
                self.retrying = true;
                self.run(&mut session, command, &arguments);
                self.retrying = false;
            }
            if session.blocked.is_some() || session.reply.len() == before {
                // It keeps its place in the row.
                session.blocked = Some(blocked);
            } else {
                self.waiters.remove(token, session.id, &blocked);
                self.finish(&mut session, before, changes);
                self.touch_session(token);
            }
        }
        if let Some(place) = self.sessions.get_mut(token.0) {
            *place = Some(session);
        }
    }

    /// Ends the wait of a session without a result. With an error if there is one.
    pub(crate) fn unblock(&mut self, token: Token, error: Option<&str>) -> bool {
        let Some(session) = self.session_mut(token) else {
            return false;
        };
        let Some(blocked) = session.blocked.take() else {
            return false;
        };
        match (error, blocked.timeout) {
            (Some(error), _) => session.reply.error(error),
            (None, Timeout::NullArray) => session.reply.null_array(),
            (None, Timeout::Null) => session.reply.null(),
        }
        let id = session.id;
        self.waiters.remove(token, id, &blocked);
        self.touch_session(token);
        true
    }

    /// Ends waits, and a pause, whose time is over.
    pub fn end_waits(&mut self) {
        self.end_pause();
        while let Some(token) = self.waiters.overdue(self.now_ms) {
            self.unblock(token, None);
        }
    }

    /// When [`Engine::end_waits`] has something to do, in milliseconds since 1970.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let pause = self.pause.map(|pause| pause.until_ms);
        let deadlines = [self.waiters.next_deadline(), pause];
        deadlines.into_iter().flatten().min()
    }

    /// Whether a key that a session watches was changed just now.
    pub(crate) fn is_broken(&self, token: Token) -> bool {
        self.broken.contains(&token)
    }

    /// Watches keys no more.
    pub(crate) fn unwatch(&mut self, session: &mut Session) {
        for place in session.watched.drain(..) {
            self.watchers.remove(&place, session.token);
        }
        session.watch_broken = false;
        self.broken.retain(|token| *token != session.token);
    }
}
