//! Which keys a load asks for: the distributions of YCSB.

use env::Rng;

/// The constant of YCSB's zipfian distributions.
const THETA: f64 = 0.99;

/// How keys are drawn.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// Every key is as likely.
    Uniform(u64),
    /// Few keys are asked for often, and they are spread over all.
    Zipfian(Zipf),
    /// The newest keys are asked for most.
    Latest(Zipf),
}

impl Keys {
    pub(super) fn uniform(count: u64) -> Keys {
        Keys::Uniform(count.max(1))
    }

    pub(super) fn zipfian(count: u64) -> Keys {
        Keys::Zipfian(Zipf::new(count))
    }

    pub(super) fn latest(count: u64) -> Keys {
        Keys::Latest(Zipf::new(count))
    }

    /// A key below `count`, which may have grown since these were made.
    pub(super) fn draw(&self, rng: &mut Rng, count: u64) -> u64 {
        match self {
            Keys::Uniform(keys) => rng.below(*keys),
            Keys::Zipfian(zipf) => spread(zipf.rank(rng)) % zipf.count,
            Keys::Latest(zipf) => (count - 1).saturating_sub(zipf.rank(rng)),
        }
    }
}

/// FNV-1a of a rank, so that keys that are asked for often are not neighbours.
fn spread(rank: u64) -> u64 {
    let bytes = rank.to_le_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Ranks of which the first is the likeliest (Gray et al., "Quickly generating billion-record synthetic
/// databases", SIGMOD 1994, as YCSB has it).
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    count: u64,
    zeta: f64,
    eta: f64,
    alpha: f64,
}

impl Zipf {
    fn new(count: u64) -> Zipf {
        let count = count.max(2);
        let zeta_of = |count: u64| -> f64 {
            (1..=count)
                .map(|rank| 1.0 / (rank as f64).powf(THETA))
                .sum()
        };
        let zeta = zeta_of(count);
        let low = (2.0 / count as f64).powf(1.0 - THETA);
        Zipf {
            count,
            zeta,
            eta: (1.0 - low) / (1.0 - zeta_of(2) / zeta),
            alpha: 1.0 / (1.0 - THETA),
        }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        let drawn = rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * drawn - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_million_ranks_gets_its_share() {
        let zipf = Zipf::new(1_000_000);
        let mut rng = Rng::new(1);
        let draws = 100_000;
        let first = (0..draws).filter(|_| zipf.rank(&mut rng) == 0).count();
        // 1 / zeta(10^6, 0.99), and zeta is 15.4 there.
        let share = first as f64 / f64::from(draws);
        assert!((0.060..0.070).contains(&share), "{share}");
    }

    #[test]
    fn keys_are_below_their_number() {
        let mut rng = Rng::new(2);
        for keys in [Keys::uniform(10), Keys::zipfian(10), Keys::latest(10)] {
            let drawn: Vec<u64> = (0..1000).map(|_| keys.draw(&mut rng, 10)).collect();
            assert!(drawn.iter().all(|key| *key < 10), "{keys:?}");
            assert!((0..3).all(|key| drawn.contains(&key)), "{keys:?}");
        }
        let newest = Keys::latest(10).draw(&mut rng, 500);
        assert!(newest >= 490, "{newest}");
    }
}
