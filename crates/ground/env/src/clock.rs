//! Time.

use std::time::Duration;

/// Nanoseconds since some start that does not change while the process lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// The deadline of who would wait for ever.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment `duration` later; the last there is where that would be past it.
    #[must_use]
    pub fn after(self, duration: Duration) -> Moment {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanoseconds))
    }

    /// The time from `earlier` to here; zero where `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A clock that never goes back.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Moment;
    /// Returns at `moment` or later; at once where it has passed.
    fn sleep_until(&self, moment: Moment);
}
