//! The time of day.

/// A point in time since the epoch, as the system's real-time clock has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WallTime {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// The present.
pub fn wall_time() -> WallTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    WallTime {
        seconds: now.tv_sec,
        nanoseconds: now.tv_nsec as u32,
    }
}
