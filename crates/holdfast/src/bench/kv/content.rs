//! What a database has to have after a load: every value tells its key and its version, and who writes
//! remembers which versions may be the last.

use std::ops::Range;

/// Bytes in front of a value's filling, where it is long enough: key and version.
const HEAD_BYTES: usize = 12;

/// Bytes that values are cut from.
const BLOCK_BYTES: usize = 64 << 10;

/// Contents of values, by key and version.
#[derive(Debug)]
pub(super) struct Content {
    block: Vec<u8>,
    bytes: usize,
}

impl Content {
    /// Of values of so many bytes.
    pub(super) fn new(bytes: usize) -> Content {
        let mut block = vec![0; BLOCK_BYTES + bytes];
        env::Rng::new(7).fill(&mut block);
        Content { block, bytes }
    }

    /// Bytes of every value.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn filling(&self, key: u64, version: u32) -> &[u8] {
        let mixed = (key << 20 ^ u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (mixed >> 48) as usize % BLOCK_BYTES;
        self.block.get(at..at + self.bytes).unwrap_or_default()
    }

    /// Writes a value.
    pub(super) fn push(&self, into: &mut Vec<u8>, key: u64, version: u32) {
        let filling = self.filling(key, version);
        match filling.get(HEAD_BYTES..) {
            Some(rest) => {
                into.extend_from_slice(&key.to_le_bytes());
                into.extend_from_slice(&version.to_le_bytes());
                into.extend_from_slice(rest);
            }
            None => into.extend_from_slice(filling),
        }
    }

    /// The version that a value says it has, if it is one of that key.
    pub(super) fn version(&self, key: u64, value: &[u8]) -> Option<u32> {
        let (head, rest) = value.split_first_chunk::<8>()?;
        let version = u32::from_le_bytes(*rest.first_chunk()?);
        (u64::from_le_bytes(*head) == key && value.len() == self.bytes).then_some(version)
    }

    /// Whether a value is the one of that key and version, to the last byte.
    pub(super) fn is(&self, key: u64, version: u32, value: &[u8]) -> bool {
        let mut expected = Vec::with_capacity(self.bytes);
        self.push(&mut expected, key, version);
        expected == value
    }
}

/// Versions of the values of keys that are counted from 0.
#[derive(Debug, Default)]
pub(super) struct Versions {
    known: Vec<Known>,
    /// Keys from 0 that are there for sure.
    there: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    issued: u32,
    /// No older one may be there: all were acknowledged before this one was asked for.
    least: u32,
    under_way: u32,
    /// Whether any was acknowledged.
    there: bool,
}

impl Versions {
    /// Keys that were written or are on their way.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// Keys from 0 of which each has a value that was acknowledged.
    pub(super) fn there(&self) -> u64 {
        self.there
    }

    /// The next version of a key, which is asked for now. A new key is the one behind the last.
    pub(super) fn issue(&mut self, key: u64) -> u32 {
        if key >= self.count() {
            self.known.resize(key as usize + 1, Known::default());
        }
        let Some(known) = self.known.get_mut(key as usize) else {
            return 0;
        };
        known.issued += 1;
        if known.under_way == 0 {
            known.least = known.issued;
        }
        known.under_way += 1;
        known.issued
    }

    /// A version of a key was acknowledged.
    pub(super) fn acknowledged(&mut self, key: u64) {
        if let Some(known) = self.known.get_mut(key as usize) {
            known.under_way = known.under_way.saturating_sub(1);
            known.there = true;
        }
        let is_there = |known: &Known| known.there;
        while self.known.get(self.there as usize).is_some_and(is_there) {
            self.there += 1;
        }
    }

    /// Which versions a key may have, when nothing is under way.
    pub(super) fn allowed(&self, key: u64) -> Range<u32> {
        let known = self.known.get(key as usize).copied().unwrap_or_default();
        known.least..known.issued + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_key_and_version() {
        let content = Content::new(100);
        let mut value = Vec::new();
        content.push(&mut value, 77, 3);
        assert_eq!(value.len(), 100);
        assert_eq!(content.version(77, &value), Some(3));
        assert_eq!(content.version(78, &value), None);
        assert!(content.is(77, 3, &value) && !content.is(77, 4, &value));
        value[50] ^= 1;
        assert!(!content.is(77, 3, &value));
    }

    #[test]
    fn versions_that_others_followed_are_not_allowed() {
        let mut versions = Versions::default();
        assert_eq!(versions.issue(0), 1);
        versions.acknowledged(0);
        assert_eq!(versions.issue(0), 2);
        // While 2 is under way the two may come in any order.
        assert_eq!(versions.issue(0), 3);
        assert_eq!(versions.allowed(0), 2..4);
        versions.acknowledged(0);
        versions.acknowledged(0);
        assert_eq!(versions.issue(0), 4);
        assert_eq!((versions.allowed(0), versions.count()), (4..5, 1));
        versions.issue(1);
        versions.issue(2);
        versions.acknowledged(2);
        assert_eq!(versions.there(), 1, "1 is under way");
        versions.acknowledged(1);
        assert_eq!(versions.there(), 3);
    }
}
