//! Sets.

use super::hashes::{amount, scanned};
use super::lists::counted_keys;
use super::scan::{cursor, options};
use super::{Call, Command, Flags, command};
use crate::engine::Count;
use crate::fault::{Answer, Fault, SYNTAX};
use values::{Set, glob, set};

const READ: Flags = Flags::READONLY;
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const FAST: Flags = Flags::WRITE.and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("sadd", -3, GROW.and(Flags::FAST), "set", sadd),
    command("srem", -3, FAST, "set", srem),
    command("scard", 2, READ.and(Flags::FAST), "set", scard),
    command("sismember", 3, READ.and(Flags::FAST), "set", sismember),
    command("smismember", -3, READ.and(Flags::FAST), "set", smismember),
    command("smembers", 2, READ, "set", smembers),
    command("smove", 4, FAST, "set", smove),
    command("spop", -2, FAST, "set", spop),
    command("srandmember", -2, READ, "set", srandmember),
    command("sscan", -3, READ, "set", sscan),
    command("sinter", -2, READ, "set", |call| {
        combine(call, Combine::Intersection)
    }),
    command("sunion", -2, READ, "set", |call| {
        combine(call, Combine::Union)
    }),
    command("sdiff", -2, READ, "set", |call| {
        combine(call, Combine::Difference)
    }),
    command("sinterstore", -3, GROW, "set", |call| {
        store(call, Combine::Intersection)
    }),
    command("sunionstore", -3, GROW, "set", |call| {
        store(call, Combine::Union)
    }),
    command("sdiffstore", -3, GROW, "set", |call| {
        store(call, Combine::Difference)
    }),
    command("sintercard", -3, READ, "set", sintercard),
];

fn sadd(call: &mut Call<'_>) -> Answer {
    let (database, key, members) = (call.db(), call.arg(1), call.rest(2));
    let limits = call.engine.config.thresholds;
    let new = call
        .engine
        .edit_or_new(database, key, Some(call.arguments), |set: &mut Set| {
            Count(
                members
                    .iter()
                    .filter(|member| set.add(member, &limits))
                    .count(),
            )
        })?;
    if new.0 > 0 {
        call.notify(b's', "sadd", key);
    }
    call.answer_count(new.0)
}

fn take(call: &mut Call<'_>, key: &[u8], members: &[&[u8]]) -> Result<usize, Fault> {
    let database = call.db();
    let mut change: Vec<&[u8]> = vec![b"SREM", key];
    change.extend_from_slice(members);
    let gone = call
        .engine
        .edit(database, key, Some(&change), |set: &mut Set| {
            Count(members.iter().filter(|member| set.remove(member)).count())
        })?;
    Ok(gone.map_or(0, |gone| gone.0))
}

fn after_take(call: &mut Call<'_>, key: &[u8], event: &str) {
    let database = call.db();
    call.notify(b's', event, key);
    if !call.engine.exists(database, key) {
        call.notify(b'g', "del", key);
    }
}

fn srem(call: &mut Call<'_>) -> Answer {
    let key = call.arg(1);
    let gone = take(call, key, call.rest(2))?;
    if gone > 0 {
        after_take(call, key, "srem");
    }
    call.answer_count(gone)
}

fn the_set<'c>(call: &'c mut Call<'_>, at: usize) -> Result<Option<&'c Set>, Fault> {
    let key = call.arg(at);
    call.engine.get(call.session.database, key)
}

fn scard(call: &mut Call<'_>) -> Answer {
    let count = the_set(call, 1)?.map_or(0, Set::len);
    call.answer_count(count)
}

fn sismember(call: &mut Call<'_>) -> Answer {
    let member = call.arg(2);
    let found = the_set(call, 1)?.is_some_and(|set| set.contains(member));
    call.answer(found.into())
}

fn smismember(call: &mut Call<'_>) -> Answer {
    let members = call.rest(2);
    let set: Option<&Set> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    reply.array(members.len());
    for member in members {
        reply.flag(set.is_some_and(|set| set.contains(member)));
    }
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Answer {
    let set: Option<&Set> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    reply.set(set.map_or(0, Set::len));
    set.iter()
        .flat_map(|set| set.iter())
        .for_each(|member| reply.element(member));
    Ok(())
}

fn smove(call: &mut Call<'_>) -> Answer {
    let (database, from, to, member) = (call.db(), call.arg(1), call.arg(2), call.arg(3));
    let there = the_set(call, 1)?.is_some_and(|set| set.contains(member));
    call.engine.has::<Set>(database, to)?;
    if !there {
        return call.answer(0);
    }
    if from == to {
        return call.answer(1);
    }
    take(call, from, &[member])?;
    after_take(call, from, "srem");
    let limits = call.engine.config.thresholds;
    let change: [&[u8]; 3] = [b"SADD", to, member];
    call.engine
        .edit_or_new(database, to, Some(&change), |set: &mut Set| {
            set.add(member, &limits)
        })?;
    call.notify(b's', "sadd", to);
    call.answer(1)
}

fn spop(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let count = match call.len() {
        2 => None,
        3 => {
            let bound = Fault::of("ERR value is out of range, must be positive");
            let count = call.integer(2).map_err(|_| bound.clone())?;
            Some(usize::try_from(count).map_err(|_| bound)?)
        }
        _ => return Err(SYNTAX),
    };
    let mut rng = env::Rng::new(call.engine.rng.next_u64());
    let mut draw = |bound: usize| rng.index(bound.max(1));
    let set = the_set(call, 1)?;
    let chosen: Vec<Vec<u8>> = match set {
        None => Vec::new(),
        Some(set) => {
            let chosen = set.random_distinct(count.unwrap_or(1), &mut draw);
            chosen.into_iter().map(|member| member.to_vec()).collect()
        }
    };
    if !chosen.is_empty() {
        let members: Vec<&[u8]> = chosen.iter().map(Vec::as_slice).collect();
        take(call, key, &members)?;
        call.notify(b's', "spop", key);
        if !call.engine.exists(database, key) {
            call.notify(b'g', "del", key);
        }
    }
    let reply = call.reply();
    match count {
        None => reply.bulk_or_null(chosen.first().map(Vec::as_slice)),
        Some(_) => {
            reply.set(chosen.len());
            chosen.iter().for_each(|member| reply.bulk(member));
        }
    }
    Ok(())
}

fn srandmember(call: &mut Call<'_>) -> Answer {
    let amount = match call.len() {
        2 => None,
        3 => Some(amount(call, 2)?),
        _ => return Err(SYNTAX),
    };
    let mut rng = env::Rng::new(call.engine.rng.next_u64());
    let mut draw = |bound: usize| rng.index(bound.max(1));
    let set: Option<&Set> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    let chosen = match (set, amount) {
        (None, _) => Vec::new(),
        (Some(set), None) => set.random_repeated(1, &mut draw),
        (Some(set), Some((count, true))) => set.random_distinct(count, &mut draw),
        (Some(set), Some((count, false))) => set.random_repeated(count, &mut draw),
    };
    match (amount, chosen.first()) {
        (None, Some(member)) => reply.element(*member),
        (None, None) => reply.null(),
        (Some(_), _) => {
            reply.array(chosen.len());
            chosen.iter().for_each(|member| reply.element(*member));
        }
    }
    Ok(())
}

fn sscan(call: &mut Call<'_>) -> Answer {
    let (cursor, options) = (cursor(call.arg(2))?, options(call, 3)?);
    let mut found = Vec::new();
    let next = the_set(call, 1)?.map_or(0, |set| {
        set.scan(cursor, options.count, |member| {
            let member = member.to_vec();
            if options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, &member, false))
            {
                found.push(member);
            }
        })
    });
    scanned(call, next, &found);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Intersection,
    Union,
    Difference,
}

fn combined(call: &mut Call<'_>, keys: &[&[u8]], how: Combine) -> Result<Set, Fault> {
    let (database, limits) = (call.db(), call.engine.config.thresholds);
    // Settled first, so that all can be looked at together.
    for key in keys {
        call.engine.has::<Set>(database, key)?;
    }
    let none = Set::default();
    let mut sets: Vec<&Set> = Vec::with_capacity(keys.len());
    for key in keys {
        sets.push(call.engine.look::<Set>(database, key).unwrap_or(&none));
    }
    Ok(match how {
        Combine::Union => set::union(&sets, &limits),
        Combine::Difference => set::difference(&sets, &limits),
        Combine::Intersection => {
            let mut result = Set::default();
            set::intersection(&sets, |member| {
                result.add(&member.to_vec(), &limits);
                true
            });
            result
        }
    })
}

fn combine(call: &mut Call<'_>, how: Combine) -> Answer {
    let result = combined(call, call.rest(1), how)?;
    let reply = call.reply();
    reply.set(result.len());
    result.iter().for_each(|member| reply.element(member));
    Ok(())
}

fn store(call: &mut Call<'_>, how: Combine) -> Answer {
    let result = combined(call, call.rest(2), how)?;
    let (database, target) = (call.db(), call.arg(1));
    let event = match how {
        Combine::Intersection => "sinterstore",
        Combine::Union => "sunionstore",
        Combine::Difference => "sdiffstore",
    };
    let count = call.engine.store(database, target, result);
    if count > 0 {
        call.notify(b's', event, target);
    }
    call.answer_count(count)
}

/// What may stand behind the keys: LIMIT and a number. 0 is none.
pub(super) fn limit(call: &Call<'_>, next: usize) -> Result<usize, Fault> {
    match call.len() - next {
        0 => Ok(0),
        2 if call.is(next, "LIMIT") => usize::try_from(call.integer(next + 1)?)
            .map_err(|_| Fault::of("ERR LIMIT can't be negative")),
        _ => Err(SYNTAX),
    }
}

fn sintercard(call: &mut Call<'_>) -> Answer {
    let (keys, next) = counted_keys(call, 1)?;
    let limit = limit(call, next)?;
    let count = combined(call, keys, Combine::Intersection)?.len();
    call.answer_count(if limit > 0 { count.min(limit) } else { count })
}
