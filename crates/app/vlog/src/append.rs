//! Appending: records and kills into the buffers of their lanes, as one.

use crate::error::{Result, VlogError};
use crate::lane::{Buffer, Need};
use crate::live::LiveSet;
use crate::position::{NUMBER_END, Position};
use crate::shared::{Counters, Shared};
use crate::table::Target;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

/// Longest payload of a record, and most bytes of a group on one lane.
pub const RECORD_BYTES_MAX: usize = 512 << 20;

/// Most changes of a group.
pub const CHANGES_MAX: usize = 1 << 26;

/// A change of a log.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A new record, in place of another if it replaces one.
    Append {
        /// Its stream.
        stream: u32,
        /// Its content.
        payload: &'a [u8],
        /// The record of the same entry, on the same stream, that is dead from now on. An entry of another
        /// stream that goes away at the same time is a [`Change::Kill`] of the same group, on its own
        /// stream: else a crash could keep what that stream gets later, and lose the kill.
        replaces: Option<Position>,
    },
    /// A record is dead.
    Kill {
        /// The stream of the entry, on which a later record of it would be.
        stream: u32,
        /// Which.
        position: Position,
    },
}

/// What to wait for until changes are durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Receipt {
    pub(crate) lane: u32,
    pub(crate) chunk: u64,
}

impl Receipt {
    /// The lane; see [`crate::Options::wake`].
    pub fn lane(self) -> u32 {
        self.lane
    }

    /// Lane and number, for who keeps receipts in a form of their own.
    pub fn to_parts(self) -> (u32, u64) {
        (self.lane, self.chunk)
    }

    /// The receipt that [`Receipt::to_parts`] gave.
    pub fn from_parts(lane: u32, number: u64) -> Receipt {
        Receipt {
            lane,
            chunk: number,
        }
    }
}

/// What the changes bring to one lane.
struct Part {
    lane: usize,
    need: Need,
    kills: Vec<Target>,
}

fn part(parts: &mut Vec<Part>, lane: usize) -> Option<&mut Part> {
    let at = match parts.binary_search_by_key(&lane, |part| part.lane) {
        Ok(at) => at,
        Err(at) => {
            let (need, kills) = (Need::default(), Vec::new());
            parts.insert(at, Part { lane, need, kills });
            at
        }
    };
    parts.get_mut(at)
}

impl Shared {
    /// Makes all changes, or none. The positions of new records are added to `positions`, in order.
    pub(crate) fn change(
        &self,
        changes: &[Change<'_>],
        positions: &mut Vec<Position>,
    ) -> Result<Receipt> {
        self.check()?;
        if let [
            Change::Append {
                stream,
                payload,
                replaces,
            },
        ] = changes
            && let Some((position, receipt)) = self.append_one(*stream, payload, *replaces)?
        {
            positions.push(position);
            return Ok(receipt);
        }
        let mut parts = self.plan(changes)?;
        for part in &parts {
            self.wait_for_room(part.lane)?;
        }
        let mut buffers = Vec::with_capacity(parts.len());
        for part in &parts {
            let lane = self.lanes.get(part.lane).ok_or(VlogError::NotLive)?;
            let mut buffer = lane.buffer.lock();
            self.make_room(part.lane, &part.need, &mut buffer)?;
            buffers.push(buffer);
        }
        // Nothing fails from here on.
        let group = self.begin_group(&parts, &buffers);
        let mut receipt = None;
        for (part, buffer) in parts.iter_mut().zip(&mut buffers) {
            let Some(chunk) = buffer.chunk(&part.need, group) else {
                continue;
            };
            let (lane, id) = (part.lane as u32, chunk.id);
            receipt.get_or_insert(Receipt { lane, chunk: id });
            let names = part.kills.iter().map(|target| target.name().to_u64());
            chunk.kills.extend(names);
        }
        for change in changes {
            let Change::Append {
                stream, payload, ..
            } = change
            else {
                continue;
            };
            let lane = self.lane_of(*stream);
            let at = parts.binary_search_by_key(&lane, |part| part.lane);
            let buffer = at.ok().and_then(|at| buffers.get_mut(at));
            if let Some(chunk) = buffer.and_then(|buffer| buffer.chunks.back_mut()) {
                positions.push(chunk.push(*stream, payload));
            }
        }
        // Behind the killers, and while the lanes are locked: a copy of the sets that has these
        // bits is followed by syncs that have the killers, and a file that is finished has no kill
        // whose bit is not set.
        let mut killed = 0;
        for target in parts.iter().flat_map(|part| &part.kills) {
            killed += u64::from(target.segment.live.lock().kill(target.ordinal));
        }
        for (part, buffer) in parts.iter().zip(buffers) {
            self.wake_writer(part.lane, buffer);
        }
        Counters::add(&self.counters.killed, killed);
        Counters::add(&self.counters.appended, changes.len() as u64);
        receipt.ok_or(VlogError::NotLive)
    }

    /// As [`Shared::change`], of one record; `None` where its kill goes to another lane.
    fn append_one(
        &self,
        stream: u32,
        payload: &[u8],
        replaces: Option<Position>,
    ) -> Result<Option<(Position, Receipt)>> {
        let lane = self.lane_of(stream);
        let mut need = Need::default();
        need.record(payload.len());
        if need.body > RECORD_BYTES_MAX {
            return Err(VlogError::TooLong {
                found: need.body as u64,
                max: RECORD_BYTES_MAX as u64,
            });
        }
        let target = match replaces {
            Some(position) => Some(self.table.target(position)?),
            None => None,
        };
        if let Some(target) = &target {
            need.kills = 1;
            if target.segment.lane.unwrap_or(lane) != lane {
                return Ok(None);
            }
        }
        self.wait_for_room(lane)?;
        let state = self.lanes.get(lane).ok_or(VlogError::NotLive)?;
        let mut buffer = state.buffer.lock();
        self.make_room(lane, &need, &mut buffer)?;
        // Nothing fails from here on; the order is that of `change`.
        let chunk = buffer.chunk(&need, None).ok_or(VlogError::NotLive)?;
        let receipt = Receipt {
            lane: lane as u32,
            chunk: chunk.id,
        };
        if let Some(target) = &target {
            chunk.kills.push(target.name().to_u64());
        }
        let position = chunk.push(stream, payload);
        if let Some(target) = &target {
            let killed = target.segment.live.lock().kill(target.ordinal);
            Counters::add(&self.counters.killed, killed.into());
        }
        self.wake_writer(lane, buffer);
        Counters::add(&self.counters.appended, 1);
        Ok(Some((position, receipt)))
    }

    /// Checks the changes and sorts them by lane.
    ///
    /// A kill goes to the lane of its target where that was written in this opening, and the lane of its change
    /// takes part: so a crash that keeps what follows on that lane keeps the kill too, and one that
    /// loses the kill loses the rest.
    fn plan(&self, changes: &[Change<'_>]) -> Result<Vec<Part>> {
        let too_long = |found: usize, max: usize| VlogError::TooLong {
            found: found as u64,
            max: max as u64,
        };
        if changes.len() > CHANGES_MAX {
            return Err(too_long(changes.len(), CHANGES_MAX));
        }
        let mut parts = Vec::with_capacity(1);
        for change in changes {
            let (stream, dead) = match change {
                Change::Append {
                    stream, replaces, ..
                } => (*stream, *replaces),
                Change::Kill { stream, position } => (*stream, Some(*position)),
            };
            let lane = self.lane_of(stream);
            if let Change::Append { payload, .. } = change
                && let Some(part) = part(&mut parts, lane)
            {
                part.need.record(payload.len());
                if part.need.body > RECORD_BYTES_MAX {
                    return Err(too_long(part.need.body, RECORD_BYTES_MAX));
                }
            }
            let Some(position) = dead else {
                continue;
            };
            let target = self.table.target(position)?;
            let own = target.segment.lane.unwrap_or(lane);
            // Also where the kill goes to another.
            part(&mut parts, lane);
            if let Some(part) = part(&mut parts, own) {
                part.need.kills += 1;
                part.kills.push(target);
            }
        }
        Ok(parts)
    }

    /// Waits until a lane may take more.
    fn wait_for_room(&self, lane: usize) -> Result<()> {
        let Some(state) = self.lanes.get(lane) else {
            return Ok(());
        };
        loop {
            let mut buffer = state.buffer.lock();
            if buffer.bytes < self.options.pending_bytes_max {
                return Ok(());
            }
            if let Some(full) = &buffer.full {
                return Err(full.clone());
            }
            if self.options.threads {
                state.work.notify_all();
                state.room.wait(&mut buffer);
                drop(buffer);
                self.check()?;
            } else {
                drop(buffer);
                self.flush(lane)?;
            }
        }
    }

    /// Begins a new segment where the one in use cannot take a part.
    fn make_room(&self, lane: usize, need: &Need, buffer: &mut Buffer) -> Result<()> {
        if let Some(full) = &buffer.full {
            return Err(full.clone());
        }
        if buffer.has_room(need, self.options.segment_bytes) {
            return Ok(());
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        if number >= NUMBER_END {
            return Err(VlogError::Segments);
        }
        let segment = self.table.add(number, Some(lane), LiveSet::default())?;
        buffer.segment = Some(segment);
        buffer.segment_bytes = 0;
        Ok(())
    }

    /// The number of a group over several lanes, and on how many it is.
    fn begin_group(
        &self,
        parts: &[Part],
        buffers: &[MutexGuard<'_, Buffer>],
    ) -> Option<(u64, u32)> {
        if parts.len() < 2 {
            return None;
        }
        // Each gets a chunk of its own, which is the next.
        let chunks = parts
            .iter()
            .zip(buffers)
            .map(|(part, buffer)| (part.lane, buffer.last_chunk + 1));
        let number = self.progress.lock().begin(chunks.collect());
        Some((number, parts.len() as u32))
    }

    /// Wakes the thread that writes a lane, unless it will look by itself.
    fn wake_writer(&self, lane: usize, mut buffer: MutexGuard<'_, Buffer>) {
        if buffer.parked {
            buffer.parked = false;
            drop(buffer);
            if let Some(state) = self.lanes.get(lane) {
                state.work.notify_one();
            }
        }
    }
}
