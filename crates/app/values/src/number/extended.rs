//! Floating point numbers with a mantissa of 64 bits.
//!
//! INCRBYFLOAT and HINCRBYFLOAT calculate with C's `long double`, which on x86-64 has 64 bits of
//! mantissa, and answer with `%.17Lf` without the zeros at the end. A calculation in 64-bit floating
//! point numbers would show other digits (10.5 + 0.1), so this does it with whole numbers.

use num_bigint::BigUint;

use super::double::stripped;

/// Bits of the mantissa.
const BITS: u64 = 64;
/// The first power of two that is out of reach.
const EXPONENT_END: i64 = 16384;
/// The longest text that is read, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;

/// A number `mantissa * 2^exponent`, rounded to 64 bits, half to even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i64,
}

impl Extended {
    const ZERO: Self = Self {
        negative: false,
        infinite: false,
        mantissa: 0,
        exponent: 0,
    };

    /// Reads a decimal number or `inf`; the rules are those of [`super::parse_double`].
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let negative = text.starts_with('-');
        let body = text.strip_prefix(['+', '-']).unwrap_or(text);
        if body.eq_ignore_ascii_case("inf") || body.eq_ignore_ascii_case("infinity") {
            return Some(Self {
                negative,
                infinite: true,
                ..Self::ZERO
            });
        }
        if body.starts_with("0x") || body.starts_with("0X") {
            return super::parse_double(text.as_bytes()).map(Self::from_double);
        }
        let (digits, exponent) = match body.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, decimal_exponent(exponent)?),
            None => (body, 0),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
        if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = BigUint::parse_bytes(&all, 10)?;
        if number == BigUint::ZERO {
            return Some(Self {
                negative,
                ..Self::ZERO
            });
        }
        let scale = exponent - i64::try_from(part.len()).ok()?;
        // Beyond these the result is out of reach whatever the digits are.
        if !(-12_000..=12_000).contains(&scale) {
            return None;
        }
        let power = BigUint::from(10u32).pow(u32::try_from(scale.unsigned_abs()).ok()?);
        let value = if scale < 0 {
            Self::from_ratio(negative, &number, &power)
        } else {
            Self::from_ratio(negative, &(number * power), &BigUint::from(1u32))
        };
        let top = value.exponent + BITS.cast_signed();
        (-EXPONENT_END - 64..=EXPONENT_END)
            .contains(&top)
            .then_some(value)
    }

    /// The exact value of a 64-bit number. NaN gives infinity, which no sum accepts.
    #[must_use]
    pub fn from_double(value: f64) -> Self {
        let negative = value.is_sign_negative();
        if !value.is_finite() {
            return Self {
                negative,
                infinite: true,
                ..Self::ZERO
            };
        }
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let biased = i64::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) = if biased == 0 {
            (fraction, -1074)
        } else {
            (fraction | 1 << 52, biased - 1075)
        };
        Self {
            negative,
            infinite: false,
            mantissa,
            exponent,
        }
        .normal()
    }

    /// The sum, rounded to 64 bits; none if it is not finite.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        if self.infinite || other.infinite {
            return None;
        }
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let low = self.exponent.min(other.exponent);
        let widen = |value: Self| {
            BigUint::from(value.mantissa) << usize::try_from(value.exponent - low).unwrap_or(0)
        };
        let (a, b) = (widen(self), widen(other));
        let (negative, sum) = if self.negative == other.negative {
            (self.negative, a + b)
        } else if a >= b {
            (self.negative, a - b)
        } else {
            (other.negative, b - a)
        };
        if sum == BigUint::ZERO {
            return Some(Self::ZERO);
        }
        let mut result = Self::from_ratio(negative, &sum, &BigUint::from(1u32));
        result.exponent += low;
        (result.exponent + BITS.cast_signed() <= EXPONENT_END).then_some(result)
    }

    /// The number with up to 17 decimals, without zeros at the end.
    #[must_use]
    pub fn to_text(self) -> String {
        const DECIMALS: usize = 17;
        if self.infinite {
            return if self.negative { "-inf" } else { "inf" }.into();
        }
        let scaled = BigUint::from(self.mantissa) * BigUint::from(10u32).pow(17);
        let whole = if self.exponent >= 0 {
            scaled << usize::try_from(self.exponent).unwrap_or(0)
        } else {
            let shift = usize::try_from(-self.exponent).unwrap_or(0);
            let down = &scaled >> shift;
            let rest = scaled - (&down << shift);
            let half = BigUint::from(1u32) << (shift - 1);
            let up = rest > half || (rest == half && down.bit(0));
            down + BigUint::from(u32::from(up))
        };
        let digits = format!("{:0>18}", whole.to_string());
        let (front, back) = digits.split_at(digits.len() - DECIMALS);
        let text = format!("{front}.{back}");
        let text = stripped(&text);
        if self.negative && text != "0" {
            format!("-{text}")
        } else {
            text.into()
        }
    }

    /// `numerator / denominator`, which are not zero.
    fn from_ratio(negative: bool, numerator: &BigUint, denominator: &BigUint) -> Self {
        // Two bits more than the mantissa has, at least, and whether anything is left below them.
        let bits = |number: &BigUint| number.bits().cast_signed();
        let shift = BITS.cast_signed() + 2 - (bits(numerator) - bits(denominator));
        let by = usize::try_from(shift.unsigned_abs()).unwrap_or(0);
        let (top, bottom) = if shift >= 0 {
            (numerator << by, denominator.clone())
        } else {
            (numerator.clone(), denominator << by)
        };
        let quotient = &top / &bottom;
        let sticky = &quotient * &bottom != top;
        let extra = quotient.bits() - BITS;
        let kept = &quotient >> extra;
        let rest = &quotient - (&kept << extra);
        let half = BigUint::from(1u32) << (extra - 1);
        let up = rest > half || (rest == half && (sticky || kept.bit(0)));
        let rounded = kept + BigUint::from(u32::from(up));
        let mut exponent = extra.cast_signed() - shift;
        let mantissa = u64::try_from(&rounded).unwrap_or_else(|_| {
            exponent += 1;
            1 << 63
        });
        Self {
            negative,
            infinite: false,
            mantissa,
            exponent,
        }
    }

    /// With the mantissa's top bit set.
    fn normal(mut self) -> Self {
        if self.mantissa != 0 {
            let shift = self.mantissa.leading_zeros();
            self.mantissa <<= shift;
            self.exponent -= i64::from(shift);
        }
        self
    }
}

/// An exponent behind `e`; one that is absurdly large is one that is out of reach.
fn decimal_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 32);
    Some(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}
