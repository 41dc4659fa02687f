//! HyperLogLogs: strings that estimate how many distinct elements were added.
//!
//! The bytes are Redis's, so that GET, SET and DUMP carry them between servers: a header of 16 bytes
//! with the last estimate, then 16384 registers, as runs while most are 0 ("sparse"), or of six bits
//! each ("dense"). Estimates are those of Redis: the estimator of Ertl (arXiv 1702.01284) over a
//! 64-bit MurmurHash2.

mod estimate;
mod sparse;
#[cfg(test)]
mod tests;

use crate::{Thresholds, ValueError};

/// Registers: 2 to the power of 14.
const REGISTERS: usize = 1 << 14;
const HEADER: usize = 16;
const DENSE_BYTES: usize = HEADER + REGISTERS * 6 / 8;
/// The byte of the encoding, and its values.
const ENCODING: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The cached estimate; a set highest bit says that it is out of date.
const CACHE: std::ops::Range<usize> = 8..16;

/// Without elements.
#[must_use]
pub fn create() -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..4].copy_from_slice(b"HYLL");
    bytes[ENCODING] = SPARSE;
    sparse::push_zeros(&mut bytes, REGISTERS);
    bytes
}

/// Says whether a string can be one.
///
/// # Errors
/// [`ValueError::NotHyperLogLog`].
pub fn check(bytes: &[u8]) -> Result<(), ValueError> {
    let right = bytes.len() >= HEADER
        && bytes.starts_with(b"HYLL")
        && match bytes[ENCODING] {
            DENSE => bytes.len() == DENSE_BYTES,
            SPARSE => true,
            _ => false,
        };
    if right {
        Ok(())
    } else {
        Err(ValueError::NotHyperLogLog)
    }
}

/// Whether it is sparse (PFDEBUG ENCODING).
///
/// # Errors
/// [`ValueError::NotHyperLogLog`].
pub fn is_sparse(bytes: &[u8]) -> Result<bool, ValueError> {
    check(bytes)?;
    Ok(bytes[ENCODING] == SPARSE)
}

/// Adds an element (PFADD); returns whether the estimate may have changed.
///
/// # Errors
/// [`ValueError::NotHyperLogLog`], [`ValueError::CorruptHyperLogLog`].
pub fn add(
    bytes: &mut Vec<u8>,
    element: &[u8],
    thresholds: &Thresholds,
) -> Result<bool, ValueError> {
    check(bytes)?;
    let (register, value) = estimate::register(element);
    let changed = raise(bytes, register, value, thresholds)?;
    if changed {
        invalidate(bytes);
    }
    Ok(changed)
}

/// The estimate of one (PFCOUNT), which is kept in its header.
///
/// # Errors
/// [`ValueError::NotHyperLogLog`], [`ValueError::CorruptHyperLogLog`].
pub fn count(bytes: &mut [u8]) -> Result<u64, ValueError> {
    check(bytes)?;
    let cached: [u8; 8] = bytes[CACHE].try_into().expect("eight bytes");
    let cached = u64::from_le_bytes(cached);
    if cached >> 63 == 0 {
        return Ok(cached);
    }
    let estimate = estimate::count(&registers(bytes)?);
    bytes[CACHE].copy_from_slice(&estimate.to_le_bytes());
    Ok(estimate)
}

/// The estimate of several together (PFCOUNT).
///
/// # Errors
/// As [`count`].
pub fn count_union(sources: &[&[u8]]) -> Result<u64, ValueError> {
    Ok(estimate::count(&maxima(sources)?))
}

/// Adds to `target` all that was added to `sources` (PFMERGE).
///
/// # Errors
/// As [`count`].
pub fn merge(
    target: &mut Vec<u8>,
    sources: &[&[u8]],
    thresholds: &Thresholds,
) -> Result<(), ValueError> {
    check(target)?;
    let own = registers(target)?;
    let mut highest = maxima(sources)?;
    for (value, own) in highest.iter_mut().zip(own) {
        *value = own.max(*value);
    }
    if sources.iter().any(|source| source[ENCODING] == DENSE) {
        make_dense(target)?;
    }
    for (register, &value) in highest.iter().enumerate() {
        if value > 0 {
            raise(target, register, value, thresholds)?;
        }
    }
    invalidate(target);
    Ok(())
}

/// The value of each register.
///
/// # Errors
/// As [`count`].
pub fn registers(bytes: &[u8]) -> Result<Vec<u8>, ValueError> {
    check(bytes)?;
    if bytes[ENCODING] == SPARSE {
        return sparse::registers(&bytes[HEADER..]).ok_or(ValueError::CorruptHyperLogLog);
    }
    Ok((0..REGISTERS)
        .map(|register| dense_get(&bytes[HEADER..], register))
        .collect())
}

fn maxima(sources: &[&[u8]]) -> Result<Vec<u8>, ValueError> {
    let mut highest = vec![0; REGISTERS];
    for source in sources {
        for (value, own) in highest.iter_mut().zip(registers(source)?) {
            *value = own.max(*value);
        }
    }
    Ok(highest)
}

fn invalidate(bytes: &mut [u8]) {
    bytes[CACHE.end - 1] |= 0x80;
}

/// Raises a register to a value, if it is lower; returns whether it was.
fn raise(
    bytes: &mut Vec<u8>,
    register: usize,
    value: u8,
    thresholds: &Thresholds,
) -> Result<bool, ValueError> {
    if bytes[ENCODING] == SPARSE {
        let most = thresholds.hll_sparse_max_bytes;
        match sparse::raise(bytes, register, value, most).ok_or(ValueError::CorruptHyperLogLog)? {
            sparse::Raised::Yes => return Ok(true),
            sparse::Raised::No => return Ok(false),
            sparse::Raised::TooLong => make_dense(bytes)?,
        }
    }
    let body = &mut bytes[HEADER..];
    if dense_get(body, register) >= value {
        return Ok(false);
    }
    dense_set(body, register, value);
    Ok(true)
}

fn make_dense(bytes: &mut Vec<u8>) -> Result<(), ValueError> {
    if bytes[ENCODING] == DENSE {
        return Ok(());
    }
    let values = registers(bytes)?;
    bytes[ENCODING] = DENSE;
    bytes.truncate(HEADER);
    bytes.resize(DENSE_BYTES, 0);
    for (register, value) in values.into_iter().enumerate() {
        dense_set(&mut bytes[HEADER..], register, value);
    }
    Ok(())
}

/// Six bits from the lowest bit of a byte on.
fn dense_get(body: &[u8], register: usize) -> u8 {
    let (at, shift) = (register * 6 / 8, register * 6 % 8);
    let high = body.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([body[at], high]) >> shift & 0x3f) as u8
}

fn dense_set(body: &mut [u8], register: usize, value: u8) {
    let (at, shift) = (register * 6 / 8, register * 6 % 8);
    let high = body.get(at + 1).copied().unwrap_or(0);
    let both =
        u16::from_le_bytes([body[at], high]) & !(0x3f << shift) | u16::from(value & 0x3f) << shift;
    let [low, high] = both.to_le_bytes();
    body[at] = low;
    if let Some(byte) = body.get_mut(at + 1) {
        *byte = high;
    }
}
