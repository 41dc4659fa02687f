//! FUNCTION, FCALL and FCALL_RO.

use super::scripts::flush_mode;
use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};
use crate::script::Restoring;
use values::{ValueError, glob, rdb};

const BASE: Flags = Flags::NO_SCRIPT.and(Flags::MOVABLE_KEYS);

pub(super) static COMMANDS: &[Command] = &[
    command("fcall", -3, BASE, "scripting", fcall),
    command(
        "fcall_ro",
        -3,
        BASE.and(Flags::READONLY),
        "scripting",
        fcall_ro,
    ),
    command(
        "function",
        -2,
        Flags::NO_SCRIPT.and(Flags::CONTAINER),
        "scripting",
        function,
    ),
];

fn fcall(call: &mut Call<'_>) -> Answer {
    run(call, false)
}

fn fcall_ro(call: &mut Call<'_>) -> Answer {
    run(call, true)
}

fn run(call: &mut Call<'_>, read_only: bool) -> Answer {
    let name = String::from_utf8_lossy(call.arg(1)).into_owned();
    if !call.engine.scripts.has_function(&name) {
        return Err(Fault::of("ERR Function not found"));
    }
    call.integer(2)
        .map_err(|_| Fault::of("ERR Bad number of keys provided"))?;
    let (keys, arguments) = super::scripts::split(call)?;
    call.engine
        .call_function(call.session, &name, keys, arguments, read_only)
}

fn function(call: &mut Call<'_>) -> Answer {
    if call.sub("LOAD", -3)? {
        return load(call);
    }
    if call.sub("DELETE", 3)? {
        call.engine.may_write()?;
        let name = String::from_utf8_lossy(call.arg(2)).into_owned();
        return match call.engine.remove_library(&name) {
            true => call.ok(),
            false => Err(Fault::of("ERR Library not found")),
        };
    }
    if call.sub("FLUSH", -2)? {
        flush_mode(call, "FUNCTION")?;
        call.engine.may_write()?;
        call.engine.remove_libraries();
        return call.ok();
    }
    if call.sub("DUMP", 2)? {
        let libraries = call.engine.scripts.libraries.all.values();
        let payload = rdb::dump_functions(libraries.map(|library| &library.code[..]));
        call.reply().bulk(&payload);
        return Ok(());
    }
    if call.sub("RESTORE", -3)? {
        return restore(call);
    }
    if call.sub("LIST", -2)? {
        return list(call);
    }
    if call.sub("STATS", 2)? {
        return stats(call);
    }
    if call.sub("KILL", 2)? {
        return call.engine.kill_script(false).and_then(|()| call.ok());
    }
    if call.sub("HELP", 2)? {
        return super::introspect::help(
            call,
            &[
                "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "LOAD [REPLACE] <FUNCTION CODE>",
                "    Create a new library with the given library name and code.",
                "DELETE <LIBRARY NAME>",
                "    Delete the given library.",
                "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
                "    Return general information on all the libraries.",
                "STATS",
                "    Return information about the current function running.",
                "KILL",
                "    Kill the current running function.",
                "FLUSH [ASYNC|SYNC]",
                "    Delete all the libraries.",
                "DUMP",
                "    Return all the libraries as one payload.",
                "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
                "    Load the libraries of such a payload: in place of all, beside them, or in place of those",
                "    with the same names.",
                "HELP",
                "    Prints this help.",
            ],
        );
    }
    Err(call.unknown_subcommand())
}

fn load(call: &mut Call<'_>) -> Answer {
    let (code, replace) = match call.len() {
        3 => (call.arg(2), false),
        4 if call.is(2, "REPLACE") => (call.arg(3), true),
        _ => {
            let option = String::from_utf8_lossy(call.arg(2)).into_owned();
            return Err(Fault::text(format!("ERR Unknown option given: {option}")));
        }
    };
    call.engine.may_write()?;
    call.engine.may_grow()?;
    let name = call.engine.load_library(code, replace)?;
    call.reply().bulk(name.as_bytes());
    Ok(())
}

fn restore(call: &mut Call<'_>) -> Answer {
    let how = match call.len() {
        3 => Restoring::Append,
        4 if call.is(3, "APPEND") => Restoring::Append,
        4 if call.is(3, "REPLACE") => Restoring::Replace,
        4 if call.is(3, "FLUSH") => Restoring::Flush,
        4 => {
            return Err(Fault::of(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
        _ => return Err(call.unknown_subcommand()),
    };
    let codes = rdb::restore_functions(call.arg(2)).map_err(|error| match error {
        ValueError::PayloadContent => Fault::of("ERR given type is not a function"),
        other => Fault::from(other),
    })?;
    call.engine.may_write()?;
    call.engine.may_grow()?;
    call.engine.restore_libraries(&codes, how)?;
    call.ok()
}

fn list(call: &mut Call<'_>) -> Answer {
    let (mut pattern, mut with_code) = (None, false);
    let mut at = 2;
    while at < call.len() {
        if !with_code && call.is(at, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && call.is(at, "LIBRARYNAME") {
            at += 1;
            if at >= call.len() {
                return Err(Fault::of("ERR library name argument was not given"));
            }
            pattern = Some(call.arg(at));
        } else {
            let word = String::from_utf8_lossy(call.arg(at)).into_owned();
            return Err(Fault::text(format!("ERR Unknown argument {word}")));
        }
        at += 1;
    }
    let all = &call.engine.scripts.libraries.all;
    let matches =
        |name: &str| pattern.is_none_or(|pattern| glob::matches(pattern, name.as_bytes(), true));
    let found: Vec<_> = all.iter().filter(|(name, _)| matches(name)).collect();
    let reply = &mut call.session.reply;
    reply.array(found.len());
    for (name, library) in found {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for (name, function) in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(name.as_bytes());
            reply.bulk(b"description");
            reply.bulk_or_null(function.description.as_deref());
            reply.bulk(b"flags");
            let words = function.traits.words();
            reply.set(words.len());
            words.iter().for_each(|word| reply.simple(word));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Answer {
    let now_us = call.engine.now_us;
    let all = &call.engine.scripts.libraries.all;
    let functions: usize = all.values().map(|library| library.functions.len()).sum();
    let libraries = all.len();
    let running = call.engine.scripts.running.as_ref();
    let running = running.filter(|running| !running.evaluates);
    let reply = &mut call.session.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.integer((now_us.saturating_sub(running.since_us) / 1000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.count(libraries);
    reply.bulk(b"functions_count");
    reply.count(functions);
    Ok(())
}
