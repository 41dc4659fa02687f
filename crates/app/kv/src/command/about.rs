//! What Redis 7.0 says of its commands and their subcommands: `about.txt`, which a test compares with redis-server.
//! Rules of ACL name commands that are not here, too, so the table has all of them.

use crate::fault::{Answer, Fault};
use hashbrown::HashMap;
use std::sync::OnceLock;

pub(crate) mod keys;

use keys::Specification;

/// Categories of ACL, in the order in which ACL CAT lists them.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A command or a subcommand.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Its place in the table.
    pub(crate) id: usize,
    /// In lower case; a subcommand has its command and a bar in front.
    pub(crate) name: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub(crate) arity: i32,
    /// As COMMAND INFO names them.
    pub(crate) flags: Vec<&'static str>,
    /// A bit for each of [`CATEGORIES`].
    pub(crate) categories: u32,
    /// Hints for clients.
    pub(crate) tips: Vec<&'static str>,
    /// Where its keys are.
    pub(crate) keys: Vec<Specification>,
    /// The command that it belongs to.
    pub(crate) parent: Option<usize>,
    /// Places of its subcommands.
    pub(crate) subcommands: Vec<usize>,
}

/// The place of a category, of a name in any case.
pub(crate) fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES
        .iter()
        .position(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

impl About {
    /// Whether it has a flag.
    pub(crate) fn does(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether it is in a category.
    pub(crate) fn is_in(&self, category: usize) -> bool {
        self.categories >> category & 1 == 1
    }

    /// Whether a call may have so many arguments, with the name.
    pub(crate) fn takes(&self, count: usize) -> bool {
        match self.arity {
            least if least < 0 => count as i64 >= -i64::from(least),
            exact => count as i64 == i64::from(exact),
        }
    }

    /// Names of its categories.
    pub(crate) fn category_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let all = CATEGORIES.iter().enumerate();
        all.filter(|(at, _)| self.is_in(*at)).map(|(_, name)| *name)
    }

    /// Its subcommands.
    pub(crate) fn subcommands(&self) -> impl Iterator<Item = &'static About> + '_ {
        self.subcommands.iter().filter_map(|at| all().get(*at))
    }
}

/// Reads a line of the table.
fn parse(line: &'static str, id: usize) -> Option<About> {
    let words = |text: &'static str| -> Vec<&'static str> {
        let words = text.split(' ');
        words.filter(|word| *word != "-").collect()
    };
    let mut columns = line.split("; ");
    let (name, arity) = (columns.next()?, columns.next()?.parse().ok()?);
    let flags = words(columns.next()?);
    let mut categories = 0;
    for word in words(columns.next()?) {
        categories |= 1 << category(word.as_bytes())?;
    }
    Some(About {
        id,
        name,
        arity,
        flags,
        categories,
        tips: words(columns.next()?),
        keys: columns.map(Specification::parse).collect::<Option<_>>()?,
        parent: None,
        subcommands: Vec::new(),
    })
}

/// All of the table; subcommands are behind their commands.
pub(crate) fn all() -> &'static [About] {
    static ALL: OnceLock<Vec<About>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("about.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        let mut all: Vec<About> = Vec::new();
        let mut command = 0;
        for line in lines {
            // A test finds a line that says nothing.
            let Some(mut about) = parse(line, all.len()) else {
                continue;
            };
            match about.name.contains('|') {
                true => {
                    about.parent = Some(command);
                    let id = about.id;
                    if let Some(parent) = all.get_mut(command) {
                        parent.subcommands.push(id);
                    }
                }
                false => command = about.id,
            }
            all.push(about);
        }
        all
    })
}

/// The command or subcommand of a name such as `get` or `config|get`, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static About> {
    static BY_NAME: OnceLock<HashMap<&'static [u8], usize>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let all = all().iter();
        all.map(|about| (about.name.as_bytes(), about.id)).collect()
    });
    let id = by_name.get(name.to_ascii_lowercase().as_slice())?;
    all().get(*id)
}

/// What a request asks for: the subcommand, of a command that has some. `None` where there is no such.
pub(crate) fn look_up(arguments: &[&[u8]]) -> Option<&'static About> {
    let about = find(arguments.first()?)?;
    let (Some(word), false) = (arguments.get(1), about.subcommands.is_empty()) else {
        return Some(about);
    };
    about.subcommands().find(|subcommand| {
        let own = subcommand.name.get(about.name.len() + 1..);
        own.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(word))
    })
}

/// Whether a command has the subcommand that a request names, with as many arguments.
pub(crate) fn check_subcommand(arguments: &[&[u8]]) -> Answer {
    match look_up(arguments) {
        Some(about) if about.takes(arguments.len()) => Ok(()),
        Some(about) => Err(Fault::arity(about.name)),
        None => Err(unknown_subcommand(arguments)),
    }
}

/// The refusal of a subcommand that is none.
pub(super) fn unknown_subcommand(arguments: &[&[u8]]) -> Fault {
    let shown = |at: usize| {
        let word = arguments.get(at).copied().unwrap_or_default();
        String::from_utf8_lossy(word.get(..128).unwrap_or(word)).into_owned()
    };
    let name = shown(0).to_ascii_uppercase();
    Fault::text(format!(
        "ERR unknown subcommand '{}'. Try {name} HELP.",
        shown(1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table_is_read() {
        let lines = include_str!("about.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        assert_eq!(all().len(), lines.count());
        let subcommands = all().iter().filter(|about| about.parent.is_some());
        assert_eq!((all().len(), subcommands.count()), (366, 126));
        assert_eq!(find(b"Config|SET").unwrap().arity, -4);
    }

    #[test]
    fn commands_here_take_the_arguments_that_those_of_redis_take() {
        for command in crate::command::all() {
            let about = find(command.name.as_bytes()).unwrap();
            assert_eq!(command.arity, about.arity, "{}", command.name);
            let containers = crate::command::Flags::CONTAINER;
            assert_eq!(
                command.does(containers),
                !about.subcommands.is_empty(),
                "{}",
                command.name
            );
            // Some subcommands write, and some do not.
            let write = command.does(crate::command::Flags::WRITE);
            let alike = about.does("write") == write || command.does(containers);
            assert!(alike, "{}", command.name);
        }
    }
}
