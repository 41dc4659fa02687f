//! Numbers as text, read and written as Redis does.

mod double;
mod extended;
#[cfg(test)]
mod tests;

pub use double::{format_double, parse_double, parse_score};
pub use extended::Extended;

/// The bytes of the longest integer as text: `-9223372036854775808`.
pub const INTEGER_BYTES_MAX: usize = 20;

/// Reads an integer in its one canonical form: an optional `-`, no `+`, no leading zero, no
/// white space, within 64 bits.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > INTEGER_BYTES_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut sum: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        sum = sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative {
        0i64.checked_sub_unsigned(sum)
    } else {
        i64::try_from(sum).ok()
    }
}

/// Reads an unsigned integer in canonical form.
#[must_use]
pub fn parse_unsigned(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= INTEGER_BYTES_MAX => {}
        _ => return None,
    }
    let mut sum: u64 = 0;
    for &digit in text {
        if !digit.is_ascii_digit() {
            return None;
        }
        sum = sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(sum)
}

/// Writes an integer into `buffer` and returns the part that it takes.
pub fn format_integer(value: i64, buffer: &mut [u8; INTEGER_BYTES_MAX]) -> &[u8] {
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        let digit = (rest % 10) as u8;
        buffer[at] = b'0' + digit;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}
