//! What a decoder says of bytes that it does not accept.

/// Bytes that are not what was once written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at byte {offset}: expected {expected:#x}, found {found:#x}")]
pub struct Corruption {
    /// The field or rule that failed.
    pub what: &'static str,
    /// Where the field starts, in bytes from the start of what was given to the decoder.
    pub offset: u64,
    /// The value that would have been right (or the limit that was passed).
    pub expected: u64,
    /// The value that was there.
    pub found: u64,
}

impl Corruption {
    /// The same corruption seen from a buffer that starts `by` bytes earlier.
    #[must_use]
    pub fn moved(self, by: u64) -> Corruption {
        Corruption {
            offset: self.offset.saturating_add(by),
            ..self
        }
    }

    /// `Ok` where both are equal.
    pub(crate) fn unless_equal(
        what: &'static str,
        offset: usize,
        expected: u64,
        found: u64,
    ) -> Result<(), Corruption> {
        if expected == found {
            return Ok(());
        }
        Err(Corruption {
            what,
            offset: offset as u64,
            expected,
            found,
        })
    }
}
