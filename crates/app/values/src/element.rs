//! One element of a collection, as a view.

use std::fmt;

use crate::number::{INTEGER_BYTES_MAX, format_integer, parse_integer};

/// An element as its collection keeps it: bytes, or an integer whose text is not kept.
#[derive(Clone, Copy)]
pub enum Element<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// An integer; as text it is in canonical form.
    Integer(i64),
}

impl<'a> Element<'a> {
    /// The bytes; `buffer` holds them for an integer.
    pub fn bytes<'b>(self, buffer: &'b mut [u8; INTEGER_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Integer(value) => format_integer(value, buffer),
        }
    }

    /// Appends the bytes to `output`.
    pub fn append_to(self, output: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => output.extend_from_slice(bytes),
            Self::Integer(value) => {
                output.extend_from_slice(format_integer(value, &mut [0; INTEGER_BYTES_MAX]));
            }
        }
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Integer(value) => format_integer(value, &mut [0; INTEGER_BYTES_MAX]).to_vec(),
        }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Integer(value) => format_integer(value, &mut [0; INTEGER_BYTES_MAX]).len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether it is `bytes`.
    #[must_use]
    pub fn equals(self, bytes: &[u8]) -> bool {
        match self {
            Self::Bytes(own) => own == bytes,
            Self::Integer(value) => parse_integer(bytes) == Some(value),
        }
    }

    /// The integer that it is, if its bytes are one in canonical form.
    #[must_use]
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => parse_integer(bytes),
            Self::Integer(value) => Some(value),
        }
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (a, Self::Bytes(b)) => a.equals(b),
            (Self::Bytes(a), b) => b.equals(a),
        }
    }
}

impl Eq for Element<'_> {}

impl fmt::Debug for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.to_vec().escape_ascii())
    }
}
