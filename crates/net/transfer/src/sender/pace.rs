//! A limit to how much is sent in a time.

use crate::message::{PAGE_BYTES, RANGE_BYTES};
use env::{Clock, Moment};
use std::time::Duration;

/// Bytes of a message besides its body and bulk bytes.
const FRAME_BYTES: u64 = rpc::HEADER_BYTES as u64;

/// Sends no more than so many bytes a second, counted over all messages.
pub(super) struct Pace {
    rate: Option<u64>,
    /// When what was sent has had its time.
    free: Moment,
}

impl Pace {
    pub(super) fn new(rate: Option<u64>) -> Pace {
        Pace {
            rate: rate.filter(|rate| *rate > 0),
            free: Moment(0),
        }
    }

    /// Waits until so many bytes may be sent.
    pub(super) fn wait(&mut self, clock: &dyn Clock, bytes: usize) {
        let Some(rate) = self.rate else {
            return;
        };
        clock.sleep_until(self.free);
        let bytes = u128::from(bytes as u64 + FRAME_BYTES);
        let nanoseconds = bytes * 1_000_000_000 / u128::from(rate);
        let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.free = clock.now().max(self.free).after(time);
    }

    /// Bytes of the longest range: a quarter of a second's, so that nobody waits long for the next.
    pub(super) fn range_bytes(&self) -> usize {
        let Some(rate) = self.rate else {
            return RANGE_BYTES;
        };
        let pages = usize::try_from(rate / 4).unwrap_or(RANGE_BYTES) / PAGE_BYTES;
        (pages * PAGE_BYTES).clamp(PAGE_BYTES, RANGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Whoever sleeps has slept.
    struct Slept(AtomicU64);

    impl Clock for Slept {
        fn now(&self) -> Moment {
            Moment(self.0.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, moment: Moment) {
            self.0.fetch_max(moment.0, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_hundred_ranges_take_the_time_that_their_bytes_have() {
        for rate in [512, 100_000, 10 << 20, 5 << 30] {
            let clock = Slept(AtomicU64::new(7));
            let mut pace = Pace::new(Some(rate));
            let range = pace.range_bytes();
            assert!(range.is_multiple_of(PAGE_BYTES));
            for _ in 0..=100 {
                pace.wait(&clock, range);
            }
            let seconds = clock.now().since(Moment(7)).as_secs_f64();
            let wanted = 100.0 * (range as f64 + FRAME_BYTES as f64) / rate as f64;
            assert!((seconds / wanted - 1.0).abs() < 0.01, "{seconds} {wanted}");
        }
    }

    #[test]
    fn without_a_limit_nobody_sleeps() {
        let clock = Slept(AtomicU64::new(0));
        for rate in [None, Some(0)] {
            let mut pace = Pace::new(rate);
            (0..100).for_each(|_| pace.wait(&clock, 1 << 20));
            assert_eq!((clock.now(), pace.range_bytes()), (Moment(0), RANGE_BYTES));
        }
    }
}
