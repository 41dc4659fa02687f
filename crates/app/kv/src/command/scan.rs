//! Walks through the keys.

use super::{Call, Command, Flags, command};
use crate::engine::Engine;
use crate::entry::Entry;
use crate::fault::{Answer, Fault, SYNTAX};
use values::glob;

pub(super) static COMMANDS: &[Command] = &[
    command("scan", -2, Flags::READONLY, "generic", scan),
    command("keys", 2, Flags::READONLY, "generic", keys),
    command("randomkey", 1, Flags::READONLY, "generic", randomkey),
    command(
        "dbsize",
        1,
        Flags::READONLY.and(Flags::FAST),
        "server",
        dbsize,
    ),
];

/// What SCAN and its like may be asked.
pub(super) struct Options<'a> {
    pub(super) pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    pub(super) type_name: Option<&'a [u8]>,
}

/// A cursor.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Fault> {
    let text = std::str::from_utf8(text).ok();
    let cursor = text.and_then(|text| text.parse().ok());
    cursor.ok_or(Fault::of("ERR invalid cursor"))
}

/// Options from an argument on.
pub(super) fn options<'a>(call: &Call<'a>, from: usize) -> Result<Options<'a>, Fault> {
    let mut options = Options {
        pattern: None,
        count: 10,
        type_name: None,
    };
    let mut at = from;
    while at < call.len() {
        if at + 1 >= call.len() {
            return Err(SYNTAX);
        }
        if call.is(at, "MATCH") {
            options.pattern = Some(call.arg(at + 1));
        } else if call.is(at, "COUNT") {
            let count = call.integer(at + 1)?;
            if count < 1 {
                return Err(SYNTAX);
            }
            options.count = usize::try_from(count).unwrap_or(usize::MAX).min(1 << 24);
        } else if call.is(at, "TYPE") && call.is(0, "scan") {
            options.type_name = Some(call.arg(at + 1));
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    Ok(options)
}

fn scan(call: &mut Call<'_>) -> Answer {
    let (database, now_ms) = (call.db(), call.engine.now_ms);
    let cursor = cursor(call.arg(1))?;
    let options = options(call, 2)?;
    call.engine.note_due_all();
    let wanted = |entry: &Entry| {
        entry.expires_ms().is_none_or(|at| at > now_ms)
            && options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, entry.key(), false))
            && options
                .type_name
                .is_none_or(|name| name.eq_ignore_ascii_case(Engine::type_of(entry).as_bytes()))
    };
    let mut found: Vec<&[u8]> = Vec::new();
    let next = call
        .engine
        .keyspace
        .scan(database, cursor, options.count, |entry| {
            if wanted(entry) {
                found.push(entry.key());
            }
        });
    let reply = &mut call.session.reply;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn keys(call: &mut Call<'_>) -> Answer {
    let (database, now_ms, pattern) = (call.db(), call.engine.now_ms, call.arg(1));
    call.engine.note_due_all();
    let wanted = |entry: &&Entry| {
        entry.expires_ms().is_none_or(|at| at > now_ms)
            && glob::matches(pattern, entry.key(), false)
    };
    let tables = call.engine.keyspace.tables(database);
    let found: Vec<&[u8]> = tables
        .flat_map(|table| table.iter().filter(wanted).map(Entry::key))
        .collect();
    let reply = &mut call.session.reply;
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// Tries before an entry that is over is taken for none.
const TRIES: usize = 100;

fn randomkey(call: &mut Call<'_>) -> Answer {
    let database = call.db();
    call.engine.note_due_all();
    for _ in 0..TRIES {
        let Some(key) = call.engine.random_key(database) else {
            break;
        };
        if call.engine.exists(database, &key) {
            call.reply().bulk(&key);
            return Ok(());
        }
    }
    call.reply().null();
    Ok(())
}

impl Engine {
    /// The key of any entry.
    fn random_key(&mut self, database: u8) -> Option<Vec<u8>> {
        let len = self.keyspace.len(database);
        if len == 0 {
            return None;
        }
        let mut at = self.rng.index(len);
        let random = self.rng.next_u64();
        for table in self.keyspace.tables(database) {
            if at < table.len() {
                return table
                    .sample(random, 1)
                    .next()
                    .map(|entry| entry.key().to_vec());
            }
            at -= table.len();
        }
        None
    }
}

fn dbsize(call: &mut Call<'_>) -> Answer {
    call.engine.note_due_all();
    let count = call.engine.keyspace.len(call.db());
    call.answer_count(count)
}
