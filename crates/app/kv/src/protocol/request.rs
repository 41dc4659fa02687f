//! Requests: arrays of bulk strings, or lines of words.

/// What a request may have at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one argument.
    pub bulk_bytes_max: usize,
    /// Arguments of a request.
    pub arguments_max: usize,
    /// Bytes of a whole request.
    pub request_bytes_max: usize,
}

/// Longest line: an inline request, or a count (Redis: PROTO_INLINE_MAX_SIZE).
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Of a client that has not said who it is (Redis 7: 10 arguments of 16 KiB).
pub const UNAUTHENTICATED: Limits = Limits {
    bulk_bytes_max: 16 << 10,
    arguments_max: 10,
    request_bytes_max: 256 << 10,
};

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bulk_bytes_max: 512 << 20,
            arguments_max: 1 << 20,
            request_bytes_max: 1 << 30,
        }
    }
}

/// A request that breaks the protocol; the connection cannot go on after it. The texts are Redis's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Too many arguments, or not a number of them.
    #[error("invalid multibulk length")]
    Arguments,
    /// Too many for a client that has not said who it is.
    #[error("unauthenticated multibulk length")]
    ArgumentsBeforeAuth,
    /// An argument that is no bulk string.
    #[error("expected '$', got '{}'", char::from(*.0).escape_default())]
    NoBulk(u8),
    /// Too long, or no number.
    #[error("invalid bulk length")]
    Bulk,
    /// Too long for a client that has not said who it is.
    #[error("unauthenticated bulk length")]
    BulkBeforeAuth,
    /// No end of a count.
    #[error("too big mbulk count string")]
    CountTooLong,
    /// No end of a length.
    #[error("too big bulk count string")]
    LengthTooLong,
    /// No end of a line.
    #[error("too big inline request")]
    InlineTooLong,
    /// A quote without its end.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// The arguments together are too long.
    #[error("request is too long")]
    TooLong,
}

/// What a parser found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A request: its arguments are [`Parser::arguments`], and it took so many bytes.
    Request(usize),
}

/// Reads requests from a buffer that grows at its end. It keeps where it is within a request, so that
/// no byte is looked at twice however slowly they arrive.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    /// Where the next line or argument begins.
    at: usize,
    /// Up to here there is no end of a line.
    searched: usize,
    /// Arguments that are still due; `None` between requests.
    due: Option<usize>,
    /// Bytes of the argument that comes next, once its length is known.
    bulk: Option<usize>,
    spans: Vec<(usize, usize)>,
    /// Words of an inline request: they may have had escapes.
    words: Option<Vec<Vec<u8>>>,
}

impl Parser {
    /// Looks for a request at the start of `bytes`, which begin where the last request ended.
    ///
    /// # Errors
    /// The connection has to end.
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        let due = match self.due {
            Some(due) => due,
            None => {
                self.spans.clear();
                self.words = None;
                match bytes.first() {
                    None => return Ok(Parsed::Incomplete),
                    Some(b'*') => {}
                    Some(_) => return self.inline(bytes),
                }
                let Some(line) = self.line(bytes, ProtocolError::CountTooLong)? else {
                    return Ok(Parsed::Incomplete);
                };
                let count = number(line.get(1..).unwrap_or_default());
                let count = count.ok_or(ProtocolError::Arguments)?;
                if count <= 0 {
                    return Ok(self.complete());
                }
                let count = usize::try_from(count).map_err(|_| ProtocolError::Arguments)?;
                if count > limits.arguments_max {
                    return Err(
                        match limits.arguments_max <= UNAUTHENTICATED.arguments_max {
                            true => ProtocolError::ArgumentsBeforeAuth,
                            false => ProtocolError::Arguments,
                        },
                    );
                }
                count
            }
        };
        for left in (1..=due).rev() {
            if !self.argument(bytes, limits)? {
                self.due = Some(left);
                return Ok(Parsed::Incomplete);
            }
        }
        Ok(self.complete())
    }

    /// The arguments of the request that was found in `bytes`.
    pub fn arguments<'a>(&'a self, bytes: &'a [u8]) -> smallvec::SmallVec<[&'a [u8]; 8]> {
        match &self.words {
            Some(words) => words.iter().map(Vec::as_slice).collect(),
            None => {
                let spans = self.spans.iter();
                spans
                    .map(|(start, end)| bytes.get(*start..*end).unwrap_or_default())
                    .collect()
            }
        }
    }

    /// Bytes that the request under way has at least, where that is known: room for them is made
    /// once.
    pub fn wanted(&self) -> usize {
        self.at + self.bulk.map_or(0, |bytes| bytes + 2)
    }

    fn complete(&mut self) -> Parsed {
        let length = self.at;
        (self.at, self.searched, self.due) = (0, 0, None);
        Parsed::Request(length)
    }

    /// The line at `at`, without its end; `at` goes behind it.
    fn line<'a>(
        &mut self,
        bytes: &'a [u8],
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let from = self.searched.max(self.at);
        let rest = bytes.get(from..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = bytes.len();
            return match bytes.len().saturating_sub(self.at) > LINE_BYTES_MAX {
                true => Err(too_long),
                false => Ok(None),
            };
        };
        let line = bytes.get(self.at..from + end).unwrap_or_default();
        self.at = from + end + 1;
        self.searched = self.at;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Whether one more argument is there.
    fn argument(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let length = match self.bulk {
            Some(length) => length,
            None => {
                let Some(line) = self.line(bytes, ProtocolError::LengthTooLong)? else {
                    return Ok(false);
                };
                match line.split_first() {
                    Some((b'$', digits)) => {
                        let length = number(digits).and_then(|length| usize::try_from(length).ok());
                        let length = length.ok_or(ProtocolError::Bulk)?;
                        if length > limits.bulk_bytes_max {
                            let max = limits.bulk_bytes_max;
                            return Err(match max <= UNAUTHENTICATED.bulk_bytes_max {
                                true => ProtocolError::BulkBeforeAuth,
                                false => ProtocolError::Bulk,
                            });
                        }
                        if self.at.saturating_add(length) > limits.request_bytes_max {
                            return Err(ProtocolError::TooLong);
                        }
                        self.bulk = Some(length);
                        length
                    }
                    Some((other, _)) => return Err(ProtocolError::NoBulk(*other)),
                    None => return Err(ProtocolError::NoBulk(b'\r')),
                }
            }
        };
        // The two bytes behind it are not looked at, as in Redis.
        let next = self.at + length + 2;
        if bytes.len() < next {
            return Ok(false);
        }
        self.spans.push((self.at, self.at + length));
        (self.at, self.searched, self.bulk) = (next, next, None);
        Ok(true)
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(line) = self.line(bytes, ProtocolError::InlineTooLong)? else {
            return Ok(Parsed::Incomplete);
        };
        self.words = Some(split_words(line).ok_or(ProtocolError::Quotes)?);
        Ok(self.complete())
    }
}

/// An integer as Redis reads one: no spaces, no plus.
fn number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok()?;
    match text.as_bytes() {
        [] | [b'+', ..] => None,
        _ => text.parse().ok(),
    }
}

/// Words between spaces; in double quotes with escapes, in single quotes with `\'` alone. `None` where
/// a quote has no end, or no space behind it.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace());
        let Some(start) = start else {
            return Some(words);
        };
        rest = rest.get(start..).unwrap_or_default();
        let (word, length) = word(rest)?;
        words.push(word);
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// The word at the start of a text, and the bytes that it takes there.
fn word(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    let mut at = 0;
    let mut quote = None;
    loop {
        let next = text.get(at).copied();
        match (quote, next) {
            (None, None) => return Some((word, at)),
            (None, Some(byte)) if byte.is_ascii_whitespace() || byte == 0 => {
                return Some((word, at + 1));
            }
            (None, Some(byte @ (b'"' | b'\''))) => {
                quote = Some(byte);
                at += 1;
            }
            (None, Some(byte)) => {
                word.push(byte);
                at += 1;
            }
            (Some(_), None) => return None,
            (Some(open), Some(byte)) if byte == open => {
                at += 1;
                return match text.get(at) {
                    Some(byte) if !byte.is_ascii_whitespace() => None,
                    _ => Some((word, at)),
                };
            }
            (Some(b'"'), Some(b'\\')) => {
                let (byte, length) = escape(text.get(at..).unwrap_or_default());
                word.push(byte);
                at += length;
            }
            (Some(_), Some(b'\\')) if text.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            (Some(_), Some(byte)) => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// What a backslash and what follows it stand for, and how many bytes they are.
fn escape(text: &[u8]) -> (u8, usize) {
    let hex = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    match text.get(1) {
        Some(b'x') => match (hex(text.get(2)), hex(text.get(3))) {
            (Some(high), Some(low)) => ((high * 16 + low) as u8, 4),
            _ => (b'x', 2),
        },
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b't') => (b'\t', 2),
        Some(b'b') => (8, 2),
        Some(b'a') => (7, 2),
        Some(other) => (*other, 2),
        None => (b'\\', 1),
    }
}

#[cfg(test)]
mod tests;
