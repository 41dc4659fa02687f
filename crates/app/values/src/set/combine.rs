//! Operations over several sets. A key that is not there is an empty set.

use super::Set;
use crate::{element::Element, thresholds::Thresholds};

/// Visits the members that all sets have, until `visit` says stop by false (SINTER, SINTERSTORE,
/// SINTERCARD).
pub fn intersection<'a>(sets: &[&'a Set], mut visit: impl FnMut(Element<'a>) -> bool) {
    let Some((smallest, set)) = sets.iter().enumerate().min_by_key(|(_, set)| set.len()) else {
        return;
    };
    let mut others: Vec<&Set> = sets.to_vec();
    others.swap_remove(smallest);
    others.sort_by_key(|set| set.len());
    let mut buffer = [0; crate::number::INTEGER_BYTES_MAX];
    for member in set.iter() {
        let bytes = member.bytes(&mut buffer);
        if others.iter().all(|other| other.contains(bytes)) && !visit(member) {
            return;
        }
    }
}

/// The members that any set has (SUNION, SUNIONSTORE).
#[must_use]
pub fn union(sets: &[&Set], thresholds: &Thresholds) -> Set {
    let mut result = Set::new();
    for set in sets {
        for member in set.iter() {
            result.add(&member.to_vec(), thresholds);
        }
    }
    result
}

/// The members of the first set that no other has (SDIFF, SDIFFSTORE).
#[must_use]
pub fn difference(sets: &[&Set], thresholds: &Thresholds) -> Set {
    let mut result = Set::new();
    let Some((first, others)) = sets.split_first() else {
        return result;
    };
    for member in first.iter() {
        let member = member.to_vec();
        if !others.iter().any(|other| other.contains(&member)) {
            result.add(&member, thresholds);
        }
    }
    result
}
