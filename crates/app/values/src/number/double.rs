//! 64-bit floating point numbers: scores, distances.

use std::fmt::Write;

/// Reads a number as `strtod` does, refusing what Redis refuses: nothing, leading white space,
/// anything behind the number, NaN, and what is too large or too small for 64 bits.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if body.starts_with("0x") || body.starts_with("0X") {
        let magnitude = hexadecimal(&body[2..])?;
        return Some(if text.starts_with('-') {
            -magnitude
        } else {
            magnitude
        });
    }
    let value: f64 = text.parse().ok()?;
    let names_infinity = body.starts_with(['i', 'I']);
    if value.is_nan() || (value.is_infinite() && !names_infinity) {
        return None;
    }
    let digits = body.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if value == 0.0 && !is_zero && !names_infinity {
        return None;
    }
    Some(value)
}

/// Reads a score; the same rules.
#[must_use]
pub fn parse_score(text: &[u8]) -> Option<f64> {
    parse_double(text)
}

/// `HEX[.HEX][pEXPONENT]`, as C has it; up to 52 bits exactly.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut value = 0.0f64;
    let mut scale = exponent;
    for digit in whole.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    for digit in part.chars() {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
        scale = scale.checked_sub(4)?;
    }
    let value = value * 2.0f64.powi(scale);
    value.is_finite().then_some(value)
}

/// Writes a number as C's `%.17g` does, which is how Redis 7.0 answers scores in RESP2; `inf` and
/// `-inf` for the infinities.
#[must_use]
pub fn format_double(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    // Rust rounds exactly at any precision, as glibc does.
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return stripped(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mut text = stripped(mantissa).to_owned();
    let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
    text
}

/// Without zeros at the end of the decimals, and without a point that stands last.
pub(super) fn stripped(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}
