//! When entries go.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};

const WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const READ: Flags = Flags::READONLY.and(Flags::FAST);

pub(super) static COMMANDS: &[Command] = &[
    command("expire", -3, WRITE, "generic", |call| {
        expire(call, 1000, true)
    }),
    command("pexpire", -3, WRITE, "generic", |call| {
        expire(call, 1, true)
    }),
    command("expireat", -3, WRITE, "generic", |call| {
        expire(call, 1000, false)
    }),
    command("pexpireat", -3, WRITE, "generic", |call| {
        expire(call, 1, false)
    }),
    command("persist", 2, WRITE, "generic", persist),
    command("ttl", 2, READ, "generic", |call| left(call, 1000, true)),
    command("pttl", 2, READ, "generic", |call| left(call, 1, true)),
    command("expiretime", 2, READ, "generic", |call| {
        left(call, 1000, false)
    }),
    command("pexpiretime", 2, READ, "generic", |call| {
        left(call, 1, false)
    }),
];

#[derive(Default)]
struct Only {
    new: bool,
    old: bool,
    later: bool,
    earlier: bool,
}

fn only(call: &Call<'_>) -> Result<Only, Fault> {
    let mut only = Only::default();
    for word in call.rest(3) {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" => only.new = true,
            b"XX" => only.old = true,
            b"GT" => only.later = true,
            b"LT" => only.earlier = true,
            _ => {
                return Err(Fault::text(format!(
                    "ERR Unsupported option {}",
                    String::from_utf8_lossy(word)
                )));
            }
        }
    }
    if only.new && (only.old || only.later || only.earlier) {
        return Err(Fault::of(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if only.later && only.earlier {
        return Err(Fault::of(
            "ERR GT and LT options at the same time are not compatible",
        ));
    }
    Ok(only)
}

fn expire(call: &mut Call<'_>, unit: i64, relative: bool) -> Answer {
    let name = String::from_utf8_lossy(call.arg(0)).to_ascii_lowercase();
    let invalid = || Fault::text(format!("ERR invalid expire time in '{name}' command"));
    let amount = call.integer(2)?;
    let only = only(call)?;
    let base = if relative {
        call.engine.now_ms as i64
    } else {
        0
    };
    let at = amount.checked_mul(unit).and_then(|ms| ms.checked_add(base));
    let at = at.ok_or_else(invalid)?;
    let (database, key) = (call.db(), call.arg(1));
    let Some(before) = call
        .engine
        .peek(database, key)
        .map(|entry| entry.expires_ms())
    else {
        return call.answer(0);
    };
    // What never expires counts as the latest.
    let before_at = before.map_or(i64::MAX, |ms| ms as i64);
    let refused = (only.new && before.is_some())
        || (only.old && before.is_none())
        || (only.later && (before.is_none() || at <= before_at))
        || (only.earlier && at >= before_at);
    if refused {
        return call.answer(0);
    }
    match u64::try_from(at) {
        Ok(ms) if ms > call.engine.now_ms || call.engine.replays() => {
            call.engine.set_expiry(database, key, Some(ms));
            call.notify(b'g', "expire", key);
        }
        _ => {
            call.engine.remove(database, key);
            call.notify(b'g', "del", key);
        }
    }
    call.answer(1)
}

fn persist(call: &mut Call<'_>) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let expires = call
        .engine
        .peek(database, key)
        .and_then(|entry| entry.expires_ms());
    if expires.is_none() {
        return call.answer(0);
    }
    call.engine.set_expiry(database, key, None);
    call.notify(b'g', "persist", key);
    call.answer(1)
}

fn left(call: &mut Call<'_>, unit: u64, relative: bool) -> Answer {
    let (database, key) = (call.db(), call.arg(1));
    let now = call.engine.now_ms;
    let answer = match call
        .engine
        .peek(database, key)
        .map(|entry| entry.expires_ms())
    {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) if relative => ((at.saturating_sub(now) + unit / 2) / unit) as i64,
        Some(Some(at)) => (at / unit) as i64,
    };
    call.answer(answer)
}
