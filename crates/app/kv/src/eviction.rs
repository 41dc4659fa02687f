//! Which entries are missed least: the policies of `maxmemory-policy`.

use crate::entry::Entry;
use env::Rng;

/// A policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eviction {
    /// None goes; commands that need memory are refused.
    #[default]
    None,
    /// The one that was not used for the longest time.
    Lru {
        /// Only of those that expire.
        volatile: bool,
    },
    /// The one that is used least often.
    Lfu {
        /// Only of those that expire.
        volatile: bool,
    },
    /// Any.
    Random {
        /// Only of those that expire.
        volatile: bool,
    },
    /// The one that expires next.
    Ttl,
}

/// What a new entry's counter begins with (Redis: LFU_INIT_VAL).
const LFU_FRESH: u32 = 5;

/// Slows the counter down (Redis: lfu-log-factor).
const LFU_LOG_FACTOR: f64 = 10.0;

impl Eviction {
    /// Names, as the setting has them.
    pub const NAMES: [(&'static str, Eviction); 8] = [
        ("volatile-lru", Eviction::Lru { volatile: true }),
        ("volatile-lfu", Eviction::Lfu { volatile: true }),
        ("volatile-random", Eviction::Random { volatile: true }),
        ("volatile-ttl", Eviction::Ttl),
        ("allkeys-lru", Eviction::Lru { volatile: false }),
        ("allkeys-lfu", Eviction::Lfu { volatile: false }),
        ("allkeys-random", Eviction::Random { volatile: false }),
        ("noeviction", Eviction::None),
    ];

    /// Whether only entries that expire may go.
    pub fn is_volatile(self) -> bool {
        match self {
            Eviction::None => false,
            Eviction::Ttl => true,
            Eviction::Lru { volatile }
            | Eviction::Lfu { volatile }
            | Eviction::Random { volatile } => volatile,
        }
    }

    /// Whether accesses are counted, and not timed.
    pub fn counts(self) -> bool {
        matches!(self, Eviction::Lfu { .. })
    }

    /// What a new entry remembers.
    pub fn fresh(self, now_ms: u64) -> u32 {
        match self.counts() {
            true => minutes(now_ms) << 8 | LFU_FRESH,
            false => seconds(now_ms),
        }
    }

    /// An entry is used.
    pub fn used(self, entry: &mut Entry, now_ms: u64, rng: &mut Rng) {
        let before = entry.access();
        let after = match self.counts() {
            false => seconds(now_ms),
            true => {
                let count = frequency(before, now_ms);
                let base = f64::from(count.saturating_sub(LFU_FRESH));
                let chance = 1.0 / (base * LFU_LOG_FACTOR + 1.0);
                let drawn = rng.below(1 << 20) as f64 / f64::from(1 << 20);
                let more = u32::from(count < 255 && drawn < chance);
                minutes(now_ms) << 8 | (count + more)
            }
        };
        if after != before {
            entry.set_access(after);
        }
    }

    /// How much an entry is missed; the least goes.
    pub fn worth(self, entry: &Entry, now_ms: u64, random: u64) -> u64 {
        match self {
            Eviction::None => u64::MAX,
            Eviction::Lru { .. } => u64::from(entry.access()),
            Eviction::Lfu { .. } => u64::from(frequency(entry.access(), now_ms)),
            Eviction::Random { .. } => random,
            Eviction::Ttl => entry.expires_ms().unwrap_or(u64::MAX),
        }
    }
}

fn seconds(now_ms: u64) -> u32 {
    (now_ms / 1000) as u32
}

fn minutes(now_ms: u64) -> u32 {
    (now_ms / 60_000) as u32 & 0xff_ffff
}

/// The counter of an entry; it loses one each minute (Redis: lfu-decay-time).
pub(crate) fn frequency(access: u32, now_ms: u64) -> u32 {
    let idle = minutes(now_ms).wrapping_sub(access >> 8) & 0xff_ffff;
    (access & 255).saturating_sub(idle)
}
