//! Strings.

use super::{Call, Command, Flags, command};
use crate::engine::Changed;
use crate::fault::{Answer, Fault, NOT_INTEGER, SYNTAX, TOO_LONG, WRONG_TYPE};
use crate::value::Value;
use values::range;

const READ: Flags = Flags::READONLY.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM);

pub(super) static COMMANDS: &[Command] = &[
    command("get", 2, READ, "string", get),
    command("set", -3, WRITE, "string", set),
    command("setnx", 3, WRITE.and(Flags::FAST), "string", setnx),
    command("setex", 4, WRITE, "string", setex),
    command("psetex", 4, WRITE, "string", setex),
    command("getset", 3, WRITE.and(Flags::FAST), "string", getset),
    command("getdel", 2, Flags::WRITE.and(Flags::FAST), "string", getdel),
    command("getex", -2, Flags::WRITE.and(Flags::FAST), "string", getex),
    command("mget", -2, READ, "string", mget),
    command("mset", -3, WRITE, "string", mset),
    command("msetnx", -3, WRITE, "string", msetnx),
    command("append", 3, WRITE.and(Flags::FAST), "string", append),
    command("strlen", 2, READ, "string", strlen),
    command("getrange", 4, Flags::READONLY, "string", getrange),
    command("substr", 4, Flags::READONLY, "string", getrange),
    command("setrange", 4, WRITE, "string", setrange),
    command("lcs", -3, Flags::READONLY, "string", lcs),
];

/// Bytes that a record has besides key and string, generously.
const RECORD_ROOM: usize = 64;

/// Refuses what would not fit into one record.
pub(super) fn check_length(key: &[u8], bytes: usize) -> Answer {
    match key.len().saturating_add(bytes) <= vlog::RECORD_BYTES_MAX - RECORD_ROOM {
        true => Ok(()),
        false => Err(TOO_LONG),
    }
}

fn get(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    match call.engine.text(database, key)? {
        Some(text) => call.session.reply.bulk(text),
        None => call.session.reply.null(),
    }
    Ok(())
}

/// When something expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expiry {
    Keep,
    Never,
    At(u64),
}

/// The time that an option such as EX gives; `None` where the word is none of them.
pub(super) fn expiry_option(call: &Call<'_>, at: usize) -> Result<Option<u64>, Fault> {
    let (unit, relative) = match call.arg(at).to_ascii_uppercase().as_slice() {
        b"EX" => (1000, true),
        b"PX" => (1, true),
        b"EXAT" => (1000, false),
        b"PXAT" => (1, false),
        _ => return Ok(None),
    };
    if call.len() <= at + 1 {
        return Err(SYNTAX);
    }
    let amount = call.integer(at + 1)?;
    expiry_time(call, amount, unit, relative).map(Some)
}

/// A time in milliseconds since 1970.
pub(super) fn expiry_time(
    call: &Call<'_>,
    amount: i64,
    unit: i64,
    relative: bool,
) -> Result<u64, Fault> {
    let name = String::from_utf8_lossy(call.arg(0)).to_ascii_lowercase();
    let invalid = || Fault::text(format!("ERR invalid expire time in '{name}' command"));
    if amount <= 0 {
        return Err(invalid());
    }
    let base = if relative {
        call.engine.now_ms as i64
    } else {
        0
    };
    let at = amount.checked_mul(unit).and_then(|ms| ms.checked_add(base));
    at.and_then(|at| u64::try_from(at).ok()).ok_or_else(invalid)
}

fn set(call: &mut Call<'_>) -> Answer {
    let (database, key, value) = (call.db(), call.arg(1), call.arg(2));
    if call.len() == 3 {
        check_length(key, value.len())?;
        call.engine.put_text(database, key, value, None);
        call.notify(b'$', "set", key);
        return call.ok();
    }
    let (mut only_new, mut only_old, mut get) = (false, false, false);
    let mut expiry = Expiry::Never;
    let mut at = 3;
    while at < call.len() {
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"NX" if !only_old => only_new = true,
            b"XX" if !only_new => only_old = true,
            b"GET" => get = true,
            b"KEEPTTL" if expiry == Expiry::Never => expiry = Expiry::Keep,
            _ => match expiry_option(call, at)? {
                Some(time) if expiry == Expiry::Never => {
                    expiry = Expiry::At(time);
                    at += 1;
                }
                _ => return Err(SYNTAX),
            },
        }
        at += 1;
    }
    check_length(key, value.len())?;
    let old = call.engine.peek(database, key);
    let (exists, kept) = (old.is_some(), old.and_then(|entry| entry.expires_ms()));
    if get {
        match old.map(|entry| entry.as_text()) {
            Some(None) => return Err(WRONG_TYPE),
            Some(Some(text)) => call.session.reply.bulk(text),
            None => call.session.reply.null(),
        }
    }
    if (only_new && exists) || (only_old && !exists) {
        if !get {
            call.reply().null();
        }
        return Ok(());
    }
    let expires = match expiry {
        Expiry::Never => None,
        Expiry::Keep => kept,
        Expiry::At(time) => Some(time),
    };
    call.engine.put_text(database, key, value, expires);
    call.notify(b'$', "set", key);
    if matches!(expiry, Expiry::At(_)) {
        call.notify(b'g', "expire", key);
    }
    if !get {
        call.reply().ok();
    }
    Ok(())
}

fn setnx(call: &mut Call<'_>) -> Answer {
    let (database, key, value) = (call.db(), call.arg(1), call.arg(2));
    check_length(key, value.len())?;
    if call.engine.exists(database, key) {
        return call.answer(0);
    }
    call.engine.put_text(database, key, value, None);
    call.notify(b'$', "set", key);
    call.answer(1)
}

fn setex(call: &mut Call<'_>) -> Answer {
    let unit = if call.is(0, "setex") { 1000 } else { 1 };
    let time = expiry_time(call, call.integer(2)?, unit, true)?;
    let (database, key, value) = (call.db(), call.arg(1), call.arg(3));
    check_length(key, value.len())?;
    call.engine.put_text(database, key, value, Some(time));
    call.notify(b'$', "set", key);
    call.notify(b'g', "expire", key);
    call.ok()
}

fn getset(call: &mut Call<'_>) -> Answer {
    get(call)?;
    let (database, key, value) = (call.db(), call.arg(1), call.arg(2));
    check_length(key, value.len())?;
    call.engine.put_text(database, key, value, None);
    call.notify(b'$', "set", key);
    Ok(())
}

fn getdel(call: &mut Call<'_>) -> Answer {
    get(call)?;
    let (database, key) = (call.db(), call.arg(1));
    if call.engine.remove(database, key).is_some() {
        call.notify(b'g', "del", key);
    }
    Ok(())
}

fn getex(call: &mut Call<'_>) -> Answer {
    let expiry = match call.len() {
        2 => Expiry::Keep,
        3 if call.is(2, "PERSIST") => Expiry::Never,
        4 => Expiry::At(expiry_option(call, 2)?.ok_or(SYNTAX)?),
        _ => return Err(SYNTAX),
    };
    get(call)?;
    let (database, key) = (call.db(), call.arg(1));
    let Some(before) = call
        .engine
        .peek(database, key)
        .map(|entry| entry.expires_ms())
    else {
        return Ok(());
    };
    match expiry {
        Expiry::Keep => {}
        Expiry::Never if before.is_none() => {}
        Expiry::Never => {
            call.engine.set_expiry(database, key, None);
            call.notify(b'g', "persist", key);
        }
        Expiry::At(time) if time <= call.engine.now_ms => {
            call.engine.remove(database, key);
            call.notify(b'g', "del", key);
        }
        Expiry::At(time) => {
            call.engine.set_expiry(database, key, Some(time));
            call.notify(b'g', "expire", key);
        }
    }
    Ok(())
}

fn mget(call: &mut Call<'_>) -> Answer {
    let (database, keys) = (call.db(), call.rest(1));
    call.reply().array(keys.len());
    for key in keys {
        let text = call
            .engine
            .read(database, key)
            .and_then(|entry| entry.as_text());
        call.session.reply.bulk_or_null(text);
    }
    Ok(())
}

fn pairs<'a>(call: &Call<'a>) -> Result<&'a [&'a [u8]], Fault> {
    let pairs = call.rest(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(Fault::arity(&String::from_utf8_lossy(call.arg(0))));
    }
    for pair in pairs.chunks_exact(2) {
        check_length(pair[0], pair[1].len())?;
    }
    Ok(pairs)
}

fn put_pairs(call: &mut Call<'_>, pairs: &[&[u8]]) {
    let database = call.db();
    for pair in pairs.chunks_exact(2) {
        call.engine.put_text(database, pair[0], pair[1], None);
        call.notify(b'$', "set", pair[0]);
    }
}

fn mset(call: &mut Call<'_>) -> Answer {
    let pairs = pairs(call)?;
    put_pairs(call, pairs);
    call.ok()
}

fn msetnx(call: &mut Call<'_>) -> Answer {
    let (database, pairs) = (call.db(), pairs(call)?);
    for pair in pairs.chunks_exact(2) {
        if call.engine.exists(database, pair[0]) {
            return call.answer(0);
        }
    }
    put_pairs(call, pairs);
    call.answer(1)
}

fn append(call: &mut Call<'_>) -> Answer {
    let (database, key, more) = (call.db(), call.arg(1), call.arg(2));
    let length = match call.engine.peek(database, key) {
        None => 0,
        Some(entry) => entry.as_text().ok_or(WRONG_TYPE)?.len(),
    };
    check_length(key, length.saturating_add(more.len()))?;
    if length == 0 && !call.engine.exists(database, key) {
        call.engine.put_text(database, key, more, None);
    } else {
        let change: [&[u8]; 3] = [b"APPEND", key, more];
        call.engine.update(database, key, Some(&change), |value| {
            if let Value::Text(text) = value {
                text.extend_from_slice(more);
            }
            Changed(())
        });
    }
    call.notify(b'$', "append", key);
    call.answer_count(length + more.len())
}

fn strlen(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let length = call.engine.text(database, key)?.map_or(0, <[u8]>::len);
    call.answer_count(length)
}

fn getrange(call: &mut Call<'_>) -> Answer {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let (database, key) = (call.db(), call.arg(1));
    let text = call.engine.text(database, key)?.unwrap_or_default();
    let part = range::byte_indices(start, end, text.len());
    let part = part.and_then(|(start, end)| text.get(start..=end));
    call.session.reply.bulk(part.unwrap_or_default());
    Ok(())
}

fn setrange(call: &mut Call<'_>) -> Answer {
    let (database, key, part) = (call.db(), call.arg(1), call.arg(3));
    let offset = call.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| Fault::of("ERR offset is out of range"))?;
    let length = match call.engine.peek(database, key) {
        None => None,
        Some(entry) => Some(entry.as_text().ok_or(WRONG_TYPE)?.len()),
    };
    if part.is_empty() {
        return call.answer_count(length.unwrap_or(0));
    }
    let end = offset.checked_add(part.len()).ok_or(NOT_INTEGER)?;
    check_length(key, end)?;
    let write = |text: &mut Vec<u8>| {
        if text.len() < end {
            text.resize(end, 0);
        }
        if let Some(place) = text.get_mut(offset..end) {
            place.copy_from_slice(part);
        }
    };
    let new = match length {
        None => {
            let mut text = Vec::new();
            write(&mut text);
            call.engine.put_text(database, key, &text, None);
            end
        }
        Some(length) => {
            let at = offset.to_string();
            let change: [&[u8]; 4] = [b"SETRANGE", key, at.as_bytes(), part];
            call.engine.update(database, key, Some(&change), |value| {
                if let Value::Text(text) = value {
                    write(text);
                }
                Changed(())
            });
            length.max(end)
        }
    };
    call.notify(b'$', "setrange", key);
    call.answer_count(new)
}

/// Most cells of the table of LCS.
const LCS_CELLS_MAX: usize = 64 << 20;

fn lcs(call: &mut Call<'_>) -> Answer {
    let database = call.db();
    let (mut only_length, mut positions, mut with_length, mut least) = (false, false, false, 0);
    let mut at = 3;
    while at < call.len() {
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"LEN" => only_length = true,
            b"IDX" => positions = true,
            b"WITHMATCHLEN" => with_length = true,
            b"MINMATCHLEN" if at + 1 < call.len() => {
                least = usize::try_from(call.integer(at + 1)?.max(0)).unwrap_or(0);
                at += 1;
            }
            _ => return Err(SYNTAX),
        }
        at += 1;
    }
    if only_length && positions {
        return Err(Fault::of(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    let not_text = Fault::of("ERR The specified keys must contain string values");
    let mut texts = Vec::with_capacity(2);
    for key in [call.arg(1), call.arg(2)] {
        match call.engine.read(database, key) {
            None => texts.push(Vec::new()),
            Some(entry) => texts.push(entry.as_text().ok_or(not_text.clone())?.to_vec()),
        }
    }
    let [a, b] = [0, 1].map(|index| texts.get(index).map(Vec::as_slice).unwrap_or_default());
    let width = b.len() + 1;
    let cells = (a.len() + 1).saturating_mul(width);
    if cells > LCS_CELLS_MAX {
        return Err(Fault::of(
            "ERR Insufficient memory, failed allocating transient memory for LCS",
        ));
    }
    // The longest common subsequence of the first i and the first j bytes.
    let mut table = vec![0u32; cells];
    for (i, x) in (1..).zip(a) {
        for (j, y) in (1..).zip(b) {
            table[i * width + j] = match x == y {
                true => table[(i - 1) * width + j - 1] + 1,
                false => table[(i - 1) * width + j].max(table[i * width + j - 1]),
            };
        }
    }
    let (mut i, mut j) = (a.len(), b.len());
    let length = table[cells - 1] as usize;
    let mut common = Vec::with_capacity(length);
    // Runs, from the end: first and last index in each.
    let mut runs: Vec<[usize; 4]> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            common.push(a[i - 1]);
            match runs.last_mut() {
                Some(run) if run[0] == i && run[2] == j => {
                    run[0] = i - 1;
                    run[2] = j - 1;
                }
                _ => runs.push([i - 1, i - 1, j - 1, j - 1]),
            }
            i -= 1;
            j -= 1;
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    common.reverse();
    if only_length {
        return call.answer_count(length);
    }
    if !positions {
        call.reply().bulk(&common);
        return Ok(());
    }
    runs.retain(|run| run[1] - run[0] + 1 >= least);
    let reply = call.reply();
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(runs.len());
    for run in &runs {
        reply.array(if with_length { 3 } else { 2 });
        for range in run.chunks_exact(2) {
            reply.array(2);
            range.iter().for_each(|index| reply.count(*index));
        }
        if with_length {
            reply.count(run[1] - run[0] + 1);
        }
    }
    reply.bulk(b"len");
    reply.count(length);
    Ok(())
}
