//! What was refused: ACL LOG, and the counters of INFO.

use super::Denied;
use std::collections::VecDeque;

/// Refusals as alike as they can be count as one for so long (Redis: ACL_LOG_GROUPING_MAX_TIME_DELTA).
const ALIKE_MS: u64 = 60_000;

/// Newest entries that are looked at for one that is alike.
const LOOK: usize = 10;

/// Bytes that are kept of a name that a client gave.
const NAME_BYTES_MAX: usize = 1024;

/// Why something was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    Auth,
}

impl Reason {
    pub(crate) const ALL: [Reason; 4] =
        [Reason::Auth, Reason::Command, Reason::Key, Reason::Channel];

    /// As ACL LOG names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        }
    }
}

impl From<Denied> for Reason {
    fn from(denied: Denied) -> Reason {
        match denied {
            Denied::Command => Reason::Command,
            Denied::Key(_) => Reason::Key,
            Denied::Channel(_) => Reason::Channel,
        }
    }
}

/// Where it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    TopLevel,
    Multi,
    Lua,
}

impl Context {
    /// As ACL LOG names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

/// A refusal, or several that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    /// The command, the key, or the channel; cut.
    pub(crate) object: Vec<u8>,
    /// The user; cut.
    pub(crate) user: Vec<u8>,
    /// When it was last, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The client, as CLIENT INFO shows it; the last one.
    pub(crate) client: String,
}

impl Entry {
    fn is_like(&self, other: &Entry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.at_ms.abs_diff(other.at_ms) <= ALIKE_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The newest refusals, and how many there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// The newest first.
    pub(crate) entries: VecDeque<Entry>,
    counts: [u64; Reason::ALL.len()],
}

impl Log {
    /// Notes a refusal, in at most `length_max` entries.
    pub(crate) fn note(&mut self, mut entry: Entry, length_max: usize) {
        if let Some(count) = self.counts.get_mut(entry.reason as usize) {
            *count += 1;
        }
        entry.object.truncate(NAME_BYTES_MAX);
        entry.user.truncate(NAME_BYTES_MAX);
        let known = self.entries.iter().take(LOOK);
        let at = known.enumerate().find(|(_, known)| known.is_like(&entry));
        if let Some(known) = at.map(|(at, _)| at).and_then(|at| self.entries.remove(at)) {
            entry.count += known.count;
        }
        self.entries.push_front(entry);
        self.entries.truncate(length_max);
    }

    /// How often something was refused for a reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts.get(reason as usize).copied().unwrap_or(0)
    }

    /// Forgets the counts.
    pub(crate) fn reset_counts(&mut self) {
        self.counts = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: u64) -> Entry {
        Entry {
            count: 1,
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.as_bytes().to_vec(),
            user: b"u".to_vec(),
            at_ms,
            client: String::new(),
        }
    }

    #[test]
    fn what_is_alike_counts_as_one_and_the_rest_is_bounded() {
        let mut log = Log::default();
        for number in 0..100 {
            log.note(entry("same", 0), 5);
            log.note(entry(&number.to_string(), 0), 5);
        }
        assert_eq!(log.entries.len(), 5);
        assert_eq!(log.entries[1].count, 100);
        log.note(entry("same", ALIKE_MS + 1), 5);
        assert_eq!(log.entries[0].count, 1);
        assert_eq!(log.count(Reason::Key), 201);
        log.note(entry(&"x".repeat(5000), 0), 5);
        assert_eq!(log.entries[0].object.len(), NAME_BYTES_MAX);
        log.note(entry("none is kept", 0), 0);
        assert!(log.entries.is_empty());
    }
}
