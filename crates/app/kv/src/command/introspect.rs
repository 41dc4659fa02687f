//! COMMAND: what there is.

use super::about::keys::{Begin, Find, Specification};
use super::about::{self, About};
use super::{Call, Command, Flags, all, command, find};
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::Reply;
use values::glob;

pub(super) static COMMANDS: &[Command] = &[command(
    "command",
    -1,
    Flags::LOADING.and(Flags::CONTAINER),
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

/// The subcommands of a command, for people.
pub(super) fn subcommands(call: &mut Call<'_>) -> Answer {
    let name = String::from_utf8_lossy(call.arg(0)).to_ascii_uppercase();
    let mut lines = vec![format!("{name} has these subcommands:")];
    let about = about::find(call.arg(0));
    for about in about.into_iter().flat_map(About::subcommands) {
        let word = about.name.split('|').nth(1).unwrap_or_default();
        let more = about.arity.unsigned_abs().saturating_sub(2);
        let at_least = if about.arity < 0 { "at least " } else { "" };
        lines.push(format!(
            "{}, with {at_least}{more} arguments",
            word.to_ascii_uppercase()
        ));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    help(call, &lines)
}

/// Whether a command, or the command of a subcommand, is there.
fn is_here(about: &About) -> bool {
    let name = about.name.split('|').next().unwrap_or_default();
    find(name.as_bytes()).is_some()
}

fn specification(reply: &mut Reply, one: &Specification) {
    let word = |reply: &mut Reply, word: &str| reply.bulk(word.as_bytes());
    reply.map(3 + usize::from(one.note.is_some()));
    if let Some(note) = one.note {
        word(reply, "notes");
        word(reply, note);
    }
    word(reply, "flags");
    reply.set(one.flags.len());
    one.flags.iter().for_each(|flag| reply.simple(flag));
    let part = |reply: &mut Reply, kind: &str, numbers: &[(&str, i64)], keyword: Option<&str>| {
        reply.map(2);
        word(reply, "type");
        word(reply, kind);
        word(reply, "spec");
        reply.map(numbers.len() + usize::from(keyword.is_some()));
        if let Some(keyword) = keyword {
            word(reply, "keyword");
            word(reply, keyword);
        }
        for (name, number) in numbers {
            word(reply, name);
            reply.integer(*number);
        }
    };
    word(reply, "begin_search");
    match one.begin {
        Begin::Index(index) => part(reply, "index", &[("index", index as i64)], None),
        Begin::Keyword(keyword, from) => {
            part(reply, "keyword", &[("startfrom", from)], Some(keyword));
        }
        Begin::Unknown => part(reply, "unknown", &[], None),
    }
    word(reply, "find_keys");
    match one.find {
        Find::Range { last, step, limit } => {
            let numbers = [("lastkey", last), ("keystep", step), ("limit", limit)];
            part(reply, "range", &numbers, None);
        }
        Find::Number { at, first, step } => {
            let numbers = [("keynumidx", at), ("firstkey", first), ("keystep", step)];
            part(reply, "keynum", &numbers, None);
        }
        Find::Unknown => part(reply, "unknown", &[], None),
    }
}

fn describe(reply: &mut Reply, about: &About) {
    reply.array(10);
    reply.bulk(about.name.as_bytes());
    reply.integer(about.arity.into());
    reply.set(about.flags.len());
    about.flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = about.legacy_range();
    [first, last, step]
        .into_iter()
        .for_each(|number| reply.integer(number));
    reply.set(about.category_names().count());
    about
        .category_names()
        .for_each(|name| reply.simple(&format!("@{name}")));
    reply.set(about.tips.len());
    about.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(about.keys.len());
    about.keys.iter().for_each(|one| specification(reply, one));
    match about.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    about.subcommands().for_each(|one| describe(reply, one));
}

fn describe_all(reply: &mut Reply) {
    reply.array(all().count());
    let abouts = all().filter_map(|command| about::find(command.name.as_bytes()));
    abouts.for_each(|about| describe(reply, about));
}

fn command_(call: &mut Call<'_>) -> Answer {
    if call.len() == 1 {
        describe_all(call.reply());
        return Ok(());
    }
    if call.sub("COUNT", 2)? {
        return call.answer_count(all().count());
    }
    if call.sub("INFO", -2)? {
        if call.len() == 2 {
            describe_all(call.reply());
            return Ok(());
        }
        let names = call.rest(2);
        call.reply().array(names.len());
        for name in names {
            match about::find(name).filter(|about| is_here(about)) {
                Some(about) => describe(call.reply(), about),
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
    if call.sub("HELP", 2)? {
        return subcommands(call);
    }
    Err(call.unknown_subcommand())
}

fn get_keys(call: &mut Call<'_>) -> Answer {
    let arguments = call.rest(2);
    let with_flags = call.is(1, "GETKEYSANDFLAGS");
    let known = about::look_up(arguments).filter(|about| is_here(about));
    let about = known.ok_or(Fault::of("ERR Invalid command specified"))?;
    if !about.has_keys() {
        return Err(Fault::of("ERR The command has no key arguments"));
    }
    if !about.takes(arguments.len()) {
        return Err(Fault::of(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys = about.keys_of(arguments);
    if keys.is_empty() && !about.does("no_mandatory_keys") {
        return Err(Fault::of("ERR Invalid arguments specified for command"));
    }
    let reply = call.reply();
    reply.array(keys.len());
    for key in keys {
        let name = arguments.get(key.index).copied().unwrap_or_default();
        if with_flags {
            reply.array(2);
            reply.bulk(name);
            reply.set(key.flags.len());
            key.flags.iter().for_each(|flag| reply.simple(flag));
        } else {
            reply.bulk(name);
        }
    }
    Ok(())
}

fn list(call: &mut Call<'_>) -> Answer {
    let names: Vec<&str> = match call.len() {
        2 => all().map(|command| command.name).collect(),
        5 if call.is(2, "FILTERBY") => {
            let wanted = call.arg(4);
            let category = about::category(wanted);
            let matches =
                |command: &&'static Command| match call.arg(3).to_ascii_uppercase().as_slice() {
                    b"PATTERN" => glob::matches(wanted, command.name.as_bytes(), true),
                    b"ACLCAT" => about::find(command.name.as_bytes())
                        .zip(category)
                        .is_some_and(|(about, category)| about.is_in(category)),
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
