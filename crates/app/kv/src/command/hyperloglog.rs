//! HyperLogLogs: strings that estimate how many different elements they have seen.

use super::{Call, Command, Flags, command};
use crate::fault::{Answer, Fault};
use values::hyperloglog;

pub(super) static COMMANDS: &[Command] = &[
    command(
        "pfadd",
        -2,
        Flags::WRITE.and(Flags::DENY_OOM).and(Flags::FAST),
        "hyperloglog",
        pfadd,
    ),
    command("pfcount", -2, Flags::READONLY, "hyperloglog", pfcount),
    command(
        "pfmerge",
        -2,
        Flags::WRITE.and(Flags::DENY_OOM),
        "hyperloglog",
        pfmerge,
    ),
];

fn bytes(call: &mut Call<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let database = call.db();
    let found = call.engine.text(database, key)?.map(<[u8]>::to_vec);
    if let Some(found) = &found {
        hyperloglog::check(found)?;
    }
    Ok(found)
}

/// Puts the new bytes in place of the old, which expire when they did.
fn put(call: &mut Call<'_>, key: &[u8], bytes: &[u8]) {
    let database = call.db();
    let expires = call
        .engine
        .peek(database, key)
        .and_then(|entry| entry.expires_ms());
    call.engine.put_text(database, key, bytes, expires);
}

fn pfadd(call: &mut Call<'_>) -> Answer {
    let (key, limits) = (call.arg(1), call.engine.config.thresholds);
    let before = bytes(call, key)?;
    let mut changed = before.is_none();
    let mut after = before.unwrap_or_else(hyperloglog::create);
    for element in call.rest(2) {
        changed |= hyperloglog::add(&mut after, element, &limits)?;
    }
    if changed {
        put(call, key, &after);
        call.notify(b'$', "pfadd", key);
    }
    call.answer(changed.into())
}

fn pfcount(call: &mut Call<'_>) -> Answer {
    let mut all = Vec::new();
    for key in call.rest(1) {
        all.extend(bytes(call, key)?);
    }
    let count = match all.as_mut_slice() {
        [] => 0,
        [one] => hyperloglog::count(one)?,
        all => {
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            hyperloglog::count_union(&all)?
        }
    };
    call.answer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn pfmerge(call: &mut Call<'_>) -> Answer {
    let (key, limits) = (call.arg(1), call.engine.config.thresholds);
    let mut target = bytes(call, key)?.unwrap_or_else(hyperloglog::create);
    let mut sources = Vec::new();
    for source in call.rest(2) {
        sources.extend(bytes(call, source)?);
    }
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    hyperloglog::merge(&mut target, &sources, &limits)?;
    put(call, key, &target);
    call.notify(b'$', "pfadd", key);
    call.ok()
}
