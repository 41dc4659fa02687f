//! Clients are told that a key which they may have a copy of is another now.

use super::Engine;
use crate::command::{Command, Flags as Does};
use crate::protocol::{Reply, Version};
use crate::session::{ClientId, Session, Token};
use crate::tracking::{News, Remember};

/// The channel of clients of version two of the protocol.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Engine {
    /// Tells what was put off, behind the reply of the request.
    pub(super) fn tell_pending(&mut self) {
        for (client, news) in self.tracking.take_pending() {
            self.tell(client, news);
        }
    }

    /// A command of a session has run, while somebody is told of changes.
    pub(super) fn note_run(&mut self, session: &Session, command: &Command, arguments: &[&[u8]]) {
        self.note_reads(session, command, arguments);
        if !self.in_transaction && command.name != "client" {
            self.end_caching(session);
        }
    }

    /// Remembers what a command read, for a session that is told of changes.
    fn note_reads(&mut self, session: &Session, command: &Command, arguments: &[&[u8]]) {
        // Of scripts their commands count.
        if !command.does(Does::READONLY) || command.group == "scripting" {
            return;
        }
        let Some(tracker) = self.tracking.of(session.id) else {
            return;
        };
        let remembers = match tracker.remember {
            Remember::All => true,
            Remember::OptIn => tracker.caching,
            Remember::OptOut => !tracker.caching,
        };
        if !remembers || tracker.prefixes.is_some() {
            return;
        }
        for index in command.key_indices(arguments) {
            if let Some(key) = arguments.get(index) {
                self.tracking.note_read(session.id, key);
            }
        }
        let keys_max = self.config.tracking_keys_max;
        while let Some(key) = self.tracking.surplus(keys_max) {
            self.invalidate_reads(&key, None);
        }
    }

    /// CLIENT CACHING is for one command or transaction.
    pub(super) fn end_caching(&mut self, session: &Session) {
        if session.queue.is_none()
            && let Some(tracker) = self.tracking.of_mut(session.id)
        {
            tracker.caching = false;
        }
    }

    /// A key was changed.
    pub(super) fn invalidate(&mut self, key: &[u8]) {
        let by = self.changing;
        if self.tracking.note_changed(key, by) {
            self.broadcast();
        }
        self.invalidate_reads(key, by);
    }

    /// Tells those who read a key; not who changed it, where that one asked for it.
    fn invalidate_reads(&mut self, key: &[u8], by: Option<ClientId>) {
        let Some((key, clients)) = self.tracking.forget(key) else {
            return;
        };
        for client in clients {
            let Some(tracker) = self.tracking.of(client) else {
                continue;
            };
            // One that is told of prefixes now has read it before.
            if tracker.prefixes.is_none() && !(tracker.no_loop && by == Some(client)) {
                self.tell(client, News::Key(key.clone()));
            }
        }
    }

    /// All keys may have changed.
    pub(super) fn invalidate_all(&mut self) {
        let clients: Vec<ClientId> = self.tracking.clients().collect();
        for client in clients {
            self.tell(client, News::All);
        }
        self.tracking.forget_all();
    }

    /// All requests that came together have run: those who are told of prefixes hear what changed, and of what
    /// commands changed that had waited.
    pub fn end_turn(&mut self) {
        if self.tracking.has_pending() {
            self.tell_pending();
        }
        if self.tracking.has_changed() {
            self.broadcast();
        }
    }

    fn broadcast(&mut self) {
        for (client, news) in self.tracking.broadcasts() {
            self.tell(client, news);
        }
    }

    /// Tells a client, or who is told in its place.
    fn tell(&mut self, client: ClientId, news: News) {
        let Some(tracker) = self.tracking.of(client) else {
            return;
        };
        let (own, redirect) = (tracker.token, tracker.redirect);
        let to = redirect.map_or(own, |redirect| redirect.token);
        if redirect.is_some_and(|redirect| redirect.gone) && self.session(own).is_some() {
            return self.tell_broken(client, own);
        }
        // Those whose command is under way are not in their place: they are told behind its reply.
        let in_place = self.session(own).is_some();
        let Some(session) = self.session_mut(to).filter(|_| in_place) else {
            return self.tracking.put_off(client, news);
        };
        let subscribed = redirect.is_some() && session.is_subscribed();
        match session.reply.version {
            Version::Three => {
                session.reply.push(2);
                session.reply.bulk(b"invalidate");
            }
            Version::Two if subscribed => {
                session.reply.push(3);
                session.reply.bulk(b"message");
                session.reply.bulk(CHANNEL);
            }
            // Version two has nothing that comes without being asked for.
            Version::Two => return,
        }
        write(&mut session.reply, &news);
        self.touch_session(to);
    }

    /// Who was to be told in place of a client is gone.
    fn tell_broken(&mut self, client: ClientId, token: Token) {
        let Some(tracker) = self.tracking.of_mut(client) else {
            return;
        };
        tracker.broken = true;
        let gone = tracker.redirect.map_or(0, |redirect| redirect.client.0);
        let session = self.session_mut(token);
        if let Some(session) = session.filter(|session| session.reply.version == Version::Three) {
            session.reply.push(2);
            session.reply.bulk(b"tracking-redir-broken");
            session.reply.integer(gone as i64);
            self.touch_session(token);
        }
    }
}

fn write(reply: &mut Reply, news: &News) {
    match news {
        News::Key(key) => {
            reply.array(1);
            reply.bulk(key);
        }
        News::Keys(keys) => reply.raw(keys),
        News::All => reply.null(),
    }
}
