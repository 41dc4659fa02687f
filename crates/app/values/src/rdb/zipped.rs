//! The packed forms of Redis before 7.0: ziplists and zipmaps.

use crate::number::{INTEGER_BYTES_MAX, format_integer};

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(head)
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    take(bytes, 1).map(|byte| byte[0])
}

/// The elements of a ziplist: total bytes, offset of the last element, number of elements, then for
/// each the length of the one before, a code and its bytes; 0xff.
pub(super) fn ziplist(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let total = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    if usize::try_from(total).ok()? != bytes.len() {
        return None;
    }
    take(&mut rest, 4)?;
    let count = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
    let mut elements = Vec::new();
    loop {
        match byte(&mut rest)? {
            0xff => break,
            // The length before takes five bytes from 254 on.
            0xfe => take(&mut rest, 4).map(|_| ())?,
            _ => {}
        }
        elements.push(ziplist_element(&mut rest)?);
    }
    let whole = rest.is_empty() && (count == u16::MAX || usize::from(count) == elements.len());
    whole.then_some(elements)
}

fn ziplist_element(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let code = byte(rest)?;
    let length = match code >> 6 {
        0 => usize::from(code),
        1 => usize::from(code & 0x3f) << 8 | usize::from(byte(rest)?),
        2 => usize::try_from(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?)).ok()?,
        _ => {
            let integer = ziplist_integer(code, rest)?;
            return Some(format_integer(integer, &mut [0; INTEGER_BYTES_MAX]).to_vec());
        }
    };
    take(rest, length).map(<[u8]>::to_vec)
}

fn ziplist_integer(code: u8, rest: &mut &[u8]) -> Option<i64> {
    let width = match code {
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => return Some(i64::from(code & 0x0f) - 1),
        _ => return None,
    };
    let mut wide = [0; 8];
    wide[8 - width..].copy_from_slice(take(rest, width)?);
    Some(i64::from_le_bytes(wide) >> (64 - 8 * width))
}

/// The keys and values of a zipmap, one behind the other: a count, then for each key its length and
/// bytes, for each value its length, the free bytes behind it, and its bytes; 0xff.
pub(super) fn zipmap(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let count = byte(&mut rest)?;
    let mut elements = Vec::new();
    while let Some(length) = zipmap_length(&mut rest)? {
        elements.push(take(&mut rest, length)?.to_vec());
        let length = zipmap_length(&mut rest)??;
        let free = usize::from(byte(&mut rest)?);
        elements.push(take(&mut rest, length)?.to_vec());
        take(&mut rest, free)?;
    }
    let whole = rest.is_empty() && (count >= 254 || usize::from(count) * 2 == elements.len());
    whole.then_some(elements)
}

/// None inside at the end.
fn zipmap_length(rest: &mut &[u8]) -> Option<Option<usize>> {
    Some(match byte(rest)? {
        0xff => None,
        0xfe => Some(usize::try_from(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?)).ok()?),
        length => Some(usize::from(length)),
    })
}
