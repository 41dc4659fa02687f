//! Messages to sessions that did not ask just now.

use super::Engine;
use crate::command::Command;
use crate::protocol::Reply;
use crate::pubsub::Kind;
use crate::session::{Session, Token};

impl Engine {
    /// Gives a session something; the one that runs a command now is `own`.
    fn deliver(&mut self, token: Token, write: impl FnOnce(&mut Reply)) {
        if let Some(session) = self.session_mut(token) {
            write(&mut session.reply);
            self.touch_session(token);
        } else {
            // The session that runs the command: it gets it behind its reply.
            let mut message = Reply::new(crate::protocol::Version::Three);
            write(&mut message);
            self.own_messages.push(message.take());
        }
    }

    /// Sends a message to all who are subscribed, and says how many there are.
    pub(crate) fn publish(&mut self, kind: Kind, channel: &[u8], message: &[u8]) -> usize {
        if self.pubsub.is_empty() {
            return 0;
        }
        let receivers = self.pubsub.receivers(kind, channel);
        let count = receivers.len();
        for (token, pattern) in receivers {
            self.deliver(token, |reply| {
                match &pattern {
                    Some(pattern) => {
                        reply.push(4);
                        reply.bulk(b"pmessage");
                        reply.bulk(pattern);
                    }
                    None => {
                        reply.push(3);
                        reply.bulk(match kind {
                            Kind::Shard => b"smessage".as_slice(),
                            _ => b"message",
                        });
                    }
                }
                reply.bulk(channel);
                reply.bulk(message);
            });
        }
        count
    }

    /// Tells of an event of a key, where `notify-keyspace-events` asks for its class.
    pub(crate) fn notify(&mut self, class: u8, event: &str, database: u8, key: &[u8]) {
        let wanted = self.config.notify;
        if !wanted.has(class) || self.pubsub.is_empty() {
            return;
        }
        if wanted.has(b'K') {
            let mut channel = format!("__keyspace@{database}__:").into_bytes();
            channel.extend_from_slice(key);
            self.publish(Kind::Channel, &channel, event.as_bytes());
        }
        if wanted.has(b'E') {
            let channel = format!("__keyevent@{database}__:{event}");
            self.publish(Kind::Channel, channel.as_bytes(), key);
        }
    }

    /// Ends all subscriptions of a session, without a word.
    pub(crate) fn unsubscribe_all(&mut self, session: &mut Session) {
        for (kind, set) in [Kind::Channel, Kind::Pattern, Kind::Shard]
            .into_iter()
            .zip(&mut session.subscriptions)
        {
            for channel in std::mem::take(set) {
                self.pubsub.remove(kind, &channel, session.token);
            }
        }
    }

    /// Shows a command to those who asked for MONITOR.
    pub(crate) fn show_to_monitors(
        &mut self,
        session: &Session,
        command: &Command,
        arguments: &[&[u8]],
    ) {
        if command.does(crate::command::Flags::ADMIN) || command.name == "auth" {
            return;
        }
        let (seconds, micros) = (self.now_ms / 1000, self.now_ms % 1000 * 1000);
        let mut line = format!(
            "{seconds}.{micros:06} [{} {}]",
            session.database, session.address[0]
        );
        for argument in crate::command::without_secrets(arguments) {
            line.push_str(&format!(" \"{}\"", argument.escape_ascii()));
        }
        let monitors = self.sessions.iter().flatten();
        let monitors: Vec<Token> = monitors
            .filter(|session| session.monitor)
            .map(|session| session.token)
            .collect();
        for token in monitors {
            self.deliver(token, |reply| reply.simple(&line));
        }
    }
}
