//! The machine's monotonic clock.

use crate::clock::{Clock, Moment};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Moment {
        let time = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        Moment(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    }

    fn sleep_until(&self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left);
        }
    }
}
