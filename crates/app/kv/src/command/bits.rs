//! Strings as bits.

use super::strings::check_length;
use super::{Call, Command, Flags, command};
use crate::engine::Changed;
use crate::fault::{Answer, Fault, SYNTAX};
use crate::value::Value;
use values::bits::{
    BITS_MAX, BitField, BitOperation, Overflow, Unit, combine, count, field_get, field_increment,
    field_set, get, position, set,
};

const READ: Flags = Flags::READONLY;
const GROW: Flags = Flags::WRITE.and(Flags::DENY_OOM);

pub(super) static COMMANDS: &[Command] = &[
    command("setbit", 4, GROW, "bitmap", setbit),
    command("getbit", 3, READ.and(Flags::FAST), "bitmap", getbit),
    command("bitcount", -2, READ, "bitmap", bitcount),
    command("bitpos", -3, READ, "bitmap", bitpos),
    command("bitop", -4, GROW, "bitmap", bitop),
    command("bitfield", -2, GROW, "bitmap", |call| bitfield(call, false)),
    command("bitfield_ro", -2, READ.and(Flags::FAST), "bitmap", |call| {
        bitfield(call, true)
    }),
];

fn offset(text: &[u8]) -> Result<u64, Fault> {
    let offset = values::number::parse_unsigned(text).filter(|offset| *offset < BITS_MAX);
    offset.ok_or(Fault::of(
        "ERR bit offset is not an integer or out of range",
    ))
}

fn bit(text: &[u8], refusal: &'static str) -> Result<bool, Fault> {
    match text {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err(Fault::of(refusal)),
    }
}

/// Changes a string in place, or a new one.
fn edit<T>(
    call: &mut Call<'_>,
    change: &[&[u8]],
    bits: u64,
    work: impl FnOnce(&mut Vec<u8>) -> T,
) -> Result<T, Fault> {
    let (database, key) = (call.db(), call.arg(1));
    check_length(key, (bits / 8 + 1) as usize)?;
    if call.engine.text(database, key)?.is_none() {
        let mut text = Vec::new();
        let result = work(&mut text);
        call.engine.put_text(database, key, &text, None);
        return Ok(result);
    }
    let result = call
        .engine
        .update(database, key, Some(change), |value| match value {
            Value::Text(text) => Changed(Some(work(text))),
            _ => Changed(None),
        });
    result
        .and_then(|result| result.0)
        .ok_or(crate::fault::WRONG_TYPE)
}

fn setbit(call: &mut Call<'_>) -> Answer {
    let at = offset(call.arg(2))?;
    let on = bit(call.arg(3), "ERR bit is not an integer or out of range")?;
    let before = edit(call, call.arguments, at, |text| set(text, at, on))?;
    call.notify(b'$', "setbit", call.arg(1));
    call.answer(before.into())
}

fn getbit(call: &mut Call<'_>) -> Answer {
    let at = offset(call.arg(2))?;
    let (database, key) = (call.db(), call.arg(1));
    let on = call
        .engine
        .text(database, key)?
        .is_some_and(|text| get(text, at));
    call.answer(on.into())
}

fn unit(call: &Call<'_>, at: usize) -> Result<Unit, Fault> {
    if call.len() <= at || call.is(at, "BYTE") {
        Ok(Unit::Byte)
    } else if call.is(at, "BIT") {
        Ok(Unit::Bit)
    } else {
        Err(SYNTAX)
    }
}

fn bitcount(call: &mut Call<'_>) -> Answer {
    let (start, end) = match call.len() {
        2 => (0, -1),
        4 | 5 => (call.integer(2)?, call.integer(3)?),
        _ => return Err(SYNTAX),
    };
    let unit = unit(call, 4)?;
    let (database, key) = (call.db(), call.arg(1));
    let text = call.engine.text(database, key)?.unwrap_or_default();
    let found = count(text, start, end, unit);
    call.answer(found as i64)
}

fn bitpos(call: &mut Call<'_>) -> Answer {
    let on = bit(call.arg(2), "ERR The bit argument must be 1 or 0.")?;
    if call.len() > 6 {
        return Err(SYNTAX);
    }
    let start = if call.len() > 3 { call.integer(3)? } else { 0 };
    let end = if call.len() > 4 {
        Some(call.integer(4)?)
    } else {
        None
    };
    let unit = unit(call, 5)?;
    let (database, key) = (call.db(), call.arg(1));
    let found = match call.engine.text(database, key)? {
        None if on => None,
        None => Some(0),
        Some(text) => position(text, on, start, end, unit),
    };
    call.answer(found.map_or(-1, |at| at as i64))
}

fn bitop(call: &mut Call<'_>) -> Answer {
    let operation = match call.arg(1).to_ascii_uppercase().as_slice() {
        b"AND" => BitOperation::And,
        b"OR" => BitOperation::Or,
        b"XOR" => BitOperation::Xor,
        b"NOT" => BitOperation::Not,
        _ => return Err(SYNTAX),
    };
    let (database, target, keys) = (call.db(), call.arg(2), call.rest(3));
    if operation == BitOperation::Not && keys.len() != 1 {
        return Err(Fault::of(
            "ERR BITOP NOT must be called with a single source key.",
        ));
    }
    let mut sources = Vec::with_capacity(keys.len());
    for key in keys {
        sources.push(
            call.engine
                .text(database, key)?
                .unwrap_or_default()
                .to_vec(),
        );
    }
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let result = combine(operation, &sources);
    if result.is_empty() {
        if call.engine.remove(database, target).is_some() {
            call.notify(b'g', "del", target);
        }
        return call.answer(0);
    }
    check_length(target, result.len())?;
    call.engine.put_text(database, target, &result, None);
    call.notify(b'$', "set", target);
    call.answer_count(result.len())
}

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Set(i64),
    Add(i64),
}

struct Step {
    field: BitField,
    offset: u64,
    operation: Operation,
    overflow: Overflow,
}

fn steps(call: &Call<'_>, read_only: bool) -> Result<Vec<Step>, Fault> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::default();
    let mut at = 2;
    while at < call.len() {
        if call.is(at, "OVERFLOW") && at + 1 < call.len() {
            overflow = match call.arg(at + 1).to_ascii_uppercase().as_slice() {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => return Err(Fault::of("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let (takes_value, get) = match call.arg(at).to_ascii_uppercase().as_slice() {
            b"GET" => (0, true),
            b"SET" | b"INCRBY" => (1, false),
            _ => return Err(SYNTAX),
        };
        if at + 2 + takes_value >= call.len() {
            return Err(SYNTAX);
        }
        let wrong = Fault::of(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
             i64 is.",
        );
        let field = BitField::parse(call.arg(at + 1)).ok_or(wrong)?;
        let out = Fault::of("ERR bit offset is not an integer or out of range");
        let offset = match call.arg(at + 2) {
            [b'#', rest @ ..] => values::number::parse_unsigned(rest)
                .and_then(|index| index.checked_mul(field.bits().into())),
            text => values::number::parse_unsigned(text),
        };
        let offset = offset.filter(|offset| field.fits_at(*offset)).ok_or(out)?;
        let operation = match (get, call.is(at, "SET")) {
            (true, _) => Operation::Get,
            (false, true) => Operation::Set(call.integer(at + 3)?),
            (false, false) => Operation::Add(call.integer(at + 3)?),
        };
        if read_only && !matches!(operation, Operation::Get) {
            return Err(Fault::of(
                "ERR BITFIELD_RO only supports the GET subcommand",
            ));
        }
        steps.push(Step {
            field,
            offset,
            operation,
            overflow,
        });
        at += 3 + takes_value;
    }
    Ok(steps)
}

fn bitfield(call: &mut Call<'_>, read_only: bool) -> Answer {
    let steps = steps(call, read_only)?;
    let writes = steps
        .iter()
        .filter(|step| !matches!(step.operation, Operation::Get));
    let last = writes
        .map(|step| step.offset + u64::from(step.field.bits()) - 1)
        .max();
    let run = |text: &mut Vec<u8>| -> Vec<Option<i64>> {
        let step = |step: &Step| match step.operation {
            Operation::Get => Some(field_get(text, step.field, step.offset)),
            Operation::Set(value) => field_set(text, step.field, step.offset, value, step.overflow),
            Operation::Add(by) => field_increment(text, step.field, step.offset, by, step.overflow),
        };
        steps.iter().map(step).collect()
    };
    let found = match last {
        Some(last) => {
            let found = edit(call, call.arguments, last, run)?;
            call.notify(b'$', "setbit", call.arg(1));
            found
        }
        None => {
            let (database, key) = (call.db(), call.arg(1));
            let text = call.engine.text(database, key)?.unwrap_or_default();
            let step = |step: &Step| Some(field_get(text, step.field, step.offset));
            steps.iter().map(step).collect()
        }
    };
    let reply = call.reply();
    reply.array(found.len());
    for one in found {
        match one {
            Some(number) => reply.integer(number),
            None => reply.null(),
        }
    }
    Ok(())
}
