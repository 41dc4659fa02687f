//! Choices that a seed decides.

use env::Rng;

/// What tests ask of an [`Rng`] besides numbers.
pub trait Choose {
    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64;
    /// One of `items`; `None` where there is none.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T>;
}

impl Choose for Rng {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }
}
