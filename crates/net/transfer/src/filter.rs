//! What of a tree is left out: rules as rsync(1) has them under FILTER RULES.

use std::str::FromStr;

/// Bytes of the longest pattern.
const PATTERN_MAX: usize = 1024;

/// Rules in order; the first that fits decides, and where none does the object is sent. What is in
/// a directory that is left out is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter(Vec<Rule>);

/// One rule: `- PATTERN` leaves out what fits, `+ PATTERN` does not.
///
/// A pattern that begins with a slash fits at the root of the transfer only; one that ends with a
/// slash fits directories only. One with another slash, or with `**`, is held against the end of
/// the whole path, others against the name. `*` is any bytes but slashes, `**` any, `?` one that
/// is no slash, `[...]` one of a class; `/***` at the end is the directory and all in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    text: String,
    sends: bool,
    anchored: bool,
    directories: bool,
    whole_path: bool,
    and_below: bool,
    tokens: Vec<Token>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Byte(u8),
    /// Any byte but a slash.
    One,
    /// Any bytes but slashes.
    Star,
    /// Any bytes.
    Stars,
    Class(bool, Vec<(u8, u8)>),
}

/// Why a rule is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It begins otherwise.
    #[error("a rule is `- PATTERN` to leave out, or `+ PATTERN` to send")]
    Form,
    /// There is no pattern, or it is too long.
    #[error("a pattern has 1 to {PATTERN_MAX} bytes")]
    Length,
    /// A class does not end, or is of a kind that is not known.
    #[error("a class is [...], of bytes and ranges, without names such as [:alpha:]")]
    Class,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let whole = text;
        let (word, pattern) = text.split_once([' ', '_']).ok_or(RuleError::Form)?;
        let sends = match word {
            "+" | "include" => true,
            "-" | "exclude" => false,
            _ => return Err(RuleError::Form),
        };
        let (anchored, pattern) = match pattern.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (and_below, pattern) = match pattern.strip_suffix("/***") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (directories, pattern) = match pattern.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if !(1..=PATTERN_MAX).contains(&pattern.len()) {
            return Err(RuleError::Length);
        }
        let whole_path = and_below || pattern.contains('/') || pattern.contains("**");
        Ok(Rule {
            text: whole.to_owned(),
            sends,
            anchored,
            directories,
            whole_path,
            and_below,
            tokens: tokens(pattern.as_bytes())?,
        })
    }
}

fn tokens(pattern: &[u8]) -> Result<Vec<Token>, RuleError> {
    // Without wildcards a backslash is a byte like others.
    let escapes = pattern.iter().any(|byte| b"*?[".contains(byte));
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        tokens.push(match first {
            b'*' => {
                let more = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = rest.get(more..).unwrap_or_default();
                match more {
                    0 => Token::Star,
                    _ => Token::Stars,
                }
            }
            b'?' => Token::One,
            b'[' => {
                let (class, behind) = class(rest).ok_or(RuleError::Class)?;
                rest = behind;
                class
            }
            b'\\' if escapes => match rest.split_first() {
                Some((byte, behind)) => {
                    rest = behind;
                    Token::Byte(*byte)
                }
                None => Token::Byte(b'\\'),
            },
            byte => Token::Byte(*byte),
        });
    }
    Ok(tokens)
}

/// The class behind a bracket, and what follows it.
fn class(text: &[u8]) -> Option<(Token, &[u8])> {
    let (negated, mut rest) = match text.split_first()? {
        (b'!' | b'^', rest) => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        let (first, tail) = rest.split_first()?;
        rest = tail;
        let byte = match first {
            // As the first byte it is one of the class.
            b']' if !ranges.is_empty() => return Some((Token::Class(negated, ranges), rest)),
            b'[' if rest.first() == Some(&b':') => return None,
            b'\\' => {
                let (byte, tail) = rest.split_first()?;
                rest = tail;
                *byte
            }
            byte => *byte,
        };
        match rest {
            [b'-', last, tail @ ..] if *last != b']' => {
                ranges.push((byte, *last));
                rest = tail;
            }
            _ => ranges.push((byte, byte)),
        }
    }
}

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(own) => *own == byte,
            Token::One | Token::Star => byte != b'/',
            Token::Stars => true,
            Token::Class(negated, ranges) => {
                let within = ranges.iter().any(|(a, b)| (*a..=*b).contains(&byte));
                byte != b'/' && within != *negated
            }
        }
    }

    fn repeats(&self) -> bool {
        matches!(self, Token::Star | Token::Stars)
    }
}

impl Rule {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it speaks of this path below the root.
    fn fits(&self, path: &[u8], is_dir: bool) -> bool {
        if self.directories && !is_dir {
            return false;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        match self.whole_path || self.anchored {
            true => self.fits_end(path),
            false => self.fits_end(name),
        }
    }

    /// Whether the pattern fits `text`, or what follows one of its slashes. Every step looks at
    /// each token once, so that no pattern takes longer than its length for a byte.
    fn fits_end(&self, text: &[u8]) -> bool {
        let end = self.tokens.len();
        // Where in the pattern one may be: before token N.
        let mut at = vec![false; end + 1];
        let enter = |at: &mut Vec<bool>, from: usize| {
            for index in from..=end {
                if let Some(here) = at.get_mut(index) {
                    *here = true;
                }
                if !self.tokens.get(index).is_some_and(Token::repeats) {
                    break;
                }
            }
        };
        enter(&mut at, 0);
        for (index, byte) in text.iter().enumerate() {
            let done = at.last() == Some(&true);
            if done && *byte == b'/' && self.and_below {
                return true;
            }
            let mut next = vec![false; end + 1];
            for (index, token) in self.tokens.iter().enumerate() {
                if at.get(index) == Some(&true) && token.takes(*byte) {
                    match token.repeats() {
                        true => enter(&mut next, index),
                        false => enter(&mut next, index + 1),
                    }
                }
            }
            let begins = *byte == b'/' && index > 0;
            if begins && !self.anchored {
                enter(&mut next, 0);
            }
            at = next;
        }
        at.last() == Some(&true)
    }
}

impl Filter {
    /// Of rules in this order.
    pub fn new(rules: Vec<Rule>) -> Filter {
        Filter(rules)
    }

    /// Whether an object is sent, where the directory that it is in is.
    pub(crate) fn sends(&self, path: &[u8], is_dir: bool) -> bool {
        let first = self.0.iter().find(|rule| rule.fits(path, is_dir));
        first.is_none_or(|rule| rule.sends)
    }

    /// The rules as they were written, for the other side.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(|rule| rule.text.clone()).collect()
    }

    /// Reads what [`Filter::texts`] gave.
    pub(crate) fn from_texts(texts: &[String]) -> Result<Filter, RuleError> {
        let rules: Result<Vec<Rule>, RuleError> = texts.iter().map(|text| text.parse()).collect();
        rules.map(Filter)
    }

    /// Whether there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(rules: &[&str], path: &str) -> bool {
        let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
        let filter = Filter::new(rules.collect());
        let (path, is_dir) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        filter.sends(path.as_bytes(), is_dir)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = ["+ keep.o", "- *.o", "+ *.c"];
        assert!(sends(&rules, "a/keep.o"));
        assert!(!sends(&rules, "a/b.o"));
        assert!(sends(&rules, "a/b.c"));
        assert!(sends(&rules, "other"));
        assert!(sends(&[], "anything"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for (text, why) in [
            ("*.o", RuleError::Form),
            ("-*.o", RuleError::Form),
            ("merge file", RuleError::Form),
            ("- ", RuleError::Length),
            ("- /", RuleError::Length),
            ("- [a", RuleError::Class),
            ("- [[:alpha:]]", RuleError::Class),
        ] {
            assert_eq!(text.parse::<Rule>(), Err(why), "{text}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let stars = format!("- {}b", "*a".repeat(500));
        assert!(sends(&[&stars], &"a".repeat(10_000)));
        let stars = format!("- {}b", "**a".repeat(300));
        assert!(sends(&[&stars], &"a/".repeat(5000)));
    }
}
