//! Integers of 1 to 64 bits at any bit of a string (BITFIELD).

use super::{BITS_MAX, get, set};

/// The type of an integer: `i1` to `i64`, `u1` to `u63`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitField {
    signed: bool,
    bits: u32,
}

/// What an integer that does not fit becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Its lowest bits.
    #[default]
    Wrap,
    /// The nearest that fits.
    Saturate,
    /// Nothing: the operation is not done.
    Fail,
}

impl BitField {
    /// Reads `i16` and its like.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (signed, digits) = match text {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return None,
        };
        let bits = u32::try_from(crate::number::parse_integer(digits)?).ok()?;
        let most = if signed { 64 } else { 63 };
        (1..=most).contains(&bits).then_some(Self { signed, bits })
    }

    /// Bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Whether all its bits at `offset` are within the longest string.
    #[must_use]
    pub fn fits_at(self, offset: u64) -> bool {
        offset
            .checked_add(u64::from(self.bits))
            .is_some_and(|end| end <= BITS_MAX)
    }

    fn least(self) -> i128 {
        if self.signed {
            -(1 << (self.bits - 1))
        } else {
            0
        }
    }

    fn most(self) -> i128 {
        if self.signed {
            (1 << (self.bits - 1)) - 1
        } else {
            (1 << self.bits) - 1
        }
    }

    /// The integer with these lowest bits.
    fn wrap(self, value: i128) -> i64 {
        let low = value & ((1i128 << self.bits) - 1);
        let wide = if self.signed && low > self.most() {
            low - (1 << self.bits)
        } else {
            low
        };
        i64::try_from(wide).expect("at most 64 signed or 63 unsigned bits")
    }

    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        if (self.least()..=self.most()).contains(&value) {
            return i64::try_from(value).ok();
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => i64::try_from(value.clamp(self.least(), self.most())).ok(),
            Overflow::Fail => None,
        }
    }
}

/// Reads the integer at bit `offset`; bits behind the end are 0.
#[must_use]
pub fn field_get(bytes: &[u8], field: BitField, offset: u64) -> i64 {
    let mut value: i128 = 0;
    for bit in 0..u64::from(field.bits) {
        let on = offset.checked_add(bit).is_some_and(|at| get(bytes, at));
        value = value << 1 | i128::from(on);
    }
    field.wrap(value)
}

/// Writes an integer; returns the one that was there, or none if it did not fit and nothing was
/// done. The string is made long enough in any case, as Redis does. `offset` has to fit
/// ([`BitField::fits_at`]).
pub fn field_set(
    bytes: &mut Vec<u8>,
    field: BitField,
    offset: u64,
    value: i64,
    overflow: Overflow,
) -> Option<i64> {
    reach(bytes, field, offset);
    let old = field_get(bytes, field, offset);
    // SET takes its argument as 64 bits of the field's signedness.
    let value = if field.signed {
        i128::from(value)
    } else {
        i128::from(value.cast_unsigned())
    };
    store(bytes, field, offset, field.fit(value, overflow)?);
    Some(old)
}

/// Adds to an integer; returns the sum, or none if it did not fit and nothing was done.
pub fn field_increment(
    bytes: &mut Vec<u8>,
    field: BitField,
    offset: u64,
    by: i64,
    overflow: Overflow,
) -> Option<i64> {
    reach(bytes, field, offset);
    let old = field_get(bytes, field, offset);
    let sum = field.fit(i128::from(old) + i128::from(by), overflow)?;
    store(bytes, field, offset, sum);
    Some(sum)
}

fn reach(bytes: &mut Vec<u8>, field: BitField, offset: u64) {
    assert!(field.fits_at(offset), "the caller bounds offsets");
    let end = usize::try_from((offset + u64::from(field.bits)).div_ceil(8)).expect("below 512 MiB");
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
}

fn store(bytes: &mut Vec<u8>, field: BitField, offset: u64, value: i64) {
    for bit in 0..field.bits {
        let on = value >> (field.bits - 1 - bit) & 1 == 1;
        set(bytes, offset + u64::from(bit), on);
    }
}
