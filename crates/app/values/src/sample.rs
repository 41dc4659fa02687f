//! Random choices. The caller gives the source: `draw(n)` is a number below `n`.

use std::collections::BTreeSet;

/// A source of random numbers: given `n` above 0, a number below `n`, each as likely.
pub type Draw<'a> = dyn FnMut(usize) -> usize + 'a;

/// `count` distinct indices below `length`, or all of them if there are fewer (Floyd's method).
pub(crate) fn distinct(length: usize, count: usize, draw: &mut Draw<'_>) -> Vec<usize> {
    if count >= length {
        return (0..length).collect();
    }
    let mut chosen = BTreeSet::new();
    for top in length - count..length {
        let index = draw(top + 1);
        if !chosen.insert(index) {
            chosen.insert(top);
        }
    }
    chosen.into_iter().collect()
}

/// `count` indices below `length`, each drawn anew.
pub(crate) fn repeated(length: usize, count: usize, draw: &mut Draw<'_>) -> Vec<usize> {
    if length == 0 {
        return Vec::new();
    }
    (0..count).map(|_| draw(length)).collect()
}
