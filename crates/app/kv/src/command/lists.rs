//! Lists, with the commands that wait for an element.

use super::{Call, Command, Flags, command};
use crate::blocking::Timeout;
use crate::engine::{Changed, Count};
use crate::fault::{Answer, Fault, NO_SUCH_KEY, NOT_INTEGER, SYNTAX};
use crate::transaction::Place;
use values::{End, List};

const FAST: Flags = Flags::WRITE.and(Flags::FAST);
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM);
const WAIT: Flags = Flags::WRITE.and(Flags::BLOCKING).and(Flags::NO_SCRIPT);
const READ: Flags = Flags::READONLY;

pub(super) static COMMANDS: &[Command] = &[
    command("lpush", -3, GROW.and(Flags::FAST), "list", |call| {
        push(call, End::Front)
    }),
    command("rpush", -3, GROW.and(Flags::FAST), "list", |call| {
        push(call, End::Back)
    }),
    command("lpushx", -3, GROW.and(Flags::FAST), "list", |call| {
        pushx(call, End::Front)
    }),
    command("rpushx", -3, GROW.and(Flags::FAST), "list", |call| {
        pushx(call, End::Back)
    }),
    command("lpop", -2, FAST, "list", |call| pop(call, End::Front)),
    command("rpop", -2, FAST, "list", |call| pop(call, End::Back)),
    command("lmpop", -4, Flags::WRITE, "list", lmpop),
    command("blmpop", -5, WAIT, "list", blmpop),
    command("llen", 2, READ.and(Flags::FAST), "list", llen),
    command("lindex", 3, READ, "list", lindex),
    command("lrange", 4, READ, "list", lrange),
    command("lpos", -3, READ, "list", lpos),
    command("lset", 4, GROW, "list", lset),
    command("linsert", 5, GROW, "list", linsert),
    command("lrem", 4, Flags::WRITE, "list", lrem),
    command("ltrim", 4, Flags::WRITE, "list", ltrim),
    command("rpoplpush", 3, GROW, "list", rpoplpush),
    command("lmove", 5, GROW, "list", lmove),
    command(
        "brpoplpush",
        4,
        WAIT.and(Flags::DENY_OOM),
        "list",
        brpoplpush,
    ),
    command("blmove", 6, WAIT.and(Flags::DENY_OOM), "list", blmove),
    command("blpop", -3, WAIT, "list", |call| {
        blocking_pop(call, End::Front)
    }),
    command("brpop", -3, WAIT, "list", |call| {
        blocking_pop(call, End::Back)
    }),
];

fn push_event(end: End) -> &'static str {
    match end {
        End::Front => "lpush",
        End::Back => "rpush",
    }
}

fn pop_event(end: End) -> &'static str {
    match end {
        End::Front => "lpop",
        End::Back => "rpop",
    }
}

fn push_to(call: &mut Call<'_>, key: &[u8], end: End, elements: &[&[u8]]) -> Result<usize, Fault> {
    let (database, limits) = (call.db(), call.engine.config.thresholds);
    let mut change: Vec<&[u8]> = vec![push_event(end).as_bytes(), key];
    change.extend_from_slice(elements);
    let length = call
        .engine
        .edit_or_new(database, key, Some(&change), |list: &mut List| {
            elements
                .iter()
                .for_each(|element| list.push(end, element, &limits));
            Changed(list.len())
        })?;
    call.notify(b'l', push_event(end), key);
    Ok(length.0)
}

fn push(call: &mut Call<'_>, end: End) -> Answer {
    let length = push_to(call, call.arg(1), end, call.rest(2))?;
    call.answer_count(length)
}

fn pushx(call: &mut Call<'_>, end: End) -> Answer {
    if !call
        .engine
        .has::<List>(call.session.database, call.arg(1))?
    {
        return call.answer(0);
    }
    push(call, end)
}

/// Takes up to `count` elements; `None` where there is no list.
fn pop_from(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<Vec<u8>>>, Fault> {
    let database = call.db();
    let amount = count.to_string();
    let change: [&[u8]; 3] = [pop_event(end).as_bytes(), key, amount.as_bytes()];
    let popped = call
        .engine
        .edit(database, key, Some(&change), |list: &mut List| {
            (0..count).map_while(|_| list.pop(end)).collect::<Vec<_>>()
        })?;
    if popped.as_ref().is_some_and(|popped| !popped.is_empty()) {
        call.notify(b'l', pop_event(end), key);
        if !call.engine.exists(database, key) {
            call.notify(b'g', "del", key);
        }
    }
    Ok(popped)
}

fn pop(call: &mut Call<'_>, end: End) -> Answer {
    let key = call.arg(1);
    if call.len() > 3 {
        return Err(Fault::arity(pop_event(end)));
    }
    if call.len() == 2 {
        let popped = pop_from(call, key, end, 1)?.and_then(|mut popped| popped.pop());
        call.reply().bulk_or_null(popped.as_deref());
        return Ok(());
    }
    let out_of_range = Fault::of("ERR value is out of range, must be positive");
    let count = call.integer(2).map_err(|_| out_of_range.clone())?;
    let count = usize::try_from(count).map_err(|_| out_of_range)?;
    let database = call.db();
    if count == 0 {
        match call.engine.has::<List>(database, key)? {
            true => call.reply().array(0),
            false => call.reply().null_array(),
        }
        return Ok(());
    }
    match pop_from(call, key, end, count)? {
        None => call.reply().null_array(),
        Some(popped) => bulks(call, &popped),
    }
    Ok(())
}

fn bulks(call: &mut Call<'_>, elements: &[Vec<u8>]) {
    let reply = call.reply();
    reply.array(elements.len());
    elements.iter().for_each(|element| reply.bulk(element));
}

pub(super) fn end(word: &[u8]) -> Result<End, Fault> {
    match word.to_ascii_uppercase().as_slice() {
        b"LEFT" => Ok(End::Front),
        b"RIGHT" => Ok(End::Back),
        _ => Err(SYNTAX),
    }
}

/// Keys behind their number at an argument, and where the arguments go on.
pub(super) fn counted_keys<'a>(
    call: &Call<'a>,
    at: usize,
) -> Result<(&'a [&'a [u8]], usize), Fault> {
    let count = values::number::parse_integer(call.arg(at)).unwrap_or(0);
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or(Fault::of("ERR numkeys should be greater than 0"))?;
    let keys = call.arguments.get(at + 1..at + 1 + count).ok_or(SYNTAX)?;
    Ok((keys, at + 1 + count))
}

/// Takes from the first of some keys that has a list, and answers; whether one had.
fn pop_from_any(call: &mut Call<'_>, at: usize) -> Result<bool, Fault> {
    let (keys, next) = counted_keys(call, at)?;
    let end = end(call.arg(next))?;
    let count = match call.len() - next {
        1 => 1,
        3 if call.is(next + 1, "COUNT") => {
            let count = usize::try_from(call.integer(next + 2).unwrap_or(0)).unwrap_or(0);
            match count {
                0 => return Err(Fault::of("ERR count should be greater than 0")),
                count => count,
            }
        }
        _ => return Err(SYNTAX),
    };
    for key in keys {
        if let Some(popped) = pop_from(call, key, end, count)? {
            call.reply().array(2);
            call.reply().bulk(key);
            bulks(call, &popped);
            return Ok(true);
        }
    }
    Ok(false)
}

fn lmpop(call: &mut Call<'_>) -> Answer {
    if !pop_from_any(call, 1)? {
        call.reply().null_array();
    }
    Ok(())
}

/// When a command that waits gives up: from seconds, maybe with a fraction.
pub(super) fn deadline(call: &Call<'_>, at: usize) -> Result<Option<u64>, Fault> {
    let seconds = values::number::parse_double(call.arg(at));
    let seconds = seconds.ok_or(Fault::of("ERR timeout is not a float or out of range"))?;
    if seconds < 0.0 {
        return Err(Fault::of("ERR timeout is negative"));
    }
    if seconds * 1000.0 > i64::MAX as f64 {
        return Err(Fault::of("ERR timeout is out of range"));
    }
    let wait_ms = (seconds * 1000.0).ceil() as u64;
    Ok((wait_ms > 0).then(|| call.engine.now_ms.saturating_add(wait_ms)))
}

/// Waits, or answers that there is nothing where nothing may wait.
pub(super) fn wait(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    until_ms: Option<u64>,
    timeout: Timeout,
) -> Answer {
    if call.engine.in_transaction {
        match timeout {
            Timeout::NullArray => call.reply().null_array(),
            Timeout::Null => call.reply().null(),
        }
        return Ok(());
    }
    if call.engine.retrying {
        return Ok(());
    }
    let database = call.db();
    let places: Vec<Place> = keys.iter().map(|key| (database, Box::from(*key))).collect();
    let arguments = call.arguments;
    call.engine
        .block(call.session, arguments, places, until_ms, timeout);
    Ok(())
}

fn blmpop(call: &mut Call<'_>) -> Answer {
    let until = deadline(call, 1)?;
    if pop_from_any(call, 2)? {
        return Ok(());
    }
    let (keys, _) = counted_keys(call, 2)?;
    wait(call, keys, until, Timeout::NullArray)
}

fn blocking_pop(call: &mut Call<'_>, end: End) -> Answer {
    let last = call.len() - 1;
    let until = deadline(call, last)?;
    let keys = call.arguments.get(1..last).unwrap_or_default();
    for key in keys {
        if let Some(element) = pop_from(call, key, end, 1)?.and_then(|mut popped| popped.pop()) {
            let reply = call.reply();
            reply.array(2);
            reply.bulk(key);
            reply.bulk(&element);
            return Ok(());
        }
    }
    wait(call, keys, until, Timeout::NullArray)
}

fn llen(call: &mut Call<'_>) -> Answer {
    let list: Option<&List> = call.engine.get(call.session.database, call.arg(1))?;
    let length = list.map_or(0, List::len);
    call.answer_count(length)
}

fn lindex(call: &mut Call<'_>) -> Answer {
    let index = call.integer(2)?;
    let list: Option<&List> = call.engine.get(call.session.database, call.arg(1))?;
    let element = list
        .and_then(|list| list.get(index))
        .map(|element| element.to_vec());
    call.reply().bulk_or_null(element.as_deref());
    Ok(())
}

fn lrange(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let list: Option<&List> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    let Some(list) = list else {
        reply.array(0);
        return Ok(());
    };
    let count = values::range::indices(start, end, list.len()).map_or(0, |(a, b)| b + 1 - a);
    reply.array(count);
    list.range(start, end)
        .for_each(|element| reply.element(element));
    Ok(())
}

fn lpos(call: &mut Call<'_>) -> Answer {
    let (mut rank, mut count, mut most) = (1, None, 0);
    let mut at = 3;
    while at < call.len() {
        if at + 1 >= call.len() {
            return Err(SYNTAX);
        }
        let number = call.integer(at + 1);
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"RANK" => {
                rank = number?;
                if rank == 0 {
                    return Err(Fault::of(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                         second ... or use negative to start from the end of the list",
                    ));
                }
                if rank == i64::MIN {
                    return Err(NOT_INTEGER);
                }
            }
            b"COUNT" => {
                let number = usize::try_from(number?);
                count = Some(number.map_err(|_| Fault::of("ERR COUNT can't be negative"))?);
            }
            b"MAXLEN" => {
                let number = usize::try_from(number?);
                most = number.map_err(|_| Fault::of("ERR MAXLEN can't be negative"))?;
            }
            _ => return Err(SYNTAX),
        }
        at += 2;
    }
    let list: Option<&List> = call.engine.get(call.session.database, call.arg(1))?;
    let found = list.map(|list| {
        list.positions(
            call.arguments.get(2).copied().unwrap_or_default(),
            rank,
            count.unwrap_or(1),
            most,
        )
    });
    let reply = call.reply();
    match (found, count) {
        (found, Some(_)) => {
            let found = found.unwrap_or_default();
            reply.array(found.len());
            found.iter().for_each(|index| reply.count(*index));
        }
        (Some(found), None) => match found.first() {
            Some(index) => reply.count(*index),
            None => reply.null(),
        },
        (None, None) => reply.null(),
    }
    Ok(())
}

fn lset(call: &mut Call<'_>) -> Answer {
    let (database, key, element) = (call.db(), call.arg(1), call.arg(3));
    let index = call.integer(2)?;
    let limits = call.engine.config.thresholds;
    let set = call
        .engine
        .edit(database, key, Some(call.arguments), |list: &mut List| {
            list.set(index, element, &limits)
        })?;
    set.ok_or(NO_SUCH_KEY)??;
    call.notify(b'l', "lset", key);
    call.ok()
}

fn linsert(call: &mut Call<'_>) -> Answer {
    let behind = match call.arg(2).to_ascii_uppercase().as_slice() {
        b"BEFORE" => false,
        b"AFTER" => true,
        _ => return Err(SYNTAX),
    };
    let (database, key) = (call.db(), call.arg(1));
    let (pivot, element) = (call.arg(3), call.arg(4));
    let limits = call.engine.config.thresholds;
    let inserted = call
        .engine
        .edit(database, key, Some(call.arguments), |list: &mut List| {
            list.insert(pivot, behind, element, &limits)
        })?;
    match inserted {
        None => call.answer(0),
        Some(None) => call.answer(-1),
        Some(Some(length)) => {
            call.notify(b'l', "linsert", key);
            call.answer_count(length)
        }
    }
}

fn lrem(call: &mut Call<'_>) -> Answer {
    let (database, key, element) = (call.db(), call.arg(1), call.arg(3));
    let count = call.integer(2)?;
    let removed = call
        .engine
        .edit(database, key, Some(call.arguments), |list: &mut List| {
            Count(list.remove(count, element))
        })?;
    let removed = removed.map_or(0, |removed| removed.0);
    if removed > 0 {
        call.notify(b'l', "lrem", key);
    }
    call.answer_count(removed)
}

fn ltrim(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    call.engine
        .edit(database, key, Some(call.arguments), |list: &mut List| {
            list.trim(start, end);
            Changed(())
        })?;
    call.notify(b'l', "ltrim", key);
    call.ok()
}

/// Moves an element between two lists, and answers; whether there was one.
fn move_one(call: &mut Call<'_>, from: End, to: End) -> Result<bool, Fault> {
    let (source, target) = (call.arg(1), call.arg(2));
    let database = call.db();
    if !call.engine.has::<List>(database, source)? {
        return Ok(false);
    }
    call.engine.has::<List>(database, target)?;
    let popped = pop_from(call, source, from, 1)?.and_then(|mut popped| popped.pop());
    let Some(element) = popped else {
        return Ok(false);
    };
    push_to(call, target, to, &[&element])?;
    call.reply().bulk(&element);
    Ok(true)
}

fn rpoplpush(call: &mut Call<'_>) -> Answer {
    if !move_one(call, End::Back, End::Front)? {
        call.reply().null();
    }
    Ok(())
}

fn lmove(call: &mut Call<'_>) -> Answer {
    let (from, to) = (end(call.arg(3))?, end(call.arg(4))?);
    if !move_one(call, from, to)? {
        call.reply().null();
    }
    Ok(())
}

fn brpoplpush(call: &mut Call<'_>) -> Answer {
    let until = deadline(call, 3)?;
    if move_one(call, End::Back, End::Front)? {
        return Ok(());
    }
    wait(call, &[call.arg(1)], until, Timeout::Null)
}

fn blmove(call: &mut Call<'_>) -> Answer {
    let (from, to) = (end(call.arg(3))?, end(call.arg(4))?);
    let until = deadline(call, 5)?;
    if move_one(call, from, to)? {
        return Ok(());
    }
    wait(call, &[call.arg(1)], until, Timeout::Null)
}
