//! Hashes.

use super::scan::{cursor, options};
use super::{Call, Command, Flags, command};
use crate::engine::{Changed, Count};
use crate::fault::{Answer, Fault, NOT_FLOAT, SYNTAX};
use crate::protocol::Version;
use values::number::Extended;
use values::{Hash, glob};

const READ: Flags = Flags::READONLY.and(Flags::FAST);
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("hset", -4, GROW, "hash", hset),
    command("hmset", -4, GROW, "hash", hset),
    command("hsetnx", 4, GROW, "hash", hsetnx),
    command("hget", 3, READ, "hash", hget),
    command("hmget", -3, READ, "hash", hmget),
    command("hgetall", 2, Flags::READONLY, "hash", |call| {
        all(call, true, true)
    }),
    command("hkeys", 2, Flags::READONLY, "hash", |call| {
        all(call, true, false)
    }),
    command("hvals", 2, Flags::READONLY, "hash", |call| {
        all(call, false, true)
    }),
    command("hlen", 2, READ, "hash", hlen),
    command("hexists", 3, READ, "hash", hexists),
    command("hstrlen", 3, READ, "hash", hstrlen),
    command("hdel", -3, Flags::WRITE.and(Flags::FAST), "hash", hdel),
    command("hincrby", 4, GROW, "hash", hincrby),
    command("hincrbyfloat", 4, GROW, "hash", hincrbyfloat),
    command("hrandfield", -2, Flags::READONLY, "hash", hrandfield),
    command("hscan", -3, Flags::READONLY, "hash", hscan),
];

fn hset(call: &mut Call<'_>) -> Answer {
    let (database, key, pairs) = (call.db(), call.arg(1), call.rest(2));
    if !pairs.len().is_multiple_of(2) {
        return Err(Fault::arity(&String::from_utf8_lossy(call.arg(0))));
    }
    let limits = call.engine.config.thresholds;
    let new = call
        .engine
        .edit_or_new(database, key, Some(call.arguments), |hash: &mut Hash| {
            let pairs = pairs.chunks_exact(2);
            let new = pairs.filter(|pair| hash.set(pair[0], pair[1], &limits));
            Changed(new.count())
        })?;
    call.notify(b'h', "hset", key);
    match call.is(0, "hmset") {
        true => call.ok(),
        false => call.answer_count(new.0),
    }
}

fn hsetnx(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let (field, value) = (call.arg(2), call.arg(3));
    let limits = call.engine.config.thresholds;
    let new = call
        .engine
        .edit_or_new(database, key, Some(call.arguments), |hash: &mut Hash| {
            hash.set_new(field, value, &limits)
        })?;
    if new {
        call.notify(b'h', "hset", key);
    }
    call.answer(new.into())
}

fn hash<'c>(call: &'c mut Call<'_>) -> Result<Option<&'c Hash>, Fault> {
    call.engine.get(
        call.session.database,
        call.arguments.get(1).copied().unwrap_or_default(),
    )
}

fn hget(call: &mut Call<'_>) -> Answer {
    let field = call.arg(2);
    let hash: Option<&Hash> = call.engine.get(call.session.database, call.arg(1))?;
    match hash.and_then(|hash| hash.get(field)) {
        Some(value) => call.session.reply.element(value),
        None => call.session.reply.null(),
    }
    Ok(())
}

fn hmget(call: &mut Call<'_>) -> Answer {
    let fields = call.rest(2);
    let hash: Option<&Hash> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    reply.array(fields.len());
    for field in fields {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => reply.element(value),
            None => reply.null(),
        }
    }
    Ok(())
}

fn all(call: &mut Call<'_>, fields: bool, values: bool) -> Answer {
    let hash: Option<&Hash> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    let length = hash.map_or(0, Hash::len);
    match fields && values {
        true => reply.map(length),
        false => reply.array(length),
    }
    for (field, value) in hash.iter().flat_map(|hash| hash.iter()) {
        if fields {
            reply.element(field);
        }
        if values {
            reply.element(value);
        }
    }
    Ok(())
}

fn hlen(call: &mut Call<'_>) -> Answer {
    let length = hash(call)?.map_or(0, Hash::len);
    call.answer_count(length)
}

fn hexists(call: &mut Call<'_>) -> Answer {
    let field = call.arg(2);
    let found = hash(call)?.is_some_and(|hash| hash.contains(field));
    call.answer(found.into())
}

fn hstrlen(call: &mut Call<'_>) -> Answer {
    let field = call.arg(2);
    let value = hash(call)?.and_then(|hash| hash.get(field));
    let length = value.map_or(0, |value| value.len());
    call.answer_count(length)
}

fn hdel(call: &mut Call<'_>) -> Answer {
    let (database, key, fields) = (call.db(), call.arg(1), call.rest(2));
    let gone = call
        .engine
        .edit(database, key, Some(call.arguments), |hash: &mut Hash| {
            Count(fields.iter().filter(|field| hash.remove(field)).count())
        })?;
    let gone = gone.map_or(0, |gone| gone.0);
    if gone > 0 {
        call.notify(b'h', "hdel", key);
        if !call.engine.exists(database, key) {
            call.notify(b'g', "del", key);
        }
    }
    call.answer_count(gone)
}

fn hincrby(call: &mut Call<'_>) -> Answer {
    let (database, key, field) = (call.db(), call.arg(1), call.arg(2));
    let by = call.integer(3)?;
    let limits = call.engine.config.thresholds;
    let sum =
        call.engine
            .edit_or_new(database, key, Some(call.arguments), |hash: &mut Hash| {
                hash.increment(field, by, &limits)
            })??;
    call.notify(b'h', "hincrby", key);
    call.answer(sum)
}

fn hincrbyfloat(call: &mut Call<'_>) -> Answer {
    let (database, key, field) = (call.db(), call.arg(1), call.arg(2));
    let by = Extended::parse(call.arg(3)).ok_or(NOT_FLOAT)?;
    let limits = call.engine.config.thresholds;
    let sum =
        call.engine
            .edit_or_new(database, key, Some(call.arguments), |hash: &mut Hash| {
                hash.increment_float(field, by, &limits)
            })??;
    call.notify(b'h', "hincrbyfloat", key);
    call.reply().bulk(sum.as_bytes());
    Ok(())
}

/// How many a command with a random choice asks for: distinct ones, or (below zero) each anew.
pub(super) fn amount(call: &Call<'_>, at: usize) -> Result<(usize, bool), Fault> {
    let count = call.integer(at)?;
    let bound = Fault::of("ERR value is out of range");
    if count == i64::MIN || count < -(i64::from(i32::MAX)) {
        return Err(bound);
    }
    let amount = usize::try_from(count.unsigned_abs()).map_err(|_| bound)?;
    Ok((amount, count >= 0))
}

/// What a command that draws members asks for: how many, where it says so, and whether `word` stands
/// behind.
pub(super) fn drawn(call: &Call<'_>, word: &str) -> Result<(Option<(usize, bool)>, bool), Fault> {
    match call.len() {
        2 => Ok((None, false)),
        3 => Ok((Some(amount(call, 2)?), false)),
        4 if call.is(3, word) => Ok((Some(amount(call, 2)?), true)),
        _ => Err(SYNTAX),
    }
}

fn hrandfield(call: &mut Call<'_>) -> Answer {
    let (amount, with_values) = drawn(call, "WITHVALUES")?;
    let mut rng = env::Rng::new(call.engine.rng.next_u64());
    let mut draw = |bound: usize| rng.index(bound.max(1));
    let hash: Option<&Hash> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    let Some((count, distinct)) = amount else {
        match hash.and_then(|hash| hash.random_repeated(1, &mut draw).pop()) {
            Some((field, _)) => reply.element(field),
            None => reply.null(),
        }
        return Ok(());
    };
    let chosen = match hash {
        None => Vec::new(),
        Some(hash) if distinct => hash.random_distinct(count, &mut draw),
        Some(hash) => hash.random_repeated(count, &mut draw),
    };
    let pairs = with_values && reply.version == Version::Three;
    let flat = with_values && reply.version == Version::Two;
    reply.array(chosen.len() * if flat { 2 } else { 1 });
    for (field, value) in chosen {
        if pairs {
            reply.array(2);
        }
        reply.element(field);
        if with_values {
            reply.element(value);
        }
    }
    Ok(())
}

fn hscan(call: &mut Call<'_>) -> Answer {
    let (cursor, options) = (cursor(call.arg(2))?, options(call, 3)?);
    let hash: Option<&Hash> = call.engine.get(call.session.database, call.arg(1))?;
    let mut found = Vec::new();
    let next = hash.map_or(0, |hash| {
        hash.scan(cursor, options.count, |(field, value)| {
            let field = field.to_vec();
            if options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, &field, false))
            {
                found.push(field);
                found.push(value.to_vec());
            }
        })
    });
    scanned(call, next, &found);
    Ok(())
}

/// The answer of a walk.
pub(super) fn scanned(call: &mut Call<'_>, next: u64, found: &[Vec<u8>]) {
    let reply = call.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    found.iter().for_each(|one| reply.bulk(one));
}
