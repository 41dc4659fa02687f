//! The effect of a flight on the map: the same at work and in a replay.

use super::state::{Lane, State};
use crate::entry::Entry;
use crate::flight::{Spots, Stream};
use crate::id::{Flight, Place};
use crate::map::{Map, Mapped};
use crate::segments::Segments;

impl State {
    /// Applies the flights that are written, as far as there is no gap.
    pub(super) fn apply_ready(&mut self) {
        while self.aloft.front().is_some_and(|flight| flight.done) {
            let Some(flight) = self.aloft.pop_front() else {
                return;
            };
            let number = self.applied_below;
            let lane = &mut self.lanes[flight.stream.number()];
            apply(
                &mut self.map,
                &mut self.segments,
                lane,
                number,
                &flight.entries,
                flight.spots,
            );
            if let Some(ticket) = flight.ticket {
                lane.applied = ticket;
            }
            self.applied_below = number.next();
        }
    }

    /// Applies a flight that recovery found.
    pub(super) fn replay(
        &mut self,
        stream: Stream,
        flight: Flight,
        entries: &[(Entry, bool)],
        spots: Spots,
    ) {
        let lane = &mut self.lanes[stream.number()];
        apply(
            &mut self.map,
            &mut self.segments,
            lane,
            flight,
            entries,
            spots,
        );
    }
}

/// Adds a flight to the run of its stream; what ends with it goes to the map as one.
fn apply(
    map: &mut Map,
    segments: &mut Segments,
    lane: &mut Lane,
    flight: Flight,
    entries: &[(Entry, bool)],
    spots: Spots,
) {
    let mut place = spots.data;
    for (entry, ends) in entries {
        lane.run_since.get_or_insert(flight);
        let packed = entry.slot().map(|slot| spots.pack(slot));
        lane.run.push((*entry, packed.unwrap_or(place)));
        place = place.after(entry.data_blocks());
        if *ends {
            for (entry, place) in lane.run.drain(..) {
                change(map, segments, entry, place);
            }
            lane.run_since = None;
        }
    }
}

/// One change.
pub(super) fn change(map: &mut Map, segments: &mut Segments, entry: Entry, place: Place) {
    let mut gone = |place: Place, count: u32| segments.of(place).live -= count;
    match entry {
        Entry::Write {
            object,
            block,
            count,
        } => {
            map.set(object, block, count, Mapped::At(place), &mut gone);
            segments.of(place).live += count;
        }
        Entry::Move {
            object,
            block,
            count,
            from,
        } => {
            let to = Mapped::At(place);
            let taken = map.exchange(object, block, count, from, to, &mut gone);
            let taken: u32 = taken.iter().map(|(_, count)| count).sum();
            segments.of(place).live += taken;
        }
        // Each has the place of the pack; who reads finds it there by its name.
        Entry::Pack {
            object,
            block,
            count,
            ..
        } => {
            for at in 0..count {
                let to = Mapped::At(place);
                map.set(object, block.after(at), 1, to, &mut gone);
            }
            segments.of(place).live += count;
        }
        Entry::Repack {
            object,
            block,
            from,
            ..
        } => {
            let to = Mapped::At(place);
            let taken = map.exchange(object, block, 1, from, to, &mut gone);
            segments.of(place).live += taken.len() as u32;
        }
        Entry::Punch {
            object,
            block,
            count,
        } => map.set(object, block, count, Mapped::Hole, &mut gone),
        Entry::Grow { object, size } => map.grow(object, size),
        Entry::Resize { object, size } => map.resize(object, size, &mut gone),
        Entry::Remove { object } => map.remove(object, &mut gone),
        Entry::Lost {
            object,
            block,
            count,
            from,
        } => {
            map.exchange(object, block, count, from, Mapped::Lost, &mut gone);
        }
    }
}
