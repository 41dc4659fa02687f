//! Where the keys of a request are, by the key specifications of Redis 7.0 (redis.io/docs/reference/key-specs).

use super::About;
use values::number::parse_integer;

/// Where the first of some keys is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// At an argument.
    Index(usize),
    /// Behind a word that is looked for from an argument on; from the end where negative.
    Keyword(&'static str, i64),
    /// The command alone knows.
    Unknown,
}

/// Which are keys, from the first one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Find {
    /// Up to the last one, counted from the first, or from the end where negative; each so many arguments. With a
    /// limit of n above 1 only the first n-th part of the arguments has keys.
    Range { last: i64, step: i64, limit: i64 },
    /// An argument says how many there are.
    Number { at: i64, first: i64, step: i64 },
    /// The command alone knows.
    Unknown,
}

/// What a command does with keys, and where they are.
#[derive(Clone, Debug)]
pub(crate) struct Specification {
    /// As COMMAND INFO names them.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) begin: Begin,
    pub(crate) find: Find,
    /// For people.
    pub(crate) note: Option<&'static str>,
}

/// A key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Which argument it is.
    pub(crate) index: usize,
    /// What is done with it, as COMMAND GETKEYSANDFLAGS names it.
    pub(crate) flags: &'static [&'static str],
}

impl Key {
    /// Whether what is in it is read.
    pub(crate) fn reads(&self) -> bool {
        self.flags.contains(&"access")
    }

    /// Whether what is in it is changed.
    pub(crate) fn writes(&self) -> bool {
        let changes = |flag: &&str| matches!(*flag, "insert" | "delete" | "update");
        self.flags.iter().any(changes)
    }
}

const READ: &[&str] = &["RO", "access"];
const OVERWRITE: &[&str] = &["OW", "update"];
const CHANGE: &[&str] = &["RW", "access", "update"];
const MOVE: &[&str] = &["RW", "access", "delete"];

impl Specification {
    /// Reads a column of the table.
    pub(super) fn parse(text: &'static str) -> Option<Specification> {
        let mut parts = text.splitn(4, ", ");
        let flags = parts.next()?.split(' ').collect();
        let mut begin = parts.next()?.split(' ');
        let begin = match begin.next()? {
            "index" => Begin::Index(begin.next()?.parse().ok()?),
            "keyword" => Begin::Keyword(begin.next()?, begin.next()?.parse().ok()?),
            "unknown" => Begin::Unknown,
            _ => return None,
        };
        let mut find = parts.next()?.split(' ');
        let kind = find.next()?;
        let mut number = || find.next()?.parse::<i64>().ok();
        let find = match kind {
            "range" => Find::Range {
                last: number()?,
                step: number()?,
                limit: number()?,
            },
            "keynum" => Find::Number {
                at: number()?,
                first: number()?,
                step: number()?,
            },
            "unknown" => Find::Unknown,
            _ => return None,
        };
        let note = parts.next();
        Some(Specification {
            flags,
            begin,
            find,
            note,
        })
    }

    /// Whether what it finds is a key, and not a channel of a shard.
    fn is_of_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }

    /// Arguments that are keys, first, last and step. `None` where the request has too few arguments for it.
    fn range(&self, arguments: &[&[u8]]) -> Option<Option<(i64, i64, i64)>> {
        let count = arguments.len() as i64;
        let mut first = match self.begin {
            Begin::Index(index) => index as i64,
            Begin::Keyword(word, from) => match keyword(word, from, arguments) {
                Some(at) => at + 1,
                None => return Some(None),
            },
            Begin::Unknown => return None,
        };
        let (last, step) = match self.find {
            Find::Range { last, step, .. } if last >= 0 => (first + last, step),
            Find::Range { last, step, limit } if limit > 1 => {
                (first + (count - first) / limit + last, step)
            }
            Find::Range { last, step, .. } => (count + last, step),
            Find::Number {
                at,
                first: behind,
                step,
            } => {
                let number = arguments.get(usize::try_from(first + at).ok()?)?;
                let number = parse_integer(number).filter(|number| *number >= 0)?;
                first += behind;
                (first.checked_add(number)? - 1, step)
            }
            Find::Unknown => return None,
        };
        let fits = first <= last && last < count && first >= 1;
        fits.then_some(Some((first, last, step)))
    }
}

/// Where a word is.
fn keyword(word: &str, from: i64, arguments: &[&[u8]]) -> Option<i64> {
    let is = |at: &usize| arguments[*at].eq_ignore_ascii_case(word.as_bytes());
    let count = arguments.len();
    let found = match usize::try_from(from) {
        Ok(from) => (from..count).find(is),
        // From the end towards the begin.
        Err(_) => (1..count.saturating_sub(from.unsigned_abs() as usize - 1))
            .rev()
            .find(is),
    };
    found.map(|at| at as i64)
}

impl About {
    /// The keys of a request.
    pub(crate) fn keys_of(&'static self, arguments: &[&[u8]]) -> Vec<Key> {
        if let Some(found) = by_command(self.name, arguments) {
            return found;
        }
        let mut found = Vec::new();
        let specifications = self.keys.iter();
        for specification in specifications.filter(|one| one.is_of_keys()) {
            match specification.range(arguments) {
                Some(None) => {}
                Some(Some((first, last, step))) => {
                    let flags = specification.flags.as_slice();
                    let indices = (first..=last).step_by(step.max(1) as usize);
                    found.extend(indices.map(|index| Key {
                        index: index as usize,
                        flags,
                    }));
                }
                // Sources that are left out: what was found before them is changed all the same.
                None if matches!(specification.find, Find::Range { .. }) => {}
                // The command refuses such a request.
                None => return Vec::new(),
            }
        }
        found
    }

    /// First key, last key (from the end where negative) and step, as clients had them before there were
    /// specifications: of those that follow each other.
    pub(crate) fn legacy_range(&self) -> (i64, i64, i64) {
        let plain = |one: &Specification| match (one.begin, one.find) {
            (Begin::Index(first), Find::Range { last, step, .. }) => {
                let first = first as i64;
                let last = if last >= 0 { first + last } else { last };
                Some((first, last, step))
            }
            _ => None,
        };
        if let [one] = self.keys.as_slice() {
            return plain(one).unwrap_or_default();
        }
        let mut all: Option<(i64, i64, i64)> = None;
        for (first, last, step) in self.keys.iter().filter_map(plain) {
            match &mut all {
                _ if step != 1 => {}
                None => all = Some((first, last, step)),
                Some((_, end, _)) if *end == first - 1 => *end = last,
                Some(_) => {}
            }
        }
        all.unwrap_or_default()
    }

    /// Whether a request may name keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.iter().any(Specification::is_of_keys)
    }
}

/// Keys of commands whose specifications do not say all.
fn by_command(name: &str, arguments: &[&[u8]]) -> Option<Vec<Key>> {
    let key = |index, flags| Key { index, flags };
    let is = |at: usize, word: &str| {
        let argument = arguments.get(at);
        argument.is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let count = arguments.len();
    Some(match name {
        "set" if (3..count).any(|at| is(at, "GET")) => vec![key(1, CHANGE)],
        "set" => vec![key(1, OVERWRITE)],
        "bitfield" if only_gets(arguments) => vec![key(1, READ)],
        "bitfield" => vec![key(1, CHANGE)],
        "sort_ro" => vec![key(1, READ)],
        "sort" => {
            let mut found = vec![key(1, READ)];
            let mut at = 2;
            while at < count {
                at += match () {
                    () if is(at, "LIMIT") => 3,
                    () if is(at, "GET") || is(at, "BY") => 2,
                    () if is(at, "STORE") && at + 1 < count => {
                        // The last one counts.
                        found.truncate(1);
                        found.push(key(at + 1, OVERWRITE));
                        2
                    }
                    () => 1,
                };
            }
            found
        }
        // The last STORE counts, where Redis looks at the first: so all of them are keys here.
        "georadius" | "georadiusbymember" => {
            let options = if name == "georadius" { 6 } else { 5 };
            let stores = |at: &usize| is(*at, "STORE") || is(*at, "STOREDIST");
            let stores = (options..count.saturating_sub(1)).filter(stores);
            let first = [key(1, READ)];
            let stores = stores.map(|at| key(at + 1, OVERWRITE));
            first.into_iter().chain(stores).collect()
        }
        "migrate" => {
            let named = (6..count).find(|at| is(*at, "KEYS"));
            match named.filter(|_| arguments.get(3).is_some_and(|key| key.is_empty())) {
                Some(at) => (at + 1..count).map(|at| key(at, MOVE)).collect(),
                None => vec![key(3, MOVE)],
            }
        }
        _ => return None,
    })
}

/// Whether a BITFIELD reads only.
fn only_gets(arguments: &[&[u8]]) -> bool {
    let mut rest = arguments.get(2..).unwrap_or_default();
    loop {
        let Some(word) = rest.first() else {
            return true;
        };
        let taken = match word.to_ascii_uppercase().as_slice() {
            b"GET" if rest.len() > 2 => 3,
            b"OVERFLOW" if rest.len() > 1 => 2,
            _ => return false,
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, find};
    use super::*;

    fn keys(line: &str) -> Vec<usize> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let about = find(words[0]).unwrap();
        let found = about.keys_of(&words);
        found.iter().map(|key| key.index).collect()
    }

    #[test]
    fn keys_are_found_by_their_specifications() {
        for (line, expected) in [
            ("get a", &[1][..]),
            ("mset a 1 b 2", &[1, 3]),
            ("eval x 2 a b c", &[3, 4]),
            ("eval x 0 a", &[]),
            ("eval x 5 a", &[]),
            ("eval x 9223372036854775807 a", &[]),
            ("zunionstore out 2 a b", &[1, 3, 4]),
            ("xread count 1 streams a b 0 0", &[4, 5]),
            ("xreadgroup group streams c streams a 0", &[5]),
            ("sort a by store get b store out", &[1, 7]),
            ("sort a store b store c", &[1, 5]),
            ("georadius a 1 1 1 km store b storedist c", &[1, 7, 9]),
            ("georadius a 1 1 1 km store store", &[1, 7]),
            ("migrate h p  0 1 keys a b", &[7, 8]),
            ("bitop and out a b", &[2, 3, 4]),
            ("object", &[]),
            ("ping", &[]),
            ("ssubscribe a", &[]),
        ] {
            assert_eq!(keys(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_done_with_a_key_is_said_of_each() {
        let flags = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let found = find(words[0]).unwrap().keys_of(&words);
            let does = found.iter().map(|key| (key.reads(), key.writes()));
            does.collect::<Vec<_>>()
        };
        assert_eq!(flags("copy a b"), [(true, false), (false, true)]);
        assert_eq!(flags("set a b"), [(false, true)]);
        assert_eq!(flags("set a b get"), [(true, true)]);
        assert_eq!(flags("exists a"), [(false, false)]);
        assert_eq!(flags("bitfield a get u8 0"), [(true, false)]);
        assert_eq!(flags("bitfield a set u8 0 1"), [(true, true)]);
    }

    #[test]
    fn vague_specifications_are_made_up_for() {
        let is_vague = |one: &Specification| {
            let vague = |flag: &&str| matches!(*flag, "variable_flags" | "incomplete");
            one.flags.iter().any(vague) || one.begin == Begin::Unknown
        };
        for about in all().iter().filter(|about| about.keys.iter().any(is_vague)) {
            let found = by_command(about.name, &[b"x"]);
            assert!(found.is_some(), "{}", about.name);
        }
    }

    #[test]
    fn no_request_makes_the_search_fail() {
        let words: [&[u8]; 8] = [
            b"STORE", b"KEYS", b"STREAMS", b"0", b"3", b"-1", b"GET", b"",
        ];
        for about in all() {
            for seed in 0..200_usize {
                let mut line: Vec<&[u8]> = vec![about.name.as_bytes()];
                let more = (0..seed % 7).map(|at| words[(seed / 7 + at * (seed % 5 + 1)) % 8]);
                line.extend(more);
                let found = about.keys_of(&line);
                assert!(found.iter().all(|key| key.index >= 1), "{}", about.name);
            }
        }
    }
}
