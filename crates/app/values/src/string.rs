//! Strings: bytes, or an integer whose text is not kept.

mod lcs;
#[cfg(test)]
mod tests;

pub use lcs::{CommonRun, LongestCommon};

use crate::{
    element::Element,
    error::ValueError,
    number::{Extended, INTEGER_BYTES_MAX, parse_integer},
    range::byte_indices,
};

/// The longest text that is kept as [`StringValue::Embedded`].
const EMBEDDED_BYTES_MAX: usize = 44;

/// A string. Which variant it is decides what OBJECT ENCODING says, and nothing else.
#[derive(Debug, Clone)]
pub enum StringValue {
    /// Text that is an integer in canonical form (`int`).
    Integer(i64),
    /// Up to 44 bytes that were set as a whole (`embstr`).
    Embedded(Box<[u8]>),
    /// Any other bytes (`raw`).
    Raw(Vec<u8>),
}

impl StringValue {
    /// Bytes of the longest string: the default of Redis's `proto-max-bulk-len`.
    pub const BYTES_MAX: usize = 512 << 20;

    /// A string as SET makes it.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match parse_integer(bytes) {
            Some(value) => Self::Integer(value),
            None => Self::from_text(bytes),
        }
    }

    /// A string as INCRBYFLOAT makes it: a number stays text.
    #[must_use]
    pub fn from_text(bytes: &[u8]) -> Self {
        if bytes.len() <= EMBEDDED_BYTES_MAX {
            Self::Embedded(bytes.into())
        } else {
            Self::Raw(bytes.to_vec())
        }
    }

    /// A view of it.
    #[must_use]
    pub fn element(&self) -> Element<'_> {
        match self {
            Self::Integer(value) => Element::Integer(*value),
            Self::Embedded(bytes) => Element::Bytes(bytes),
            Self::Raw(bytes) => Element::Bytes(bytes),
        }
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.element().to_vec()
    }

    /// Bytes (STRLEN).
    #[must_use]
    pub fn len(&self) -> usize {
        self.element().len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer that it is, for INCR and its like.
    ///
    /// # Errors
    /// [`ValueError::NotInteger`].
    pub fn integer(&self) -> Result<i64, ValueError> {
        self.element().integer().ok_or(ValueError::NotInteger)
    }

    /// Adds to an integer; returns the sum.
    ///
    /// # Errors
    /// [`ValueError::NotInteger`], [`ValueError::Overflow`].
    pub fn increment(&mut self, by: i64) -> Result<i64, ValueError> {
        let sum = self
            .integer()?
            .checked_add(by)
            .ok_or(ValueError::Overflow)?;
        *self = Self::Integer(sum);
        Ok(sum)
    }

    /// Adds to a number as INCRBYFLOAT does; returns the sum as text.
    ///
    /// # Errors
    /// [`ValueError::NotFloat`], [`ValueError::NotFinite`].
    pub fn increment_float(&mut self, by: Extended) -> Result<String, ValueError> {
        let own = Extended::parse(&self.to_vec()).ok_or(ValueError::NotFloat)?;
        let sum = own.plus(by).ok_or(ValueError::NotFinite)?.to_text();
        *self = Self::from_text(sum.as_bytes());
        Ok(sum)
    }

    /// Appends; returns the new length.
    ///
    /// # Errors
    /// [`ValueError::TooLong`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<usize, ValueError> {
        if self.len() + bytes.len() > Self::BYTES_MAX {
            return Err(ValueError::TooLong);
        }
        let raw = self.raw();
        raw.extend_from_slice(bytes);
        Ok(raw.len())
    }

    /// The bytes from `start` to `end`, both included, negative ones counted from the end
    /// (GETRANGE).
    #[must_use]
    pub fn range(&self, start: i64, end: i64) -> Vec<u8> {
        if start < 0 && end < 0 && start > end {
            return Vec::new();
        }
        let mut buffer = [0; INTEGER_BYTES_MAX];
        let bytes = self.element().bytes(&mut buffer);
        match byte_indices(start, end, bytes.len()) {
            Some((start, end)) => bytes[start..=end].to_vec(),
            None => Vec::new(),
        }
    }

    /// Overwrites from `offset` on, with zeros between the end and there (SETRANGE); returns the
    /// new length. Nothing to write changes nothing.
    ///
    /// # Errors
    /// [`ValueError::TooLong`].
    pub fn set_range(&mut self, offset: usize, bytes: &[u8]) -> Result<usize, ValueError> {
        if bytes.is_empty() {
            return Ok(self.len());
        }
        let end = offset
            .checked_add(bytes.len())
            .filter(|&end| end <= Self::BYTES_MAX);
        let end = end.ok_or(ValueError::TooLong)?;
        let raw = self.raw();
        if raw.len() < end {
            raw.resize(end, 0);
        }
        raw[offset..end].copy_from_slice(bytes);
        Ok(raw.len())
    }

    /// The bytes, to be changed in place; the string is `raw` from now on.
    pub fn raw(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Self::Raw(_)) {
            *self = Self::Raw(self.to_vec());
        }
        match self {
            Self::Raw(bytes) => bytes,
            _ => unreachable!("it was made raw above"),
        }
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Integer(_) => "int",
            Self::Embedded(_) => "embstr",
            Self::Raw(_) => "raw",
        }
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Integer(_) => 0,
            Self::Embedded(bytes) => bytes.len(),
            Self::Raw(bytes) => bytes.capacity(),
        }
    }
}

impl PartialEq for StringValue {
    fn eq(&self, other: &Self) -> bool {
        self.element() == other.element()
    }
}

impl Eq for StringValue {}
