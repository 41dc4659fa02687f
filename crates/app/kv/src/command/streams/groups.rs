//! Groups of consumers: making and changing them, and what is pending.

use super::{bound, id, loose_id, push_entry, push_id};
use crate::command::{Call, Command, Flags, command, introspect};
use crate::engine::{Changed, Count, Told};
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::Reply;
use crate::record;
use values::stream::{Claim, Sweep};
use values::{Stream, StreamId};

const FAST: Flags = Flags::WRITE.and(Flags::FAST);

pub(in crate::command) static COMMANDS: &[Command] = &[
    command(
        "xgroup",
        -2,
        Flags::WRITE.and(Flags::DENY_OOM).and(Flags::CONTAINER),
        "stream",
        xgroup,
    ),
    command("xack", -4, FAST, "stream", xack),
    command("xpending", -3, Flags::READONLY, "stream", xpending),
    command("xclaim", -6, FAST, "stream", xclaim),
    command("xautoclaim", -6, FAST, "stream", xautoclaim),
];

const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Prints this help.",
];

fn no_group(key: &[u8], group: &[u8]) -> Fault {
    Fault::text(format!(
        "NOGROUP No such consumer group '{}' for key name '{}'",
        String::from_utf8_lossy(group),
        String::from_utf8_lossy(key)
    ))
}

fn no_key_or_group(key: &[u8], group: &[u8]) -> Fault {
    Fault::text(format!(
        "NOGROUP No such key '{}' or consumer group '{}'",
        String::from_utf8_lossy(key),
        String::from_utf8_lossy(group)
    ))
}

/// The refusal of a subcommand that is one, with arguments that do not fit.
pub(super) fn wrong_arguments(call: &Call<'_>) -> Fault {
    Fault::text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
        String::from_utf8_lossy(call.arg(1)),
        String::from_utf8_lossy(call.arg(0)).to_ascii_uppercase()
    ))
}

/// What behind the id of XGROUP CREATE and SETID may be told.
struct Options {
    make_stream: bool,
    entries_read: Option<u64>,
}

fn options(call: &Call<'_>, create: bool, set: bool) -> Result<Options, Fault> {
    let mut found = Options {
        make_stream: false,
        entries_read: None,
    };
    let mut at = 5;
    while at < call.len() {
        if create && call.is(at, "MKSTREAM") {
            found.make_stream = true;
        } else if (create || set) && call.is(at, "ENTRIESREAD") && at + 1 < call.len() {
            found.entries_read =
                match call.integer(at + 1)? {
                    -1 => None,
                    number => Some(u64::try_from(number).map_err(|_| {
                        Fault::of("ERR value for ENTRIESREAD must be positive or -1")
                    })?),
                };
            at += 1;
        } else {
            return Err(wrong_arguments(call));
        }
        at += 1;
    }
    Ok(found)
}

fn xgroup(call: &mut Call<'_>) -> Answer {
    if call.sub("HELP", 2)? {
        return introspect::help(call, HELP);
    }
    let (create, set) = (call.sub("CREATE", -5)?, call.sub("SETID", -5)?);
    let (destroy, make) = (call.sub("DESTROY", 4)?, call.sub("CREATECONSUMER", 5)?);
    let delete = call.sub("DELCONSUMER", 5)?;
    if !(create || set || destroy || make || delete) {
        return Err(call.unknown_subcommand());
    }
    let options = options(call, create, set)?;
    let (database, key, group) = (call.db(), call.arg(2), call.arg(3));
    let stream: Option<&Stream> = call.engine.get(database, key)?;
    if stream.is_none() && !options.make_stream {
        return Err(Fault::of(
            "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want \
             to use the MKSTREAM option to create an empty stream automatically.",
        ));
    }
    let is_there = stream.is_some_and(|stream| stream.group(group).is_some());
    if !is_there && (set || make || delete) {
        return Err(no_group(key, group));
    }
    if create || set {
        let last = stream.map_or(StreamId::MIN, Stream::last_id);
        let last = match (call.arg(4), create) {
            (b"$", _) => last,
            (text, true) => id(text)?,
            (text, false) => loose_id(text, 0)?,
        };
        return match create {
            true => create_group(call, last, options.entries_read),
            false => {
                call.engine.edit(
                    database,
                    key,
                    Some(call.arguments),
                    |stream: &mut Stream| {
                        if let Some(group) = stream.group_mut(group) {
                            group.set_id(last, options.entries_read);
                        }
                        Changed(())
                    },
                )?;
                call.notify(b't', "xgroup-setid", key);
                call.ok()
            }
        };
    }
    if destroy {
        let gone = call.engine.edit(
            database,
            key,
            Some(call.arguments),
            |stream: &mut Stream| stream.destroy_group(group),
        )?;
        if is_there {
            call.notify(b't', "xgroup-destroy", key);
        }
        return call.answer(gone.unwrap_or(false).into());
    }
    change_consumer(call, make)
}

fn create_group(call: &mut Call<'_>, last: StreamId, read: Option<u64>) -> Answer {
    let (database, key, group) = (call.db(), call.arg(2), call.arg(3));
    let created = call.engine.edit_or_new(
        database,
        key,
        Some(call.arguments),
        |stream: &mut Stream| stream.create_group(group, last, read),
    )?;
    if !created {
        return Err(Fault::of("BUSYGROUP Consumer Group name already exists"));
    }
    call.notify(b't', "xgroup-create", key);
    call.ok()
}

fn change_consumer(call: &mut Call<'_>, make: bool) -> Answer {
    let (database, key, group, name) = (call.db(), call.arg(2), call.arg(3), call.arg(4));
    let now_ms = call.engine.now_ms;
    let time = record::time_word(now_ms);
    let mut change: Vec<&[u8]> = vec![&time];
    change.extend_from_slice(call.arguments);
    if make {
        let made = call
            .engine
            .edit(database, key, Some(&change), |stream: &mut Stream| {
                let group = stream.group_mut(group);
                group.is_some_and(|group| group.create_consumer(name, now_ms))
            })?;
        let made = made.unwrap_or(false);
        if made {
            call.notify(b't', "xgroup-createconsumer", key);
        }
        return call.answer(made.into());
    }
    let pending = call
        .engine
        .edit(database, key, Some(&change), |stream: &mut Stream| {
            stream.group_mut(group)?.delete_consumer(name)
        })?;
    let pending = pending.flatten();
    if pending.is_some() {
        call.notify(b't', "xgroup-delconsumer", key);
    }
    call.answer_count(pending.unwrap_or(0))
}

fn xack(call: &mut Call<'_>) -> Answer {
    let (database, key, group) = (call.db(), call.arg(1), call.arg(2));
    let stream: Option<&Stream> = call.engine.get(database, key)?;
    if stream.is_none_or(|stream| stream.group(group).is_none()) {
        return call.answer(0);
    }
    let ids: Result<Vec<StreamId>, Fault> = call.rest(3).iter().map(|text| id(text)).collect();
    let ids = ids?;
    let done = call.engine.edit(
        database,
        key,
        Some(call.arguments),
        |stream: &mut Stream| {
            let acknowledged = stream.group_mut(group).map(|group| {
                let ids = ids.iter();
                ids.filter(|id| group.acknowledge(**id)).count()
            });
            Count(acknowledged.unwrap_or(0))
        },
    )?;
    call.answer_count(done.map_or(0, |done| done.0))
}

/// What XPENDING asks for in detail.
struct Range<'a> {
    idle_ms_min: u64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn range<'a>(call: &Call<'a>) -> Result<Option<Range<'a>>, Fault> {
    if call.len() == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&call.len()) {
        return Err(SYNTAX);
    }
    let (mut at, mut idle) = (3, 0);
    if call.is(3, "IDLE") {
        idle = call.integer(4)?;
        if call.len() < 8 {
            return Err(SYNTAX);
        }
        at = 5;
    }
    let count = call.integer(at + 2)?;
    Ok(Some(Range {
        idle_ms_min: u64::try_from(idle).unwrap_or(0),
        start: bound(call.arg(at), true)?,
        end: bound(call.arg(at + 1), false)?,
        count: usize::try_from(count).unwrap_or(0),
        consumer: call.arguments.get(at + 3).copied(),
    }))
}

fn xpending(call: &mut Call<'_>) -> Answer {
    let range = range(call)?;
    let (database, key, name, now_ms) = (call.db(), call.arg(1), call.arg(2), call.engine.now_ms);
    let stream: Option<&Stream> = call.engine.get(database, key)?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key, name))?;
    let reply = &mut call.session.reply;
    let Some(range) = range else {
        reply.array(4);
        reply.count(group.pending_count());
        let Some((first, last)) = group.pending_ends() else {
            reply.null();
            reply.null();
            reply.null_array();
            return Ok(());
        };
        push_id(reply, first);
        push_id(reply, last);
        let busy: Vec<_> = group
            .consumers()
            .filter(|consumer| consumer.pending().len() > 0)
            .collect();
        reply.array(busy.len());
        for consumer in busy {
            reply.array(2);
            reply.bulk(consumer.name());
            reply.bulk_integer(consumer.pending().len() as i64);
        }
        return Ok(());
    };
    let pending: Box<dyn Iterator<Item = _>> = match range.consumer {
        Some(consumer) => Box::new(group.pending_of(consumer, range.start, range.end)),
        None => Box::new(group.pending(range.start, range.end)),
    };
    let idle = |delivered_ms: u64| now_ms.saturating_sub(delivered_ms);
    let found: Vec<_> = pending
        .filter(|pending| idle(pending.delivered_ms) >= range.idle_ms_min)
        .take(range.count)
        .collect();
    reply.array(found.len());
    for pending in found {
        reply.array(4);
        push_id(reply, pending.id);
        reply.bulk(pending.consumer);
        reply.integer(idle(pending.delivered_ms) as i64);
        reply.integer(pending.deliveries as i64);
    }
    Ok(())
}

/// A number in an option, or the refusal of the option.
fn number(call: &Call<'_>, at: usize, what: &str, of: &str) -> Result<i64, Fault> {
    let number = values::number::parse_integer(call.arg(at));
    number.ok_or_else(|| Fault::text(format!("ERR Invalid {what} argument for {of}")))
}

/// Options of XCLAIM behind the ids.
fn claim_options(call: &Call<'_>, from: usize) -> Result<Claim, Fault> {
    let now_ms = call.engine.now_ms;
    let mut claim = Claim::default();
    let idle = number(call, 4, "min-idle-time", "XCLAIM")?;
    claim.idle_ms_min = u64::try_from(idle).unwrap_or(0);
    // A time that makes no sense is taken for now: clients calculate with clocks of their own.
    let sane = |at: i64| u64::try_from(at).ok().filter(|at| *at <= now_ms);
    let mut at = from;
    while at < call.len() {
        let more = at + 1 < call.len();
        if call.is(at, "FORCE") {
            claim.force = true;
        } else if call.is(at, "JUSTID") {
            claim.just_id = true;
        } else if call.is(at, "IDLE") && more {
            at += 1;
            let idle = number(call, at, "IDLE option", "XCLAIM")?;
            claim.delivered_ms = sane((now_ms as i64).saturating_sub(idle));
        } else if call.is(at, "TIME") && more {
            at += 1;
            claim.delivered_ms = sane(number(call, at, "TIME option", "XCLAIM")?);
        } else if call.is(at, "RETRYCOUNT") && more {
            at += 1;
            let count = number(call, at, "RETRYCOUNT option", "XCLAIM")?;
            claim.deliveries = u64::try_from(count).ok();
        } else if call.is(at, "LASTID") && more {
            at += 1;
            claim.last_id = Some(id(call.arg(at))?);
        } else {
            return Err(Fault::text(format!(
                "ERR Unrecognized XCLAIM option '{}'",
                String::from_utf8_lossy(call.arg(at))
            )));
        }
        at += 1;
    }
    Ok(claim)
}

/// Logs a claim that changed something, with the time that it goes by.
fn log_claim(call: &mut Call<'_>, key: &[u8], is_new: bool, changed: bool) {
    if is_new {
        call.notify(b't', "xgroup-createconsumer", key);
    }
    if changed {
        let time = record::time_word(call.engine.now_ms);
        let mut change: Vec<&[u8]> = vec![&time];
        change.extend_from_slice(call.arguments);
        call.engine.touch_with(call.session.database, key, &change);
    }
}

fn push_claimed(reply: &mut Reply, stream: &Stream, ids: &[StreamId], just_id: bool) {
    reply.array(ids.len());
    for id in ids {
        match stream.get(*id) {
            Some(entry) if !just_id => push_entry(reply, &entry),
            _ => push_id(reply, *id),
        }
    }
}

/// The group of a claim, and whether it has the consumer; refused where there is none.
fn claims_for(call: &mut Call<'_>) -> Result<bool, Fault> {
    let (database, key, name, consumer) = (call.db(), call.arg(1), call.arg(2), call.arg(3));
    let stream: Option<&Stream> = call.engine.get(database, key)?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key, name))?;
    Ok(group.consumer(consumer).is_some())
}

fn xclaim(call: &mut Call<'_>) -> Answer {
    let is_known = claims_for(call)?;
    number(call, 4, "min-idle-time", "XCLAIM")?;
    let ids: Vec<StreamId> = call
        .rest(5)
        .iter()
        .map_while(|text| id(text).ok())
        .collect();
    let claim = claim_options(call, 5 + ids.len())?;
    let (database, key, name, consumer) = (call.db(), call.arg(1), call.arg(2), call.arg(3));
    let (now_ms, reply) = (call.engine.now_ms, &mut call.session.reply);
    let done = call
        .engine
        .edit(database, key, None, |stream: &mut Stream| {
            let before = stream.group(name).map(|group| group.last_id());
            let Some(done) = stream.claim(name, consumer, &ids, claim, now_ms) else {
                return Told((false, false));
            };
            push_claimed(reply, stream, &done.claimed, claim.just_id);
            let after = stream.group(name).map(|group| group.last_id());
            let got = !done.claimed.is_empty();
            Told((got, got || !done.deleted.is_empty() || before != after))
        })?;
    let (got, changed) = done.map_or((false, false), |done| done.0);
    log_claim(call, key, got && !is_known, changed);
    Ok(())
}

/// Most entries of XAUTOCLAIM: LONG_MAX / the 16 bytes of an id.
const SWEEP_MAX: i64 = i64::MAX / 16;

fn xautoclaim(call: &mut Call<'_>) -> Answer {
    let idle = number(call, 4, "min-idle-time", "XAUTOCLAIM")?;
    let mut sweep = Sweep {
        start: bound(call.arg(5), true)?,
        count: 100,
        idle_ms_min: u64::try_from(idle).unwrap_or(0),
        just_id: false,
    };
    let mut at = 6;
    while at < call.len() {
        if call.is(at, "COUNT") && at + 1 < call.len() {
            let count = values::number::parse_integer(call.arg(at + 1));
            let count = count.filter(|count| (1..=SWEEP_MAX).contains(count));
            let count = count.ok_or(Fault::of("ERR COUNT must be > 0"))?;
            sweep.count = usize::try_from(count).unwrap_or(usize::MAX);
            at += 1;
        } else if call.is(at, "JUSTID") {
            sweep.just_id = true;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    let is_known = claims_for(call)?;
    let (database, key, name, consumer) = (call.db(), call.arg(1), call.arg(2), call.arg(3));
    let (now_ms, reply) = (call.engine.now_ms, &mut call.session.reply);
    let done = call
        .engine
        .edit(database, key, None, |stream: &mut Stream| {
            let Some(done) = stream.sweep(name, consumer, sweep, now_ms) else {
                return Told((false, false));
            };
            let found = done.claimed;
            reply.array(3);
            push_id(reply, done.next);
            push_claimed(reply, stream, &found.claimed, sweep.just_id);
            reply.array(found.deleted.len());
            found.deleted.iter().for_each(|id| push_id(reply, *id));
            let got = !found.claimed.is_empty();
            Told((got, got || !found.deleted.is_empty()))
        })?;
    let (got, changed) = done.map_or((false, false), |done| done.0);
    log_claim(call, key, got && !is_known, changed);
    Ok(())
}
