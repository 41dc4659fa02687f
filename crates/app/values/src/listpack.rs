//! Elements in one piece of memory, in Redis's listpack format.
//!
//! A header of six bytes (total bytes, number of elements), then elements, each behind with its own
//! length so that it can be walked from both ends, then 0xff. The bytes are what DUMP and RDB files
//! carry, so nothing is converted on the way there. `docs/formats/rdb.md` has the byte map.

mod entry;
#[cfg(test)]
mod tests;

use crate::{
    element::Element,
    number::{INTEGER_BYTES_MAX, parse_integer},
};
use entry::Coded;

/// Bytes before the first element.
const HEADER: usize = 6;
/// What ends it.
const END: u8 = 0xff;
/// A number of elements that the header cannot say; they are counted.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// No listpack of several elements becomes longer, whatever the thresholds say; as in Redis.
pub(crate) const BYTES_MAX: usize = 1 << 30;

/// A listpack whose bytes are known to be well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listpack(Vec<u8>);

/// Where an element starts. Any change of the listpack ends its meaning.
pub(crate) type Offset = usize;

impl Listpack {
    /// Without elements.
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(HEADER + 1);
        bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, END]);
        Self(bytes)
    }

    /// Takes bytes from outside if every element of them is well-formed, none of them is longer
    /// than it has to say, and the counts are true.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let total = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let count = u16::from_le_bytes(bytes.get(4..HEADER)?.try_into().ok()?);
        if usize::try_from(total).ok()? != bytes.len() || *bytes.last()? != END {
            return None;
        }
        let end = bytes.len() - 1;
        let (mut at, mut found) = (HEADER, 0usize);
        while at < end {
            at = at.checked_add(entry::checked_length(bytes.get(at..end)?)?)?;
            found += 1;
        }
        if at != end || (count != COUNT_UNKNOWN && usize::from(count) != found) {
            return None;
        }
        Some(Self(bytes))
    }

    /// The whole of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Elements.
    pub(crate) fn len(&self) -> usize {
        match u16::from_le_bytes([self.0[4], self.0[5]]) {
            COUNT_UNKNOWN => self.offsets().count(),
            count => usize::from(count),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[HEADER] == END
    }

    /// Bytes of memory behind this value.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn first(&self) -> Option<Offset> {
        (!self.is_empty()).then_some(HEADER)
    }

    pub(crate) fn last(&self) -> Option<Offset> {
        self.prev(self.0.len() - 1)
    }

    pub(crate) fn next(&self, at: Offset) -> Option<Offset> {
        let next = at + entry::length(&self.0[at..]);
        (self.0[next] != END).then_some(next)
    }

    /// `at` if an element is there, none if it is the end.
    pub(crate) fn element_at(&self, at: Offset) -> Option<Offset> {
        (self.0[at] != END).then_some(at)
    }

    /// The element before `at`, which may be the end.
    pub(crate) fn prev(&self, at: Offset) -> Option<Offset> {
        (at > HEADER).then(|| at - entry::length_before(&self.0[..at]))
    }

    /// The element of this index; a negative one counts from the end, -1 is the last.
    pub(crate) fn at(&self, index: i64) -> Option<Offset> {
        if index < 0 {
            let mut at = self.last()?;
            for _ in 1..index.unsigned_abs() {
                at = self.prev(at)?;
            }
            return Some(at);
        }
        let length = i64::try_from(self.len()).unwrap_or(i64::MAX);
        if index >= length {
            return None;
        }
        if index > length / 2 {
            return self.at(index - length);
        }
        let mut at = self.first()?;
        for _ in 0..index {
            at = self.next(at)?;
        }
        Some(at)
    }

    pub(crate) fn get(&self, at: Offset) -> Element<'_> {
        entry::read(&self.0[at..])
    }

    /// The elements from the first one on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Element<'_>> + Clone {
        self.offsets().map(|at| self.get(at))
    }

    /// The elements from the last one on.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = Element<'_>> + Clone {
        std::iter::successors(self.last(), |&at| self.prev(at)).map(|at| self.get(at))
    }

    /// Where the elements are.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = Offset> + Clone {
        std::iter::successors(self.first(), |&at| self.next(at))
    }

    /// The first element that is `value`, of those at each `step`th place.
    pub(crate) fn find(&self, value: &[u8], step: usize) -> Option<Offset> {
        let number = parse_integer(value);
        self.offsets().step_by(step).find(|&at| match self.get(at) {
            Element::Bytes(bytes) => bytes == value,
            Element::Integer(own) => Some(own) == number,
        })
    }

    /// Whether no two elements at every other place, from the first on, are the same.
    pub(crate) fn has_distinct_keys(&self) -> bool {
        /// Up to so many it is faster to look at all pairs.
        const PAIRS_MAX: usize = 32;
        if self.len() <= 2 * PAIRS_MAX {
            let mut keys = self.offsets().step_by(2);
            return keys.all(|at| {
                let mut buffer = [0; INTEGER_BYTES_MAX];
                self.find(self.get(at).bytes(&mut buffer), 2) == Some(at)
            });
        }
        let mut keys: Vec<Vec<u8>> = self.iter().step_by(2).map(Element::to_vec).collect();
        keys.sort_unstable();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    }

    pub(crate) fn push_back(&mut self, value: &[u8]) {
        let end = self.0.len() - 1;
        self.insert(end, value);
    }

    pub(crate) fn push_front(&mut self, value: &[u8]) {
        self.insert(HEADER, value);
    }

    pub(crate) fn push_integer(&mut self, value: i64) {
        let end = self.0.len() - 1;
        self.splice(end, 0, &Coded::of_integer(value), 1);
    }

    /// Puts an element before the one at `at`.
    pub(crate) fn insert(&mut self, at: Offset, value: &[u8]) {
        self.splice(at, 0, &Coded::of(value), 1);
    }

    /// Puts an element behind the one at `at`.
    #[cfg(test)]
    pub(crate) fn insert_after(&mut self, at: Offset, value: &[u8]) {
        let behind = at + entry::length(&self.0[at..]);
        self.insert(behind, value);
    }

    /// Puts `value` in the place of the element at `at`.
    pub(crate) fn replace(&mut self, at: Offset, value: &[u8]) {
        let old = entry::length(&self.0[at..]);
        self.splice(at, old, &Coded::of(value), 0);
    }

    /// Puts an integer in the place of the element at `at`.
    pub(crate) fn replace_integer(&mut self, at: Offset, value: i64) {
        let old = entry::length(&self.0[at..]);
        self.splice(at, old, &Coded::of_integer(value), 0);
    }

    /// Removes up to `count` elements from the one at `at` on; returns how many.
    pub(crate) fn remove(&mut self, at: Offset, count: usize) -> usize {
        let (mut end, mut removed) = (at, 0);
        while removed < count && self.0[end] != END {
            end += entry::length(&self.0[end..]);
            removed += 1;
        }
        let known = self.known_count();
        self.0.drain(at..end);
        if self.0.capacity() > 64 && self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
        self.set_total();
        if let Some(count) = known {
            self.set_count(count - removed);
        }
        removed
    }

    /// Appends the elements of `other`.
    #[cfg(test)]
    pub(crate) fn append(&mut self, other: &Self) {
        for element in other.iter() {
            self.push_back(&element.to_vec());
        }
    }

    /// Splits off the elements from `at` on.
    pub(crate) fn split_off(&mut self, at: Offset) -> Self {
        let mut rest = Self::new();
        let count =
            std::iter::successors((self.0[at] != END).then_some(at), |&at| self.next(at)).count();
        rest.0.pop();
        rest.0.extend_from_slice(&self.0[at..]);
        rest.set_total();
        rest.set_count(count);
        self.remove(at, count);
        rest
    }

    /// What `value` would take.
    pub(crate) fn bytes_of(value: &[u8]) -> usize {
        Coded::of(value).length()
    }

    /// Replaces `old` bytes at `at`.
    fn splice(&mut self, at: usize, old: usize, coded: &Coded<'_>, more: usize) {
        let known = self.known_count();
        let new = coded.length();
        let length = self.0.len();
        let wanted = length - old + new;
        if wanted > self.0.capacity() {
            // A small reserve: memory is what a listpack is for.
            self.0.reserve_exact(wanted + wanted / 16 - length);
        }
        if new > old {
            self.0.resize(wanted, 0);
            self.0.copy_within(at + old..length, at + new);
        } else {
            self.0.copy_within(at + old..length, at + new);
            self.0.truncate(wanted);
        }
        coded.write(&mut self.0[at..at + new]);
        self.set_total();
        if let Some(count) = known {
            self.set_count(count + more);
        }
    }

    fn known_count(&self) -> Option<usize> {
        let count = u16::from_le_bytes([self.0[4], self.0[5]]);
        (count != COUNT_UNKNOWN).then_some(usize::from(count))
    }

    fn set_count(&mut self, count: usize) {
        let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        self.0[4..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    fn set_total(&mut self) {
        let total = u32::try_from(self.0.len()).expect("a listpack below 4 GiB");
        self.0[..4].copy_from_slice(&total.to_le_bytes());
    }
}

impl<'a> FromIterator<&'a [u8]> for Listpack {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(values: I) -> Self {
        let mut pack = Self::new();
        for value in values {
            pack.push_back(value);
        }
        pack
    }
}
