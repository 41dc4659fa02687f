//! Groups become flights: admission, order, writing, and waiting for it.

use super::group::{Builder, Change, Group, Merge, Touched, partials, touches};
use super::load::{Load, Loaded};
use super::read::{add_rows, sums_of};
use super::state::{Aloft, Head, Queued, State};
use super::{FLIGHTS_MAX, Ticket, Volume};
use crate::block::{Block, bytes, padded};
use crate::entry::Entry;
use crate::error::{Result, VolumeError};
use crate::flight::{Header, Spots, Stream, header_blocks};
use crate::geometry::Geometry;
use crate::id::{Flight, Place, Segment, Use};
use crate::table;
use env::Request;
use parking_lot::MutexGuard;
use std::collections::VecDeque;
use std::sync::Arc;

/// While a flight is being written, the next one waits until it ends or this many blocks wait:
/// groups that come together share a header.
const BLOCKS_WORTH_A_FLIGHT: usize = 32;

/// Blocks of groups that were left, after which the next one waits for them: half a flight.
const LEFT_BLOCKS_MAX: usize = 128;

/// A flight of so many blocks is copied together and written by one request: a batch of requests takes longer
/// to start and to end than the copy does, for the disk sees one and whoever waits is woken once.
const COPIED_BLOCKS_MAX: usize = 32;

/// Blocks of a segment that may stay unused where a flight is cut at its end.
const SEGMENT_SLACK: u64 = 4;

/// Blocks of the log that a group may take, headers included: one for the group and one for each
/// 64 blocks or 160 entries, twice, because a flight may be cut at the end of a segment.
fn room_needed(group: &Group) -> u64 {
    let (blocks, entries) = (group.data.len() as u64, group.entries.len() as u64);
    blocks + 2 * (blocks / 64 + entries / 160 + 1) + 2
}

/// Blocks that callers may still fill.
pub(super) fn room_for_callers(state: &State, geometry: &Geometry) -> u64 {
    let in_head = state.lanes[Stream::Callers.number()]
        .head
        .map_or(0, |head| u64::from(geometry.flight_blocks() - head.next));
    let reserve = u64::from(geometry.reserve_segments());
    let segments = state.segments.free_count().saturating_sub(reserve);
    let room = segments * (u64::from(geometry.flight_blocks()) - SEGMENT_SLACK)
        + in_head.saturating_sub(SEGMENT_SLACK);
    room.saturating_sub(state.promised_blocks)
}

/// A flight that has its place.
struct Formed {
    stream: Stream,
    flight: Flight,
    place: Place,
    segment: Segment,
    segment_use: Use,
    durable_below: Flight,
    checkpoint: u64,
    load: Loaded,
}

impl Volume {
    /// Puts a group in the queue; it is written by whoever waits next. Groups are applied in the
    /// order of their tickets.
    ///
    /// # Errors
    /// As [`Volume::commit`], but for those of writing.
    pub fn begin(&self, changes: &[Change<'_>]) -> Result<Ticket> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        changes.iter().try_for_each(Change::check)?;
        let merging = Merging::enter(self, changes)?;
        let mut builder = Builder::new(self, changes);
        for change in changes {
            builder.add(change)?;
        }
        let group = builder.finish();
        let mut state = self.admitted(&group)?;
        // Who reads a block in order to write a part of it must not lose what we write.
        if merging.is_none() && !state.merging.is_empty() {
            let touched: Vec<Touched> = changes.iter().map(Change::touched).collect();
            while (state.merging.values()).any(|merge| merge.partials_in(&touched)) {
                self.changed.wait(&mut state);
                state.check()?;
            }
        }
        #[cfg(test)]
        {
            state.recent.forgets = !self.planted(super::Plant::RememberRemoved);
        }
        let group = state.recent.take_in(group);
        let ticket = self.enqueue(&mut state, Stream::Callers, Arc::new(group));
        drop(state);
        drop(merging);
        Ok(ticket)
    }

    /// Returns when the group is visible (and so are all before it).
    ///
    /// # Errors
    /// Of a disk: it is not known whether the group will be there.
    pub fn wait(&self, ticket: Ticket) -> Result<()> {
        self.wait_for(Stream::Callers, ticket)
    }

    /// Goes on without waiting for a group: it is written with the next that somebody waits for, by a
    /// sync, or by [`Volume::settle`]. Reads see it at once. Lengths of objects do not, and while so
    /// many wait that they fill half a flight the caller has to wait.
    ///
    /// # Errors
    /// Of a disk, at a group before this one or, where it had to wait, at this one.
    pub fn leave(&self, ticket: Ticket) -> Result<()> {
        let waiting = {
            let mut state = self.state.lock();
            state.check()?;
            let lane = state.lane(Stream::Callers);
            lane.left = lane.left.max(ticket.0);
            blocks_waiting(&lane.queue)
        };
        match waiting < LEFT_BLOCKS_MAX {
            true => Ok(()),
            false => self.wait(ticket),
        }
    }

    /// Writes the groups that were left.
    ///
    /// # Errors
    /// Of a disk: it is not known which of them will be there.
    pub fn settle(&self) -> Result<()> {
        let left = {
            let state = self.state.lock();
            Ticket(state.lanes[Stream::Callers.number()].left)
        };
        self.wait(left)
    }

    /// Puts a group that the cleaner made in its queue.
    pub(super) fn begin_move(&self, group: Group) -> Result<Ticket> {
        let mut state = self.state.lock();
        state.check()?;
        if (group.entries.iter()).any(|entry| matches!(entry, Entry::Lost { .. })) {
            // What is lost is to be written again.
            state.recent.clear();
        }
        Ok(self.enqueue(&mut state, Stream::Cleaner, Arc::new(group)))
    }

    pub(super) fn wait_for(&self, stream: Stream, ticket: Ticket) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.lane(stream).applied >= ticket.0 {
                return Ok(());
            }
            state.check()?;
            state = self.advance(state, stream)?;
        }
    }

    /// Waits until there is room for a group; nothing is promised yet when this returns, but the
    /// lock is held.
    fn admitted(&self, group: &Group) -> Result<MutexGuard<'_, State>> {
        let needed = room_needed(group);
        loop {
            let state = self.state.lock();
            state.check()?;
            let map = self.check_map_room(&state, group);
            let free = room_for_callers(&state, &self.geometry);
            if map.is_ok() && free >= needed {
                return Ok(state);
            }
            let lane = &state.lanes[Stream::Callers.number()];
            let left = (lane.left > lane.applied).then_some(Ticket(lane.left));
            drop(state);
            if let Some(left) = left {
                // To what waits more is promised than it takes.
                self.wait(left)?;
                continue;
            }
            map?;
            if !self.make_room(needed)? {
                return Err(VolumeError::NoSpace {
                    what: "blocks of the log",
                    needed,
                    free,
                });
            }
        }
    }

    /// Whether the map may have as many blocks as it would with this group.
    fn check_map_room(&self, state: &State, group: &Group) -> Result<()> {
        let fresh = |entry: &Entry| match *entry {
            Entry::Write {
                object,
                block,
                count,
            } => u64::from(count - state.map.count_mapped(object, block, count)),
            _ => 0,
        };
        let needed: u64 = group.entries.iter().map(fresh).sum();
        let taken = state.map.mapped_blocks() + state.promised_map;
        let free = self.geometry.capacity_blocks().saturating_sub(taken);
        if needed > free {
            return Err(VolumeError::NoSpace {
                what: "blocks",
                needed,
                free,
            });
        }
        // A run of 8, a leaf of 16 and an object of 24 bytes for each entry at most.
        let bytes = |blocks: u64, entries: u64| blocks * 24 + entries * 24;
        let needed = bytes(group.data.len() as u64, group.entries.len() as u64);
        let max = crate::checkpoint::map_bytes_max(&self.geometry);
        let promised = bytes(state.promised_blocks, 0);
        let free = max.saturating_sub(state.map.encoded_bytes() + promised);
        if needed > free && !group.data.is_empty() {
            return Err(VolumeError::NoSpace {
                what: "bytes of the map",
                needed,
                free,
            });
        }
        Ok(())
    }

    fn enqueue(&self, state: &mut State, stream: Stream, group: Arc<Group>) -> Ticket {
        let lane = state.lane(stream);
        if group.entries.is_empty() {
            return Ticket(lane.tickets);
        }
        let promised = match stream {
            Stream::Callers => room_needed(&group),
            Stream::Cleaner => 0,
        };
        lane.tickets += 1;
        let ticket = lane.tickets;
        let blocks = group.data.len() as u64;
        lane.queue.push_back(Queued {
            group,
            ticket,
            entry: 0,
            blocks_of_entry: 0,
            blocks: 0,
            promised,
        });
        if stream == Stream::Callers {
            state.promised_blocks += promised;
            state.promised_map += blocks;
            state.counters.written_blocks += blocks;
            state.counters.groups += 1;
        }
        Ticket(ticket)
    }

    /// Writes a flight of the stream where one is due, or waits for what is going on.
    fn advance<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        stream: Stream,
    ) -> Result<MutexGuard<'a, State>> {
        let queue = &state.lanes[stream.number()].queue;
        let due = !queue.is_empty()
            && state.under_way < FLIGHTS_MAX
            && (state.under_way == 0 || blocks_waiting(queue) >= BLOCKS_WORTH_A_FLIGHT);
        if !due {
            self.changed.wait(&mut state);
            return Ok(state);
        }
        let Some(formed) = self.form(&mut state, stream) else {
            // Admission and the reserve see to it that there is a segment.
            state.stop("taking a segment", env::errno::Errno::NOSPC);
            self.changed.notify_all();
            return Ok(state);
        };
        state.under_way += 1;
        drop(state);
        let guard = UnderWay { volume: self };
        let written = self.write(&formed);
        std::mem::forget(guard);
        let mut state = self.state.lock();
        state.under_way -= 1;
        let table = match written {
            Ok(header) => self.landed(&mut state, &formed, &header),
            Err(errno) => {
                state.stop("writing to the log", errno);
                None
            }
        };
        self.changed.notify_all();
        let Some((segment, segment_use, rows)) = table else {
            return Ok(state);
        };
        drop(state);
        self.write_table(segment, segment_use, &rows)?;
        Ok(self.state.lock())
    }

    /// Takes a place in the log and as much of the queue as fits there.
    fn form(&self, state: &mut State, stream: Stream) -> Option<Formed> {
        let flight = state.next_flight;
        let head = self.head(state, stream, flight)?;
        let room = self.geometry.flight_blocks() - head.next;
        let mut load = Load::new(room);
        let mut ticket = None;
        let mut stamp = 0;
        let lane = &mut state.lanes[stream.number()];
        while let Some(queued) = lane.queue.front_mut() {
            let all = load.take(queued);
            stamp = queued.group.stamp.unwrap_or(flight.0).max(stamp);
            if !all {
                break;
            }
            ticket = Some(queued.ticket);
            if stream == Stream::Callers {
                state.promised_blocks -= queued.promised;
                state.promised_map -= queued.group.data.len() as u64;
            }
            lane.queue.pop_front();
        }
        let load = load.loaded();
        let packs = load.packs.len() as u16;
        let data = u32::from(packs) + load.data_blocks;
        let headers = header_blocks(load.entries.len(), data);
        assert!(data + headers <= room && !load.entries.is_empty());
        if let Some(head) = &mut lane.head {
            head.next += headers + data;
        }
        state.counters.header_blocks += u64::from(headers);
        state.counters.spared_blocks += u64::from(load.blocks - data);
        if stream == Stream::Cleaner {
            state.counters.moved_blocks += u64::from(load.blocks);
        }
        state.counters.flights += 1;
        let segment = state.segments.get_mut(head.segment);
        segment.under_way += 1;
        segment.last_flight = flight;
        segment.stamp = match segment.segment_use.0 == flight.0 {
            true => stamp,
            false => segment.stamp.max(stamp),
        };
        let segment_use = segment.segment_use;
        state.next_flight = flight.next();
        let place = self.geometry.place(head.segment, head.next);
        state.aloft.push_back(Aloft {
            stream,
            entries: load.entries.clone(),
            spots: Spots::new(place, headers, packs),
            ticket,
            done: false,
        });
        Some(Formed {
            stream,
            flight,
            place,
            segment: head.segment,
            segment_use,
            durable_below: state.durable_below,
            checkpoint: state.checkpoint,
            load,
        })
    }

    /// The head of a stream, in a new segment where the old one has no room.
    fn head(&self, state: &mut State, stream: Stream, flight: Flight) -> Option<Head> {
        let lane = &mut state.lanes[stream.number()];
        let old = lane.head;
        // A header and a block.
        if let Some(head) = old.filter(|head| self.geometry.flight_blocks() - head.next >= 2) {
            return Some(head);
        }
        let segment = state.segments.take(flight)?;
        state.taken += 1;
        if let Some(old) = old {
            state.segments.get_mut(old.segment).phase = crate::segments::Phase::Closed;
        }
        let rows = vec![None; self.geometry.flight_blocks() as usize];
        state.building.insert(segment, rows);
        let head = Head { segment, next: 0 };
        state.lanes[stream.number()].head = Some(head);
        Some(head)
    }

    fn write(&self, formed: &Formed) -> env::Result<Header> {
        let load = &formed.load;
        let packs: Vec<Block> = (load.packs.iter())
            .flat_map(|packing| padded(&packing.encode()))
            .collect();
        let mut header = Header {
            volume: self.id,
            place: formed.place,
            flight: formed.flight,
            segment_use: formed.segment_use,
            durable_below: formed.durable_below,
            checkpoint: formed.checkpoint,
            stream: formed.stream,
            entries: load.entries.clone(),
            packs: packs.len() as u16,
            sums: vec![0; packs.len() + load.data_blocks as usize],
            inline: load.inline.encode(),
        };
        let content = (load.parts.iter())
            .flat_map(|(group, range)| group.content_sums.get(range.clone()).unwrap_or_default());
        let of_packs = (header.packs().zip(&packs))
            .map(|((place, _), pack)| header.pack_key(place).sum(codec::crc32c(&pack.0)));
        let of_blocks = (header.blocks().zip(content)).map(|((key, _), content)| key.sum(*content));
        let sums: Vec<u32> = of_packs.chain(of_blocks).collect();
        header.sums = sums;
        let mut head = padded(&header.encode());
        let (disk, mut offset) = self.geometry.locate(formed.place);
        let disk = &self.disks[disk];
        let copied = header.blocks_in_all() as usize <= COPIED_BLOCKS_MAX;
        // Torn between header and pack is what has to be found, and one request seldom is.
        #[cfg(test)]
        let copied = copied && !self.planted(super::Plant::TrustPacks);
        if copied {
            head.reserve_exact(header.blocks_in_all() as usize - head.len());
            head.extend(packs);
            for (group, range) in &load.parts {
                head.extend_from_slice(group.blocks(range.clone()));
            }
            disk.write_at(offset, bytes(&head))?;
            return Ok(header);
        }
        let data = bytes(&head);
        let mut batch = vec![Request::Write { offset, data }];
        offset += data.len() as u64;
        let parts = load.parts.iter();
        let parts = parts.map(|(group, range)| group.bytes(range.clone()));
        let packs = (!packs.is_empty()).then_some(bytes(&packs));
        for data in packs.into_iter().chain(parts) {
            batch.push(Request::Write { offset, data });
            offset += data.len() as u64;
        }
        disk.submit(&mut batch)
            .into_iter()
            .collect::<env::Result<()>>()?;
        Ok(header)
    }

    /// A flight is written: what is due goes to the map. Returns a segment whose table is due.
    fn landed(
        &self,
        state: &mut State,
        formed: &Formed,
        header: &Header,
    ) -> Option<(Segment, Use, table::Rows)> {
        let (disk, _) = self.geometry.locate(formed.place);
        state.dirty |= 1 << disk;
        let index = |place: Place| self.geometry.index(place);
        if let Some(rows) = state.building.get_mut(&formed.segment) {
            add_rows(rows, header, index);
        }
        let at = (formed.flight.0 - state.applied_below.0) as usize;
        if let Some(aloft) = state.aloft.get_mut(at) {
            aloft.done = true;
        }
        state.segments.get_mut(formed.segment).under_way -= 1;
        state.apply_ready();
        #[cfg(test)]
        if self.planted(super::Plant::EarlyReuse) {
            let below = state.applied_below;
            let dead = state.segments.dead_below(below);
            dead.into_iter()
                .for_each(|segment| state.segments.release(segment));
        }
        self.table_due(state)
    }

    /// A closed segment that has no flight under way any more, and no table.
    fn table_due(&self, state: &mut State) -> Option<(Segment, Use, table::Rows)> {
        let due = |segment: &Segment| {
            let state = state.segments.get(*segment);
            state.phase == crate::segments::Phase::Closed && state.under_way == 0
        };
        let segment = state.building.keys().copied().find(due)?;
        let rows = state.building.get(&segment)?.clone();
        let segment_use = state.segments.get(segment).segment_use;
        state.sums.insert(segment, segment_use, sums_of(&rows));
        state.building.remove(&segment);
        Some((segment, segment_use, rows))
    }

    /// Tables only spare work later: readers that find none walk over the flights.
    fn write_table(&self, segment: Segment, segment_use: Use, rows: &table::Rows) -> Result<()> {
        let blocks = padded(&table::encode(self.id, segment, segment_use, rows));
        let (disk, offset) = self.geometry.locate(self.geometry.table_place(segment));
        let written = self.disks[disk].write_at(offset, bytes(&blocks));
        let mut state = self.state.lock();
        state.dirty |= 1 << disk;
        state.counters.table_blocks += blocks.len() as u64;
        written.map_err(|errno| {
            state.stop("writing the table of a segment", errno);
            VolumeError::io("writing the table of a segment")(errno)
        })
    }
}

/// Blocks of a queue that are in no flight.
fn blocks_waiting(queue: &VecDeque<Queued>) -> usize {
    (queue.iter())
        .map(|queued| queued.group.data.len() - queued.blocks)
        .sum()
}

/// Held while a flight is written: should it panic, those who wait get an error instead of waiting
/// for ever.
struct UnderWay<'a> {
    volume: &'a Volume,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.volume.state.lock();
        state.under_way -= 1;
        state.stop("writing to the log", env::errno::Errno::IO);
        self.volume.changed.notify_all();
    }
}

/// Held by a group that reads blocks before it writes parts of them, until it is in the queue:
/// nobody else writes those meanwhile. Groups with such blocks find all their conflicts when they
/// enter, so they never wait for each other in a circle.
struct Merging<'a> {
    volume: &'a Volume,
    id: u64,
}

impl<'a> Merging<'a> {
    fn enter(volume: &'a Volume, changes: &[Change<'_>]) -> Result<Option<Merging<'a>>> {
        let partials = partials(changes);
        if partials.is_empty() {
            return Ok(None);
        }
        let touched: Vec<Touched> = changes.iter().map(Change::touched).collect();
        let mut state = volume.state.lock();
        while (state.merging.values()).any(|other| {
            other.partials_in(&touched) || partials.iter().any(|key| touches(&other.touched, *key))
        }) {
            state.check()?;
            volume.changed.wait(&mut state);
        }
        state.merge_count += 1;
        let id = state.merge_count;
        state.merging.insert(id, Merge { partials, touched });
        let merging = Merging { volume, id };
        // What was put in the queue before is what is going to be read.
        let ticket = Ticket(state.lane(Stream::Callers).tickets);
        drop(state);
        volume.wait(ticket)?;
        Ok(Some(merging))
    }
}

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        self.volume.state.lock().merging.remove(&self.id);
        self.volume.changed.notify_all();
    }
}
