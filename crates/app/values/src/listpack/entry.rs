//! The bytes of one element.

use crate::{element::Element, number::parse_integer};

/// An element that is ready to be written.
pub(super) struct Coded<'a> {
    head: [u8; 9],
    head_length: usize,
    body: &'a [u8],
}

impl<'a> Coded<'a> {
    pub(super) fn of(value: &'a [u8]) -> Self {
        if let Some(number) = parse_integer(value) {
            return Self::of_integer(number);
        }
        let mut head = [0; 9];
        let length = value.len();
        let bytes = length.to_le_bytes();
        let head_length = if length < 64 {
            head[0] = 0x80 | bytes[0];
            1
        } else if length < 4096 {
            head[0] = 0xe0 | bytes[1];
            head[1] = bytes[0];
            2
        } else {
            head[0] = 0xf0;
            head[1..5].copy_from_slice(&bytes[..4]);
            5
        };
        Self {
            head,
            head_length,
            body: value,
        }
    }

    pub(super) fn of_integer(value: i64) -> Self {
        let mut head = [0; 9];
        let bytes = value.to_le_bytes();
        let head_length = if (0..=127).contains(&value) {
            head[0] = bytes[0];
            1
        } else if (-4096..=4095).contains(&value) {
            head[0] = 0xc0 | (bytes[1] & 0x1f);
            head[1] = bytes[0];
            2
        } else {
            let (code, width) = match value {
                -0x8000..=0x7fff => (0xf1, 2),
                -0x80_0000..=0x7f_ffff => (0xf2, 3),
                -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
                _ => (0xf4, 8),
            };
            head[0] = code;
            head[1..=width].copy_from_slice(&bytes[..width]);
            width + 1
        };
        Self {
            head,
            head_length,
            body: &[],
        }
    }

    /// Bytes, the length behind the element included.
    pub(super) fn length(&self) -> usize {
        let length = self.head_length + self.body.len();
        length + back_bytes(length)
    }

    /// Fills `output`, which is as long as [`Self::length`] says.
    pub(super) fn write(&self, output: &mut [u8]) {
        let (head, rest) = output.split_at_mut(self.head_length);
        head.copy_from_slice(&self.head[..self.head_length]);
        let (body, back) = rest.split_at_mut(self.body.len());
        body.copy_from_slice(self.body);
        let mut left = self.head_length + self.body.len();
        let count = back.len();
        for (place, byte) in back.iter_mut().rev().enumerate() {
            let more = if place + 1 < count { 0x80 } else { 0 };
            *byte = (left & 0x7f) as u8;
            left >>= 7;
            // The first byte of the group, the last one that is written here, has no flag; those
            // behind it, which a reader from the end meets first, have one.
            *byte |= more;
        }
    }
}

/// Bytes of the length behind an element. The odd limits are those of Redis.
fn back_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Bytes of code and body of the element that starts here, if they can be told.
fn front_bytes(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    Some(match first {
        0..=0x7f => 1,
        0x80..=0xbf => 1 + usize::from(first & 0x3f),
        0xc0..=0xdf => 2,
        0xe0..=0xef => 2 + (usize::from(first & 0x0f) << 8 | usize::from(*bytes.get(1)?)),
        0xf0 => {
            let length = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?);
            5usize.checked_add(usize::try_from(length).ok()?)?
        }
        0xf1 => 3,
        0xf2 => 4,
        0xf3 => 5,
        0xf4 => 9,
        _ => return None,
    })
}

/// The whole length of an element whose bytes come from outside.
pub(super) fn checked_length(bytes: &[u8]) -> Option<usize> {
    let front = front_bytes(bytes)?;
    let whole = front.checked_add(back_bytes(front))?;
    let back = bytes.get(front..whole)?;
    let mut said = 0usize;
    for (place, &byte) in back.iter().enumerate() {
        if (byte & 0x80 != 0) != (place > 0) {
            return None;
        }
        said = said << 7 | usize::from(byte & 0x7f);
    }
    (said == front).then_some(whole)
}

/// The whole length of an element of a listpack that is well-formed.
pub(super) fn length(bytes: &[u8]) -> usize {
    let front = front_bytes(bytes).expect("a well-formed element");
    front + back_bytes(front)
}

/// The whole length of the element that ends where `bytes` end.
pub(super) fn length_before(bytes: &[u8]) -> usize {
    let (mut front, mut shift) = (0usize, 0);
    for &byte in bytes.iter().rev() {
        front |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    front + back_bytes(front)
}

/// The element that starts here, of a listpack that is well-formed.
pub(super) fn read(bytes: &[u8]) -> Element<'_> {
    let signed = |width: usize| {
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(&bytes[1..=width]);
        i64::from_le_bytes(wide) >> (64 - 8 * width)
    };
    let front = front_bytes(bytes).expect("a well-formed element");
    match bytes[0] {
        small @ 0..=0x7f => Element::Integer(i64::from(small)),
        0x80..=0xbf => Element::Bytes(&bytes[1..front]),
        high @ 0xc0..=0xdf => {
            let value = i64::from(high & 0x1f) << 8 | i64::from(bytes[1]);
            Element::Integer(if value >= 4096 { value - 8192 } else { value })
        }
        0xe0..=0xef => Element::Bytes(&bytes[2..front]),
        0xf0 => Element::Bytes(&bytes[5..front]),
        0xf1 => Element::Integer(signed(2)),
        0xf2 => Element::Integer(signed(3)),
        0xf3 => Element::Integer(signed(4)),
        _ => Element::Integer(signed(8)),
    }
}
