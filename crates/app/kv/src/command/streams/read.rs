//! XREAD and XREADGROUP, which may wait.

use super::{id, most, push_entry, push_id};
use crate::blocking::Timeout;
use crate::command::{Call, Command, Flags, command};
use crate::engine::Told;
use crate::fault::{Answer, Fault, SYNTAX};
use crate::protocol::{Reply, Version};
use crate::record;
use crate::transaction::Place;
use values::{Stream, StreamId};

pub(in crate::command) static COMMANDS: &[Command] = &[
    command(
        "xread",
        -4,
        Flags::READONLY
            .and(Flags::BLOCKING)
            .and(Flags::MOVABLE_KEYS),
        "stream",
        |call| xread(call, false),
    ),
    command(
        "xreadgroup",
        -7,
        Flags::WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS),
        "stream",
        |call| xread(call, true),
    ),
];

/// Entries that a command that waited gets at most, where it does not say (XREAD_BLOCKED_DEFAULT_COUNT).
const WAITED_ENTRIES: i64 = 1000;

/// From where on a stream is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// Behind this id.
    After(StreamId),
    /// What the group has not read.
    New,
}

/// A call, parsed.
struct Read<'a> {
    group: Option<(&'a [u8], &'a [u8])>,
    count: i64,
    no_ack: bool,
    /// When it gives up, if it may wait.
    wait: Option<Option<u64>>,
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
}

fn deadline(call: &Call<'_>, at: usize) -> Result<Option<u64>, Fault> {
    let wait = values::number::parse_integer(call.arg(at));
    let wait = wait.ok_or(Fault::of("ERR timeout is not an integer or out of range"))?;
    let wait = u64::try_from(wait).map_err(|_| Fault::of("ERR timeout is negative"))?;
    let until = call.engine.now_ms.checked_add(wait);
    let until = until.filter(|until| i64::try_from(*until).is_ok());
    let until = until.ok_or(Fault::of("ERR timeout is out of range"))?;
    Ok((wait > 0).then_some(until))
}

fn parse<'a>(call: &Call<'a>, grouped: bool) -> Result<Read<'a>, Fault> {
    let mut read = Read {
        group: None,
        count: 0,
        no_ack: false,
        wait: None,
        keys: &[],
        ids: &[],
    };
    let only = |option: &str| {
        Fault::text(format!(
            "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        ))
    };
    let mut at = 1;
    while at < call.len() {
        let more = call.len() - 1 - at;
        if call.is(at, "BLOCK") && more > 0 {
            read.wait = Some(deadline(call, at + 1)?);
            at += 1;
        } else if call.is(at, "COUNT") && more > 0 {
            read.count = call.integer(at + 1)?.max(0);
            at += 1;
        } else if call.is(at, "STREAMS") && more > 0 {
            let (keys, ids) = call.rest(at + 1).split_at(more / 2);
            if !more.is_multiple_of(2) {
                return Err(Fault::of(
                    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
                     specified.",
                ));
            }
            (read.keys, read.ids) = (keys, ids);
            break;
        } else if call.is(at, "GROUP") && more >= 2 {
            if !grouped {
                return Err(only("GROUP"));
            }
            read.group = Some((call.arg(at + 1), call.arg(at + 2)));
            at += 2;
        } else if call.is(at, "NOACK") {
            if !grouped {
                return Err(only("NOACK"));
            }
            read.no_ack = true;
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if read.keys.is_empty() {
        return Err(SYNTAX);
    }
    if grouped && read.group.is_none() {
        return Err(Fault::of("ERR Missing GROUP option for XREADGROUP"));
    }
    Ok(read)
}

fn from(call: &mut Call<'_>, read: &Read<'_>, key: &[u8], text: &[u8]) -> Result<From, Fault> {
    let database = call.db();
    let retrying = call.engine.retrying;
    let stream: Option<&Stream> = match call.engine.get(database, key) {
        // Who waits is not told of a value of another type, unless it reads for a group.
        Err(_) if retrying => None,
        found => found?,
    };
    if let Some((group, _)) = read.group
        && stream.is_none_or(|stream| stream.group(group).is_none())
    {
        return Err(match (retrying, stream) {
            (true, None) => Fault::of("UNBLOCKED the stream key no longer exists"),
            (true, Some(_)) => {
                Fault::of("NOGROUP the consumer group this client was blocked on no longer exists")
            }
            (false, _) => Fault::text(format!(
                "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(group)
            )),
        });
    }
    match (text, read.group) {
        (b"$", None) => Ok(From::After(stream.map_or(StreamId::MIN, Stream::last_id))),
        (b"$", Some(_)) => Err(Fault::of(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history \
             of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ \
             ID would just return an empty result set.",
        )),
        (b">", Some(_)) => Ok(From::New),
        (b">", None) => Err(Fault::of(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
             <consumer> option.",
        )),
        (text, group) => match id(text)? {
            StreamId::MAX if group.is_some() => Ok(From::New),
            id => Ok(From::After(id)),
        },
    }
}

fn xread(call: &mut Call<'_>, grouped: bool) -> Answer {
    let read = parse(call, grouped)?;
    let mut starts = Vec::with_capacity(read.keys.len());
    for (key, text) in read.keys.iter().zip(read.ids) {
        starts.push(from(call, &read, key, text)?);
    }
    let mut parts = Reply::new(call.session.reply.version);
    let mut served = 0;
    for (key, start) in read.keys.iter().zip(&starts) {
        let before = parts.len();
        if parts.version == Version::Two {
            parts.array(2);
        }
        parts.bulk(key);
        let found = match (read.group, start) {
            (Some(group), start) => read_group(call, &mut parts, &read, key, group, *start)?,
            (None, From::After(id)) => read_plain(call, &mut parts, &read, key, *id),
            (None, From::New) => false,
        };
        match found {
            true => served += 1,
            false => parts.truncate(before),
        }
        // Who waited is woken for one key.
        if found && call.engine.retrying {
            break;
        }
    }
    if served > 0 {
        call.reply().map_of_streams(served);
        call.reply().raw(parts.bytes());
        return Ok(());
    }
    match read.wait {
        Some(until) if !call.engine.in_transaction => wait(call, &read, &starts, until),
        _ => {
            call.reply().null_array();
            Ok(())
        }
    }
}

/// Whether there was something.
fn read_plain(
    call: &mut Call<'_>,
    parts: &mut Reply,
    read: &Read<'_>,
    key: &[u8],
    after: StreamId,
) -> bool {
    let stream: Option<&Stream> = call.engine.look(call.session.database, key);
    let (Some(stream), Some(start)) = (stream, after.next()) else {
        return false;
    };
    let entries = stream.iter(start, StreamId::MAX).take(most(read.count));
    let entries: Vec<_> = entries.collect();
    parts.array(entries.len());
    entries.iter().for_each(|entry| push_entry(parts, entry));
    !entries.is_empty()
}

/// Whether there was something, or its own history was asked for, which is always answered.
fn read_group(
    call: &mut Call<'_>,
    parts: &mut Reply,
    read: &Read<'_>,
    key: &[u8],
    (group, consumer): (&[u8], &[u8]),
    start: From,
) -> Result<bool, Fault> {
    let (database, now_ms, count) = (call.db(), call.engine.now_ms, most(read.count));
    let done = call
        .engine
        .edit(database, key, None, |stream: &mut Stream| {
            let known = stream.group(group);
            let is_known = known.is_some_and(|group| group.consumer(consumer).is_some());
            let delivered = match start {
                From::New => stream
                    .deliver(group, consumer, count, read.no_ack, now_ms)
                    .map(|entries| {
                        parts.array(entries.len());
                        entries.iter().for_each(|entry| push_entry(parts, entry));
                        entries.len()
                    }),
                From::After(id) => stream
                    .deliver_again(group, consumer, id, count, now_ms)
                    .map(|entries| {
                        parts.array(entries.len());
                        for (id, entry) in &entries {
                            match entry {
                                Some(entry) => push_entry(parts, entry),
                                None => {
                                    parts.array(2);
                                    push_id(parts, *id);
                                    parts.null_array();
                                }
                            }
                        }
                        entries.len()
                    }),
            };
            let delivered = delivered.unwrap_or(0);
            let is_new = !is_known && (delivered > 0 || start != From::New);
            Told((delivered, is_new))
        })?;
    let (delivered, is_new) = done.map_or((0, false), |done| done.0);
    if is_new {
        call.notify(b't', "xgroup-createconsumer", key);
    }
    if delivered > 0 || is_new {
        let time = record::time_word(now_ms);
        let (count, after) = (
            read.count.to_string(),
            match start {
                From::New => ">".to_owned(),
                From::After(id) => id.to_string(),
            },
        );
        let mut change: Vec<&[u8]> = vec![&time, b"XREADGROUP", b"GROUP", group, consumer];
        change.extend([b"COUNT", count.as_bytes()]);
        if read.no_ack {
            change.push(b"NOACK");
        }
        change.extend([b"STREAMS", key, after.as_bytes()]);
        call.engine.touch_with(database, key, &change);
    }
    Ok(delivered > 0 || start != From::New)
}

fn wait(call: &mut Call<'_>, read: &Read<'_>, starts: &[From], until: Option<u64>) -> Answer {
    if call.engine.retrying {
        return Ok(());
    }
    let database = call.db();
    let places: Vec<Place> = read
        .keys
        .iter()
        .map(|key| (database, Box::from(*key)))
        .collect();
    // `$` is what it is now.
    let ids: Vec<Vec<u8>> = starts
        .iter()
        .map(|start| match start {
            From::New => b">".to_vec(),
            From::After(id) => id.to_string().into_bytes(),
        })
        .collect();
    let count = match read.count {
        0 => WAITED_ENTRIES,
        count => count,
    };
    let count = count.to_string();
    let mut again: Vec<&[u8]> = vec![call.arg(0), b"COUNT", count.as_bytes()];
    // The time to give up is kept beside; that it waits is not forgotten.
    again.extend([b"BLOCK".as_slice(), b"0"]);
    if let Some((group, consumer)) = read.group {
        again.extend([b"GROUP", group, consumer]);
    }
    if read.no_ack {
        again.push(b"NOACK");
    }
    again.push(b"STREAMS");
    again.extend_from_slice(read.keys);
    again.extend(ids.iter().map(Vec::as_slice));
    call.engine
        .block(call.session, &again, places, until, Timeout::NullArray);
    Ok(())
}

impl Reply {
    /// So many pairs of a key and what was read of it: a map, or an array of pairs.
    fn map_of_streams(&mut self, count: usize) {
        match self.version {
            Version::Two => self.array(count),
            Version::Three => self.map(count),
        }
    }
}
