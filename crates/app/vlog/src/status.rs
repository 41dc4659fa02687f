//! What a log holds and does.

use crate::error::VlogError;
use crate::manifest::State;
use crate::shared::Shared;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log as it is now. Counters begin with the opening.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Status {
    /// Live records.
    pub records_live: u64,
    /// Records in files or on their way there, with those that are dead.
    pub records: u64,
    /// Segment files.
    pub files: u64,
    /// Bytes of those that are complete.
    pub bytes: u64,
    /// Bytes that wait in memory to be written.
    pub bytes_pending: u64,
    /// Bytes of memory for what is known of records, besides the 6 of each position.
    pub tracking_bytes: u64,
    /// Segments with live records, or that are written.
    pub segments: u64,
    /// Changes made.
    pub changes: u64,
    /// Records killed.
    pub killed: u64,
    /// Bytes written by lanes.
    pub bytes_written: u64,
    /// Syncs of lanes.
    pub syncs: u64,
    /// Compactions.
    pub compactions: u64,
    /// Bytes that they read.
    pub compacted_bytes_read: u64,
    /// Bytes that they wrote.
    pub compacted_bytes_written: u64,
    /// Why appends are refused, if they are.
    pub refuses: Option<String>,
    /// What the last compaction in the background failed with, if it did.
    pub compaction_failed: Option<String>,
}

impl Shared {
    pub(crate) fn status(&self) -> Status {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut status = Status {
            tracking_bytes: self.table.heap_bytes() as u64,
            changes: count(&self.counters.appended),
            killed: count(&self.counters.killed),
            bytes_written: count(&self.counters.written_bytes),
            syncs: count(&self.counters.syncs),
            compactions: count(&self.counters.compactions),
            compacted_bytes_read: count(&self.counters.compacted_read_bytes),
            compacted_bytes_written: count(&self.counters.compacted_written_bytes),
            refuses: self.check().err().map(|error| error.to_string()),
            compaction_failed: self
                .compaction_failed
                .lock()
                .as_ref()
                .map(VlogError::to_string),
            ..Status::default()
        };
        for segment in self.table.all() {
            let live = segment.live.lock();
            status.records_live += u64::from(live.live());
            status.segments += 1;
            status.records += match segment.lane {
                // Of older segments some are gone.
                None => u64::from(live.live()),
                Some(_) => u64::from(live.records()),
            };
        }
        for lane in &self.lanes {
            let buffer = lane.buffer.lock();
            status.bytes_pending += buffer.bytes as u64;
            if let Some(full) = &buffer.full {
                status.refuses.get_or_insert(full.to_string());
            }
        }
        let books = self.store.books.lock();
        status.files = books.manifest.files.len() as u64;
        let complete = books.manifest.files.values();
        status.bytes = complete
            .filter(|entry| entry.state != State::Open)
            .map(|entry| entry.bytes)
            .sum();
        status
    }
}
