//! What sessions may do, by the rules of their users.

use super::Engine;
use crate::acl::{Context, Denied, LogEntry, Reason, User};
use crate::command::{about, describe_client};
use crate::fault::Fault;
use crate::session::{Session, Token};
use std::sync::Arc;

impl Engine {
    /// Whether a session has to say who it is first.
    pub(crate) fn needs_auth(&self, session: &Session) -> bool {
        !session.authenticated && !self.acl.is_open()
    }

    /// Whether a session's user may ask for something. A refusal is noted.
    pub(crate) fn permit(
        &mut self,
        session: &Session,
        context: Context,
        arguments: &[&[u8]],
    ) -> Result<(), Denied> {
        let Some(about) = about::look_up(arguments) else {
            // What the rules do not know they cannot allow.
            return Err(Denied::Command);
        };
        let Err(denied) = session.user.check(about, arguments) else {
            return Ok(());
        };
        let object = match denied {
            Denied::Command => about.name.as_bytes(),
            Denied::Key(at) | Denied::Channel(at) => arguments.get(at).copied().unwrap_or_default(),
        };
        let name = session.user.name();
        self.note_denied(session, denied.into(), context, name, object);
        Err(denied)
    }

    /// As [`Engine::permit`], for a request; in its words.
    pub(super) fn permit_request(
        &mut self,
        session: &Session,
        arguments: &[&[u8]],
    ) -> Result<(), Fault> {
        let context = match session.queue {
            Some(_) => Context::Multi,
            None => Context::TopLevel,
        };
        let denied = self.permit(session, context, arguments);
        denied.map_err(|denied| match denied {
            Denied::Command => {
                let name = about::look_up(arguments).map_or("", |about| about.name);
                Fault::text(format!(
                    "NOPERM this user has no permissions to run the '{name}' command"
                ))
            }
            Denied::Key(_) => Fault::of(
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            Denied::Channel(_) => Fault::of(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
        })
    }

    /// Notes that something was refused.
    pub(crate) fn note_denied(
        &mut self,
        session: &Session,
        reason: Reason,
        context: Context,
        user: &[u8],
        object: &[u8],
    ) {
        // A script runs in a session of its own.
        let running = self.scripts.running.as_ref();
        let client = match running.filter(|_| context == Context::Lua) {
            Some(running) => running.client.clone(),
            None => describe_client(self, session),
        };
        let length_max = usize::try_from(self.config.number("acllog-max-len")).unwrap_or(0);
        let entry = LogEntry {
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            user: user.to_vec(),
            at_ms: self.now_ms,
            client,
        };
        self.acl.log.note(entry, length_max);
    }

    /// Puts a user in place of the one of that name, also in sessions. `own` is the one that runs a command.
    pub(crate) fn put_user(&mut self, own: &mut Session, user: User) {
        self.acl.put(user);
        self.refresh_users(own, false);
    }

    /// Gives sessions their users as they are now. Those whose user is gone end, and those that are subscribed to
    /// what it may not hear any more; with `ends_changed` those whose user is another now, too.
    pub(crate) fn refresh_users(&mut self, own: &mut Session, ends_changed: bool) {
        let acl = &self.acl;
        let is_over = |session: &mut Session| match acl.user(session.user.name()) {
            Some(now) if Arc::ptr_eq(now, &session.user) => false,
            Some(now) => {
                let is_default = Arc::ptr_eq(now, acl.default_user());
                let ends = ends_changed && !is_default && **now != *session.user;
                session.user = now.clone();
                ends || !may_hear_all(session)
            }
            None => {
                // What it has queued yet may do nothing.
                session.user = Arc::new(User::new(session.user.name(), false));
                true
            }
        };
        let others = self.sessions.iter_mut().flatten();
        let over: Vec<Token> = others
            .filter_map(|session| is_over(session).then_some(session.token))
            .collect();
        if is_over(own) {
            // It hears what became of its request.
            own.authenticated = false;
            own.closing = true;
        }
        for token in over {
            if let Some(session) = self.session_mut(token) {
                session.authenticated = false;
            }
            self.kill_session(token);
        }
    }
}

/// Whether a session may be subscribed to what it is subscribed to.
fn may_hear_all(session: &Session) -> bool {
    let user = &session.user;
    let mut kinds = session.subscriptions.iter().enumerate();
    kinds.all(|(kind, names)| {
        let is_pattern = kind == crate::pubsub::Kind::Pattern as usize;
        names.iter().all(|name| user.may_hear(name, is_pattern))
    })
}
