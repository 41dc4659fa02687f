//! How numbers, times, digests and paths are written: each in one way.

use crate::entry::Time;
use std::fmt::Write;

/// A number as it is written here, and not in any of the other ways that parse.
pub(super) fn number<T: std::str::FromStr + std::fmt::Display>(text: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(text).ok()?;
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Permissions: octal, 12 bits.
pub(super) fn octal(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    let number = u32::from_str_radix(text, 8).ok()?;
    (number <= 0o7777 && format!("{number:o}") == text).then_some(number)
}

/// Seconds, a dot, nine digits.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, nanoseconds) = text.split_once('.')?;
    if nanoseconds.len() != 9 || !nanoseconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Time {
        seconds: number(seconds.as_bytes())?,
        nanoseconds: nanoseconds.parse().ok()?,
    })
}

/// As many bytes as are wanted, in lower-case hexadecimal.
pub(super) fn hex<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != BYTES || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Bytes in lower-case hexadecimal.
pub(super) fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A string takes what is written to it.
        let _taken = write!(text, "{byte:02x}");
    }
    text
}

/// Which bytes are escaped: those that would end the field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// One with another behind it.
    Inner,
    /// The last of its line.
    Last,
}

/// Appends bytes, control characters and the backslash as `\xNN`, so that a line stays one.
pub(super) fn escape(bytes: &[u8], field: Field, line: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b' ' if field == Field::Last => line.push(b' '),
            0..=0x20 | 0x7f | b'\\' => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            byte => line.push(*byte),
        }
    }
}

/// Reads what [`escape`] wrote.
pub(super) fn unescape(text: &[u8], field: Field) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let [byte] = hex(tail.strip_prefix(b"x")?.get(..2)?)?;
        bytes.push(byte);
        rest = tail.get(3..)?;
    }
    // There is one way to write each.
    let mut again = Vec::with_capacity(text.len());
    escape(&bytes, field, &mut again);
    (again == text).then_some(bytes)
}
