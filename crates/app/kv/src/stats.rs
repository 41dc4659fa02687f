//! Counters that INFO shows.

use crate::command::Command;
use crate::fault::Fault;
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};

/// Calls of one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// How many of them were refused while they ran.
    pub failed: u64,
    /// Microseconds.
    pub micros: u64,
}

/// A slow command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    /// Its number.
    pub id: u64,
    /// When it was, in seconds since 1970.
    pub at_s: u64,
    /// How long it took.
    pub micros: u64,
    /// What was asked, cut.
    pub arguments: Vec<Vec<u8>>,
    /// Where the client comes from.
    pub address: String,
    /// Its name.
    pub name: Vec<u8>,
}

/// Counters since the start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Commands.
    pub commands: u64,
    /// Clients that came.
    pub connections: u64,
    /// Clients that were refused.
    pub rejected_connections: u64,
    /// Reads of entries that were there.
    pub hits: u64,
    /// Reads of entries that were not.
    pub misses: u64,
    /// Entries whose time was over.
    pub expired: u64,
    /// Entries that went for want of memory.
    pub evicted: u64,
    /// Changes of entries.
    pub changes: u64,
    /// Writes that were refused because the log takes none.
    pub refused_writes: u64,
    /// Entries that the start found.
    pub loaded: u64,
    /// Bytes that came in.
    pub input_bytes: u64,
    /// Bytes that went out.
    pub output_bytes: u64,
    /// By command, in no order.
    pub by_command: HashMap<&'static str, Calls>,
    /// Refusals, by their first word.
    pub errors: BTreeMap<String, u64>,
    /// When SAVE or BGSAVE was last asked for, in seconds since 1970.
    pub last_save_s: u64,
    /// Slow commands, the newest first.
    pub slow: VecDeque<Slow>,
    pub(crate) next_slow: u64,
}

/// Most kinds of refusals that are told apart.
const ERRORS_MAX: usize = 128;

impl Stats {
    /// A request was refused.
    pub(crate) fn count_error(&mut self, fault: &Fault) {
        let code = fault.0.split(' ').next().unwrap_or_default();
        if self.errors.len() < ERRORS_MAX || self.errors.contains_key(code) {
            *self.errors.entry(code.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn count_command(&mut self, command: &Command, failed: bool, micros: u64) {
        let calls = self.by_command.entry(command.name).or_default();
        calls.calls += 1;
        calls.failed += u64::from(failed);
        calls.micros += micros;
    }

    /// Forgets all but what is slow.
    pub(crate) fn reset(&mut self) {
        let (slow, next_slow) = (std::mem::take(&mut self.slow), self.next_slow);
        let loaded = self.loaded;
        *self = Stats {
            slow,
            next_slow,
            loaded,
            ..Stats::default()
        };
    }
}
