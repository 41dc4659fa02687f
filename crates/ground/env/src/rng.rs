//! Random numbers from an explicit seed.

use crate::Result;
use rustix::rand::{GetRandomFlags, getrandom};

/// xoshiro256** (Blackman and Vigna, 2018, <https://prng.di.unimi.it>), seeded through splitmix64
/// as its authors advise. The sequence of a seed never changes, so that old seeds replay; it is
/// not for secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut at = seed;
        let state = [(); 4].map(|()| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = at;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    /// A generator whose seed the kernel gives.
    pub fn from_kernel() -> Result<Rng> {
        let mut seed = [0; 8];
        getrandom(&mut seed, GetRandomFlags::empty())?;
        Ok(Rng::new(u64::from_le_bytes(seed)))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 to `bound - 1`, or 0 for a bound of 0. The bias is below 2^-64 times the
    /// bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `wins` times of `of`.
    pub fn chance(&mut self, wins: u64, of: u64) -> bool {
        self.below(of) < wins
    }

    /// An index below `length`, 0 for a length of 0.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
    }

    /// An independent generator.
    #[must_use]
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        // splitmix64 of seed 0 starts with 0xe220a8397b1dcdaf (its authors' reference code).
        assert_eq!(Rng::new(0).state[0], 0xe220_a839_7b1d_cdaf);
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        // Reference output of xoshiro256** for the state 1, 2, 3, 4 (rand_xoshiro's test vector).
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
        let mut bytes = [0; 13];
        rng.fill(&mut bytes);
        assert_ne!(bytes, [0; 13]);
    }
}
