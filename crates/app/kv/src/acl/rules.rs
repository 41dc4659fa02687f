//! Rules, as ACL SETUSER takes them.

use super::user::{Commands, KeyPattern, Password, Selector, User, hash};
use crate::command::about;

/// Why a rule is none, in the words of Redis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// Nothing of what there is.
    #[error("Syntax error")]
    Syntax,
    /// A command or a category that there is not.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
         Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
         effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// The user has no such password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoPassword,
    /// No SHA-256 in hexadecimal digits.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    /// A first argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgument,
}

/// Whether a name or a pattern has what separates rules.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    let separates = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0);
    text.iter().any(separates)
}

/// Joins what belongs to one set of rules in parentheses.
///
/// # Errors
/// The index of a parenthesis that is not closed.
pub(crate) fn merge_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open = None;
    for (at, rule) in rules.iter().enumerate() {
        match open {
            None => {
                merged.push(rule.to_vec());
                open = Some(at).filter(|_| rule.starts_with(b"(") && !rule.ends_with(b")"));
            }
            Some(_) => {
                if let Some(selector) = merged.last_mut() {
                    selector.push(b' ');
                    selector.extend_from_slice(rule);
                }
                open = open.filter(|_| !rule.ends_with(b")"));
            }
        }
    }
    open.map_or(Ok(merged), Err)
}

fn parse_hash(digits: &[u8]) -> Result<Password, RuleError> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut password = Password::default();
    if digits.len() != password.len() * 2 {
        return Err(RuleError::Hash);
    }
    for (byte, pair) in password.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else {
            return Err(RuleError::Hash);
        };
        *byte = digit(high).ok_or(RuleError::Hash)? << 4 | digit(low).ok_or(RuleError::Hash)?;
    }
    Ok(password)
}

impl User {
    /// Applies a rule. `all_channels` is what `reset` leaves of channels.
    ///
    /// # Errors
    /// The rule is none; the user may have a part of it.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        let done = self.apply_one(rule, all_channels);
        self.note_rules();
        done
    }

    fn apply_one(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = User::new(&self.name, all_channels);
                self.sanitizes = Some(true);
            }
            _ => return self.apply_other(rule, all_channels),
        }
        Ok(())
    }

    fn apply_other(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(hash(password)),
            [b'#', digits @ ..] => self.add_password(parse_hash(digits)?),
            [b'<', password @ ..] => return self.remove_password(hash(password)),
            [b'!', digits @ ..] => return self.remove_password(parse_hash(digits)?),
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector {
                    all_channels,
                    ..Selector::default()
                };
                for rule in inner.split(|byte| has_spaces(&[*byte])) {
                    // One that ends so could not be told from the end of all.
                    if rule.ends_with(b")") {
                        return Err(RuleError::Syntax);
                    }
                    if !rule.is_empty() {
                        selector.apply(rule)?;
                    }
                }
                self.selectors.push(selector);
            }
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn add_password(&mut self, password: Password) {
        self.no_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: Password) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|one| *one == password);
        self.passwords.remove(at.ok_or(RuleError::NoPassword)?);
        Ok(())
    }
}

impl Selector {
    fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let done = self.apply_one(rule);
        self.all_commands = self.commands == Commands::ALL;
        done
    }

    fn apply_one(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_commands(Commands::ALL),
            b"nocommands" | b"-@all" => self.set_commands(Commands::default()),
            _ => return self.apply_other(rule),
        }
        Ok(())
    }

    fn set_commands(&mut self, commands: Commands) {
        self.commands = commands;
        self.first_arguments.clear();
    }

    fn apply_other(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'~', pattern @ ..] => self.add_keys(pattern, true, true),
            [b'%', ..] if self.all_keys => Err(RuleError::AllKeys),
            [b'%', rest @ ..] => {
                let at = rest.iter().position(|byte| *byte == b'~');
                let at = at.ok_or(RuleError::Syntax)?;
                let (letters, pattern) = (&rest[..at], &rest[at + 1..]);
                let (reads, writes) = match letters.to_ascii_uppercase().as_slice() {
                    b"R" => (true, false),
                    b"W" => (false, true),
                    b"RW" | b"WR" => (true, true),
                    _ => return Err(RuleError::Syntax),
                };
                self.add_keys(pattern, reads, writes)
            }
            [b'&', pattern @ ..] => self.add_channels(pattern),
            [b'+', b'@', name @ ..] => self.set_category(name, true),
            [b'-', b'@', name @ ..] => self.set_category(name, false),
            [b'+', name @ ..] => self.allow(name),
            [b'-', name @ ..] => {
                let about = about::find(name).ok_or(RuleError::Unknown)?;
                self.commands.set_command(about, false);
                self.first_arguments.remove(&about.id);
                Ok(())
            }
            _ => Err(RuleError::Syntax),
        }
    }

    fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|one| *one.pattern == *pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern {
                pattern: pattern.into(),
                reads,
                writes,
            }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannels);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], allowed: bool) -> Result<(), RuleError> {
        let category = about::category(name).ok_or(RuleError::Unknown)?;
        self.commands.set_category(category, allowed);
        let of_it = about::all().iter().filter(|about| about.is_in(category));
        of_it.for_each(|about| {
            self.first_arguments.remove(&about.id);
        });
        Ok(())
    }

    /// `+command`, `+command|subcommand`, or `+command|argument` of a command without subcommands.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        if let Some(about) = about::find(name) {
            self.commands.set_command(about, true);
            self.first_arguments.remove(&about.id);
            return Ok(());
        }
        let bar = name.iter().rposition(|byte| *byte == b'|');
        let bar = bar.ok_or(RuleError::Unknown)?;
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let about = about::find(command).ok_or(RuleError::Unknown)?;
        if about.parent.is_some() {
            return Err(RuleError::FirstArgument);
        }
        if argument.is_empty() || has_spaces(argument) {
            return Err(RuleError::Syntax);
        }
        if !about.subcommands.is_empty() {
            return Err(RuleError::Unknown);
        }
        if self.commands.has(about.id) {
            // It is allowed with any.
            return Ok(());
        }
        let allowed = self.first_arguments.entry(about.id).or_default();
        if !allowed
            .iter()
            .any(|known| known.eq_ignore_ascii_case(argument))
        {
            allowed.push(argument.into());
        }
        Ok(())
    }
}
