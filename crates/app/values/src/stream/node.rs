//! A node: a listpack of entries.
//!
//! First the master entry: entries that are there, entries that are deleted, number of fields, the
//! fields, 0. Then each entry: flags, milliseconds and sequence as differences to the node's id; if
//! its fields are not the master's, their number and each field with its value, else the values
//! alone; then how many elements the entry has, to walk back.

use super::StreamId;
use crate::{
    element::Element,
    listpack::{Listpack, Offset},
};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// An entry within a node.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) id: StreamId,
    pub(super) deleted: bool,
    flags: Offset,
    /// The first field, or the first value if fields are the master's; none if there are none.
    body: Offset,
    same_fields: bool,
    fields: usize,
}

/// Walks over the entries of a node, the deleted ones too. It ends where a node is malformed, which
/// no node is that was written here or checked.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    master: StreamId,
    pack: &'a Listpack,
    /// The first field of the master entry.
    fields_at: Option<Offset>,
    fields: usize,
    next: Option<Offset>,
}

fn count(pack: &Listpack, at: Offset) -> Option<usize> {
    usize::try_from(pack.get(at).integer()?).ok()
}

impl<'a> Walk<'a> {
    pub(super) fn new(master: StreamId, pack: &'a Listpack) -> Self {
        let empty = Self {
            master,
            pack,
            fields_at: None,
            fields: 0,
            next: None,
        };
        Self::head(master, pack).unwrap_or(empty)
    }

    fn head(master: StreamId, pack: &'a Listpack) -> Option<Self> {
        let number = pack.next(pack.next(pack.first()?)?)?;
        let fields = count(pack, number)?;
        let fields_at = pack.next(number);
        let mut zero = fields_at?;
        for _ in 0..fields {
            zero = pack.next(zero)?;
        }
        Some(Self {
            master,
            pack,
            fields_at,
            fields,
            next: pack.next(zero),
        })
    }

    /// Reads the entry at `flags`; also says where the next one is.
    fn read(&self, flags: Offset) -> Option<(Place, Option<Offset>)> {
        let pack = self.pack;
        let bits = pack.get(flags).integer()?;
        let ms_at = pack.next(flags)?;
        let sequence_at = pack.next(ms_at)?;
        let id = StreamId {
            ms: self
                .master
                .ms
                .wrapping_add_signed(pack.get(ms_at).integer()?),
            sequence: self
                .master
                .sequence
                .wrapping_add_signed(pack.get(sequence_at).integer()?),
        };
        let same_fields = bits & SAME_FIELDS != 0;
        let mut body = pack.next(sequence_at)?;
        let mut fields = self.fields;
        if !same_fields {
            fields = count(pack, body)?;
            body = pack.next(body)?;
        }
        let elements = if same_fields {
            fields
        } else {
            fields.checked_mul(2)?
        };
        let mut end = body;
        for _ in 0..elements {
            end = pack.next(end)?;
        }
        let own = elements + if same_fields { 3 } else { 4 };
        if count(pack, end)? != own {
            return None;
        }
        let deleted = bits & DELETED != 0;
        Some((
            Place {
                id,
                deleted,
                flags,
                body,
                same_fields,
                fields,
            },
            pack.next(end),
        ))
    }

    /// The fields of an entry with their values.
    pub(super) fn fields(&self, place: Place) -> Vec<(Element<'a>, Element<'a>)> {
        let pack = self.pack;
        let mut fields = Vec::with_capacity(place.fields);
        let (mut field_at, mut value_at) = (self.fields_at, Some(place.body));
        for _ in 0..place.fields {
            if !place.same_fields {
                field_at = value_at;
                value_at = value_at.and_then(|at| pack.next(at));
            }
            let (Some(field), Some(value)) = (field_at, value_at) else {
                break;
            };
            fields.push((pack.get(field), pack.get(value)));
            field_at = pack.next(field);
            value_at = pack.next(value);
        }
        fields
    }

    /// Whether `fields` are those of the master entry.
    fn has_fields<'b>(&self, fields: impl ExactSizeIterator<Item = &'b [u8]>) -> bool {
        let mut at = self.fields_at;
        fields.len() == self.fields
            && fields.into_iter().all(|field| {
                let own = at;
                at = own.and_then(|own| self.pack.next(own));
                own.is_some_and(|own| self.pack.get(own).equals(field))
            })
    }
}

impl Iterator for Walk<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let at = self.next.take()?;
        let (place, next) = self.read(at)?;
        self.next = next;
        Some(place)
    }
}

/// A node for a first entry; the entry is yet to be appended.
pub(super) fn create<'a>(fields: impl ExactSizeIterator<Item = &'a [u8]>) -> Listpack {
    let mut pack = Listpack::new();
    pack.push_integer(0);
    pack.push_integer(0);
    pack.push_integer(i64::try_from(fields.len()).unwrap_or(i64::MAX));
    for field in fields {
        pack.push_back(field);
    }
    pack.push_integer(0);
    pack
}

/// Appends an entry.
pub(super) fn append(
    pack: &mut Listpack,
    master: StreamId,
    id: StreamId,
    fields: &[(&[u8], &[u8])],
) {
    let same = Walk::new(master, pack).has_fields(fields.iter().map(|(field, _)| *field));
    pack.push_integer(if same { SAME_FIELDS } else { 0 });
    pack.push_integer(id.ms.wrapping_sub(master.ms).cast_signed());
    pack.push_integer(id.sequence.wrapping_sub(master.sequence).cast_signed());
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if !same {
        pack.push_integer(count);
    }
    for (field, value) in fields {
        if !same {
            pack.push_back(field);
        }
        pack.push_back(value);
    }
    pack.push_integer(if same { count + 3 } else { count * 2 + 4 });
    let present = present(pack);
    set_head(pack, 0, present + 1);
}

/// Marks entries as deleted.
pub(super) fn delete(pack: &mut Listpack, places: &[Place]) {
    for place in places {
        let flags = if place.same_fields { SAME_FIELDS } else { 0 };
        // One element of the same length: nothing behind it moves.
        pack.replace_integer(place.flags, flags | DELETED);
    }
    let (present, deleted) = (present(pack), deleted(pack));
    set_head(pack, 0, present.saturating_sub(places.len()));
    set_head(pack, 1, deleted + places.len());
}

/// Entries that are there.
pub(super) fn present(pack: &Listpack) -> usize {
    pack.at(0).and_then(|at| count(pack, at)).unwrap_or(0)
}

fn deleted(pack: &Listpack) -> usize {
    pack.at(1).and_then(|at| count(pack, at)).unwrap_or(0)
}

/// Entries, the deleted ones too.
pub(super) fn entries(pack: &Listpack) -> usize {
    present(pack) + deleted(pack)
}

fn set_head(pack: &mut Listpack, index: i64, value: usize) {
    if let Some(at) = pack.at(index) {
        pack.replace_integer(at, i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// How many entries are there, if the node is well-formed: entries fill it to its end, their ids
/// ascend from the node's on, and the counts are true.
pub(super) fn checked_count(master: StreamId, pack: &Listpack) -> Option<usize> {
    let walk = Walk::head(master, pack)?;
    let (mut next, mut last) = (walk.next, None);
    let (mut present_here, mut deleted_here) = (0, 0);
    while let Some(at) = next {
        let (place, behind) = walk.read(at)?;
        if place.id < master || last.is_some_and(|last| place.id <= last) {
            return None;
        }
        last = Some(place.id);
        *if place.deleted {
            &mut deleted_here
        } else {
            &mut present_here
        } += 1;
        next = behind;
    }
    (present_here == present(pack) && deleted_here == deleted(pack)).then_some(present_here)
}
