//! COMMAND: what there is.

use super::{Call, Command, Flags, all, command, find};
use crate::fault::{Answer, Fault, SYNTAX};
use values::glob;

pub(super) static COMMANDS: &[Command] = &[command(
    "command",
    -1,
    Flags::LOADING,
    (0, 0, 0),
    "server",
    command_,
)];

/// Words for people.
pub(super) fn help(call: &mut Call<'_>, lines: &[&str]) -> Answer {
    let reply = call.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(())
}

/// Keys of commands that say themselves how many they are.
pub(super) fn movable_keys(name: &str, arguments: &[&[u8]]) -> Option<Vec<usize>> {
    let counted = |at: usize| -> Vec<usize> {
        let count = arguments
            .get(at)
            .and_then(|count| values::number::parse_integer(count));
        let count = usize::try_from(count.unwrap_or(0)).unwrap_or(0);
        let end = (at + 1).saturating_add(count).min(arguments.len());
        (at + 1..end).collect()
    };
    Some(match name {
        "lmpop" | "sintercard" | "zmpop" | "zunion" | "zinter" | "zdiff" | "zintercard" => {
            counted(1)
        }
        "blmpop" | "bzmpop" | "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall"
        | "fcall_ro" => counted(2),
        "zunionstore" | "zinterstore" | "zdiffstore" => {
            let mut keys = vec![1];
            keys.extend(counted(2));
            keys
        }
        "sort" => {
            let mut keys = vec![1];
            let store = arguments
                .iter()
                .rposition(|word| word.eq_ignore_ascii_case(b"STORE"));
            keys.extend(store.map(|at| at + 1).filter(|at| *at < arguments.len()));
            keys
        }
        "georadius" | "georadiusbymember" => {
            let mut keys = vec![1];
            let options = if name == "georadius" { 6 } else { 5 };
            let stores = |word: &&[u8]| {
                word.eq_ignore_ascii_case(b"STORE") || word.eq_ignore_ascii_case(b"STOREDIST")
            };
            let behind = arguments.get(options..).unwrap_or_default();
            let store = behind.iter().rposition(stores).map(|at| options + at + 1);
            keys.extend(store.filter(|at| *at < arguments.len()));
            keys
        }
        "xread" | "xreadgroup" => {
            let at = arguments
                .iter()
                .position(|word| word.eq_ignore_ascii_case(b"STREAMS"))?;
            let count = (arguments.len() - at - 1) / 2;
            (at + 1..at + 1 + count).collect()
        }
        _ => return None,
    })
}

/// Flags, as COMMAND INFO names them.
const NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENY_OOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NO_SCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLE_KEYS, "movablekeys"),
];

fn describe(call: &mut Call<'_>, command: &Command) {
    let reply = call.reply();
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    let flags: Vec<_> = NAMES
        .iter()
        .filter(|(flag, _)| command.does(*flag))
        .collect();
    reply.set(flags.len());
    flags.iter().for_each(|(_, name)| reply.simple(name));
    let (first, last, step) = command.keys;
    [first, last, step]
        .iter()
        .for_each(|number| reply.integer((*number).into()));
    // Categories of ACL, tips, key specifications, subcommands.
    let categories = categories(command);
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(name));
    (0..3).for_each(|_| reply.array(0));
}

/// Categories of ACL.
fn categories(command: &Command) -> Vec<String> {
    let mut found = Vec::new();
    if command.does(Flags::WRITE) {
        found.push("@write".to_owned());
    }
    if command.does(Flags::READONLY) {
        found.push("@read".to_owned());
    }
    if command.does(Flags::ADMIN) {
        found.push("@admin".to_owned());
        found.push("@dangerous".to_owned());
    }
    found.push(match command.group {
        "sorted-set" => "@sortedset".to_owned(),
        "transactions" => "@transaction".to_owned(),
        "generic" => "@keyspace".to_owned(),
        group => format!("@{group}"),
    });
    found.push(
        if command.does(Flags::FAST) {
            "@fast"
        } else {
            "@slow"
        }
        .to_owned(),
    );
    found
}

fn command_(call: &mut Call<'_>) -> Answer {
    if call.len() == 1 {
        call.reply().array(all().count());
        all().for_each(|command| describe(call, command));
        return Ok(());
    }
    if call.sub("COUNT", 2)? {
        return call.answer_count(all().count());
    }
    if call.sub("INFO", -2)? {
        if call.len() == 2 {
            call.reply().array(all().count());
            all().for_each(|command| describe(call, command));
            return Ok(());
        }
        let names = call.rest(2);
        call.reply().array(names.len());
        for name in names {
            match find(name) {
                Some(command) => describe(call, command),
                None => call.reply().null_array(),
            }
        }
        return Ok(());
    }
    if call.sub("DOCS", -2)? {
        let names = call.rest(2);
        let wanted: Vec<&Command> = match names {
            [] => all().collect(),
            names => names.iter().filter_map(|name| find(name)).collect(),
        };
        let reply = call.reply();
        reply.map(wanted.len());
        for command in wanted {
            reply.bulk(command.name.as_bytes());
            reply.map(1);
            reply.bulk(b"group");
            reply.bulk(command.group.as_bytes());
        }
        return Ok(());
    }
    if call.sub("GETKEYS", -4)? || call.sub("GETKEYSANDFLAGS", -4)? {
        return get_keys(call);
    }
    if call.sub("LIST", -2)? {
        return list(call);
    }
    Err(call.unknown_subcommand())
}

fn get_keys(call: &mut Call<'_>) -> Answer {
    let arguments = call.rest(2);
    let with_flags = call.is(1, "GETKEYSANDFLAGS");
    let name = arguments.first().copied().unwrap_or_default();
    let command = find(name).ok_or(Fault::of("ERR Invalid command specified"))?;
    command
        .check_arity(arguments)
        .map_err(|_| Fault::of("ERR Invalid number of arguments specified for command"))?;
    let indices = command.key_indices(arguments);
    if indices.is_empty() {
        return Err(Fault::of("ERR The command has no key arguments"));
    }
    let flags: &[&str] = match (command.does(Flags::WRITE), command.name) {
        (true, "set") => &["OW", "update"],
        (true, _) => &["RW", "access", "update"],
        (false, _) => &["RO", "access"],
    };
    let reply = call.reply();
    reply.array(indices.len());
    for index in indices {
        let key = arguments.get(index).copied().unwrap_or_default();
        if with_flags {
            reply.array(2);
            reply.bulk(key);
            reply.set(flags.len());
            flags.iter().for_each(|flag| reply.simple(flag));
        } else {
            reply.bulk(key);
        }
    }
    Ok(())
}

fn list(call: &mut Call<'_>) -> Answer {
    let names: Vec<&str> = match call.len() {
        2 => all().map(|command| command.name).collect(),
        5 if call.is(2, "FILTERBY") => {
            let wanted = call.arg(4);
            let text = String::from_utf8_lossy(wanted).to_ascii_lowercase();
            let matches =
                |command: &&'static Command| match call.arg(3).to_ascii_uppercase().as_slice() {
                    b"PATTERN" => glob::matches(wanted, command.name.as_bytes(), true),
                    b"ACLCAT" => categories(command)
                        .iter()
                        .any(|name| name.trim_matches('@') == text),
                    _ => false,
                };
            if !["PATTERN", "ACLCAT", "MODULE"]
                .iter()
                .any(|word| call.is(3, word))
            {
                return Err(SYNTAX);
            }
            all().filter(matches).map(|command| command.name).collect()
        }
        _ => return Err(SYNTAX),
    };
    let reply = call.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}
