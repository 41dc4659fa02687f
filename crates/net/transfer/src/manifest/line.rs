//! A line for each file.

use crate::entry::{Time, TreePath};
use crate::level::Level;
use crate::root_sum::RootSum;

/// What was proved of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proved {
    /// At which level.
    pub level: Level,
    /// When, in seconds since 1970.
    pub at: i64,
    /// Its length in bytes.
    pub bytes: u64,
    /// When its content last changed.
    pub modified: Time,
    /// The sum of its content.
    pub sum: RootSum,
    /// Where it is.
    pub path: TreePath,
}

/// Why a line is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// A field is missing, or there is one more.
    #[error("a field is missing")]
    Fields,
    /// A field is not what has to be there.
    #[error("the {0} cannot be read")]
    Field(&'static str),
    /// The path leads somewhere else.
    #[error("the path leads elsewhere")]
    Path,
}

impl Proved {
    /// As a line, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let Time {
            seconds,
            nanoseconds,
        } = self.modified;
        let fields = format!(
            "file {} {} {} {seconds}.{nanoseconds:09} {} ",
            self.level, self.at, self.bytes, self.sum
        );
        let mut line = fields.into_bytes();
        escape(self.path.as_bytes(), &mut line);
        line.push(b'\n');
        line
    }

    /// Reads what [`Proved::to_line`] made, without the end of the line.
    ///
    /// # Errors
    /// It is no such line.
    pub fn parse(line: &[u8]) -> Result<Proved, LineError> {
        let mut fields = line.splitn(7, |byte| *byte == b' ');
        let mut next = || fields.next().ok_or(LineError::Fields);
        if next()? != b"file" {
            return Err(LineError::Field("word `file`"));
        }
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let level = text(next()?).parse();
        let level = level.map_err(|_| LineError::Field("level"))?;
        let at = number(text(next()?)).ok_or(LineError::Field("time"))?;
        let bytes = number(text(next()?)).ok_or(LineError::Field("length"))?;
        let modified = text(next()?);
        let modified = time(modified).ok_or(LineError::Field("time of change"))?;
        let sum = hex(text(next()?)).ok_or(LineError::Field("sum"))?;
        let path = unescape(next()?).ok_or(LineError::Field("path"))?;
        let path = TreePath::from_bytes(path);
        if !path.is_allowed() || path.is_root() {
            return Err(LineError::Path);
        }
        Ok(Proved {
            level,
            at,
            bytes,
            modified,
            sum: RootSum(sum),
            path,
        })
    }
}

/// A number as it is written here, and not in any of the other ways that parse.
fn number<T: std::str::FromStr + std::fmt::Display>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn time(text: &str) -> Option<Time> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    if nanoseconds.len() != 9 || !nanoseconds.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Time {
        seconds: number(seconds)?,
        nanoseconds: nanoseconds.parse().ok()?,
    })
}

/// As many bytes as are wanted, in lower-case hexadecimal.
pub(super) fn hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != BYTES || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Control characters and the backslash as `\xNN`, so that a line stays one.
fn escape(path: &[u8], line: &mut Vec<u8>) {
    for byte in path {
        match byte {
            0..0x20 | 0x7f | b'\\' => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            byte => line.push(*byte),
        }
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            path.push(*first);
            continue;
        }
        let digits = tail.strip_prefix(b"x")?.get(..2)?;
        let [byte] = hex(std::str::from_utf8(digits).ok()?)?;
        path.push(byte);
        rest = tail.get(3..)?;
    }
    // There is one way to write each path.
    let mut again = Vec::with_capacity(text.len());
    escape(&path, &mut again);
    (again == text).then_some(path)
}
