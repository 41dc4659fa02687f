//! What goes wrong, and when.

use env::Rng;
use mount::{Errno, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A fault of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A read answers EIO.
    ReadError,
    /// A write or a change of names or attributes answers EIO; a write leaves a prefix.
    WriteError,
    /// A sync answers EIO; the content it was to save is taken for clean and is lost.
    SyncError,
    /// A write is acknowledged, synced, and never reaches the medium.
    LostWrite,
    /// A write is acknowledged, synced, and only its first sectors reach the medium.
    TornWrite,
}

const KINDS: usize = 5;

/// The faults that are switched on.
#[derive(Debug)]
pub(super) struct Plan {
    per_million: [u32; KINDS],
    /// Calls to let pass before one fails.
    countdown: [Option<u64>; KINDS],
    pub(super) read_only: bool,
    /// Bytes of content that fit; `None` for no limit.
    pub(super) capacity: Option<u64>,
}

impl Plan {
    pub(super) fn new() -> Plan {
        Plan {
            per_million: [0; KINDS],
            countdown: [None; KINDS],
            read_only: false,
            capacity: None,
        }
    }

    pub(super) fn set_rate(&mut self, fault: Fault, per_million: u32) {
        self.per_million[fault as usize] = per_million;
    }

    pub(super) fn set_countdown(&mut self, fault: Fault, calls: u64) {
        self.countdown[fault as usize] = Some(calls);
    }

    /// Whether this call suffers `fault`.
    pub(super) fn strikes(&mut self, fault: Fault, rng: &mut Rng) -> bool {
        let at = fault as usize;
        match self.countdown[at] {
            Some(0) => {
                self.countdown[at] = None;
                return true;
            }
            Some(left) => self.countdown[at] = Some(left - 1),
            None => {}
        }
        self.per_million[at] > 0 && rng.chance(u64::from(self.per_million[at]), 1_000_000)
    }
}

/// The power line that several stores hang on, to cut them all in the middle of a call.
#[derive(Clone, Debug, Default)]
pub struct Power(Arc<Mutex<Line>>);

#[derive(Debug, Default)]
struct Line {
    calls: u64,
    off_at: Option<u64>,
    off: bool,
}

impl Power {
    /// A line that is on.
    pub fn new() -> Power {
        Power::default()
    }

    /// Goes off after `calls` more steps of changing or syncing calls on any of its stores
    /// (0: with the next one). One call may have several steps.
    pub fn cut_after(&self, calls: u64) {
        let mut line = self.0.lock();
        line.off_at = Some(line.calls + calls);
    }

    /// Goes off, or on again; on again also forgets a cut that was ordered.
    pub fn set(&self, on: bool) {
        let mut line = self.0.lock();
        line.off = !on;
        line.off_at = None;
    }

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        self.0.lock().off
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.0.lock().calls
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.0.lock().off {
            Err(Errno::NODEV)
        } else {
            Ok(())
        }
    }

    pub(super) fn step(&self) -> Result<()> {
        let mut line = self.0.lock();
        if line.off_at == Some(line.calls) {
            line.off = true;
        }
        if line.off {
            return Err(Errno::NODEV);
        }
        line.calls += 1;
        Ok(())
    }
}
