//! Decides from the headers found whether a set may start, and with which stores.
//! No I/O.
//!
//! # Invariants
//! - A membership M is left for a smaller one M' only where 2 |M'| >= |M|.
//! - A set starts from membership M only where 2 |present of M| > |M|, or where the operator names
//!   the missing ones as gone; and, while the header of M may not have reached all of M, only where
//!   the same holds for the membership before it.
//!
//! So the stores that may start and the stores that may have gone on always share one, and that
//! one has the newest generation. Two copies never vote.

use super::header::{Header, Tenure};
use crate::label::{StoreIndex, StoreMask};

/// What was found at one place.
#[derive(Clone, Debug)]
pub enum Presence {
    /// Nothing is there, or it cannot be read; the text says what.
    Missing(String),
    /// An empty store.
    Empty,
    /// A store with a header.
    Header(Box<Header>),
}

/// Why a set cannot start, or a store cannot take part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefuseReason {
    /// It belongs to another set.
    #[error("it belongs to another set ({found:032x}, this one is {expected:032x})")]
    OtherSet {
        /// This set.
        expected: u128,
        /// Its set.
        found: u128,
    },
    /// Its history went another way: both sides took changes that the other does not know.
    #[error(
        "its history went another way (generation {found}): it took changes that this set does not know"
    )]
    Diverged {
        /// Its generation.
        found: u64,
    },
    /// It is an older image than the changes recorded for it begin at.
    #[error(
        "it is older (generation {found}, start {found_mount}) than the point where this set last had it (generation {expected}, start {expected_mount})"
    )]
    Older {
        /// Its generation.
        found: u64,
        /// Its mount count.
        found_mount: u64,
        /// The generation it left at.
        expected: u64,
        /// The mount count it left at.
        expected_mount: u64,
    },
    /// Another store already has this place.
    #[error("it claims place {index}, which another store has")]
    Place {
        /// The place.
        index: u8,
    },
    /// Too few members are there.
    #[error("only {present} of {members} members are there; more than half must be")]
    NoMajority {
        /// Members present.
        present: usize,
        /// Members in all.
        members: usize,
    },
    /// No header anywhere, and something is there that is not a store.
    #[error("no store has a header")]
    NoHeader,
}

/// What to start with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembly {
    /// The newest header.
    pub header: Header,
    /// Members that are there.
    pub present: StoreMask,
    /// Members among those whose header is one tenure or one start behind, because its writing was
    /// interrupted. They get [`Assembly::header`] before a newer one is written anywhere: a store
    /// two behind would no longer be taken for a member.
    pub behind: StoreMask,
    /// Members that are not there.
    pub missing: StoreMask,
    /// For each candidate its place and whether it takes part as a member.
    pub places: Vec<Option<StoreIndex>>,
    /// Candidates that are not members, and why they may or may not come back.
    pub outside: Vec<(usize, Result<StoreIndex, RefuseReason>)>,
}

/// Whether `header` may stand for a member of `newest`: at the same tenure, or one behind where
/// the newest had not yet been written to all of its members; and not from before the last start
/// that may have changed something.
fn current(header: &Header, newest: &Header, last_served: u64) -> bool {
    let behind = newest.history.get(1).copied() == Some(header.tenure());
    (header.tenure() == newest.tenure() || behind) && header.mount_count >= last_served
}

/// Judges a store that is not a member: `Ok` where it may come back through its dirty map.
pub fn judge_return(header: &Header, newest: &Header) -> Result<StoreIndex, RefuseReason> {
    if header.set != newest.set {
        return Err(RefuseReason::OtherSet {
            expected: newest.set.0,
            found: header.set.0,
        });
    }
    let place = usize::from(header.index.0);
    match newest.stores.get(place) {
        Some((id, _)) if *id == header.store => {}
        _ => {
            return Err(RefuseReason::Place {
                index: header.index.0,
            });
        }
    }
    let Tenure { generation, .. } = header.tenure();
    if !newest.descends_from(header.tenure()) {
        return Err(RefuseReason::Diverged { found: generation });
    }
    let departure = newest.stores[place].1;
    if generation < departure.generation || header.mount_count < departure.mount_count {
        return Err(RefuseReason::Older {
            found: generation,
            found_mount: header.mount_count,
            expected: departure.generation,
            expected_mount: departure.mount_count,
        });
    }
    Ok(header.index)
}

/// Decides. `gone` are places that the operator says will never come back.
pub fn assemble(found: &[Presence], gone: StoreMask) -> Result<Assembly, RefuseReason> {
    let headers = || {
        found.iter().enumerate().filter_map(|(i, p)| match p {
            Presence::Header(h) => Some((i, &**h)),
            _ => None,
        })
    };
    // The mount count comes first: a tenure whose writing a crash cut may have been given up by a
    // later start that did not see it.
    let (_, newest) = headers()
        .max_by_key(|(_, h)| (h.mount_count, h.tenure().generation))
        .ok_or(RefuseReason::NoHeader)?;
    let last_served = headers().map(|(_, h)| h.last_served()).max().unwrap_or(0);
    let mut assembly = Assembly {
        header: newest.clone(),
        present: StoreMask::default(),
        behind: StoreMask::default(),
        missing: StoreMask::default(),
        places: vec![None; found.len()],
        outside: Vec::new(),
    };
    for (candidate, header) in headers() {
        if header.set != newest.set {
            let reason = judge_return(header, newest)
                .err()
                .unwrap_or(RefuseReason::NoHeader);
            return Err(reason);
        }
        let member = newest.members.has(header.index) && current(header, newest, last_served);
        if header.tenure().generation == newest.tenure().generation
            && header.tenure() != newest.tenure()
        {
            return Err(RefuseReason::Diverged {
                found: header.tenure().generation,
            });
        }
        if !member {
            let verdict = judge_return(header, newest);
            assembly.outside.push((candidate, verdict));
            continue;
        }
        if assembly.present.has(header.index) {
            return Err(RefuseReason::Place {
                index: header.index.0,
            });
        }
        assembly.present = assembly.present.with(header.index);
        assembly.places[candidate] = Some(header.index);
        if header.tenure() != newest.tenure() || header.mount_count != newest.mount_count {
            assembly.behind = assembly.behind.with(header.index);
        }
    }
    assembly.missing = newest.members.minus(assembly.present);
    let unexplained = newest.members.minus(gone.minus(assembly.present));
    let enough = if unexplained == newest.members {
        2 * assembly.present.count() > newest.members.count()
    } else {
        assembly.present == unexplained || 2 * assembly.present.count() > unexplained.count()
    };
    if !enough || assembly.present.is_empty() {
        return Err(RefuseReason::NoMajority {
            present: assembly.present.count(),
            members: newest.members.count(),
        });
    }
    // A tenure that all of its members have was taken up; nothing older can start without them.
    let taken_up = assembly.present == newest.members && assembly.behind.is_empty();
    let before = newest.members.with_all(unsettled(newest));
    let before = before.minus(gone.minus(assembly.present));
    if !taken_up && 2 * assembly.present.count() <= before.count() {
        return Err(RefuseReason::NoMajority {
            present: assembly.present.count(),
            members: before.count(),
        });
    }
    Ok(assembly)
}

/// The stores that left with the newest tenure, as long as its writing may have been interrupted:
/// then the membership before it can still start, and this one has to share a store with it. A
/// start that found enough of them writes a header with a later mount count only after all that
/// are present have the tenure; from then on it is settled.
fn unsettled(newest: &Header) -> StoreMask {
    let left = |index: &StoreIndex| {
        let departure = newest.stores[usize::from(index.0)].1;
        departure.generation != 0
            && departure.generation.saturating_add(1) == newest.tenure().generation
            && newest.mount_count < departure.mount_count.saturating_add(2)
    };
    let others = StoreMask::first(newest.stores.len()).minus(newest.members);
    others
        .iter()
        .filter(left)
        .fold(StoreMask::default(), StoreMask::with)
}

#[cfg(test)]
mod tests;
