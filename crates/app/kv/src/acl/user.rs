//! A user, and what it may do.

use crate::command::about::keys::Key;
use crate::command::about::{self, About};
use ring::digest::{SHA256, digest};
use std::collections::BTreeMap;
use subtle::ConstantTimeEq as _;
use values::glob;

/// Words of bits: more than there are commands.
const WORDS: usize = 8;

/// The bit that stands for commands that there may be in the future: `+@all` gives it.
const FUTURE: usize = WORDS * 64 - 1;

/// A set of commands and subcommands, by their places in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Commands([u64; WORDS]);

impl Commands {
    pub(super) const ALL: Commands = Commands([u64::MAX; WORDS]);

    pub(super) fn has(&self, id: usize) -> bool {
        let word = self.0.get(id / 64).copied().unwrap_or(0);
        word >> (id % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, id: usize, allowed: bool) {
        if let Some(word) = self.0.get_mut(id / 64) {
            *word &= !(1 << (id % 64));
            *word |= u64::from(allowed) << (id % 64);
        }
    }

    /// A command, with its subcommands.
    pub(super) fn set_command(&mut self, about: &About, allowed: bool) {
        self.set(about.id, allowed);
        about
            .subcommands
            .iter()
            .for_each(|id| self.set(*id, allowed));
    }

    /// All of a category; a command brings its subcommands along.
    pub(super) fn set_category(&mut self, category: usize, allowed: bool) {
        let of_it = about::all().iter().filter(|about| about.is_in(category));
        of_it.for_each(|about| self.set_command(about, allowed));
    }

    /// Whether commands of the future are in it.
    pub(super) fn has_future(&self) -> bool {
        self.has(FUTURE)
    }
}

/// Keys of a pattern, and what may be done with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyPattern {
    pub(super) pattern: Box<[u8]>,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl KeyPattern {
    fn allows(&self, name: &[u8], key: &Key) -> bool {
        (self.reads || !key.reads())
            && (self.writes || !key.writes())
            && glob::matches(&self.pattern, name, false)
    }
}

/// What one set of rules allows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Selector {
    /// Whether all commands are allowed without a look at the set.
    pub(super) all_commands: bool,
    pub(super) commands: Commands,
    /// First arguments with which a command is allowed that is not otherwise.
    pub(super) first_arguments: BTreeMap<usize, Vec<Box<[u8]>>>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
}

/// Why a request is not allowed. Where several sets of rules refuse it, the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Denied {
    /// The command.
    Command,
    /// An argument that is a key.
    Key(usize),
    /// An argument that is a channel.
    Channel(usize),
}

/// Arguments that are channels, and whether they are patterns.
fn channels_of(name: &str, count: usize) -> (std::ops::Range<usize>, bool) {
    match name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..count, false),
        "psubscribe" => (1..count, true),
        _ => (0..0, false),
    }
}

impl Selector {
    fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    fn allows_command(&self, about: &About, arguments: &[&[u8]]) -> bool {
        if self.all_commands || about.does("no_auth") || self.commands.has(about.id) {
            return true;
        }
        let first = arguments.get(1);
        let allowed = self.first_arguments.get(&about.id).into_iter().flatten();
        first.is_some_and(|first| {
            let mut allowed = allowed;
            allowed.any(|word| word.eq_ignore_ascii_case(first))
        })
    }

    /// Whether a channel is allowed; a pattern has to be one of the rules itself.
    fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let mut rules = self.channels.iter();
        self.all_channels
            || rules.any(|rule| match is_pattern {
                true => **rule == *channel,
                false => glob::matches(rule, channel, false),
            })
    }

    fn check(&self, about: &About, arguments: &[&[u8]], keys: &[Key]) -> Result<(), Denied> {
        if !self.allows_command(about, arguments) {
            return Err(Denied::Command);
        }
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        for key in keys.iter().filter(|_| !self.all_keys) {
            let name = argument(key.index);
            if !self.keys.iter().any(|pattern| pattern.allows(name, key)) {
                return Err(Denied::Key(key.index));
            }
        }
        let (channels, is_pattern) = channels_of(about.name, arguments.len());
        for at in channels {
            if !self.allows_channel(argument(at), is_pattern) {
                return Err(Denied::Channel(at));
            }
        }
        Ok(())
    }
}

/// SHA-256 of a password.
pub(super) type Password = [u8; 32];

pub(super) fn hash(password: &[u8]) -> Password {
    let mut hash = Password::default();
    let digest = digest(&SHA256, password);
    for (byte, other) in hash.iter_mut().zip(digest.as_ref()) {
        *byte = *other;
    }
    hash
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct User {
    pub(super) name: Box<[u8]>,
    pub(super) enabled: bool,
    /// Whether any password does.
    pub(super) no_password: bool,
    /// What `sanitize-payload` or its contrary said; payloads are always looked at here.
    pub(super) sanitizes: Option<bool>,
    pub(super) passwords: Vec<Password>,
    /// Its own rules.
    pub(super) root: Selector,
    /// More sets of rules, each of which may allow a request.
    pub(super) selectors: Vec<Selector>,
    /// Whether nothing is refused.
    unrestricted: bool,
}

impl User {
    /// A user that may do nothing.
    pub(crate) fn new(name: &[u8], all_channels: bool) -> User {
        User {
            name: name.into(),
            root: Selector {
                all_channels,
                ..Selector::default()
            },
            ..User::default()
        }
    }

    /// The default user, as it is without rules: it may do everything.
    pub(crate) fn default_user() -> User {
        User {
            name: super::DEFAULT.into(),
            enabled: true,
            no_password: true,
            root: Selector {
                all_commands: true,
                commands: Commands::ALL,
                all_keys: true,
                all_channels: true,
                ..Selector::default()
            },
            unrestricted: true,
            ..User::default()
        }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it has AUTH accepted, or everybody is it, without a password.
    pub(crate) fn needs_no_password(&self) -> bool {
        self.enabled && self.no_password
    }

    /// Whether `AUTH password` is of no use.
    pub(crate) fn takes_any_password(&self) -> bool {
        self.no_password
    }

    /// Whether it may do everything.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    pub(super) fn note_rules(&mut self) {
        let unrestricted = self.all_selectors().any(Selector::is_unrestricted);
        self.unrestricted = unrestricted;
    }

    pub(super) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        [&self.root].into_iter().chain(&self.selectors)
    }

    /// Has a password be the only one; an empty one for none.
    pub(crate) fn set_only_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.passwords.push(hash(password));
        }
    }

    /// Whether it may log in with a password. The time does not tell how much of it is right.
    pub(super) fn accepts(&self, password: &[u8]) -> bool {
        let given = hash(password);
        let mut right = subtle::Choice::from(u8::from(self.no_password));
        for password in &self.passwords {
            right |= password.ct_eq(&given);
        }
        self.enabled && bool::from(right)
    }

    /// Whether it may ask for something.
    ///
    /// # Errors
    /// What of it is not allowed.
    pub(crate) fn check(&self, about: &'static About, arguments: &[&[u8]]) -> Result<(), Denied> {
        if self.unrestricted {
            return Ok(());
        }
        let keys = match about.has_keys() {
            true => about.keys_of(arguments),
            false => Vec::new(),
        };
        let mut denied = Denied::Command;
        for selector in self.all_selectors() {
            match selector.check(about, arguments, &keys) {
                Ok(()) => return Ok(()),
                Err(error) => denied = denied.max(error),
            }
        }
        Err(denied)
    }

    /// Whether it may run a command whichever keys that reads.
    pub(crate) fn reads_all_keys(&self, about: &'static About, arguments: &[&[u8]]) -> bool {
        let reads_all = |selector: &&Selector| {
            let is_all = |one: &KeyPattern| one.reads && *one.pattern == *b"*";
            selector.all_keys || selector.keys.iter().any(is_all)
        };
        let keys = about.keys_of(arguments);
        self.all_selectors()
            .filter(reads_all)
            .any(|selector| selector.check(about, arguments, &keys).is_ok())
    }

    /// Whether it may be subscribed to a channel, or a pattern, whatever commands it may use.
    pub(crate) fn may_hear(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_selectors()
            .any(|selector| selector.allows_channel(channel, is_pattern))
    }
}
