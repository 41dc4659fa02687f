//! A field and its value in one piece of memory.

use crate::{dict::Row, element::Element};

/// The field's length in groups of seven bits, the lowest first, a set high bit for more to come;
/// then the field, then the value.
#[derive(Debug, Clone)]
pub(super) struct Pair(Box<[u8]>);

impl Pair {
    pub(super) fn new(field: &[u8], value: &[u8]) -> Self {
        let mut head = [0u8; 10];
        let (mut length, mut used) = (field.len(), 0);
        loop {
            let more = length > 0x7f;
            head[used] = (length & 0x7f) as u8 | if more { 0x80 } else { 0 };
            used += 1;
            length >>= 7;
            if !more {
                break;
            }
        }
        let mut bytes = Vec::with_capacity(used + field.len() + value.len());
        bytes.extend_from_slice(&head[..used]);
        bytes.extend_from_slice(field);
        bytes.extend_from_slice(value);
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn field(&self) -> &[u8] {
        self.split().0
    }

    pub(super) fn value(&self) -> &[u8] {
        self.split().1
    }

    pub(super) fn elements(&self) -> (Element<'_>, Element<'_>) {
        let (field, value) = self.split();
        (Element::Bytes(field), Element::Bytes(value))
    }

    fn split(&self) -> (&[u8], &[u8]) {
        let (mut length, mut shift, mut used) = (0usize, 0, 0);
        loop {
            let byte = self.0[used];
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            used += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        self.0[used..].split_at(length)
    }
}

impl Row for Pair {
    fn key(&self) -> &[u8] {
        self.field()
    }

    fn heap_bytes(&self) -> usize {
        self.0.len()
    }
}
