//! A bound on bytes a second.

use env::{Clock, Moment};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a wait looks whether the log ends.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps to a number of bytes a second.
pub(super) struct Pace<'a> {
    clock: &'a dyn Clock,
    bytes_per_s: Option<u64>,
    start: Moment,
    taken: u64,
}

impl<'a> Pace<'a> {
    pub(super) fn new(clock: &'a dyn Clock, bytes_per_s: Option<u64>) -> Pace<'a> {
        Pace {
            clock,
            bytes_per_s,
            start: clock.now(),
            taken: 0,
        }
    }

    /// Waits until so many more bytes are due, or the log ends.
    pub(super) fn took(&mut self, bytes: u64, ending: &AtomicBool) {
        let Some(bytes_per_s) = self.bytes_per_s else {
            return;
        };
        self.taken = self.taken.saturating_add(bytes);
        let due = u128::from(self.taken) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let due = self.start.after(Duration::from_nanos(due));
        while !ending.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let left = due.since(now);
            if left.is_zero() {
                return;
            }
            self.clock.sleep_until(now.after(left.min(LOOK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::sim::World;

    #[test]
    fn so_many_bytes_take_so_long_and_an_end_is_not_waited_for() {
        let clock = World::new(1).clock();
        let ending = AtomicBool::new(false);
        let mut pace = Pace::new(&clock, Some(1 << 20));
        for _ in 0..6 {
            pace.took(512 << 10, &ending);
        }
        assert_eq!(clock.now().since(Moment(0)), Duration::from_secs(3));
        Pace::new(&clock, None).took(1 << 40, &ending);
        ending.store(true, Ordering::Relaxed);
        pace.took(1 << 40, &ending);
        assert_eq!(clock.now().since(Moment(0)), Duration::from_secs(3));
    }
}
