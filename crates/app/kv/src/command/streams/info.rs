//! XINFO.

use super::groups::wrong_arguments;
use super::{most, push_entries, push_entry, push_id};
use crate::command::{Call, Command, Flags, command, introspect};
use crate::fault::{Answer, Fault, NO_SUCH_KEY};
use crate::protocol::Reply;
use values::stream::Group;
use values::{Stream, StreamId};

pub(in crate::command) static COMMANDS: &[Command] = &[command(
    "xinfo",
    -2,
    Flags::READONLY.and(Flags::CONTAINER),
    "stream",
    xinfo,
)];

const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

fn xinfo(call: &mut Call<'_>) -> Answer {
    if call.sub("HELP", 2)? {
        return introspect::help(call, HELP);
    }
    let (consumers, groups) = (call.sub("CONSUMERS", 4)?, call.sub("GROUPS", 3)?);
    if !(consumers || groups || call.sub("STREAM", -3)?) {
        return Err(call.unknown_subcommand());
    }
    let (database, key, now_ms) = (call.db(), call.arg(2), call.engine.now_ms);
    let options = call.rest(3);
    // That the key is there is looked at in front of the options.
    call.engine
        .get::<Stream>(database, key)?
        .ok_or(NO_SUCH_KEY)?;
    let full = if consumers || groups {
        None
    } else {
        full_count(call)?
    };
    let stream: &Stream = call.engine.look(database, key).ok_or(NO_SUCH_KEY)?;
    let reply = &mut call.session.reply;
    if groups {
        reply.array(stream.groups().len());
        for (name, group) in stream.groups() {
            reply.map(6);
            text(reply, "name", name);
            number(reply, "consumers", group.consumers().count());
            number(reply, "pending", group.pending_count());
            progress(reply, stream, group);
        }
        return Ok(());
    }
    if consumers {
        let name = options.first().copied().unwrap_or_default();
        let Some(group) = stream.group(name) else {
            return Err(Fault::text(format!(
                "NOGROUP No such consumer group '{}' for key name '{}'",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(key)
            )));
        };
        reply.array(group.consumers().count());
        for consumer in group.consumers() {
            reply.map(3);
            text(reply, "name", consumer.name());
            number(reply, "pending", consumer.pending().len());
            let idle = now_ms.saturating_sub(consumer.seen_ms);
            number(reply, "idle", idle as usize);
        }
        return Ok(());
    }
    reply.map(if full.is_some() { 9 } else { 10 });
    describe(reply, stream);
    match full {
        Some(count) => show_all(reply, stream, count),
        None => summarise(reply, stream),
    }
    Ok(())
}

/// How many of everything XINFO STREAM shows, where FULL is asked for; 0 for all.
fn full_count(call: &Call<'_>) -> Result<Option<i64>, Fault> {
    match call.len() {
        3 => Ok(None),
        4 if call.is(3, "FULL") => Ok(Some(10)),
        6 if call.is(3, "FULL") && call.is(4, "COUNT") => {
            let count = call.integer(5)?;
            Ok(Some(if count < 0 { 10 } else { count }))
        }
        _ => Err(wrong_arguments(call)),
    }
}

fn text(reply: &mut Reply, name: &str, value: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(value);
}

fn number(reply: &mut Reply, name: &str, value: usize) {
    reply.bulk(name.as_bytes());
    reply.count(value);
}

fn id(reply: &mut Reply, name: &str, value: StreamId) {
    reply.bulk(name.as_bytes());
    push_id(reply, value);
}

fn known(reply: &mut Reply, name: &str, value: Option<i64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

/// What a group has read.
fn progress(reply: &mut Reply, stream: &Stream, group: &Group) {
    id(reply, "last-delivered-id", group.last_id());
    known(
        reply,
        "entries-read",
        group.entries_read().map(u64::cast_signed),
    );
    known(reply, "lag", stream.lag(group));
}

fn describe(reply: &mut Reply, stream: &Stream) {
    number(reply, "length", stream.len());
    number(reply, "radix-tree-keys", stream.node_count());
    number(reply, "radix-tree-nodes", stream.radix_nodes());
    id(reply, "last-generated-id", stream.last_id());
    id(reply, "max-deleted-entry-id", stream.max_deleted_id());
    number(reply, "entries-added", stream.entries_added() as usize);
    id(reply, "recorded-first-entry-id", stream.first_id());
}

fn summarise(reply: &mut Reply, stream: &Stream) {
    let (min, max) = (StreamId::MIN, StreamId::MAX);
    number(reply, "groups", stream.groups().len());
    let ends = [
        ("first-entry", stream.iter(min, max).next()),
        ("last-entry", stream.iter_back(min, max).next()),
    ];
    for (name, entry) in ends {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => push_entry(reply, &entry),
            None => reply.null(),
        }
    }
}

fn show_all(reply: &mut Reply, stream: &Stream, count: i64) {
    let (min, max, count) = (StreamId::MIN, StreamId::MAX, most(count));
    reply.bulk(b"entries");
    push_entries(reply, stream.iter(min, max).take(count));
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        text(reply, "name", name);
        progress(reply, stream, group);
        number(reply, "pel-count", group.pending_count());
        reply.bulk(b"pending");
        reply.array(group.pending_count().min(count));
        for pending in group.pending(min, max).take(count) {
            reply.array(4);
            push_id(reply, pending.id);
            reply.bulk(pending.consumer);
            reply.integer(pending.delivered_ms as i64);
            reply.integer(pending.deliveries as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers().count());
        for consumer in group.consumers() {
            let pending = consumer.pending().len();
            reply.map(4);
            text(reply, "name", consumer.name());
            number(reply, "seen-time", consumer.seen_ms as usize);
            number(reply, "pel-count", pending);
            reply.bulk(b"pending");
            reply.array(pending.min(count));
            for pending in group.pending_of(consumer.name(), min, max).take(count) {
                reply.array(3);
                push_id(reply, pending.id);
                reply.integer(pending.delivered_ms as i64);
                reply.integer(pending.deliveries as i64);
            }
        }
    }
}
