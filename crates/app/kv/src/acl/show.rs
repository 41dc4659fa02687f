//! Users as text that makes the same users again.

use super::user::{Commands, KeyPattern, Selector, User};
use crate::command::about::{self, About, CATEGORIES};
use crate::script::hex;

impl KeyPattern {
    fn show(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(match (self.reads, self.writes) {
            // As a rule of its own `~*` is all keys, and no pattern may follow.
            (true, true) if *self.pattern == *b"*" => b"%RW~",
            (true, true) => b"~",
            (true, false) => b"%R~",
            (false, _) => b"%W~",
        });
        text.extend_from_slice(&self.pattern);
    }
}

/// Joins words by spaces.
fn join(words: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let words: Vec<Vec<u8>> = words.into_iter().collect();
    words.join(&b' ')
}

impl Selector {
    /// Patterns of keys.
    pub(crate) fn show_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        join(self.keys.iter().map(|pattern| {
            let mut text = Vec::new();
            pattern.show(&mut text);
            text
        }))
    }

    /// Patterns of channels.
    pub(crate) fn show_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        join(
            self.channels
                .iter()
                .map(|channel| [b"&", &**channel].concat()),
        )
    }

    /// Rules that make the same set of commands: from all or none over categories that fit to single commands.
    pub(crate) fn show_commands(&self) -> Vec<u8> {
        let additive = !self.commands.has_future();
        let (mut made, sign) = match additive {
            true => (Commands::default(), '+'),
            false => (Commands::ALL, '-'),
        };
        let mut words = vec![if additive { "-@all" } else { "+@all" }.to_owned()];
        let mut left = self.commands;
        let mut applied = [false; CATEGORIES.len()];
        while let Some(best) = best_category(&left, additive, &applied) {
            made.set_category(best, additive);
            left.set_category(best, !additive);
            if let (Some(applied), Some(name)) = (applied.get_mut(best), CATEGORIES.get(best)) {
                *applied = true;
                words.push(format!("{sign}@{name}"));
            }
        }
        let mut words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        about::all()
            .iter()
            .for_each(|about| self.show_command(about, &mut made, &mut words));
        join(words)
    }

    fn show_command(&self, about: &About, made: &mut Commands, words: &mut Vec<Vec<u8>>) {
        let allowed = self.commands.has(about.id);
        if allowed != made.has(about.id) {
            let sign = if allowed { '+' } else { '-' };
            words.push(format!("{sign}{}", about.name).into_bytes());
            made.set_command(about, allowed);
        }
        let first = self.first_arguments.get(&about.id);
        for argument in first.filter(|_| !allowed).into_iter().flatten() {
            let word = [b"+", about.name.as_bytes(), b"|", argument];
            words.push(word.concat());
        }
    }

    fn show(&self) -> Vec<u8> {
        let mut words = Vec::new();
        let keys = self.show_keys();
        if !keys.is_empty() {
            words.push(keys);
        }
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        let channels = self.show_channels();
        if !channels.is_empty() {
            words.push(channels);
        }
        words.push(self.show_commands());
        join(words)
    }
}

/// The category that says most of what is left, and least that is not so.
fn best_category(left: &Commands, additive: bool, applied: &[bool]) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for category in 0..CATEGORIES.len() {
        if applied.get(category).copied().unwrap_or(true) {
            continue;
        }
        let (mut same, mut differs) = (0, 0);
        for about in about::all().iter().filter(|about| about.is_in(category)) {
            match left.has(about.id) == additive {
                true => same += 1,
                false => differs += 1,
            }
        }
        let is_better = best
            .is_none_or(|(_, least, most)| differs < least || (differs == least && same > most));
        if same > differs && is_better {
            best = Some((category, differs, same));
        }
    }
    best.map(|(category, ..)| category)
}

impl User {
    /// What ACL GETUSER calls flags.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let all = [
            (self.enabled, "on"),
            (!self.enabled, "off"),
            (self.no_password, "nopass"),
            (self.sanitizes == Some(false), "skip-sanitize-payload"),
            (self.sanitizes == Some(true), "sanitize-payload"),
        ];
        let has = all.into_iter().filter(|(has, _)| *has);
        has.map(|(_, name)| name).collect()
    }

    /// Hashes of its passwords, in hexadecimal digits.
    pub(crate) fn hashes(&self) -> impl ExactSizeIterator<Item = String> + '_ {
        self.passwords.iter().map(|password| hex(password))
    }

    /// Its own rules, and more sets of them.
    pub(crate) fn rules(&self) -> (&Selector, &[Selector]) {
        (&self.root, &self.selectors)
    }

    /// A line such as ACL LIST has; as a line of a file it makes the same user again.
    pub fn show(&self) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name.to_vec()];
        let flags = self.flags().into_iter();
        words.extend(flags.map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.hashes().map(|hash| format!("#{hash}").into_bytes()));
        words.push(self.root.show());
        for selector in &self.selectors {
            words.push([b"(".as_slice(), &selector.show(), b")"].concat());
        }
        join(words)
    }
}
