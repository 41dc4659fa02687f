//! What a lock keeps.

use super::Ticket;
use super::group::{Group, Merge};
use super::recent::Recent;
use super::sums::Sums;
use crate::entry::Entry;
use crate::error::{Result, VolumeError};
use crate::flight::{Spots, Stream};
use crate::id::{Flight, ObjectId, Place, Segment};
use crate::map::Map;
use crate::segments::Segments;
use crate::table::Rows;
use env::errno::Errno;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A group that waits for flights.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) group: Arc<Group>,
    pub(super) ticket: u64,
    /// Entries before this one are in flights.
    pub(super) entry: usize,
    /// So are so many blocks of this one.
    pub(super) blocks_of_entry: u32,
    /// And so many of all blocks.
    pub(super) blocks: usize,
    /// Room of the log that is promised to it.
    pub(super) promised: u64,
}

/// A flight that is being written, or waits for an earlier one.
#[derive(Debug)]
pub(super) struct Aloft {
    pub(super) stream: Stream,
    pub(super) entries: Vec<(Entry, bool)>,
    pub(super) spots: Spots,
    /// The last group that ends in it.
    pub(super) ticket: Option<u64>,
    pub(super) done: bool,
}

/// Where the next flight of a stream goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) segment: Segment,
    pub(super) next: u32,
}

/// What one stream of flights is doing.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Queued>,
    pub(super) head: Option<Head>,
    /// Changes of a group whose end has not come, and the flight that it began with.
    pub(super) run: Vec<(Entry, Place)>,
    pub(super) run_since: Option<Flight>,
    /// Tickets given, and the last whose group is applied.
    pub(super) tickets: u64,
    pub(super) applied: u64,
    /// The last whose caller has gone on without waiting.
    pub(super) left: u64,
}

/// Work done since the volume was opened, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counters {
    /// Blocks that callers wrote.
    pub written_blocks: u64,
    /// Blocks that the cleaner moved.
    pub moved_blocks: u64,
    /// Blocks of headers of flights.
    pub header_blocks: u64,
    /// Blocks of tables of segments.
    pub table_blocks: u64,
    /// Blocks of checkpoints, both copies.
    pub checkpoint_blocks: u64,
    /// Blocks that were not written, because what they hold is in a pack with others.
    pub spared_blocks: u64,
    /// Flights.
    pub flights: u64,
    /// Groups.
    pub groups: u64,
    /// Syncs of disks.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Segments that the cleaner emptied.
    pub cleaned_segments: u64,
    /// Blocks that the cleaner found damaged and gave up.
    pub lost_blocks: u64,
}

/// How a volume is doing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// Blocks that objects may have, all together.
    pub capacity_blocks: u64,
    /// Blocks that they have.
    pub mapped_blocks: u64,
    /// How many objects there are.
    pub object_count: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Segments that are free.
    pub free_segments: u64,
    /// Segments that only the cleaner may take.
    pub reserve_segments: u64,
    /// Bytes of memory of the map.
    pub map_memory_bytes: u64,
    /// Bytes of the map in a checkpoint, one copy.
    pub map_encoded_bytes: u64,
    /// Number of the newest checkpoint.
    pub checkpoint: u64,
    /// Work since it was opened.
    pub counters: Counters,
    /// Blocks written to disks for each block that callers wrote; 0 where they wrote none.
    pub write_amplification: f64,
}

impl Counters {
    /// Blocks written to disks for each block that callers wrote; 0 where they wrote none.
    pub(super) fn write_amplification(&self) -> f64 {
        if self.written_blocks == 0 {
            return 0.0;
        }
        let all = self.written_blocks
            + self.moved_blocks
            + self.header_blocks
            + self.table_blocks
            + self.checkpoint_blocks;
        let all = all - self.spared_blocks;
        all as f64 / self.written_blocks as f64
    }
}

pub(super) struct State {
    pub(super) map: Map,
    pub(super) segments: Segments,
    /// By [`Stream::number`].
    pub(super) lanes: [Lane; 2],
    /// Rows of segments whose table is not written.
    pub(super) building: HashMap<Segment, Rows>,
    pub(super) sums: Sums,
    pub(super) recent: Recent,
    /// Flights from `applied_below` on.
    pub(super) aloft: VecDeque<Aloft>,
    pub(super) next_flight: Flight,
    /// Flights below are in the map (or in a run that has not ended).
    pub(super) applied_below: Flight,
    /// Flights below are durable.
    pub(super) durable_below: Flight,
    /// Flights that are being written.
    pub(super) under_way: usize,
    /// Groups that read blocks in order to write parts of them, and how many there have been.
    pub(super) merging: HashMap<u64, Merge>,
    pub(super) merge_count: u64,
    /// Blocks of the log, and blocks of the map, promised to groups in the queue.
    pub(super) promised_blocks: u64,
    pub(super) promised_map: u64,
    /// Whether somebody syncs the disks.
    pub(super) syncing: bool,
    /// Disks with writes that no sync covers, by bit.
    pub(super) dirty: u32,
    pub(super) checkpoint: u64,
    /// Segments taken since then.
    pub(super) taken: u64,
    /// Blocks that callers had written when the cleaner last gained nothing.
    pub(super) vain_at: Option<u64>,
    pub(super) stopped: Option<(&'static str, Errno)>,
    pub(super) counters: Counters,
}

impl State {
    pub(super) fn check(&self) -> Result<()> {
        match self.stopped {
            Some((doing, errno)) => Err(VolumeError::Stopped { doing, errno }),
            None => Ok(()),
        }
    }

    /// The first failure is the one that is told.
    pub(super) fn stop(&mut self, doing: &'static str, errno: Errno) {
        self.stopped.get_or_insert((doing, errno));
    }

    pub(super) fn lane(&mut self, stream: Stream) -> &mut Lane {
        &mut self.lanes[stream.number()]
    }

    /// The last group that was left and is not applied yet, where one that is not applied changes any of
    /// these blocks.
    pub(super) fn left_over(&self, object: ObjectId, blocks: &Range<u64>) -> Option<Ticket> {
        let lane = &self.lanes[Stream::Callers.number()];
        if lane.left <= lane.applied {
            return None;
        }
        let queued = lane.queue.iter().flat_map(|queued| &queued.group.entries);
        let aloft = self.aloft.iter().flat_map(|flight| &flight.entries);
        let run = lane.run.iter().map(|(entry, _)| entry);
        let mut all = queued.chain(aloft.map(|(entry, _)| entry)).chain(run);
        let changes = |entry: &Entry| match *entry {
            Entry::Write {
                object: of,
                block,
                count,
            }
            | Entry::Pack {
                object: of,
                block,
                count,
                ..
            }
            | Entry::Punch {
                object: of,
                block,
                count,
            } => {
                let start = u64::from(block.0);
                of == object && start < blocks.end && start + u64::from(count) > blocks.start
            }
            _ => false,
        };
        all.any(changes).then_some(Ticket(lane.left))
    }

    /// The first flight whose changes may not be in the map.
    pub(super) fn replay_from(&self) -> Flight {
        let runs = self.lanes.iter().filter_map(|lane| lane.run_since);
        runs.fold(self.applied_below, Flight::min)
    }
}

impl super::Volume {
    /// How it is doing.
    pub fn stats(&self) -> Stats {
        let state = self.state.lock();
        Stats {
            capacity_blocks: self.geometry.capacity_blocks(),
            mapped_blocks: state.map.mapped_blocks(),
            object_count: state.map.objects().count() as u64,
            segments: self.geometry.segments().into(),
            free_segments: state.segments.free_count(),
            reserve_segments: self.geometry.reserve_segments().into(),
            map_memory_bytes: state.map.memory_bytes() as u64,
            map_encoded_bytes: state.map.encoded_bytes(),
            checkpoint: state.checkpoint,
            counters: state.counters,
            write_amplification: state.counters.write_amplification(),
        }
    }
}
