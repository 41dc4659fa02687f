//! Faults to order.

use crate::errno::Errno;
use std::time::Duration;

/// What a program asks of the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Opening a file that is there.
    Open,
    /// Creating a file.
    Create,
    /// Reading a file or disk.
    Read,
    /// Writing a file or disk.
    Write,
    /// Syncing a file or disk.
    Sync,
    /// Freeing a range.
    Discard,
    /// Replacing a small file.
    Replace,
    /// Renaming.
    Rename,
    /// Removing a name.
    Remove,
    /// Listing names.
    List,
    /// Syncing a directory.
    SyncDir,
    /// Reading an attribute.
    Attribute,
    /// Setting or removing an attribute.
    SetAttribute,
    /// Syncing everything.
    SyncAll,
}

/// What happens instead of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The error; a write, replacement or rename may have happened, wholly or in part.
    Fail(Errno),
    /// A write goes this many bytes away from where it should, and reports success.
    Misdirect(i64),
    /// A write reports success and never happens.
    Lose,
    /// The operation takes this much of the simulated clock first.
    Stall(Duration),
}

/// A planned fault.
#[derive(Clone, Debug)]
pub struct Trouble {
    operation: Operation,
    effect: Effect,
    dir: Option<String>,
    name: Option<String>,
    pass: u64,
    times: u64,
}

impl Trouble {
    /// `effect` on the next `operation`.
    pub fn new(operation: Operation, effect: Effect) -> Trouble {
        Trouble {
            operation,
            effect,
            dir: None,
            name: None,
            pass: 0,
            times: 1,
        }
    }

    /// Only in this directory.
    #[must_use]
    pub fn within(mut self, dir: &str) -> Trouble {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Only on files whose name (when opened) contains `part`, or on this disk.
    #[must_use]
    pub fn named(mut self, part: &str) -> Trouble {
        self.name = Some(part.to_owned());
        self
    }

    /// Lets `count` operations pass before.
    #[must_use]
    pub fn after(mut self, count: u64) -> Trouble {
        self.pass = count;
        self
    }

    /// Strikes `count` times, once if not said.
    #[must_use]
    pub fn times(mut self, count: u64) -> Trouble {
        self.times = count;
        self
    }

    /// Whether it strikes now; counts.
    pub(super) fn strikes(
        &mut self,
        operation: Operation,
        dir: &str,
        name: &str,
    ) -> Option<Effect> {
        let meant = self.operation == operation
            && self.dir.as_ref().is_none_or(|wanted| wanted == dir)
            && self.name.as_ref().is_none_or(|part| name.contains(part));
        if !meant || self.times == 0 {
            return None;
        }
        if self.pass > 0 {
            self.pass -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.effect)
    }

    pub(super) fn is_over(&self) -> bool {
        self.times == 0
    }
}
