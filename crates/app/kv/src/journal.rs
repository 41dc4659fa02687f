//! The engine's side of the log: what was appended, and up to where it is durable.

use crate::slot::{SHARDS, ShardId};
use std::collections::VecDeque;
use std::sync::Arc;
use vlog::{Change, Position, Receipt, Vlog, VlogError};

/// When a reply to a change may go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// When the change would survive a power cut.
    Always,
    /// At once; a power cut may cost the last second.
    #[default]
    EverySecond,
    /// At once; a power cut may cost what the system had not written yet.
    No,
}

impl Policy {
    /// As the setting `appendfsync` has it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Always => "always",
            Policy::EverySecond => "everysec",
            Policy::No => "no",
        }
    }

    /// What the log is opened with.
    pub fn sync(self) -> vlog::Sync {
        match self {
            Policy::Always => vlog::Sync::Always,
            Policy::EverySecond => vlog::Sync::Every(std::time::Duration::from_secs(1)),
            Policy::No => vlog::Sync::Never,
        }
    }
}

/// The log, and what waits for it. All streams are on one lane, so chunks are in order.
pub(crate) struct Journal {
    pub(crate) log: Arc<Vlog>,
    pub(crate) policy: Policy,
    /// The last chunk that is known to be durable.
    durable: u64,
    /// Chunks behind it.
    pending: VecDeque<u64>,
    /// The newest chunk of each shard.
    recent: Vec<u64>,
    /// A planted fault: replies do not wait.
    pub(crate) hasty: bool,
}

impl Journal {
    pub(crate) fn new(log: Vlog, policy: Policy) -> Journal {
        Journal {
            log: Arc::new(log),
            policy,
            durable: 0,
            pending: VecDeque::new(),
            recent: vec![0; SHARDS],
            hasty: false,
        }
    }

    /// Makes changes as one, and says which chunk they are in.
    pub(crate) fn append(
        &mut self,
        changes: &[Change<'_>],
        positions: &mut Vec<Position>,
    ) -> Result<u64, VlogError> {
        let receipt = self.log.group(changes, positions)?;
        let (_, chunk) = receipt.to_parts();
        if self.policy == Policy::Always {
            if self.pending.back().is_none_or(|last| *last < chunk) {
                self.pending.push_back(chunk);
            }
            for change in changes {
                let (Change::Append { stream, .. } | Change::Kill { stream, .. }) = change;
                if let Some(recent) = self.recent.get_mut(*stream as usize) {
                    *recent = chunk;
                }
            }
        }
        Ok(chunk)
    }

    /// What has to be durable before what a shard has may be told to anybody; 0 for nothing.
    pub(crate) fn due(&self, shard: ShardId) -> u64 {
        let chunk = self.recent.get(shard.index()).copied().unwrap_or(0);
        if chunk > self.durable { chunk } else { 0 }
    }

    /// As [`Journal::due`], for what all shards have.
    pub(crate) fn due_all(&self) -> u64 {
        self.pending.back().copied().unwrap_or(0)
    }

    /// Looks how far the log is durable; the answer to [`Journal::durable`] from then on.
    pub(crate) fn look(&mut self) {
        while let Some(chunk) = self.pending.front() {
            if !self.log.is_durable(Receipt::from_parts(0, *chunk)) {
                break;
            }
            self.durable = *chunk;
            self.pending.pop_front();
        }
    }

    /// Up to which chunk replies may go out.
    pub(crate) fn durable(&self) -> u64 {
        if self.hasty { u64::MAX } else { self.durable }
    }

    /// Whether something waits to become durable.
    pub(crate) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Why it takes no more, if it does not.
    pub(crate) fn refuses(&self) -> Option<VlogError> {
        self.log.accepts().err()
    }
}
