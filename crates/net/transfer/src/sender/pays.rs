//! Whether it pays to look for the parts of a file that the destination has.

use std::str::FromStr;
use std::time::Duration;

/// When changed parts alone are sent of a file that is on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delta {
    /// Where it was not measured to be slower than whole files.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: files that differ are sent whole.
    Never,
}

impl FromStr for Delta {
    type Err = UnknownDelta;

    fn from_str(text: &str) -> Result<Delta, UnknownDelta> {
        match text {
            "auto" => Ok(Delta::Auto),
            "always" => Ok(Delta::Always),
            "never" => Ok(Delta::Never),
            _ => Err(UnknownDelta),
        }
    }
}

/// A choice that there is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is auto, always or never")]
pub struct UnknownDelta;

/// Content that has to be sent in one way before its rate is believed.
const MEASURED: u64 = 64 << 20;

/// Content after which half of what was measured is forgotten.
const FORGOTTEN: u64 = 2 << 30;

/// The slower way is tried again for one in so many files.
const TRIED_AGAIN: u32 = 16;

/// What was measured of both ways.
pub(super) struct Pays {
    when: Delta,
    whole: Rate,
    parts: Rate,
    files: u32,
}

#[derive(Clone, Copy, Default)]
struct Rate {
    bytes: u64,
    time: Duration,
}

impl Rate {
    fn add(&mut self, bytes: u64, time: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.time = self.time.saturating_add(time);
        if self.bytes > FORGOTTEN {
            self.bytes /= 2;
            self.time /= 2;
        }
    }

    fn per_second(self) -> Option<f64> {
        let seconds = self.time.as_secs_f64().max(1e-9);
        (self.bytes >= MEASURED).then(|| self.bytes as f64 / seconds)
    }
}

impl Pays {
    pub(super) fn new(when: Delta) -> Pays {
        Pays {
            when,
            whole: Rate::default(),
            parts: Rate::default(),
            files: 0,
        }
    }

    /// Whether to look for parts of the next file.
    pub(super) fn parts(&mut self) -> bool {
        match self.when {
            Delta::Always => return true,
            Delta::Never => return false,
            Delta::Auto => {}
        }
        let (Some(whole), Some(parts)) = (self.whole.per_second(), self.parts.per_second()) else {
            return true;
        };
        self.files = (self.files + 1) % TRIED_AGAIN;
        (parts >= whole) != (self.files == 0)
    }

    /// Content was sent, in parts or whole, in that time.
    pub(super) fn took(&mut self, parts: bool, bytes: u64, time: Duration) {
        match parts {
            true => self.parts.add(bytes, time),
            false => self.whole.add(bytes, time),
        }
    }

    /// Whether to give up on a file of which so much was looked at and so much found.
    pub(super) fn gives_up(&self, looked_at: u64, found: u64) -> bool {
        self.when == Delta::Auto && looked_at >= MEASURED && found < looked_at / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried_again() {
        let mut pays = Pays::new(Delta::Auto);
        assert!(pays.parts(), "nothing is known");
        pays.took(false, 100 << 20, SECOND);
        assert!(pays.parts(), "half is known");
        pays.took(true, 400 << 20, SECOND);
        assert_eq!((0..32).filter(|_| pays.parts()).count(), 30);
        pays.took(false, 8 << 30, SECOND);
        assert_eq!((0..32).filter(|_| pays.parts()).count(), 2);
    }

    #[test]
    fn who_has_decided_is_obeyed() {
        for (when, wanted) in [(Delta::Always, true), (Delta::Never, false)] {
            let mut pays = Pays::new(when);
            pays.took(wanted, 1 << 30, SECOND);
            pays.took(!wanted, 64 << 30, SECOND);
            assert!((0..32).all(|_| pays.parts() == wanted));
            assert!(!pays.gives_up(1 << 30, 0));
        }
    }

    #[test]
    fn a_file_of_which_little_is_found_is_given_up() {
        let pays = Pays::new(Delta::Auto);
        assert!(!pays.gives_up(MEASURED - 1, 0));
        assert!(pays.gives_up(MEASURED, MEASURED / 8 - 1));
        assert!(!pays.gives_up(MEASURED, MEASURED / 8));
    }
}
