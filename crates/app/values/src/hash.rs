//! Hashes: fields and their values.

mod pair;
#[cfg(test)]
mod tests;

use crate::{
    dict::Dict,
    element::Element,
    error::ValueError,
    listpack::{BYTES_MAX, Listpack},
    number::{Extended, INTEGER_BYTES_MAX, format_integer},
    sample::{self, Draw},
    thresholds::Thresholds,
};
use pair::Pair;

/// A hash: a listpack of fields and values while it is small, a table above.
#[derive(Debug, Clone)]
pub struct Hash(Form);

#[derive(Debug, Clone)]
enum Form {
    Packed(Listpack),
    Table(Box<Dict<Pair>>),
}

/// A field and its value.
pub type FieldValue<'a> = (Element<'a>, Element<'a>);

impl Default for Hash {
    fn default() -> Self {
        Self(Form::Packed(Listpack::new()))
    }
}

impl Hash {
    /// Without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fields (HLEN).
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(pack) => pack.len() / 2,
            Form::Table(table) => table.len(),
        }
    }

    /// Whether there are none: the key has to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field (HGET).
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<Element<'_>> {
        match &self.0 {
            Form::Packed(pack) => {
                let at = pack.next(pack.find(field, 2)?)?;
                Some(pack.get(at))
            }
            Form::Table(table) => table.get(field).map(|pair| Element::Bytes(pair.value())),
        }
    }

    /// Whether the field is there (HEXISTS).
    #[must_use]
    pub fn contains(&self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// Gives a field a value (HSET); returns whether the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        let long = field.len().max(value.len()) > thresholds.hash_max_listpack_value;
        if long || self.packed_bytes() + field.len() + value.len() > BYTES_MAX {
            self.widen();
        }
        match &mut self.0 {
            Form::Packed(pack) => {
                if let Some(at) = pack.find(field, 2).and_then(|at| pack.next(at)) {
                    pack.replace(at, value);
                    return false;
                }
                pack.push_back(field);
                pack.push_back(value);
                if pack.len() / 2 > thresholds.hash_max_listpack_entries {
                    self.widen();
                }
                true
            }
            Form::Table(table) => {
                let pair = Pair::new(field, value);
                match table.find(field) {
                    Some(row) => {
                        table.replace(row, pair);
                        false
                    }
                    None => {
                        table.add(pair);
                        true
                    }
                }
            }
        }
    }

    /// Gives a field a value if it is not there (HSETNX); returns whether it did.
    pub fn set_new(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        !self.contains(field) && self.set(field, value, thresholds)
    }

    /// Removes a field (HDEL); returns whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Form::Packed(pack) => {
                let found = pack.find(field, 2);
                found.is_some_and(|at| pack.remove(at, 2) == 2)
            }
            Form::Table(table) => {
                let found = table.find(field);
                found.map(|row| table.remove(row)).is_some()
            }
        }
    }

    /// Adds to a field's integer; a field that is not there counts as 0 (HINCRBY). Returns the sum.
    ///
    /// # Errors
    /// [`ValueError::FieldNotInteger`], [`ValueError::Overflow`].
    pub fn increment(
        &mut self,
        field: &[u8],
        by: i64,
        thresholds: &Thresholds,
    ) -> Result<i64, ValueError> {
        let own = match self.get(field) {
            Some(value) => value.integer().ok_or(ValueError::FieldNotInteger)?,
            None => 0,
        };
        let sum = own.checked_add(by).ok_or(ValueError::Overflow)?;
        self.set(
            field,
            format_integer(sum, &mut [0; INTEGER_BYTES_MAX]),
            thresholds,
        );
        Ok(sum)
    }

    /// Adds to a field's number; a field that is not there counts as 0 (HINCRBYFLOAT). Returns the
    /// sum as text.
    ///
    /// # Errors
    /// [`ValueError::FieldNotFloat`], [`ValueError::NotFinite`].
    pub fn increment_float(
        &mut self,
        field: &[u8],
        by: Extended,
        thresholds: &Thresholds,
    ) -> Result<String, ValueError> {
        let own = match self.get(field) {
            Some(value) => Extended::parse(&value.to_vec()).ok_or(ValueError::FieldNotFloat)?,
            None => Extended::from_double(0.0),
        };
        let sum = own.plus(by).ok_or(ValueError::NotFinite)?.to_text();
        self.set(field, sum.as_bytes(), thresholds);
        Ok(sum)
    }

    /// The fields with their values (HGETALL, HKEYS, HVALS).
    pub fn iter(&self) -> impl Iterator<Item = FieldValue<'_>> {
        let (pack, table) = match &self.0 {
            Form::Packed(pack) => (Some(pack), None),
            Form::Table(table) => (None, Some(table)),
        };
        let packed = pack
            .into_iter()
            .flat_map(|pack| pack.iter().step_by(2).zip(pack.iter().skip(1).step_by(2)));
        packed.chain(
            table
                .into_iter()
                .flat_map(|table| table.iter().map(Pair::elements)),
        )
    }

    /// `count` distinct fields, or all (HRANDFIELD with a count).
    pub fn random_distinct(&self, count: usize, draw: &mut Draw<'_>) -> Vec<FieldValue<'_>> {
        self.nth(&sample::distinct(self.len(), count, draw))
    }

    /// `count` fields, each drawn anew (HRANDFIELD without or with a negative count).
    pub fn random_repeated(&self, count: usize, draw: &mut Draw<'_>) -> Vec<FieldValue<'_>> {
        self.nth(&sample::repeated(self.len(), count, draw))
    }

    /// Visits about `count` fields from a cursor on; returns the next cursor, 0 at the end (HSCAN).
    /// A field that is there from the first call to the last is visited.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(FieldValue<'_>)) -> u64 {
        match &self.0 {
            Form::Packed(_) => {
                self.iter().for_each(visit);
                0
            }
            Form::Table(table) => table.scan(cursor, count, |pair| visit(pair.elements())),
        }
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        match self.0 {
            Form::Packed(_) => "listpack",
            Form::Table(_) => "hashtable",
        }
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Packed(pack) => pack.heap_bytes(),
            Form::Table(table) => size_of::<Dict<Pair>>() + table.heap_bytes(),
        }
    }

    /// The listpack, if it is one.
    pub(crate) fn pack(&self) -> Option<&Listpack> {
        match &self.0 {
            Form::Packed(pack) => Some(pack),
            Form::Table(_) => None,
        }
    }

    /// Takes a listpack of a dump. None if fields lack values or come twice.
    pub(crate) fn from_pack(pack: Listpack, thresholds: &Thresholds) -> Option<Self> {
        if !pack.len().is_multiple_of(2) || !pack.has_distinct_keys() {
            return None;
        }
        let longest = pack.iter().map(Element::len).max().unwrap_or(0);
        let mut hash = Self(Form::Packed(pack));
        if longest > thresholds.hash_max_listpack_value
            || hash.len() > thresholds.hash_max_listpack_entries
        {
            hash.widen();
        }
        Some(hash)
    }

    fn nth(&self, indices: &[usize]) -> Vec<FieldValue<'_>> {
        match &self.0 {
            Form::Packed(_) => {
                let all: Vec<_> = self.iter().collect();
                indices.iter().map(|&index| all[index]).collect()
            }
            Form::Table(table) => indices
                .iter()
                .map(|&index| table.row(index).elements())
                .collect(),
        }
    }

    fn packed_bytes(&self) -> usize {
        self.pack().map_or(0, |pack| pack.bytes().len())
    }

    fn widen(&mut self) {
        if matches!(self.0, Form::Packed(_)) {
            let mut table = Dict::with_capacity(self.len());
            for (field, value) in self.iter() {
                table.add(Pair::new(&field.to_vec(), &value.to_vec()));
            }
            self.0 = Form::Table(Box::new(table));
        }
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        let same = |(field, value): FieldValue<'_>| other.get(&field.to_vec()) == Some(value);
        self.len() == other.len() && self.iter().all(same)
    }
}

impl Eq for Hash {}
