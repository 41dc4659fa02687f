//! Ranges of indices as commands give them.

/// The first and the last index of a range within `length` elements, both included; negative ones
/// count from the end. None if the range is empty.
#[must_use]
pub fn indices(start: i64, end: i64, length: usize) -> Option<(usize, usize)> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |index: i64| {
        if index < 0 {
            length.saturating_add(index)
        } else {
            index
        }
    };
    let start = place(start).max(0);
    let end = place(end).min(length - 1);
    if start > end {
        return None;
    }
    Some((usize::try_from(start).ok()?, usize::try_from(end).ok()?))
}

/// The same for ranges of bytes (GETRANGE, BITCOUNT, BITPOS): an index before the start is the
/// start, for the end of the range too.
#[must_use]
pub fn byte_indices(start: i64, end: i64, length: usize) -> Option<(usize, usize)> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |index: i64| {
        if index < 0 {
            length.saturating_add(index).max(0)
        } else {
            index
        }
    };
    let (start, end) = (place(start), place(end).min(length - 1));
    if start > end {
        return None;
    }
    Some((usize::try_from(start).ok()?, usize::try_from(end).ok()?))
}
