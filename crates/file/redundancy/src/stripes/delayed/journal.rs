//! The log of differentials of one store.

use super::record::{
    ALIGNMENT, Content, HEAD_BYTES, Head, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKey, Spot,
    name,
};
use crate::label::StoreIndex;
use crate::set::SetId;
use crate::stripes::{Result, StripeError};
use env::errno::Errno;
use env::{Dir, Disk, Open};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file of the log.
pub(super) struct Segment {
    pub(super) store: StoreIndex,
    pub(super) number: u64,
    pub(super) disk: Arc<dyn Disk>,
    /// Where the next record begins.
    end: AtomicU64,
    /// Bytes that the file had when it was made or found.
    made_bytes: u64,
    /// Bytes in it that still count.
    live: AtomicU64,
}

impl Segment {
    pub(super) fn new(
        store: StoreIndex,
        number: u64,
        disk: Arc<dyn Disk>,
        end: u64,
    ) -> Arc<Segment> {
        Arc::new(Segment {
            store,
            number,
            disk,
            end: AtomicU64::new(end),
            made_bytes: end,
            live: AtomicU64::new(0),
        })
    }

    /// A segment that holds nothing yet.
    fn empty(store: StoreIndex, number: u64, disk: Arc<dyn Disk>, made_bytes: u64) -> Arc<Segment> {
        Arc::new(Segment {
            store,
            number,
            disk,
            end: AtomicU64::new(SEGMENT_HEADER_BYTES.into()),
            made_bytes,
            live: AtomicU64::new(0),
        })
    }

    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(super) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    fn live(&self) -> u64 {
        self.live.load(Ordering::Acquire)
    }
}

/// Bytes of the log that count as long as this value is there.
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    pub(super) at: u32,
    bytes: u32,
}

impl Place {
    pub(super) fn new(segment: &Arc<Segment>, at: u32, bytes: u32) -> Place {
        segment.live.fetch_add(bytes.into(), Ordering::AcqRel);
        Place {
            segment: segment.clone(),
            at,
            bytes,
        }
    }

    /// A part of it.
    pub(super) fn part(&self, from: u32, bytes: u32) -> Place {
        Place::new(&self.segment, self.at + from, bytes)
    }

    pub(super) fn store(&self) -> StoreIndex {
        self.segment.store
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.segment
            .live
            .fetch_sub(self.bytes.into(), Ordering::AcqRel);
    }
}

/// How many records a log had been given when something was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Ticket(u64);

pub(super) struct Journal {
    pub(super) store: StoreIndex,
    pub(super) set: SetId,
    pub(super) dir: Arc<dyn Dir>,
    segment_bytes: u32,
    state: Mutex<State>,
    /// One sync at a time.
    syncing: Mutex<()>,
    /// One segment is made ahead at a time. Taken before the state.
    preparing: Mutex<()>,
    /// The [`Ticket`] up to which all is durable.
    synced: AtomicU64,
}

struct State {
    /// The oldest first.
    segments: VecDeque<Arc<Segment>>,
    /// Whether the last of them takes more.
    open: bool,
    next_number: u64,
    /// The segment of the next number is being made; nobody else makes it.
    is_preparing: bool,
    /// The segment of the next number: all of it allocated, reads zeros, and durable with its name.
    spare: Option<Arc<Segment>>,
    unsynced: Vec<Arc<Segment>>,
    /// Syncs since the last segment was begun.
    syncs: u64,
    names_unsynced: bool,
    tickets: u64,
    durable: Spot,
    /// After a failure nothing is known of what was written.
    failed: Option<Errno>,
}

impl State {
    fn active(&self) -> Option<&Arc<Segment>> {
        self.segments.back().filter(|_| self.open)
    }

    fn note_unsynced(&mut self, segment: &Arc<Segment>) {
        let last = self.unsynced.last();
        if !last.is_some_and(|last| Arc::ptr_eq(last, segment)) {
            self.unsynced.push(segment.clone());
        }
    }
}

/// How many times its size a segment may get while the next is being made.
const BEYOND: u64 = 2;

/// A log that is synced less often than once in so many bytes gets segments that are allocated and
/// not written ahead: writing zeros costs as much as all that is then written, and saves a sync
/// the change of the file's extents.
const BYTES_A_SYNC: u64 = 256 << 10;

impl Journal {
    /// The log with these segments, all of them durable.
    pub(super) fn new(
        (set, store): (SetId, StoreIndex),
        dir: Arc<dyn Dir>,
        segment_bytes: u32,
        segments: VecDeque<Arc<Segment>>,
        durable: Spot,
    ) -> Journal {
        let next_number = segments.back().map_or(1, |last| last.number + 1);
        Journal {
            store,
            set,
            dir,
            segment_bytes,
            state: Mutex::new(State {
                segments,
                open: false,
                next_number,
                is_preparing: false,
                spare: None,
                unsynced: Vec::new(),
                syncs: 0,
                names_unsynced: false,
                tickets: 0,
                durable,
                failed: None,
            }),
            syncing: Mutex::new(()),
            preparing: Mutex::new(()),
            synced: AtomicU64::new(0),
        }
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(Errno) -> StripeError {
        StripeError::io(self.store, doing)
    }

    pub(super) fn key(&self, number: u64) -> SegmentKey {
        SegmentKey {
            set: self.set,
            store: self.store,
            number,
        }
    }

    /// Writes a record: `bytes` is all of it, the head's own bytes still empty. Gives where its
    /// content lies.
    ///
    /// # Errors
    /// The store failed, or is full.
    pub(super) fn append(
        &self,
        sequence: u64,
        content: Content,
        bytes: &mut [u8],
    ) -> Result<(Place, Ticket)> {
        assert!(
            bytes.len() == content.bytes() as usize,
            "a record of its own length"
        );
        let mut state = self.lock_with_room(bytes.len() as u64);
        if let Some(errno) = state.failed {
            return Err(self.io("writing a differential")(errno));
        }
        let segment = self.room(&mut state, bytes.len() as u64)?;
        let at = segment.end() as u32;
        let head = Head {
            sequence,
            durable: state.durable,
            content,
        };
        head.seal(&self.key(segment.number), at, bytes);
        let written = segment.disk.write_at(at.into(), bytes);
        written.map_err(self.io("writing a differential"))?;
        segment.set_end(u64::from(at) + bytes.len() as u64);
        state.note_unsynced(&segment);
        state.tickets += 1;
        let length = match content {
            Content::Write(span) => span.length,
            _ => 0,
        };
        let place = Place::new(&segment, at + content.head_bytes() as u32, length);
        Ok((place, Ticket(state.tickets)))
    }

    /// Waits where a record has no room before the segment is there that is being made.
    fn lock_with_room(&self, bytes: u64) -> MutexGuard<'_, State> {
        loop {
            let state = self.state.lock();
            let beyond = state
                .active()
                .is_none_or(|active| active.end() + bytes > BEYOND * u64::from(self.segment_bytes));
            if !(state.is_preparing && beyond) {
                return state;
            }
            drop(state);
            drop(self.preparing.lock());
        }
    }

    /// The segment that takes so many bytes.
    fn room(&self, state: &mut State, bytes: u64) -> Result<Arc<Segment>> {
        let last = state.active().cloned();
        if let Some(last) = &last
            && (last.end() + bytes <= u64::from(self.segment_bytes) || state.is_preparing)
        {
            return Ok(last.clone());
        }
        let spare = state.spare.take();
        if let Some(last) = &last {
            self.close_segment(state, last)?;
        }
        let number = state.next_number;
        let previous_end = state.segments.back().map_or(0, |last| last.end() as u32);
        let is_spare = spare.is_some();
        let segment = match spare {
            Some(spare) => spare,
            None => self.make_segment(number)?,
        };
        self.write_header(&segment, previous_end)?;
        state.names_unsynced |= !is_spare;
        state.next_number += 1;
        state.syncs = 0;
        state.open = true;
        state.segments.push_back(segment.clone());
        Ok(segment)
    }

    /// What was allocated and not used must not look like a record that is missing.
    fn close_segment(&self, state: &mut State, segment: &Arc<Segment>) -> Result<()> {
        let rest = segment.made_bytes.saturating_sub(segment.end()) as u32;
        if rest < ALIGNMENT {
            return Ok(());
        }
        let content = Content::Void(rest / ALIGNMENT * ALIGNMENT);
        let head = Head {
            sequence: 0,
            durable: state.durable,
            content,
        };
        let at = segment.end();
        let mut bytes = [0; HEAD_BYTES];
        head.seal(&self.key(segment.number), at as u32, &mut bytes);
        let written = segment.disk.write_at(at, &bytes);
        written.map_err(self.io("writing a differential"))?;
        segment.set_end(at + u64::from(content.bytes()));
        state.note_unsynced(segment);
        Ok(())
    }

    fn make_segment(&self, number: u64) -> Result<Arc<Segment>> {
        let file = name(number);
        let made = match self.dir.make(&file) {
            // A try before this one got no further.
            Err(Errno::EXIST) => self.dir.open(&file, Open::Write),
            made => made,
        };
        let disk = made.map_err(self.io("making a segment of differentials"))?;
        let length = disk.len();
        let length = length.map_err(self.io("making a segment of differentials"))?;
        Ok(Segment::empty(self.store, number, disk, length))
    }

    fn write_header(&self, segment: &Segment, previous_end: u32) -> Result<()> {
        let header = SegmentHeader {
            key: self.key(segment.number),
            previous_end,
        };
        let written = segment.disk.write_at(0, &header.encode());
        written.map_err(self.io("making a segment of differentials"))
    }

    /// Makes the next segment ahead, once half of this one is used: a sync of a file that is
    /// allocated and written already changes nothing but its bytes. Where syncs are rare it is
    /// allocated only.
    ///
    /// # Errors
    /// The store failed, or is full: then segments grow as they are written.
    pub(super) fn prepare(&self) -> Result<()> {
        let _one = self.preparing.lock();
        let (number, is_synced) = {
            let mut state = self.state.lock();
            let half = u64::from(self.segment_bytes / 2);
            let used = state.active().map_or(0, |active| active.end());
            if state.failed.is_some() || state.spare.is_some() || used < half {
                return Ok(());
            }
            state.is_preparing = true;
            (state.next_number, state.syncs * BYTES_A_SYNC >= used)
        };
        let made = self.make_spare(number, is_synced);
        let mut state = self.state.lock();
        state.is_preparing = false;
        state.spare = Some(made.map_err(self.io("making a segment of differentials"))?);
        Ok(())
    }

    fn make_spare(&self, number: u64, is_synced: bool) -> env::Result<Arc<Segment>> {
        let file = name(number);
        match self.dir.remove(&file) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let bytes = u64::from(self.segment_bytes);
        let disk = if is_synced {
            self.dir.open(&file, Open::Create(bytes))?
        } else {
            let disk = self.dir.open(&file, Open::Allocate(bytes))?;
            disk.sync()?;
            disk
        };
        self.dir.sync()?;
        Ok(Segment::empty(self.store, number, disk, bytes))
    }

    /// Makes what was written up to a ticket durable.
    ///
    /// # Errors
    /// The store failed; the log takes nothing any more.
    pub(super) fn sync(&self, ticket: Ticket) -> Result<()> {
        if self.synced.load(Ordering::Acquire) >= ticket.0 {
            return Ok(());
        }
        let _one = self.syncing.lock();
        if self.synced.load(Ordering::Acquire) >= ticket.0 {
            return Ok(());
        }
        let (segments, names, upto, durable) = {
            let mut state = self.state.lock();
            if let Some(errno) = state.failed {
                return Err(self.io("syncing differentials")(errno));
            }
            let durable = state.segments.back().map_or(state.durable, |last| Spot {
                segment: last.number,
                offset: last.end() as u32,
            });
            let names = std::mem::take(&mut state.names_unsynced);
            let unsynced = std::mem::take(&mut state.unsynced);
            state.syncs += 1;
            (unsynced, names, state.tickets, durable)
        };
        let data = segments.iter().try_for_each(|segment| segment.disk.sync());
        let synced = data.and_then(|()| if names { self.dir.sync() } else { Ok(()) });
        let mut state = self.state.lock();
        if let Err(errno) = synced {
            state.failed = Some(errno);
            return Err(self.io("syncing differentials")(errno));
        }
        state.durable = state.durable.max(durable);
        self.synced.store(upto, Ordering::Release);
        Ok(())
    }

    /// Has what a sync would make durable go on its way.
    pub(super) fn start_sync(&self) {
        let segments = self.state.lock().unsynced.clone();
        segments
            .iter()
            .for_each(|segment| segment.disk.start_sync());
    }

    /// As [`Journal::sync`], of everything.
    pub(super) fn sync_all(&self) -> Result<()> {
        let ticket = Ticket(self.state.lock().tickets);
        self.sync(ticket)
    }

    /// Notes that all of the log is durable, durably.
    pub(super) fn mark(&self, sequence: u64) -> Result<()> {
        self.sync_all()?;
        if self.state.lock().active().is_none() {
            return Ok(());
        }
        let (_, ticket) = self.append_plain(sequence, Content::Mark)?;
        self.sync(ticket)
    }

    /// Writes a record without content.
    pub(super) fn append_plain(&self, sequence: u64, content: Content) -> Result<(Place, Ticket)> {
        let mut bytes = [0; ALIGNMENT as usize];
        const { assert!(HEAD_BYTES <= ALIGNMENT as usize) };
        self.append(sequence, content, &mut bytes)
    }

    /// The oldest segment, where it takes no more.
    pub(super) fn oldest(&self) -> Option<Arc<Segment>> {
        let state = self.state.lock();
        let closed = state.segments.len() > usize::from(state.open);
        state.segments.front().filter(|_| closed).cloned()
    }

    /// Bytes of all segments, and of what counts in them.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let state = self.state.lock();
        let each = state.segments.iter();
        each.fold((0, 0), |(bytes, live), segment| {
            (bytes + segment.end(), live + segment.live())
        })
    }

    /// Removes segments of which nothing counts, from the oldest on: each durably before the
    /// next, so that what is left is always an end of the log. What replaced their content is
    /// made durable first.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn trim(&self, syncs: bool) -> Result<()> {
        let mut first = syncs;
        while let Some(oldest) = self.oldest().filter(|oldest| oldest.live() == 0) {
            if std::mem::take(&mut first) {
                self.sync_all()?;
            }
            let removed = self.dir.remove(&name(oldest.number));
            let removed = removed.and_then(|()| self.dir.sync());
            removed.map_err(self.io("removing differentials"))?;
            self.state.lock().segments.pop_front();
        }
        Ok(())
    }
}
