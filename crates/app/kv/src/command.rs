//! Commands: their table, and how one is called.

use crate::engine::Engine;
use crate::fault::{Answer, Fault, NOT_INTEGER};
use crate::protocol::Reply;
use crate::session::Session;
use hashbrown::HashMap;
use std::sync::OnceLock;

pub(crate) mod about;
mod acl;
mod bits;
mod client;
mod config;
mod connection;
mod counters;
mod debug;
mod expiry;
mod functions;
mod geo;
mod hashes;
mod hyperloglog;
mod info;
mod introspect;
mod keys;
mod latency;
mod lists;
mod pubsub;
mod replication;
mod scan;
mod scripts;
mod server;
mod sets;
mod sort;
mod sorted_combine;
mod sorted_sets;
mod streams;
mod strings;
mod tracking;
mod transactions;

pub(crate) use client::describe as describe_client;
pub(crate) use info::REDIS_VERSION;

/// What a command does; a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u32);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// It may change entries.
    pub const WRITE: Flags = Flags(1);
    /// It reads entries.
    pub const READONLY: Flags = Flags(1 << 1);
    /// It may need more memory.
    pub const DENY_OOM: Flags = Flags(1 << 2);
    /// It is for operators.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// It is about channels.
    pub const PUBSUB: Flags = Flags(1 << 4);
    /// Scripts may not use it.
    pub const NO_SCRIPT: Flags = Flags(1 << 5);
    /// It may wait.
    pub const BLOCKING: Flags = Flags(1 << 6);
    /// It runs while the log is read.
    pub const LOADING: Flags = Flags(1 << 7);
    /// It takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 8);
    /// It runs without AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 9);
    /// It is not queued by MULTI: it runs, or is refused there.
    pub const NO_QUEUE: Flags = Flags(1 << 10);
    /// MULTI refuses it.
    pub const NO_MULTI: Flags = Flags(1 << 11);
    /// Its keys have to be looked for in the arguments.
    pub const MOVABLE_KEYS: Flags = Flags(1 << 12);
    /// Its first argument is a subcommand.
    pub const CONTAINER: Flags = Flags(1 << 13);

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// What runs a command.
pub(crate) type Handler = fn(&mut Call<'_>) -> Answer;

/// A command.
pub struct Command {
    /// In lower case.
    pub name: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub arity: i32,
    /// What it does.
    pub flags: Flags,
    /// What it belongs to.
    pub group: &'static str,
    pub(crate) handler: Handler,
}

impl Command {
    /// Whether it does all of that.
    pub fn does(&self, flags: Flags) -> bool {
        self.flags.0 & flags.0 == flags.0
    }

    pub(crate) fn check_arity(&self, arguments: &[&[u8]]) -> Answer {
        let count = arguments.len() as i64;
        let fits = match self.arity {
            least if least < 0 => count >= -i64::from(least),
            exact => count == i64::from(exact),
        };
        if fits {
            Ok(())
        } else {
            Err(Fault::arity(self.name))
        }
    }

    /// Indices of the keys among the arguments of a call.
    pub fn key_indices(&self, arguments: &[&[u8]]) -> Vec<usize> {
        let about = about::look_up(arguments);
        let keys = about.map(|about| about.keys_of(arguments));
        keys.iter().flatten().map(|key| key.index).collect()
    }
}

/// A row of a table of commands.
pub(crate) const fn command(
    name: &'static str,
    arity: i32,
    flags: Flags,
    group: &'static str,
    handler: Handler,
) -> Command {
    Command {
        name,
        arity,
        flags,
        group,
        handler,
    }
}

/// Tables of all commands.
static TABLES: &[&[Command]] = &[
    strings::COMMANDS,
    counters::COMMANDS,
    bits::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    scan::COMMANDS,
    lists::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    sort::COMMANDS,
    sorted_sets::COMMANDS,
    sorted_combine::COMMANDS,
    streams::COMMANDS,
    streams::groups::COMMANDS,
    streams::read::COMMANDS,
    streams::info::COMMANDS,
    hyperloglog::COMMANDS,
    geo::COMMANDS,
    transactions::COMMANDS,
    pubsub::COMMANDS,
    connection::COMMANDS,
    acl::COMMANDS,
    client::COMMANDS,
    server::COMMANDS,
    replication::COMMANDS,
    latency::COMMANDS,
    config::COMMANDS,
    info::COMMANDS,
    introspect::COMMANDS,
    debug::COMMANDS,
    scripts::COMMANDS,
    functions::COMMANDS,
];

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    TABLES.iter().copied().flatten()
}

/// Longest name of a command.
const NAME_BYTES_MAX: usize = 32;

/// The command of a name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    static BY_NAME: OnceLock<HashMap<&'static [u8], &'static Command>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        all()
            .map(|command| (command.name.as_bytes(), command))
            .collect()
    });
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    by_name.get(&*lower).copied()
}

/// The refusal of a name that is none.
pub(crate) fn unknown(name: &[u8], arguments: &[&[u8]]) -> Fault {
    let shown = |bytes: &[u8]| -> String {
        let end = bytes.len().min(128);
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    };
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        shown(name)
    );
    for argument in arguments.iter().skip(1) {
        if text.len() >= 128 {
            break;
        }
        text.push_str(&format!("'{}' ", shown(argument)));
    }
    Fault::text(text)
}

/// The arguments of a request without passwords, as they may be shown.
pub(crate) fn without_secrets<'a>(arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let is = |at: usize, word: &str| {
        let argument = arguments.get(at);
        argument.is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let is_secret = |at: usize| match () {
        () if is(0, "AUTH") => at >= 1,
        () if is(0, "HELLO") => (1..=2).any(|before| at > before && is(at - before, "AUTH")),
        () if is(0, "ACL") && is(1, "SETUSER") => at >= 2,
        () if is(0, "CONFIG") && is(1, "SET") => at >= 3 && is(at - 1, "requirepass"),
        () => false,
    };
    let shown = |(at, argument): (usize, &&'a [u8])| match is_secret(at) {
        true => b"(redacted)".as_slice(),
        false => *argument,
    };
    arguments.iter().enumerate().map(shown).collect()
}

/// A call of a command.
pub(crate) struct Call<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) session: &'a mut Session,
    pub(crate) arguments: &'a [&'a [u8]],
}

impl<'a> Call<'a> {
    /// An argument; the name is the first.
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.arguments.get(index).copied().unwrap_or_default()
    }

    /// How many arguments there are, with the name.
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// The arguments from an index on.
    pub(crate) fn rest(&self, from: usize) -> &'a [&'a [u8]] {
        self.arguments.get(from..).unwrap_or_default()
    }

    /// Whether an argument is a word, in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.arg(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// An argument as an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<i64, Fault> {
        values::number::parse_integer(self.arg(index)).ok_or(NOT_INTEGER)
    }

    /// The session's database.
    pub(crate) fn db(&self) -> u8 {
        self.session.database
    }

    pub(crate) fn reply(&mut self) -> &mut Reply {
        &mut self.session.reply
    }

    /// OK.
    pub(crate) fn ok(&mut self) -> Answer {
        self.reply().ok();
        Ok(())
    }

    /// A number as the answer.
    pub(crate) fn answer(&mut self, number: i64) -> Answer {
        self.reply().integer(number);
        Ok(())
    }

    /// A count as the answer.
    pub(crate) fn answer_count(&mut self, count: usize) -> Answer {
        self.reply().count(count);
        Ok(())
    }

    /// Tells of an event of a key of the session's database.
    pub(crate) fn notify(&mut self, class: u8, event: &str, key: &[u8]) {
        let database = self.db();
        self.engine.notify(class, event, database, key);
    }

    /// The refusal of a subcommand that is none.
    pub(crate) fn unknown_subcommand(&self) -> Fault {
        about::unknown_subcommand(self.arguments)
    }

    /// Whether the subcommand is a word, with so many arguments: exactly, or at least where negative.
    pub(crate) fn sub(&self, word: &str, arity: i32) -> Result<bool, Fault> {
        if !self.is(1, word) {
            return Ok(false);
        }
        let count = self.len() as i64;
        let fits = match arity {
            least if least < 0 => count >= -i64::from(least),
            exact => count == i64::from(exact),
        };
        match fits {
            true => Ok(true),
            false => {
                let name = String::from_utf8_lossy(self.arg(0)).to_ascii_lowercase();
                Err(Fault::arity(&format!(
                    "{name}|{}",
                    word.to_ascii_lowercase()
                )))
            }
        }
    }
}
