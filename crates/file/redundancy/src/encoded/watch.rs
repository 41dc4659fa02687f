//! Chunks whose stripe is being made: who changes one is noticed, and waits only for the moment in
//! which the stripe begins to stand.

use crate::label::ObjectId;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Reading goes on.
    Watched,
    /// Somebody has changed it since, or is about to.
    Changed,
    /// Changes wait.
    Standing,
}

#[derive(Debug)]
struct Range {
    offset: u64,
    end: u64,
    state: State,
    /// Which watch it belongs to.
    watch: u64,
}

#[derive(Default)]
struct Ranges {
    by_object: HashMap<ObjectId, Vec<Range>>,
    watches: u64,
}

/// What is watched.
#[derive(Default)]
pub(crate) struct Watch {
    ranges: Mutex<Ranges>,
    ended: Condvar,
    count: AtomicUsize,
}

/// Chunks that are watched until this is dropped.
pub(crate) struct Watched<'a> {
    watch: &'a Watch,
    number: u64,
}

/// Changes of the chunks wait until this is dropped.
pub(crate) struct Ready<'a> {
    _watched: Watched<'a>,
}

impl Watch {
    /// Whether nothing is watched. Who asks before a change that it begins within the gate's read
    /// side, and who watches passes the gate's write side before it reads, miss nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Watches ranges: object, offset and length.
    pub(crate) fn begin(
        &self,
        chunks: impl IntoIterator<Item = (ObjectId, u64, u64)>,
    ) -> Watched<'_> {
        let mut ranges = self.ranges.lock();
        ranges.watches += 1;
        let watch = ranges.watches;
        for (object, offset, length) in chunks {
            let range = Range {
                offset,
                end: offset.saturating_add(length),
                state: State::Watched,
                watch,
            };
            ranges.by_object.entry(object).or_default().push(range);
        }
        self.count.fetch_add(1, Ordering::AcqRel);
        Watched {
            watch: self,
            number: watch,
        }
    }

    /// A range is about to change: waits while a stripe with a chunk of it begins to stand, and
    /// tells who is making one.
    pub(crate) fn change(&self, object: ObjectId, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let mut ranges = self.ranges.lock();
        loop {
            let mut waits = false;
            for range in ranges.by_object.get_mut(&object).into_iter().flatten() {
                if range.offset < end && offset < range.end {
                    match range.state {
                        State::Standing => waits = true,
                        State::Watched | State::Changed => range.state = State::Changed,
                    }
                }
            }
            if !waits {
                return;
            }
            self.ended.wait(&mut ranges);
        }
    }
}

impl<'a> Watched<'a> {
    /// Whether nothing has changed so far.
    pub(crate) fn is_unchanged(&self) -> bool {
        let ranges = self.watch.ranges.lock();
        let mut all = ranges.by_object.values().flatten();
        all.all(|range| range.watch != self.number || range.state == State::Watched)
    }

    /// Keeps changes out from now on, where there has been none; else `None`.
    pub(crate) fn ready(self) -> Option<Ready<'a>> {
        let mut ranges = self.watch.ranges.lock();
        let mine = |ranges: &mut Ranges| -> bool {
            let all = ranges.by_object.values_mut().flatten();
            all.filter(|range| range.watch == self.number)
                .all(|range| range.state == State::Watched)
        };
        if !mine(&mut ranges) {
            drop(ranges);
            return None;
        }
        for range in ranges.by_object.values_mut().flatten() {
            if range.watch == self.number {
                range.state = State::Standing;
            }
        }
        drop(ranges);
        Some(Ready { _watched: self })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut ranges = self.watch.ranges.lock();
        ranges.by_object.retain(|_, of| {
            of.retain(|range| range.watch != self.number);
            !of.is_empty()
        });
        self.watch.count.fetch_sub(1, Ordering::AcqRel);
        self.watch.ended.notify_all();
    }
}
