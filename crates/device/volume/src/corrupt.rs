//! Short ways to say what does not fit.

use codec::Corruption;

/// A field that is not as it has to be.
pub(crate) fn wrong(what: &'static str, offset: u64, expected: u64, found: u64) -> Corruption {
    Corruption {
        what,
        offset,
        expected,
        found,
    }
}

/// `Ok` where both are equal.
pub(crate) fn equal(
    what: &'static str,
    offset: u64,
    expected: impl Into<u64>,
    found: impl Into<u64>,
) -> Result<(), Corruption> {
    let (expected, found) = (expected.into(), found.into());
    if expected == found {
        return Ok(());
    }
    Err(wrong(what, offset, expected, found))
}
