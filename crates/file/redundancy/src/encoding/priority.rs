//! Load and priority of a chunk: \[F\] equations 4.1 and 4.2.

use super::{Counts, ReadWeight};

/// What encoding a chunk would put at risk: `writes + a * reads` (\[F\] equation 4.1), in
/// millionths of a write, so that sums are exact and do not depend on their order. It saturates
/// at 1.8e13 writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize)]
pub struct Load(pub u64);

/// One write.
const WRITE: u64 = 1_000_000;

impl Load {
    /// The load of a chunk that was never touched.
    pub const NONE: Load = Load(0);

    /// The load of a chunk with these counts.
    pub fn new(counts: Counts, read_weight: ReadWeight) -> Load {
        let writes = counts.writes.saturating_mul(WRITE);
        let reads = counts.reads.saturating_mul(read_weight.millionths());
        Load(writes.saturating_add(reads))
    }

    /// How much a chunk wants to be encoded, above 0 to 1: `1 / (1 + load)` (\[F\] equation 4.2).
    /// To order chunks compare loads, which are exact: the colder has the higher priority.
    pub fn priority(self) -> f64 {
        1.0 / (1.0 + self.0 as f64 / WRITE as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(a: f64) -> ReadWeight {
        ReadWeight::new(a).expect("in range")
    }

    #[test]
    fn load_is_writes_and_weighted_reads() {
        let counts = Counts {
            reads: 6,
            writes: 3,
        };
        assert_eq!(Load::new(counts, weight(0.0)), Load(3_000_000));
        assert_eq!(Load::new(counts, weight(1.0)), Load(9_000_000));
        assert_eq!(Load::new(counts, weight(0.5)), Load(6_000_000));
    }

    #[test]
    fn the_colder_has_the_higher_priority() {
        assert_eq!(Load::NONE.priority(), 1.0);
        assert_eq!(Load(3_000_000).priority(), 0.25);
        assert!(Load(4_000_000).priority() < Load(3_000_000).priority());
    }

    #[test]
    fn no_count_overflows_a_load() {
        let most = Counts {
            reads: u64::MAX,
            writes: u64::MAX,
        };
        assert_eq!(Load::new(most, weight(1000.0)), Load(u64::MAX));
    }
}
