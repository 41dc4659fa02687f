//! How long calls took: the distribution, and the rate.

use std::time::Instant;

/// What one run of one side measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Figures {
    /// Microseconds; half of the calls took less.
    pub(crate) p50: f64,
    /// Microseconds.
    pub(crate) p90: f64,
    /// Microseconds.
    pub(crate) p99: f64,
    /// Microseconds.
    pub(crate) p999: f64,
    /// Microseconds of the slowest.
    pub(crate) max: f64,
    /// Calls a second.
    pub(crate) ops_per_s: f64,
}

/// The latencies of one side, and how long all of it took.
#[derive(Default)]
pub(crate) struct Samples {
    took_us: Vec<f64>,
    seconds: f64,
}

impl Samples {
    /// Calls `op` that often.
    ///
    /// # Errors
    /// The first of `op`.
    pub(crate) fn add(
        &mut self,
        ops: usize,
        mut op: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        for _ in 0..ops {
            let before = Instant::now();
            op()?;
            self.took_us.push(before.elapsed().as_secs_f64() * 1e6);
        }
        self.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// What they amount to; zeros where nothing was called.
    pub(crate) fn figures(mut self) -> Figures {
        self.took_us.sort_by(f64::total_cmp);
        let count = self.took_us.len();
        let at = |share: f64| {
            let index = (count as f64 * share) as usize;
            let found = self.took_us.get(index).or(self.took_us.last());
            found.copied().unwrap_or(0.0)
        };
        Figures {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            ops_per_s: if count == 0 {
                0.0
            } else {
                count as f64 / self.seconds
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_that_of_the_sorted_calls() {
        let samples = Samples {
            took_us: (0..1000).rev().map(f64::from).collect(),
            seconds: 2.0,
        };
        let expected = Figures {
            p50: 500.0,
            p90: 900.0,
            p99: 990.0,
            p999: 999.0,
            max: 999.0,
            ops_per_s: 500.0,
        };
        assert_eq!(samples.figures(), expected);
        assert_eq!(Samples::default().figures(), Figures::default());
    }
}
