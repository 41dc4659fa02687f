//! From elements to registers, and from registers to an estimate.

use super::REGISTERS;

/// Bits of the hash that choose a register.
const REGISTER_BITS: u32 = 14;
/// Bits of the hash that are left.
const VALUE_BITS: usize = 64 - REGISTER_BITS as usize;

/// The register of an element and the value that it raises it to: one more than the zeros at the
/// low end of the rest of its hash.
pub(super) fn register(element: &[u8]) -> (usize, u8) {
    const SEED: u64 = 0xadc8_3b19;
    let hash = murmur(element, SEED);
    let rest = hash >> REGISTER_BITS | 1 << VALUE_BITS;
    (
        hash as usize & (REGISTERS - 1),
        rest.trailing_zeros() as u8 + 1,
    )
}

/// MurmurHash64A, little-endian.
fn murmur(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// The estimate, rounded.
pub(super) fn count(registers: &[u8]) -> u64 {
    const ALPHA_INFINITE: f64 = 0.721_347_520_444_481_7;
    let mut histogram = [0u32; 64];
    for &value in registers {
        histogram[usize::from(value & 0x3f)] += 1;
    }
    let all = REGISTERS as f64;
    let mut sum = all * tau((all - f64::from(histogram[VALUE_BITS + 1])) / all);
    for value in (1..=VALUE_BITS).rev() {
        sum += f64::from(histogram[value]);
        sum *= 0.5;
    }
    sum += all * sigma(f64::from(histogram[0]) / all);
    (ALPHA_INFINITE * all * all / sum).round() as u64
}

/// For registers that are at their highest.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// For registers that are 0.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}
