//! Ids of entries.

use std::fmt;

use crate::{error::ValueError, number::parse_unsigned};

/// An id: milliseconds and a sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId {
    /// Milliseconds since the epoch, as far as the server chose it.
    pub ms: u64,
    /// Tells ids of one millisecond apart.
    pub sequence: u64,
}

impl StreamId {
    /// The lowest, which no entry has.
    pub const MIN: Self = Self { ms: 0, sequence: 0 };
    /// The highest.
    pub const MAX: Self = Self {
        ms: u64::MAX,
        sequence: u64::MAX,
    };

    /// An id.
    #[must_use]
    pub fn new(ms: u64, sequence: u64) -> Self {
        Self { ms, sequence }
    }

    /// Reads `MS-SEQUENCE`, or `MS` with a sequence of `missing`.
    ///
    /// # Errors
    /// [`ValueError::StreamId`].
    pub fn parse(text: &[u8], missing: u64) -> Result<Self, ValueError> {
        let mut parts = text.splitn(2, |&byte| byte == b'-');
        let number = |part: &[u8]| parse_unsigned(part).ok_or(ValueError::StreamId);
        let ms = number(parts.next().unwrap_or_default())?;
        let sequence = parts.next().map_or(Ok(missing), number)?;
        Ok(Self { ms, sequence })
    }

    /// The next id; none behind the highest.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.sequence.checked_add(1) {
            Some(sequence) => Some(Self { sequence, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, sequence: 0 }),
        }
    }

    /// The id before; none before the lowest.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Some(Self { sequence, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self {
                ms,
                sequence: u64::MAX,
            }),
        }
    }

    /// As dumps have it: both numbers big-endian.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.sequence)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self {
            ms: (both >> 64) as u64,
            sequence: both as u64,
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}
