//! Bits of strings. Bit 0 is the highest of the first byte.

mod field;
#[cfg(test)]
mod tests;

pub use field::{BitField, Overflow, field_get, field_increment, field_set};

use crate::range::byte_indices;

/// The first bit that no string can have: 512 MiB.
pub const BITS_MAX: u64 = 1 << 32;

/// The bit at `offset`; 0 behind the end (GETBIT).
#[must_use]
pub fn get(bytes: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset / 8)
        .ok()
        .and_then(|at| bytes.get(at));
    byte.is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

/// Sets the bit at `offset`, below [`BITS_MAX`], making the string longer if it must (SETBIT);
/// returns what it was.
pub fn set(bytes: &mut Vec<u8>, offset: u64, on: bool) -> bool {
    assert!(offset < BITS_MAX, "the caller bounds offsets");
    let at = usize::try_from(offset / 8).expect("below 512 MiB");
    if bytes.len() <= at {
        bytes.resize(at + 1, 0);
    }
    let mask = 0x80 >> (offset % 8);
    let was = bytes[at] & mask != 0;
    if on {
        bytes[at] |= mask;
    } else {
        bytes[at] &= !mask;
    }
    was
}

/// What a range of BITCOUNT and BITPOS counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Byte,
    /// Bits.
    Bit,
}

/// The bits from the first to the last, both included, of a range.
fn bit_range(length: usize, start: i64, end: i64, unit: Unit) -> Option<(usize, usize)> {
    match unit {
        Unit::Byte => byte_indices(start, end, length).map(|(start, end)| (start * 8, end * 8 + 7)),
        Unit::Bit => byte_indices(start, end, length * 8),
    }
}

/// How many bits are set in a range, its end included (BITCOUNT).
#[must_use]
pub fn count(bytes: &[u8], start: i64, end: i64, unit: Unit) -> u64 {
    if start < 0 && end < 0 && start > end {
        return 0;
    }
    let Some((first, last)) = bit_range(bytes.len(), start, end, unit) else {
        return 0;
    };
    let whole: u64 = bytes[first / 8..=last / 8]
        .iter()
        .map(|byte| u64::from(byte.count_ones()))
        .sum();
    let before = bytes[first / 8] & !(0xff >> (first % 8));
    let behind = bytes[last / 8] & (0x7f >> (last % 8));
    whole - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// The first bit of this value in a range (BITPOS). Without an `end` the string is looked at as if
/// zeros went on behind it. None is Redis's -1.
#[must_use]
pub fn position(bytes: &[u8], on: bool, start: i64, end: Option<i64>, unit: Unit) -> Option<u64> {
    let (first, last) = bit_range(bytes.len(), start, end.unwrap_or(-1), unit)?;
    let skip = if on { 0x00 } else { 0xff };
    let mut at = first;
    while at <= last {
        if at % 8 == 0 && last - at >= 7 && bytes[at / 8] == skip {
            at += 8;
        } else if get(bytes, at as u64) == on {
            return Some(at as u64);
        } else {
            at += 1;
        }
    }
    (!on && end.is_none()).then_some(bytes.len() as u64 * 8)
}

/// The operations of BITOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitOperation {
    /// Set in all.
    And,
    /// Set in any.
    Or,
    /// Set in an odd number.
    Xor,
    /// Not set in the one source.
    Not,
}

/// Combines strings; shorter ones are taken with zeros behind them (BITOP). The result is as long
/// as the longest.
#[must_use]
pub fn combine(operation: BitOperation, sources: &[&[u8]]) -> Vec<u8> {
    let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = sources
        .first()
        .map(|first| first.to_vec())
        .unwrap_or_default();
    result.resize(length, 0);
    if operation == BitOperation::Not {
        for byte in &mut result {
            *byte = !*byte;
        }
        return result;
    }
    for source in sources.get(1..).unwrap_or_default() {
        let (both, rest) = result.split_at_mut(source.len());
        for (own, other) in both.iter_mut().zip(*source) {
            match operation {
                BitOperation::And => *own &= other,
                BitOperation::Or => *own |= other,
                BitOperation::Xor | BitOperation::Not => *own ^= other,
            }
        }
        if operation == BitOperation::And {
            rest.fill(0);
        }
    }
    result
}
