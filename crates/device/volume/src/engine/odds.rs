//! Which blocks are worth a try at compressing.
//!
//! A try costs as much as everything else that is done for a block, and most programs write the same kind of content to a
//! file again and again: where the last blocks of an object did not compress, only some of the next are tried.

use crate::id::ObjectId;
use std::sync::atomic::{AtomicU8, Ordering};

/// Objects are told apart by so many places; two at one place are tried as one.
const PLACES: usize = 512;

/// After so many tries in vain one block in [`TRIED_ONE_IN`] is tried.
const TRIES_IN_VAIN: u8 = 8;

const TRIED_ONE_IN: u8 = 8;

/// How the last blocks went. Threads may count past each other: a try more or less.
pub(super) struct Odds(Box<[AtomicU8; PLACES]>);

impl Odds {
    pub(super) fn new() -> Odds {
        Odds(Box::new([const { AtomicU8::new(0) }; PLACES]))
    }

    /// Runs `compress` for a block of `object` where that is worth it.
    pub(super) fn attempt<T>(
        &self,
        object: ObjectId,
        compress: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let place = self.0.get(object.0 as usize % PLACES)?;
        let vain = place.load(Ordering::Relaxed);
        let next = match vain.checked_add(1) {
            Some(next) => next,
            None => TRIES_IN_VAIN,
        };
        if vain >= TRIES_IN_VAIN && vain % TRIED_ONE_IN != 0 {
            place.store(next, Ordering::Relaxed);
            return None;
        }
        let compressed = compress();
        place.store(
            if compressed.is_some() { 0 } else { next },
            Ordering::Relaxed,
        );
        compressed
    }
}

#[cfg(test)]
mod tests {
    use super::Odds;
    use crate::id::ObjectId;

    fn tries(odds: &Odds, object: u64, blocks: u32, compresses: bool) -> u32 {
        let mut tried = 0;
        for _ in 0..blocks {
            odds.attempt(ObjectId(object), || {
                tried += 1;
                compresses.then_some(())
            });
        }
        tried
    }

    #[test]
    fn what_never_compresses_is_tried_now_and_then() {
        let odds = Odds::new();
        assert_eq!(tries(&odds, 1, 8, false), 8);
        let later = tries(&odds, 1, 8000, false);
        assert!((900..1100).contains(&later), "{later}");
    }

    #[test]
    fn one_that_compresses_brings_all_back() {
        let odds = Odds::new();
        tries(&odds, 1, 100, false);
        assert!(tries(&odds, 1, 8, true) >= 1);
        assert_eq!(tries(&odds, 1, 50, true), 50);
        assert_eq!(
            tries(&odds, 2, 8, false),
            8,
            "of other objects nothing is known"
        );
    }
}
