//! Reading little-endian fields from bytes that may be anything.

use codec::Corruption;

/// A place in some bytes; every step says by name what it wants.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn take(
        &mut self,
        what: &'static str,
        count: usize,
    ) -> Result<&'a [u8], Corruption> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(Corruption {
            what,
            offset: self.at as u64,
            expected: count as u64,
            found: self.rest().len() as u64,
        })?;
        self.at += count;
        Ok(taken)
    }

    /// An integer of `count` bytes, at most 8.
    pub(crate) fn integer(&mut self, what: &'static str, count: usize) -> Result<u64, Corruption> {
        let bytes = self.take(what, count)?.iter().rev();
        Ok(bytes.fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, Corruption> {
        self.take(what, 1)
            .map(|bytes| bytes.first().copied().unwrap_or_default())
    }

    /// What is wrong with the field that ends here.
    pub(crate) fn wrong(&self, what: &'static str, expected: u64, found: u64) -> Corruption {
        Corruption {
            what,
            offset: self.at as u64,
            expected,
            found,
        }
    }
}
