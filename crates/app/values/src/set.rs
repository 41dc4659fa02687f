//! Sets.

mod combine;
mod intset;
#[cfg(test)]
mod tests;

pub use combine::{difference, intersection, union};

use crate::{
    dict::Dict,
    element::Element,
    listpack::Listpack,
    number::parse_integer,
    sample::{self, Draw},
    thresholds::Thresholds,
};
use intset::Intset;

/// A set: sorted integers, or a listpack while it is small, or a table.
#[derive(Debug, Clone)]
pub struct Set(Form);

#[derive(Debug, Clone)]
enum Form {
    Integers(Intset),
    /// Redis 7.0 has no such form; for clients it is a `hashtable`.
    Packed(Listpack),
    Table(Box<Dict<Box<[u8]>>>),
}

/// Members and bytes of a member up to which a set of other things than integers is packed: the
/// defaults of later versions of Redis (`set-max-listpack-entries`, `set-max-listpack-value`).
const PACKED_MEMBERS_MAX: usize = 128;
const PACKED_BYTES_MAX: usize = 64;

impl Default for Set {
    fn default() -> Self {
        Self(Form::Integers(Intset::new()))
    }
}

impl Set {
    /// Without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Members (SCARD).
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Integers(integers) => integers.len(),
            Form::Packed(pack) => pack.len(),
            Form::Table(table) => table.len(),
        }
    }

    /// Whether there are none: the key has to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `member` is in it (SISMEMBER).
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Form::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.contains(value))
            }
            Form::Packed(pack) => pack.find(member, 1).is_some(),
            Form::Table(table) => table.find(member).is_some(),
        }
    }

    /// Adds a member (SADD); returns whether it is new.
    pub fn add(&mut self, member: &[u8], thresholds: &Thresholds) -> bool {
        if let Form::Integers(integers) = &mut self.0 {
            if let Some(value) = parse_integer(member) {
                let new = integers.add(value);
                if integers.len() > thresholds.set_max_intset_entries {
                    self.widen();
                }
                return new;
            }
            self.pack();
        }
        if self.contains(member) {
            return false;
        }
        if let Form::Packed(pack) = &mut self.0 {
            if pack.len() < PACKED_MEMBERS_MAX && member.len() <= PACKED_BYTES_MAX {
                pack.push_back(member);
                return true;
            }
            self.widen();
        }
        if let Form::Table(table) = &mut self.0 {
            table.add(member.into());
        }
        true
    }

    /// Removes a member (SREM); returns whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Form::Integers(integers) => {
                parse_integer(member).is_some_and(|value| integers.remove(value))
            }
            Form::Packed(pack) => {
                let found = pack.find(member, 1);
                found.is_some_and(|at| pack.remove(at, 1) == 1)
            }
            Form::Table(table) => {
                let found = table.find(member);
                found.map(|row| table.remove(row)).is_some()
            }
        }
    }

    /// The members (SMEMBERS), integers of an `intset` in order.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        let (integers, pack, table) = match &self.0 {
            Form::Integers(integers) => (Some(integers), None, None),
            Form::Packed(pack) => (None, Some(pack), None),
            Form::Table(table) => (None, None, Some(table)),
        };
        let integers = integers
            .into_iter()
            .flat_map(Intset::iter)
            .map(Element::Integer);
        let packed = pack.into_iter().flat_map(Listpack::iter);
        let rows = table
            .into_iter()
            .flat_map(|table| table.iter())
            .map(|row| Element::Bytes(row));
        integers.chain(packed).chain(rows)
    }

    /// Removes and returns `count` members drawn at random, or all (SPOP).
    pub fn pop(&mut self, count: usize, draw: &mut Draw<'_>) -> Vec<Vec<u8>> {
        let drawn = self.random_distinct(count, draw);
        let drawn: Vec<Vec<u8>> = drawn.into_iter().map(Element::to_vec).collect();
        for member in &drawn {
            self.remove(member);
        }
        drawn
    }

    /// `count` distinct members, or all (SRANDMEMBER with a count).
    pub fn random_distinct(&self, count: usize, draw: &mut Draw<'_>) -> Vec<Element<'_>> {
        self.nth(&sample::distinct(self.len(), count, draw))
    }

    /// `count` members, each drawn anew (SRANDMEMBER without or with a negative count).
    pub fn random_repeated(&self, count: usize, draw: &mut Draw<'_>) -> Vec<Element<'_>> {
        self.nth(&sample::repeated(self.len(), count, draw))
    }

    /// Visits about `count` members from a cursor on; returns the next cursor, 0 at the end
    /// (SSCAN). A member that is there from the first call to the last is visited.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Element<'_>)) -> u64 {
        match &self.0 {
            Form::Table(table) => table.scan(cursor, count, |row| visit(Element::Bytes(row))),
            _ => {
                self.iter().for_each(visit);
                0
            }
        }
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        match self.0 {
            Form::Integers(_) => "intset",
            Form::Packed(_) | Form::Table(_) => "hashtable",
        }
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Integers(integers) => integers.heap_bytes(),
            Form::Packed(pack) => pack.heap_bytes(),
            Form::Table(table) => size_of::<Dict<Box<[u8]>>>() + table.heap_bytes(),
        }
    }

    /// The bytes of the set of integers, if it is one.
    pub(crate) fn intset_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Form::Integers(integers) => Some(integers.bytes()),
            _ => None,
        }
    }

    /// Takes the bytes of a set of integers of a dump.
    pub(crate) fn from_intset(bytes: Vec<u8>, thresholds: &Thresholds) -> Option<Self> {
        let mut set = Self(Form::Integers(Intset::from_bytes(bytes)?));
        if set.len() > thresholds.set_max_intset_entries {
            set.widen();
        }
        Some(set)
    }

    fn nth(&self, indices: &[usize]) -> Vec<Element<'_>> {
        match &self.0 {
            Form::Integers(integers) => indices
                .iter()
                .map(|&index| Element::Integer(integers.get(index)))
                .collect(),
            Form::Packed(pack) => {
                let all: Vec<_> = pack.iter().collect();
                indices.iter().map(|&index| all[index]).collect()
            }
            Form::Table(table) => indices
                .iter()
                .map(|&index| Element::Bytes(table.row(index)))
                .collect(),
        }
    }

    /// Makes a set of integers one that takes anything.
    fn pack(&mut self) {
        let Form::Integers(integers) = &self.0 else {
            return;
        };
        if integers.len() > PACKED_MEMBERS_MAX {
            self.widen();
            return;
        }
        let mut pack = Listpack::new();
        for value in integers.iter() {
            pack.push_integer(value);
        }
        self.0 = Form::Packed(pack);
    }

    fn widen(&mut self) {
        let mut table = Dict::with_capacity(self.len());
        for member in self.iter() {
            table.add(member.to_vec().into_boxed_slice());
        }
        self.0 = Form::Table(Box::new(table));
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|member| other.contains(&member.to_vec()))
    }
}

impl Eq for Set {}
