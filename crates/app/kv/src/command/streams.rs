//! Streams: adding, ranges, removing.

use super::{Call, Command, Flags, command};
use crate::engine::Told;
use crate::fault::{Answer, Fault, NO_SUCH_KEY, SYNTAX};
use crate::protocol::Reply;
use values::stream::{NewId, StreamEntry, TrimBy};
use values::{Stream, StreamId};

pub(super) mod groups;
pub(super) mod info;
pub(super) mod read;

const FAST: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READONLY;

pub(super) static COMMANDS: &[Command] = &[
    command("xadd", -5, FAST.and(Flags::DENY_OOM), "stream", xadd),
    command("xlen", 2, READ.and(Flags::FAST), "stream", xlen),
    command("xrange", -4, READ, "stream", |call| xrange(call, false)),
    command("xrevrange", -4, READ, "stream", |call| xrange(call, true)),
    command("xdel", -3, FAST, "stream", xdel),
    command("xtrim", -4, Flags::WRITE, "stream", xtrim),
    command("xsetid", -3, FAST.and(Flags::DENY_OOM), "stream", xsetid),
];

/// An id in full, or its milliseconds alone.
fn id(text: &[u8]) -> Result<StreamId, Fault> {
    Ok(StreamId::parse(text, 0)?)
}

/// An end of a range: an id, `-`, `+`, or an id behind `(`, which is not in the range.
fn bound(text: &[u8], is_start: bool) -> Result<StreamId, Fault> {
    let missing = if is_start { 0 } else { u64::MAX };
    if let [b'(', rest @ ..] = text
        && !rest.is_empty()
    {
        let id = StreamId::parse(rest, missing)?;
        return match is_start {
            true => id
                .next()
                .ok_or(Fault::of("ERR invalid start ID for the interval")),
            false => id
                .previous()
                .ok_or(Fault::of("ERR invalid end ID for the interval")),
        };
    }
    loose_id(text, missing)
}

/// An id, `-` or `+`.
fn loose_id(text: &[u8], missing: u64) -> Result<StreamId, Fault> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => Ok(StreamId::parse(text, missing)?),
    }
}

fn push_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(id.to_string().as_bytes());
}

fn push_entry(reply: &mut Reply, entry: &StreamEntry<'_>) {
    reply.array(2);
    push_id(reply, entry.id);
    reply.array(entry.fields.len() * 2);
    for (field, value) in &entry.fields {
        reply.element(*field);
        reply.element(*value);
    }
}

fn push_entries<'a>(reply: &mut Reply, entries: impl Iterator<Item = StreamEntry<'a>>) {
    let entries: Vec<StreamEntry<'_>> = entries.collect();
    reply.array(entries.len());
    entries.iter().for_each(|entry| push_entry(reply, entry));
}

/// A count of entries: 0 means all of them.
fn most(count: i64) -> usize {
    match usize::try_from(count) {
        Ok(count) if count > 0 => count,
        _ => usize::MAX,
    }
}

/// What XADD and XTRIM are told in front of the id.
struct Trim {
    by: Option<TrimBy>,
    approximate: bool,
    limit: usize,
    no_stream: bool,
    /// The index behind it.
    next: usize,
}

/// Entries that go in an approximate trim at most, where nothing is said.
fn default_limit(call: &Call<'_>) -> usize {
    match call.engine.config.thresholds.stream_node_max_entries {
        0 => 10_000,
        entries => entries.saturating_mul(100).min(1_000_000),
    }
}

fn trim_options(call: &Call<'_>, adds: bool) -> Result<Trim, Fault> {
    let mut found = Trim {
        by: None,
        approximate: false,
        limit: 0,
        no_stream: false,
        next: call.len(),
    };
    let mut limit = None;
    let mut at = 2;
    while at < call.len() {
        let more = call.len() - 1 - at;
        if adds && call.arg(at) == b"*" {
            break;
        }
        let by_length = call.is(at, "MAXLEN");
        if (by_length || call.is(at, "MINID")) && more > 0 {
            if found.by.is_some() {
                return Err(Fault::of(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            if more >= 2 && matches!(call.arg(at + 1), b"~" | b"=") {
                found.approximate = call.arg(at + 1) == b"~";
                at += 1;
            }
            found.by = Some(match by_length {
                true => {
                    let length = usize::try_from(call.integer(at + 1)?);
                    let length =
                        length.map_err(|_| Fault::of("ERR The MAXLEN argument must be >= 0."))?;
                    TrimBy::Length(length)
                }
                false => TrimBy::Id(id(call.arg(at + 1))?),
            });
            at += 1;
        } else if call.is(at, "LIMIT") && more > 0 {
            let number = usize::try_from(call.integer(at + 1)?);
            let number = number.map_err(|_| Fault::of("ERR The LIMIT argument must be >= 0."))?;
            limit = Some(number);
            at += 1;
        } else if adds && call.is(at, "NOMKSTREAM") {
            found.no_stream = true;
        } else if adds {
            NewId::parse(call.arg(at))?;
            break;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    found.next = at;
    if limit.is_some_and(|limit| limit > 0) && found.by.is_none() {
        return Err(Fault::of(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        ));
    }
    if !adds && found.by.is_none() {
        return Err(Fault::of(
            "ERR syntax error, XTRIM must be called with a trimming strategy",
        ));
    }
    if limit.is_some() && !found.approximate {
        return Err(Fault::of(
            "ERR syntax error, LIMIT cannot be used without the special ~ option",
        ));
    }
    found.limit = match (limit, found.approximate) {
        (Some(limit), _) => limit,
        (None, true) => default_limit(call),
        (None, false) => 0,
    };
    Ok(found)
}

fn xadd(call: &mut Call<'_>) -> Answer {
    let options = trim_options(call, true)?;
    let (database, key) = (call.db(), call.arg(1));
    let words = call.rest(options.next + 1);
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(Fault::arity("xadd"));
    }
    let wanted = NewId::parse(call.arg(options.next))?;
    if wanted == NewId::Exact(StreamId::MIN) {
        return Err(values::ValueError::StreamIdZero.into());
    }
    let is_there = call.engine.has::<Stream>(database, key)?;
    if !is_there && options.no_stream {
        call.reply().null();
        return Ok(());
    }
    let (now_ms, limits) = (call.engine.now_ms, call.engine.config.thresholds);
    let fields: Vec<(&[u8], &[u8])> = words
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[field, value]| (*field, *value))
        .collect();
    let add = |stream: &mut Stream| {
        let id = stream.add(wanted, now_ms, &fields, &limits)?;
        let trimmed = match options.by {
            Some(by) => stream.trim(by, options.approximate, options.limit),
            None => 0,
        };
        Ok::<_, Fault>((id, trimmed, stream.len()))
    };
    let (id, trimmed) = if is_there {
        let added = call
            .engine
            .edit(database, key, None, |stream| Told(add(stream)))?;
        let (id, trimmed, length) = added.ok_or(NO_SUCH_KEY)?.0?;
        let (id_text, length) = (id.to_string(), length.to_string());
        let mut change: Vec<&[u8]> = vec![b"XADD", key];
        // How many go by `~` depends on settings; how many went does not.
        if trimmed > 0 {
            change.extend([b"MAXLEN".as_slice(), b"=", length.as_bytes()]);
        }
        change.push(id_text.as_bytes());
        change.extend_from_slice(words);
        call.engine.touch_with(database, key, &change);
        (id, trimmed)
    } else {
        let mut stream = Stream::new();
        let (id, trimmed, _) = add(&mut stream)?;
        call.engine.store(database, key, stream);
        (id, trimmed)
    };
    call.notify(b't', "xadd", key);
    if trimmed > 0 {
        call.notify(b't', "xtrim", key);
    }
    push_id(call.reply(), id);
    Ok(())
}

fn xlen(call: &mut Call<'_>) -> Answer {
    let stream: Option<&Stream> = call.engine.get(call.session.database, call.arg(1))?;
    let length = stream.map_or(0, Stream::len);
    call.answer_count(length)
}

fn xrange(call: &mut Call<'_>, back: bool) -> Answer {
    let (first, last) = if back { (3, 2) } else { (2, 3) };
    let start = bound(call.arg(first), true)?;
    let end = bound(call.arg(last), false)?;
    let mut count = None;
    let mut at = 4;
    while at < call.len() {
        if !call.is(at, "COUNT") || at + 1 >= call.len() {
            return Err(SYNTAX);
        }
        count = Some(usize::try_from(call.integer(at + 1)?).unwrap_or(0));
        at += 2;
    }
    let stream: Option<&Stream> = call.engine.get(call.session.database, call.arg(1))?;
    let reply = &mut call.session.reply;
    let Some(stream) = stream else {
        reply.array(0);
        return Ok(());
    };
    let most = count.unwrap_or(usize::MAX);
    match (most, back) {
        (0, _) => reply.null_array(),
        (_, false) => push_entries(reply, stream.iter(start, end).take(most)),
        (_, true) => push_entries(reply, stream.iter_back(start, end).take(most)),
    }
    Ok(())
}

fn xdel(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    if !call.engine.has::<Stream>(database, key)? {
        return call.answer(0);
    }
    let ids: Result<Vec<StreamId>, Fault> = call.rest(2).iter().map(|text| id(text)).collect();
    let ids = ids?;
    let gone = call.engine.edit(
        database,
        key,
        Some(call.arguments),
        |stream: &mut Stream| {
            crate::engine::Count(ids.iter().filter(|id| stream.delete(**id)).count())
        },
    )?;
    let gone = gone.map_or(0, |gone| gone.0);
    if gone > 0 {
        call.notify(b't', "xdel", key);
    }
    call.answer_count(gone)
}

fn xtrim(call: &mut Call<'_>) -> Answer {
    let options = trim_options(call, false)?;
    let (database, key) = (call.db(), call.arg(1));
    let Some(by) = options.by else {
        return Err(SYNTAX);
    };
    let trimmed = call
        .engine
        .edit(database, key, None, |stream: &mut Stream| {
            let gone = stream.trim(by, options.approximate, options.limit);
            Told((gone, stream.len()))
        })?;
    let (gone, length) = trimmed.map_or((0, 0), |trimmed| trimmed.0);
    if gone > 0 {
        let length = length.to_string();
        let change: [&[u8]; 5] = [b"XTRIM", key, b"MAXLEN", b"=", length.as_bytes()];
        call.engine.touch_with(database, key, &change);
        call.notify(b't', "xtrim", key);
    }
    call.answer_count(gone)
}

fn xsetid(call: &mut Call<'_>) -> Answer {
    let last = id(call.arg(2))?;
    let (mut added, mut deleted) = (None, StreamId::MIN);
    let mut at = 3;
    while at < call.len() {
        let more = at + 1 < call.len();
        if call.is(at, "ENTRIESADDED") && more {
            let number = u64::try_from(call.integer(at + 1)?);
            added = Some(number.map_err(|_| Fault::of("ERR entries_added must be positive"))?);
        } else if call.is(at, "MAXDELETEDID") && more {
            deleted = id(call.arg(at + 1))?;
            if last < deleted {
                return Err(Fault::of(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    let (database, key) = (call.db(), call.arg(1));
    let set = call
        .engine
        .edit(database, key, Some(call.arguments), |stream: &mut Stream| {
            let top = stream.iter_back(StreamId::MIN, StreamId::MAX).next();
            if top.is_none_or(|top| last >= top.id)
                && added.is_some_and(|added| stream.len() as u64 > added)
            {
                return Err(Fault::of(
                    "ERR The entries_added specified in XSETID is smaller than the target stream length",
                ));
            }
            let deleted = (deleted != StreamId::MIN).then_some(deleted);
            Ok(stream.set_id(last, added, deleted)?)
        })?;
    set.ok_or(NO_SUCH_KEY)??;
    call.notify(b't', "xsetid", key);
    call.ok()
}
