//! Strings that are numbers.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault, NOT_FLOAT, NOT_INTEGER};
use values::number::{Extended, parse_integer};

const WRITE: Flags = Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("incr", 2, WRITE, "string", |call| add(call, 1)),
    command("decr", 2, WRITE, "string", |call| add(call, -1)),
    command("incrby", 3, WRITE, "string", |call| {
        let by = call.integer(2)?;
        add(call, by)
    }),
    command("decrby", 3, WRITE, "string", |call| {
        let by = call.integer(2)?.checked_neg();
        add(call, by.ok_or(Fault::of("ERR decrement would overflow"))?)
    }),
    command("incrbyfloat", 3, WRITE, "string", add_float),
];

fn add(call: &mut Call<'_>, by: i64) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let before = match call.engine.text(database, key)? {
        None => 0,
        Some(text) => parse_integer(text).ok_or(NOT_INTEGER)?,
    };
    let overflow = Fault::of("ERR increment or decrement would overflow");
    let after = before.checked_add(by).ok_or(overflow)?;
    let mut text = Vec::with_capacity(20);
    crate::protocol::push_number(&mut text, after);
    put(call, key, &text);
    call.notify(b'$', "incrby", key);
    call.answer(after)
}

/// A new value that expires when the old one did.
fn put(call: &mut Call<'_>, key: &[u8], text: &[u8]) {
    let database = call.db();
    let expires = call
        .engine
        .peek(database, key)
        .and_then(|entry| entry.expires_ms());
    call.engine.put_text(database, key, text, expires);
}

fn add_float(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let by = Extended::parse(call.arg(2)).ok_or(NOT_FLOAT)?;
    let before = match call.engine.text(database, key)? {
        None => Extended::from_double(0.0),
        Some(text) => Extended::parse(text).ok_or(NOT_FLOAT)?,
    };
    let not_finite = Fault::of("ERR increment would produce NaN or Infinity");
    let text = before.plus(by).ok_or(not_finite)?.to_text();
    put(call, key, text.as_bytes());
    call.notify(b'$', "incrbyfloat", key);
    call.reply().bulk(text.as_bytes());
    Ok(())
}
