//! Requests and replies of the Redis protocol, as the driver needs them.

use anyhow::{Context as _, bail};

/// Writes a request.
pub(super) fn push(into: &mut Vec<u8>, arguments: &[&[u8]]) {
    begin(into, arguments.len());
    for argument in arguments {
        push_bulk(into, argument);
    }
}

/// Begins a request of so many arguments.
pub(super) fn begin(into: &mut Vec<u8>, arguments: usize) {
    push_head(into, b'*', arguments);
}

/// Writes an argument.
pub(super) fn push_bulk(into: &mut Vec<u8>, argument: &[u8]) {
    push_head(into, b'$', argument.len());
    into.extend_from_slice(argument);
    into.extend_from_slice(b"\r\n");
}

/// Writes the head of an argument whose bytes, and the end of the line, follow.
pub(super) fn push_head(into: &mut Vec<u8>, kind: u8, length: usize) {
    into.push(kind);
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = length;
    loop {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 {
            break;
        }
    }
    into.extend_from_slice(digits.get(at..).unwrap_or_default());
    into.extend_from_slice(b"\r\n");
}

/// A reply; an array stands for all that is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reply<'a> {
    /// A word, or a number.
    Line(&'a [u8]),
    /// Bytes.
    Bulk(&'a [u8]),
    /// Nothing.
    Null,
    /// So many.
    Array(usize),
}

/// The reply at the start of `bytes`, and what it takes there; `None` while it is not all there.
///
/// # Errors
/// The server refused, or said something that is none.
pub(super) fn reply(bytes: &[u8]) -> anyhow::Result<Option<(Reply<'_>, usize)>> {
    let Some((line, mut end)) = line(bytes) else {
        return Ok(None);
    };
    let (kind, rest) = line.split_first().context("an empty line as a reply")?;
    let number = || -> anyhow::Result<i64> { Ok(std::str::from_utf8(rest)?.parse()?) };
    match kind {
        b'+' | b':' => Ok(Some((Reply::Line(rest), end))),
        b'-' => bail!("the server answered {}", String::from_utf8_lossy(rest)),
        b'$' => match usize::try_from(number()?) {
            Err(_) => Ok(Some((Reply::Null, end))),
            Ok(length) => {
                let found = bytes.get(end..end + length);
                let whole = bytes.len() >= end + length + 2;
                Ok(found
                    .filter(|_| whole)
                    .map(|found| (Reply::Bulk(found), end + length + 2)))
            }
        },
        b'*' => {
            let Ok(count) = usize::try_from(number()?) else {
                return Ok(Some((Reply::Null, end)));
            };
            for _ in 0..count {
                match reply(bytes.get(end..).unwrap_or_default())? {
                    Some((_, length)) => end += length,
                    None => return Ok(None),
                }
            }
            Ok(Some((Reply::Array(count), end)))
        }
        other => bail!("a reply that begins with {}", other.escape_ascii()),
    }
}

fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    (bytes.len() > end + 1).then_some(())?;
    Some((bytes.get(..end)?, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_when_they_are_whole() {
        let bytes = b"*2\r\n$3\r\nabc\r\n:7\r\n$-1\r\n";
        assert_eq!(reply(bytes).unwrap(), Some((Reply::Array(2), 17)));
        assert_eq!(reply(&bytes[17..]).unwrap(), Some((Reply::Null, 5)));
        assert_eq!(reply(&bytes[4..]).unwrap(), Some((Reply::Bulk(b"abc"), 9)));
        for end in 0..17 {
            assert_eq!(reply(&bytes[..end]).unwrap(), None, "{end}");
        }
        assert!(reply(b"-ERR no\r\n").is_err());
        let mut request = Vec::new();
        push(&mut request, &[b"GET", b"0123456789"]);
        assert_eq!(request, b"*2\r\n$3\r\nGET\r\n$10\r\n0123456789\r\n");
    }
}
