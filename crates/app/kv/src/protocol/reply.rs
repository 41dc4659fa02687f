//! Replies, in the version of the protocol that a client asked for.

use std::io::Write as _;

/// Version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// Strings, integers, arrays.
    #[default]
    Two,
    /// With maps, sets, doubles, and messages that nobody asked for.
    Three,
}

/// Bytes of replies, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    bytes: Vec<u8>,
    /// How what follows is written.
    pub version: Version,
}

impl Reply {
    /// An empty one.
    pub fn new(version: Version) -> Reply {
        Reply {
            bytes: Vec::new(),
            version,
        }
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the bytes so far away.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets what was written behind the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Bytes that are replies already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, number: i64) {
        self.bytes.push(kind);
        push_number(&mut self.bytes, number);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A word, such as OK.
    pub fn simple(&mut self, word: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(word.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// OK.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// An error: a code in capitals and words. Ends of lines in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let safe = text.bytes().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            byte => byte,
        });
        self.bytes.extend(safe);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// A count.
    pub fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// 1 or 0.
    pub fn flag(&mut self, flag: bool) {
        self.integer(flag.into());
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An element of a collection.
    pub fn element(&mut self, element: values::Element<'_>) {
        let mut buffer = [0; values::number::INTEGER_BYTES_MAX];
        self.bulk(element.bytes(&mut buffer));
    }

    /// Forgets the first `length` bytes: they are on their way.
    pub fn drain(&mut self, length: usize) {
        if length >= self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..length);
        }
    }

    /// A number as bytes.
    pub fn bulk_integer(&mut self, number: i64) {
        let mut text = Vec::with_capacity(20);
        push_number(&mut text, number);
        self.bulk(&text);
    }

    /// Bytes, or nothing.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Nothing, in place of bytes.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            Version::Two => b"$-1\r\n".as_slice(),
            Version::Three => b"_\r\n",
        });
    }

    /// Nothing, in place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.version {
            Version::Two => b"*-1\r\n".as_slice(),
            Version::Three => b"_\r\n",
        });
    }

    /// So many replies follow.
    pub fn array(&mut self, length: usize) {
        self.head(b'*', length as i64);
    }

    /// So many pairs of replies follow.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(pairs * 2),
            Version::Three => self.head(b'%', pairs as i64),
        }
    }

    /// So many replies follow, in no order.
    pub fn set(&mut self, length: usize) {
        match self.version {
            Version::Two => self.array(length),
            Version::Three => self.head(b'~', length as i64),
        }
    }

    /// So many replies follow, that nobody asked for.
    pub fn push(&mut self, length: usize) {
        match self.version {
            Version::Two => self.array(length),
            Version::Three => self.head(b'>', length as i64),
        }
    }

    /// A number with a fraction, as `text` shows it.
    pub fn double(&mut self, text: &[u8]) {
        match self.version {
            Version::Two => self.bulk(text),
            Version::Three => {
                self.bytes.push(b',');
                self.bytes.extend_from_slice(text);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Yes or no.
    pub fn boolean(&mut self, value: bool) {
        match self.version {
            Version::Two => self.flag(value),
            Version::Three => {
                let word = if value { b"#t\r\n" } else { b"#f\r\n" };
                self.bytes.extend_from_slice(word);
            }
        }
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        self.verbatim_of(b"txt", text.as_bytes());
    }

    /// Text of a format of three letters; of others the first three count, or spaces.
    pub fn verbatim_of(&mut self, format: &[u8], text: &[u8]) {
        match self.version {
            Version::Two => self.bulk(text),
            Version::Three => {
                self.head(b'=', text.len() as i64 + 4);
                let letters = format.iter().chain(b"   ").take(3);
                self.bytes.extend(letters);
                self.bytes.push(b':');
                self.bytes.extend_from_slice(text);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A number of any size, in digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            Version::Two => self.bulk(digits.as_bytes()),
            Version::Three => {
                self.bytes.push(b'(');
                self.bytes.extend_from_slice(digits.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// A number in decimal digits.
pub fn push_number(bytes: &mut Vec<u8>, number: i64) {
    if (0..10).contains(&number) {
        bytes.push(b'0' + number as u8);
    } else {
        // A vector takes all.
        let _ = write!(bytes, "{number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Reply)) -> [String; 2] {
        [Version::Two, Version::Three].map(|version| {
            let mut reply = Reply::new(version);
            write(&mut reply);
            String::from_utf8(reply.take()).unwrap()
        })
    }

    #[test]
    fn each_version_has_its_own_forms() {
        assert_eq!(both(Reply::null), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(Reply::null_array), ["*-1\r\n", "_\r\n"]);
        assert_eq!(both(|reply| reply.map(2)), ["*4\r\n", "%2\r\n"]);
        assert_eq!(
            both(|reply| reply.double(b"1.5")),
            ["$3\r\n1.5\r\n", ",1.5\r\n"]
        );
        assert_eq!(both(|reply| reply.boolean(true)), [":1\r\n", "#t\r\n"]);
        assert_eq!(both(|reply| reply.bulk(b"a\r\n")), ["$3\r\na\r\n\r\n"; 2]);
        assert_eq!(
            both(|reply| reply.error("ERR a\r\nb")),
            ["-ERR a  b\r\n"; 2]
        );
        assert_eq!(both(|reply| reply.integer(-12)), [":-12\r\n"; 2]);
    }
}
