//! Randomness that a seed decides.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, and the same on every version and
/// machine, so a seed printed today replays tomorrow.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 where `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The bias of the remainder is below 2^-32 for the limits that tests use.
        self.next_u64().checked_rem(limit).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in `of` cases out of `out_of`.
    pub fn chance(&mut self, of: u64, out_of: u64) -> bool {
        self.below(out_of) < of
    }

    /// One of `items`; `None` where there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// Fills `buffer`.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
