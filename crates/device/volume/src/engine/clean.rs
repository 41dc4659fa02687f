//! The cleaner: moves what still counts out of segments where little does.
//!
//! The choice is after Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured
//! File System" (TOCS 1992), section 3.6: the most of (1 - u) * age / (1 + u), where u is the part
//! of a segment that counts and age the time since its youngest block was written. Here the age
//! counts by its fourth root: for zipfian writes (exponent 0.99) to a volume that is four fifths full
//! (`examples/steady_state.rs`) that moved 0.45 blocks for each one written, the square root 0.53, the
//! power 0.7 0.63; uniform writes and a full volume have the same order. What was moved has lived for a
//! while: it goes to a head of its own, so that blocks that will die soon and blocks that will not do
//! not share segments, in the order of its age.

use super::commit::room_for_callers;
use super::group::Group;
use super::read::open_pack;
use super::state::State;
use super::sums::Stored;
use super::{Ticket, Volume};
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::entry::Entry;
use crate::error::Result;
use crate::flight::{BlockKey, PACK_OBJECT, Stream};
use crate::id::{BlockIndex, ObjectId, Place, Segment, Use};
use crate::map::Mapped;
use crate::pack;
use crate::segments::Phase;
use crate::table::Row;
use std::collections::HashSet;
use std::sync::Arc;

/// Blocks of a group of the cleaner: half a flight, so that two fill one.
const MOVE_BLOCKS: usize = 128;

/// Blocks in the cleaner's queue before it is written: 8 MiB.
const WAITING_BLOCKS_MAX: usize = 2048;

/// Segments that a pass fills at most, where checkpoints are short: 64 MiB of the default size, so
/// that nobody waits long for a pass.
const PASS_SEGMENTS_MIN: u64 = 16;

/// A segment of which more counts is emptied only where there is no other.
const USED_MAX: f64 = 0.9;

/// A segment that is to be emptied.
struct Victim {
    nearly_full: bool,
    worth: f64,
    segment: Segment,
    segment_use: Use,
    live: u32,
    stamp: u64,
}

/// What a pass moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pass {
    pub(super) segments: u64,
}

/// A block of a pack that is to be moved.
struct Packed {
    object: ObjectId,
    block: BlockIndex,
    from: Place,
    content: Block,
    squeezed: Arc<[u8]>,
}

/// A run of blocks that is to be moved.
struct Live {
    object: ObjectId,
    block: BlockIndex,
    from: Place,
    sums: Vec<u32>,
}

impl Volume {
    /// Cleans until at least `segments` are free for callers, or nothing is gained any more.
    /// Returns how many are.
    ///
    /// # Errors
    /// Of the disks.
    pub fn clean(&self, segments: u64) -> Result<u64> {
        if self.read_only {
            return Err(crate::VolumeError::ReadOnly);
        }
        let _upkeep = self.upkeep.lock();
        let reserve = u64::from(self.geometry.reserve_segments());
        let free = || (self.state.lock().segments.free_count()).saturating_sub(reserve);
        self.save()?;
        let mut most = free();
        let mut vain = 0;
        while most < segments && vain < 2 {
            if self.pass()?.segments == 0 {
                break;
            }
            self.save()?;
            let now = free();
            vain = if now > most { 0 } else { vain + 1 };
            most = most.max(now);
        }
        Ok(free())
    }

    /// For a thread of the front end: cleans a little where free segments are few, and
    /// checkpoints where there is much to replay. Says whether it did anything.
    ///
    /// # Errors
    /// Of the disks.
    pub fn maintain(&self) -> Result<bool> {
        if self.read_only {
            return Ok(false);
        }
        let _upkeep = self.upkeep.lock();
        let (short, due, written, free) = {
            let state = self.state.lock();
            state.check()?;
            let reserve = u64::from(self.geometry.reserve_segments());
            let free = state.segments.free_count();
            let dead = state.segments.dead_below(state.replay_from()).len() as u64;
            let written = state.counters.written_blocks;
            // What was in vain is not tried again before something has changed.
            let short = free + dead < reserve + reserve / 2 && state.vain_at != Some(written);
            // What is written since then is read at a start: 128 times the map, at most a quarter of all.
            let replay = self.segments_of_maps(&state, 128);
            let replay = replay.min(u64::from(self.geometry.segments()) / 4);
            let due = dead >= reserve || state.taken >= replay;
            (short, due, written, free)
        };
        if !short && !due {
            return Ok(false);
        }
        if short {
            self.pass()?;
        }
        self.save()?;
        let mut state = self.state.lock();
        if short && state.segments.free_count() <= free {
            state.vain_at = Some(written);
        }
        Ok(true)
    }

    /// Segments after which a checkpoint costs little beside what was written to them: with its two copies
    /// a sixteenth.
    fn segments_worth_a_checkpoint(&self, state: &State) -> u64 {
        self.segments_of_maps(state, 32)
    }

    fn segments_of_maps(&self, state: &State, maps: u64) -> u64 {
        let segment_bytes = u64::from(self.geometry.segment_blocks) * BLOCK_BYTES as u64;
        PASS_SEGMENTS_MIN.max(maps * state.map.encoded_bytes() / segment_bytes)
    }

    /// Makes room for a group that needs so many blocks of the log; `false` where there cannot be.
    pub(super) fn make_room(&self, needed: u64) -> Result<bool> {
        let _upkeep = self.upkeep.lock();
        let (mut free, possible) = {
            let state = self.state.lock();
            (
                room_for_callers(&state, &self.geometry),
                self.possible(&state),
            )
        };
        if free >= needed {
            return Ok(true);
        }
        if possible < needed {
            return Ok(false);
        }
        // What is dead already costs only a checkpoint; where that is little, the one behind the next pass
        // frees it too.
        let dead = {
            let state = self.state.lock();
            state.segments.dead_below(state.replay_from()).len() as u64
        };
        if dead >= u64::from(self.geometry.reserve_segments()) / 4 {
            self.save()?;
        }
        let mut vain = 0;
        loop {
            let now = room_for_callers(&self.state.lock(), &self.geometry);
            if now >= needed {
                return Ok(true);
            }
            vain = if now > free { 0 } else { vain + 1 };
            free = free.max(now);
            // A segment that is emptied in part gains nothing yet, the rest of it will.
            if vain > 64 || self.pass()?.segments == 0 {
                return Ok(false);
            }
            self.save()?;
        }
    }

    /// Blocks that would be free for callers if the whole log were clean.
    fn possible(&self, state: &State) -> u64 {
        let of_segment = u64::from(self.geometry.flight_blocks());
        let live = state.map.mapped_blocks() * 101 / 100;
        let kept = live.div_ceil(of_segment)
            + u64::from(self.geometry.reserve_segments())
            + Stream::ALL.len() as u64;
        let segments = u64::from(self.geometry.segments()).saturating_sub(kept);
        (segments * (of_segment - 4)).saturating_sub(state.promised_blocks)
    }

    /// Empties as many segments as fit into the reserve. They are free after a checkpoint.
    pub(super) fn pass(&self) -> Result<Pass> {
        let victims = self.victims();
        let mut pass = Pass::default();
        let mut last = None;
        let mut waiting = 0;
        for victim in victims {
            last = self.empty(&victim)?.or(last);
            pass.segments += 1;
            waiting += victim.live as usize;
            // Enough to fill flights, and not much memory.
            if waiting >= WAITING_BLOCKS_MAX
                && let Some(ticket) = last
            {
                self.wait_for(Stream::Cleaner, ticket)?;
                waiting = 0;
            }
        }
        if let Some(ticket) = last {
            self.wait_for(Stream::Cleaner, ticket)?;
        }
        self.state.lock().counters.cleaned_segments += pass.segments;
        Ok(pass)
    }

    /// The segments to empty next, the most worthwhile first.
    fn victims(&self) -> Vec<Victim> {
        let state = self.state.lock();
        let replay_from = state.replay_from();
        let now = state.next_flight.0;
        let size = f64::from(self.geometry.flight_blocks());
        let mut all: Vec<Victim> = (state.segments.all())
            .filter(|(_, of)| {
                of.phase == Phase::Closed
                    && of.under_way == 0
                    && of.live > 0
                    && of.last_flight < replay_from
            })
            .map(|(segment, of)| {
                let used = f64::from(of.live) / size;
                let age = now.saturating_sub(of.stamp) as f64 + 1.0;
                Victim {
                    // Segments that are nearly full come last: to move them gains next to nothing,
                    // however old they are.
                    nearly_full: used > USED_MAX,
                    worth: (1.0 - used) * age.sqrt().sqrt() / (1.0 + used),
                    segment,
                    segment_use: of.segment_use,
                    live: of.live,
                    stamp: of.stamp,
                }
            })
            .collect();
        all.sort_by(|a, b| {
            let rest = || b.worth.total_cmp(&a.worth);
            a.nearly_full.cmp(&b.nearly_full).then_with(rest)
        });
        let reserve = u64::from(self.geometry.reserve_segments());
        // A pass ends with a checkpoint, so it has to be long where that is.
        let worth_it = self.segments_worth_a_checkpoint(&state);
        let spare = state.segments.free_count().saturating_sub(1);
        let segments = spare.min(reserve).min(worth_it).max(1);
        // Headers take a block of every 129, and where a segment ends.
        let flight_blocks = u64::from(self.geometry.flight_blocks());
        let usable = flight_blocks - flight_blocks.div_ceil(MOVE_BLOCKS as u64) - 1;
        let mut room = segments * usable;
        let mut victims = Vec::new();
        for victim in all {
            let live = u64::from(victim.live);
            if live > room {
                break;
            }
            room -= live;
            victims.push(victim);
        }
        // Blocks of like age go to the same segments.
        victims.sort_by_key(|victim| victim.stamp);
        victims
    }

    /// Puts what counts of a segment into the cleaner's queue.
    fn empty(&self, victim: &Victim) -> Result<Option<Ticket>> {
        let Victim {
            segment,
            segment_use,
            stamp,
            ..
        } = *victim;
        let rows = {
            let state = self.state.lock();
            state.building.get(&segment).cloned()
        };
        let rows = match rows {
            Some(rows) => rows,
            None => self.load_rows(segment, segment_use)?,
        };
        let mut ticket = None;
        let mut pending = Moving::default();
        let packed = self.packed(segment, segment_use, &rows)?;
        let (live, packed, unknown) = self.live_runs(segment, &rows, packed);
        for run in live {
            let count = run.sums.len() as u32;
            let good = self.content(&run, segment_use)?;
            for (at, (content, sum)) in (0..count).zip(good) {
                let (block, from) = (run.block.after(at), run.from.after(at));
                pending.push(run.object, block, from, content, (sum, None));
                if pending.data.len() == MOVE_BLOCKS {
                    ticket = Some(self.move_group(&mut pending, stamp)?);
                }
            }
        }
        for one in packed {
            let sum = codec::crc32c(&one.content.0);
            // As it was compressed: to pack it again costs nothing.
            let how = (sum, Some(one.squeezed));
            pending.push(one.object, one.block, one.from, Some(one.content), how);
            if pending.data.len() == MOVE_BLOCKS {
                ticket = Some(self.move_group(&mut pending, stamp)?);
            }
        }
        let lost = pending.lost.len() + unknown.len();
        pending.lost.extend(unknown);
        if !pending.data.is_empty() || !pending.lost.is_empty() {
            ticket = Some(self.move_group(&mut pending, stamp)?);
        }
        self.state.lock().counters.lost_blocks += lost as u64;
        Ok(ticket)
    }

    fn move_group(&self, pending: &mut Moving, stamp: u64) -> Result<Ticket> {
        let moving = std::mem::take(pending);
        let mut entries = moving.entries;
        entries.extend(moving.lost);
        let squeezed = match self.packs {
            true => moving.squeezed,
            false => Vec::new(),
        };
        let (data, sums) = (moving.data, moving.sums);
        self.begin_move(Group::moved(entries, data, sums, squeezed, stamp))
    }

    /// What the packs of a segment have. One that is damaged is left out.
    fn packed(
        &self,
        segment: Segment,
        segment_use: Use,
        rows: &[Option<Row>],
    ) -> Result<Vec<Packed>> {
        let mut all = Vec::new();
        for (index, row) in (0..).zip(rows) {
            let stored = match row {
                Some(Row::Pack { sum }) => Stored::Pack(*sum),
                Some(Row::Header) => Stored::Header,
                _ => continue,
            };
            let from = self.geometry.place(segment, index);
            let mut block = Block::zeros(1);
            let (disk, offset) = self.geometry.locate(from);
            let read = self.read_disk(disk, offset, &mut block, "reading what is moved");
            let key = BlockKey {
                volume: self.id,
                object: PACK_OBJECT,
                block: BlockIndex(0),
                place: from,
                segment_use,
            };
            let Ok(pack) = open_pack(&key, stored, bytes(&block)) else {
                continue;
            };
            let members = match read {
                Ok(()) => pack::decode(&pack).unwrap_or_default(),
                Err(_) => Vec::new(),
            };
            for member in members {
                let mut content = Block([0; BLOCK_BYTES]);
                if member.expand(&mut content.0).is_ok() {
                    all.push(Packed {
                        object: member.object,
                        block: member.block,
                        from,
                        content,
                        squeezed: Arc::from(member.squeezed),
                    });
                }
            }
        }
        Ok(all)
    }

    /// Runs of a segment that the map has, what it has of the packs, and what it has there though
    /// neither row nor pack says so.
    fn live_runs(
        &self,
        segment: Segment,
        rows: &[Option<Row>],
        mut packed: Vec<Packed>,
    ) -> (Vec<Live>, Vec<Packed>, Vec<Entry>) {
        let state = self.state.lock();
        let mut runs: Vec<Live> = Vec::new();
        let mut found = 0;
        for (index, row) in (0..).zip(rows) {
            let Some(Row::Block { object, block, sum }) = *row else {
                continue;
            };
            let place = self.geometry.place(segment, index);
            if state.map.find(object, block, 1).0 != Mapped::At(place) {
                continue;
            }
            found += 1;
            if let Some(last) = runs.last_mut() {
                let count = last.sums.len() as u32;
                let goes_on = last.object == object
                    && last.block.after(count) == block
                    && last.from.after(count) == place;
                if goes_on {
                    last.sums.push(sum);
                    continue;
                }
            }
            runs.push(Live {
                object,
                block,
                from: place,
                sums: vec![sum],
            });
        }
        packed.retain(|one| state.map.find(one.object, one.block, 1).0 == Mapped::At(one.from));
        found += packed.len() as u32;
        if found == state.segments.get(segment).live {
            return (runs, packed, Vec::new());
        }
        let of_packs: HashSet<_> = (packed.iter())
            .map(|one| (one.object, one.block, one.from))
            .collect();
        let known = |object, block, place: Place| {
            let row = rows.get(self.geometry.index(place) as usize);
            match row.copied().flatten() {
                Some(Row::Block {
                    object: of,
                    block: at,
                    ..
                }) => (of, at) == (object, block),
                _ => of_packs.contains(&(object, block, place)),
            }
        };
        let mut unknown = Vec::new();
        for (object, block, count, place) in state.map.places() {
            if self.geometry.segment(place) != segment {
                continue;
            }
            for at in 0..count {
                let (block, from) = (block.after(at), place.after(at));
                if !known(object, block, from) {
                    unknown.push(Entry::Lost {
                        object,
                        block,
                        count: 1,
                        from,
                    });
                }
            }
        }
        (runs, packed, unknown)
    }

    /// Each block of a run with the CRC-32C of its content; `None` where it is damaged.
    fn content(&self, run: &Live, segment_use: Use) -> Result<Vec<(Option<Block>, u32)>> {
        let mut blocks = Block::zeros(run.sums.len());
        let (disk, offset) = self.geometry.locate(run.from);
        let read = self.read_disk(disk, offset, &mut blocks, "reading what is moved");
        if read.is_err() {
            // Some sector cannot be read: find out which.
            for (at, block) in (0..).zip(&mut blocks) {
                let one = std::slice::from_mut(block);
                let offset = offset + at * BLOCK_BYTES as u64;
                if self
                    .read_disk(disk, offset, one, "reading what is moved")
                    .is_err()
                {
                    one[0].0.fill(0);
                }
            }
        }
        let mut good = Vec::with_capacity(blocks.len());
        for ((at, block), stored) in (0..).zip(blocks).zip(&run.sums) {
            let key = BlockKey {
                volume: self.id,
                object: run.object,
                block: run.block.after(at),
                place: run.from.after(at),
                segment_use,
            };
            let content = codec::crc32c(bytes(std::slice::from_ref(&block)));
            let whole = key.sum(content) == *stored;
            good.push((whole.then_some(block), content));
        }
        Ok(good)
    }
}

/// A group of moves that grows.
#[derive(Default)]
struct Moving {
    entries: Vec<Entry>,
    lost: Vec<Entry>,
    data: Vec<Block>,
    sums: Vec<u32>,
    squeezed: Vec<Option<Arc<[u8]>>>,
}

impl Moving {
    fn push(
        &mut self,
        object: ObjectId,
        block: BlockIndex,
        from: Place,
        content: Option<Block>,
        (sum, squeezed): (u32, Option<Arc<[u8]>>),
    ) {
        let Some(content) = content else {
            self.lost.push(Entry::Lost {
                object,
                block,
                count: 1,
                from,
            });
            return;
        };
        self.data.push(content);
        self.sums.push(sum);
        self.squeezed.push(squeezed);
        if let Some(Entry::Move {
            object: last,
            block: first,
            count,
            from: start,
        }) = self.entries.last_mut()
            && *last == object
            && first.after(*count) == block
            && start.after(*count) == from
        {
            *count += 1;
            return;
        }
        self.entries.push(Entry::Move {
            object,
            block,
            count: 1,
            from,
        });
    }
}
