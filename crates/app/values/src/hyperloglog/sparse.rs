//! Registers as runs. `00LLLLLL` is up to 64 registers of 0, `01LLLLLL LLLLLLLL` up to 16384,
//! `1VVVVVLL` up to 4 registers of 1 to 32; lengths and values are kept less one.

use super::{HEADER, REGISTERS};

const ZEROS_MAX: usize = 64;
const VALUES_MAX: usize = 4;
const VALUE_MAX: u8 = 32;

/// A run: how many bytes it takes, how many registers it is of, and their value.
#[derive(Clone, Copy)]
struct Run {
    bytes: usize,
    length: usize,
    value: u8,
}

pub(super) enum Raised {
    Yes,
    No,
    /// It has to become dense first.
    TooLong,
}

/// The run at the start of `bytes`.
fn run(bytes: &[u8]) -> Option<Run> {
    let first = *bytes.first()?;
    Some(match first >> 6 {
        0 => Run {
            bytes: 1,
            length: usize::from(first) + 1,
            value: 0,
        },
        1 => {
            let length = usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?);
            Run {
                bytes: 2,
                length: length + 1,
                value: 0,
            }
        }
        _ => Run {
            bytes: 1,
            length: usize::from(first & 3) + 1,
            value: (first >> 2 & 0x1f) + 1,
        },
    })
}

/// Every register, if the runs are of exactly as many as there are.
pub(super) fn registers(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::with_capacity(REGISTERS);
    while !body.is_empty() {
        let run = run(body)?;
        body = body.get(run.bytes..)?;
        if values.len() + run.length > REGISTERS {
            return None;
        }
        values.resize(values.len() + run.length, run.value);
    }
    (values.len() == REGISTERS).then_some(values)
}

pub(super) fn push_zeros(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0 => {}
        1..=ZEROS_MAX => bytes.push((length - 1) as u8),
        _ => {
            let less = length - 1;
            bytes.extend_from_slice(&[0x40 | (less >> 8) as u8, (less & 0xff) as u8]);
        }
    }
}

fn push_values(bytes: &mut Vec<u8>, value: u8, length: usize) {
    if length > 0 {
        bytes.push(0x80 | (value - 1) << 2 | (length - 1) as u8);
    }
}

/// Raises a register; none if the runs are damaged.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    register: usize,
    value: u8,
    bytes_max: usize,
) -> Option<Raised> {
    if value > VALUE_MAX {
        return Some(Raised::TooLong);
    }
    // The run that the register is of, and the one before it.
    let (mut at, mut first, mut before) = (HEADER, 0, None);
    let found = loop {
        let run = run(bytes.get(at..)?)?;
        if register < first + run.length {
            break run;
        }
        before = Some(at);
        first += run.length;
        at += run.bytes;
    };
    if found.value >= value {
        return Some(Raised::No);
    }
    let (left, right) = (register - first, first + found.length - 1 - register);
    let mut new = Vec::with_capacity(5);
    let push = |new: &mut Vec<u8>, length| match found.value {
        0 => push_zeros(new, length),
        own => push_values(new, own, length),
    };
    push(&mut new, left);
    push_values(&mut new, value, 1);
    push(&mut new, right);
    if new.len() > found.bytes && bytes.len() + new.len() - found.bytes > bytes_max {
        return Some(Raised::TooLong);
    }
    bytes.splice(at..at + found.bytes, new);
    join(bytes, before.unwrap_or(HEADER));
    Some(Raised::Yes)
}

/// Joins runs of one value, looking at as many of them as Redis does, so that the bytes are its.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        let Some(own) = bytes.get(at..).and_then(run) else {
            return;
        };
        let next = bytes.get(at + own.bytes..).and_then(run);
        let length = own.length + next.map_or(0, |next| next.length);
        let joins = own.value > 0
            && length <= VALUES_MAX
            && next.is_some_and(|next| next.value == own.value);
        if joins {
            let mut one = Vec::with_capacity(1);
            push_values(&mut one, own.value, length);
            bytes.splice(at..at + 2, one);
        } else {
            at += own.bytes;
        }
    }
}
