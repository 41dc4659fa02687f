//! Keys, whatever their values are.

use super::{Call, Command, Flags, command};
use crate::engine::Engine;
use crate::fault::{Answer, Fault, NO_SUCH_KEY, SYNTAX};
use crate::keyspace::DATABASES;
use crate::value::Value;

const READ: Flags = Flags::READONLY.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE.and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("del", -2, Flags::WRITE, "generic", del),
    command("unlink", -2, WRITE, "generic", del),
    command("exists", -2, READ, "generic", exists),
    command("touch", -2, READ, "generic", touch),
    command("type", 2, READ, "generic", type_),
    command("rename", 3, Flags::WRITE, "generic", rename),
    command("renamenx", 3, WRITE, "generic", rename),
    command(
        "copy",
        -3,
        Flags::WRITE.and(Flags::DENY_OOM),
        "generic",
        copy,
    ),
    command("move", 3, WRITE, "generic", move_),
    command("swapdb", 3, WRITE, "connection", swapdb),
    command("flushdb", -1, Flags::WRITE, "server", flush),
    command("flushall", -1, Flags::WRITE, "server", flush),
    command(
        "object",
        -2,
        Flags::READONLY.and(Flags::CONTAINER),
        "generic",
        object,
    ),
    command("dump", 2, Flags::READONLY, "generic", dump),
    command(
        "restore",
        -4,
        Flags::WRITE.and(Flags::DENY_OOM),
        "generic",
        restore,
    ),
    // As it is between the servers of a cluster.
    command(
        "restore-asking",
        -4,
        Flags::WRITE.and(Flags::DENY_OOM),
        "server",
        restore,
    ),
];

fn del(call: &mut Call<'_>) -> Answer {
    let database = call.db();
    let mut gone = 0;
    for key in call.rest(1) {
        if call.engine.remove(database, key).is_some() {
            gone += 1;
            call.notify(b'g', "del", key);
        }
    }
    call.answer(gone)
}

fn exists(call: &mut Call<'_>) -> Answer {
    let database = call.db();
    let keys = call.rest(1).iter();
    let found = keys.filter(|key| call.engine.exists(database, key)).count();
    call.answer_count(found)
}

fn touch(call: &mut Call<'_>) -> Answer {
    let database = call.db();
    let keys = call.rest(1).iter();
    let found = keys
        .filter(|key| call.engine.read(database, key).is_some())
        .count();
    call.answer_count(found)
}

fn type_(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let name = call
        .engine
        .peek(database, key)
        .map_or("none", Engine::type_of);
    call.reply().simple(name);
    Ok(())
}

fn rename(call: &mut Call<'_>) -> Answer {
    let (database, from, to) = (call.db(), call.arg(1), call.arg(2));
    let only_new = call.is(0, "renamenx");
    if !call.engine.exists(database, from) {
        return Err(NO_SUCH_KEY);
    }
    if from == to || (only_new && call.engine.exists(database, to)) {
        return match only_new {
            true => call.answer(0),
            false => call.ok(),
        };
    }
    if let Some(entry) = call.engine.remove(database, from) {
        let expires = entry.expires_ms();
        call.engine.put(database, to, entry.into_value(), expires);
    }
    call.notify(b'g', "rename_from", from);
    call.notify(b'g', "rename_to", to);
    match only_new {
        true => call.answer(1),
        false => call.ok(),
    }
}

/// A database that an argument names.
pub(super) fn database(call: &Call<'_>, at: usize) -> Result<u8, Fault> {
    let number = values::number::parse_integer(call.arg(at))
        .ok_or(Fault::of("ERR value is not an integer or out of range"))?;
    match usize::try_from(number) {
        Ok(number) if number < DATABASES => Ok(number as u8),
        _ => Err(Fault::of("ERR DB index is out of range")),
    }
}

fn copy(call: &mut Call<'_>) -> Answer {
    let (from, to) = (call.arg(1), call.arg(2));
    let (source, mut target, mut replace) = (call.db(), call.db(), false);
    let mut at = 3;
    while at < call.len() {
        if call.is(at, "REPLACE") {
            replace = true;
        } else if call.is(at, "DB") && at + 1 < call.len() {
            target = database(call, at + 1)?;
            at += 1;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if source == target && from == to {
        return Err(Fault::of("ERR source and destination objects are the same"));
    }
    let found = call.engine.peek(source, from);
    let Some((value, expires)) = found.map(|entry| (entry.to_value(), entry.expires_ms())) else {
        return call.answer(0);
    };
    if call.engine.exists(target, to) && !replace {
        return call.answer(0);
    }
    call.engine.put(target, to, value, expires);
    call.engine.notify(b'g', "copy_to", target, to);
    call.answer(1)
}

fn move_(call: &mut Call<'_>) -> Answer {
    let (source, key) = (call.db(), call.arg(1));
    let target = database(call, 2)?;
    if source == target {
        return Err(Fault::of("ERR source and destination objects are the same"));
    }
    if !call.engine.exists(source, key) || call.engine.exists(target, key) {
        return call.answer(0);
    }
    if let Some(entry) = call.engine.remove(source, key) {
        let expires = entry.expires_ms();
        call.engine.put(target, key, entry.into_value(), expires);
    }
    call.notify(b'g', "move_from", key);
    call.engine.notify(b'g', "move_to", target, key);
    call.answer(1)
}

fn swapdb(call: &mut Call<'_>) -> Answer {
    let invalid = |at: usize| {
        let which = if at == 1 { "first" } else { "second" };
        Fault::text(format!("ERR invalid {which} DB index"))
    };
    for at in [1, 2] {
        values::number::parse_integer(call.arg(at)).ok_or_else(|| invalid(at))?;
    }
    let (one, other) = (database(call, 1)?, database(call, 2)?);
    if one != other {
        call.engine.swap_databases(one, other);
    }
    call.ok()
}

fn flush(call: &mut Call<'_>) -> Answer {
    if call.len() > 2 || (call.len() == 2 && !call.is(1, "ASYNC") && !call.is(1, "SYNC")) {
        return Err(SYNTAX);
    }
    let only = call.is(0, "flushdb").then(|| call.db());
    call.engine.clear(only);
    call.ok()
}

fn object(call: &mut Call<'_>) -> Answer {
    if call.sub("HELP", 2)? {
        return super::introspect::help(
            call,
            &[
                "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
                "ENCODING <key>",
                "    Return the kind of internal representation.",
                "FREQ <key>",
                "    Return how often a key is used.",
                "IDLETIME <key>",
                "    Return the idle time of a key.",
                "REFCOUNT <key>",
                "    Return the number of references: always 1.",
                "HELP",
                "    Print this help.",
            ],
        );
    }
    let (database, key) = (call.db(), call.arg(2));
    let (encoding, idle, frequency) = (
        call.sub("ENCODING", 3)?,
        call.sub("IDLETIME", 3)?,
        call.sub("FREQ", 3)?,
    );
    let references = call.sub("REFCOUNT", 3)?;
    if !encoding && !idle && !frequency && !references {
        return Err(call.unknown_subcommand());
    }
    let (policy, now_ms) = (call.engine.config.eviction, call.engine.now_ms);
    let Some(entry) = call.engine.peek(database, key) else {
        call.reply().null();
        return Ok(());
    };
    if encoding {
        let name = entry.encoding();
        call.reply().bulk(name.as_bytes());
        return Ok(());
    }
    let access = entry.access();
    if references {
        return call.answer(1);
    }
    if frequency {
        if !policy.counts() {
            return Err(Fault::of(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
                 note that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust.",
            ));
        }
        return call.answer(crate::eviction::frequency(access, now_ms).into());
    }
    if policy.counts() {
        return Err(Fault::of(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    call.answer((now_ms / 1000) as i64 - i64::from(access))
}

fn dump(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let dumped = call
        .engine
        .peek(database, key)
        .map(|entry| entry.to_value().dump());
    call.reply().bulk_or_null(dumped.as_deref());
    Ok(())
}

fn restore(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let (mut replace, mut absolute) = (false, false);
    let mut at = 4;
    while at < call.len() {
        if call.is(at, "REPLACE") {
            replace = true;
        } else if call.is(at, "ABSTTL") {
            absolute = true;
        } else if (call.is(at, "IDLETIME") || call.is(at, "FREQ")) && at + 1 < call.len() {
            if call.integer(at + 1)? < 0 {
                return Err(Fault::of("ERR Invalid IDLETIME value, must be >= 0"));
            }
            at += 1;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if !replace && call.engine.exists(database, key) {
        return Err(Fault::of("BUSYKEY Target key name already exists."));
    }
    let ttl = call.integer(2)?;
    let invalid = Fault::of("ERR Invalid TTL value, must be >= 0");
    let ttl = u64::try_from(ttl).map_err(|_| invalid)?;
    let value = Value::restore(call.arg(3), &call.engine.config.thresholds)?;
    let expires = match (ttl, absolute) {
        (0, _) => None,
        (at, true) => Some(at),
        (after, false) => Some(call.engine.now_ms.saturating_add(after)),
    };
    if expires.is_some_and(|at| at <= call.engine.now_ms) {
        if call.engine.remove(database, key).is_some() {
            call.notify(b'g', "del", key);
        }
        return call.ok();
    }
    call.engine.put(database, key, value, expires);
    call.notify(b'g', "restore", key);
    call.ok()
}
