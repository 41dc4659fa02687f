//! CLIENT PAUSE: requests that wait until a time is over. Nothing expires and nothing is evicted meanwhile.

use super::Engine;
use crate::command::{Command, Flags, about};
use crate::session::{Session, Token};

/// A pause of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// When it ends, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    /// Whether all requests wait, and not only those that may change something.
    pub(crate) all: bool,
}

impl Engine {
    /// Has requests wait. What waits longer, or has more requests wait, stays.
    pub(crate) fn pause(&mut self, asked: Pause) {
        let now = self.pause.get_or_insert(asked);
        now.until_ms = now.until_ms.max(asked.until_ms);
        now.all |= asked.all;
    }

    /// Has requests that wait run.
    pub(crate) fn unpause(&mut self) {
        if self.pause.take().is_none() {
            return;
        }
        let sessions = self.sessions.iter_mut().flatten();
        let waited: Vec<Token> = sessions
            .filter(|session| session.postponed)
            .map(|session| {
                session.postponed = false;
                session.token
            })
            .collect();
        waited
            .into_iter()
            .for_each(|token| self.touch_session(token));
    }

    /// Ends a pause whose time is over.
    pub(super) fn end_pause(&mut self) {
        let now_ms = self.now_ms;
        if self.pause.is_some_and(|pause| pause.until_ms <= now_ms) {
            self.unpause();
        }
    }

    /// Whether some requests wait, so that nothing may go by itself.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_some_and(|pause| pause.until_ms > self.now_ms)
    }

    /// Whether a request has to wait.
    pub(super) fn postpones(
        &self,
        session: &Session,
        command: &Command,
        arguments: &[&[u8]],
    ) -> bool {
        let Some(pause) = self.pause.filter(|_| self.is_paused()) else {
            return false;
        };
        pause.all || self.may_change(session, command, arguments)
    }

    /// Whether a request may change something, or tell others of something.
    fn may_change(&self, session: &Session, command: &Command, arguments: &[&[u8]]) -> bool {
        let first = arguments.get(1).copied().unwrap_or_default();
        match command.name {
            "eval" | "evalsha" | "fcall" => !self.scripts.only_reads(command.name, first),
            "publish" | "spublish" | "pfcount" => true,
            "exec" => session
                .queue
                .iter()
                .flat_map(|queue| &queue.commands)
                .any(|words| {
                    let arguments: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    let command = arguments
                        .first()
                        .and_then(|name| crate::command::find(name));
                    command.is_some_and(|command| self.may_change(session, command, &arguments))
                }),
            _ if command.does(Flags::CONTAINER) => {
                about::look_up(arguments).is_some_and(|about| about.does("write"))
            }
            _ => command.does(Flags::WRITE),
        }
    }
}
