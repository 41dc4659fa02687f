//! Which segments are free, and how much of the others still counts.

use crate::geometry::Geometry;
use crate::id::{Flight, Place, Segment, Use};
use std::collections::VecDeque;

/// What a segment is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing: it may be taken.
    Free,
    /// A head of the log is in it.
    Open,
    /// Full, or left.
    Closed,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) segment_use: Use,
    /// Blocks that the map has in it.
    pub(crate) live: u32,
    /// The last flight in it.
    pub(crate) last_flight: Flight,
    /// The youngest of its blocks, in flights.
    pub(crate) stamp: u64,
    /// Flights in it that are being written.
    pub(crate) under_way: u32,
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Segments {
    states: Vec<State>,
    free: VecDeque<Segment>,
    geometry: Geometry,
}

impl Segments {
    /// All free.
    pub(crate) fn new(geometry: Geometry) -> Segments {
        let state = State {
            phase: Phase::Free,
            segment_use: Use(0),
            live: 0,
            last_flight: Flight(0),
            stamp: 0,
            under_way: 0,
        };
        Segments {
            states: vec![state; geometry.segments() as usize],
            free: (0..geometry.segments()).map(Segment).collect(),
            geometry,
        }
    }

    /// For a start: these are closed and have these uses, all others are free.
    pub(crate) fn recovered(geometry: Geometry, uses: &[Use]) -> Segments {
        let mut segments = Segments::new(geometry);
        for (state, segment_use) in segments.states.iter_mut().zip(uses) {
            if segment_use.0 != 0 {
                state.phase = Phase::Closed;
                state.segment_use = *segment_use;
                state.stamp = segment_use.0;
            }
        }
        segments.free = (segments.all())
            .filter(|(_, state)| state.phase == Phase::Free)
            .map(|(segment, _)| segment)
            .collect();
        segments
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Segment, &State)> {
        (0..).map(Segment).zip(&self.states)
    }

    pub(crate) fn get(&self, segment: Segment) -> State {
        self.states[segment.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, segment: Segment) -> &mut State {
        &mut self.states[segment.0 as usize]
    }

    pub(crate) fn of(&mut self, place: Place) -> &mut State {
        let segment = self.geometry.segment(place);
        self.get_mut(segment)
    }

    /// The use of the segment that a place is in.
    pub(crate) fn use_of(&self, place: Place) -> Use {
        self.get(self.geometry.segment(place)).segment_use
    }

    pub(crate) fn free_count(&self) -> u64 {
        self.free.len() as u64
    }

    /// Takes a free segment for the flights from `flight` on.
    pub(crate) fn take(&mut self, flight: Flight) -> Option<Segment> {
        let segment = self.free.pop_front()?;
        let state = self.get_mut(segment);
        assert_eq!((state.phase, state.live), (Phase::Free, 0), "{segment:?}");
        *state = State {
            phase: Phase::Open,
            segment_use: Use(flight.0),
            live: 0,
            last_flight: flight,
            stamp: flight.0,
            under_way: 0,
        };
        Some(segment)
    }

    /// Segments without a block that counts, whose flights are all below `replay_from`: nothing
    /// will ever refer to them again.
    pub(crate) fn dead_below(&self, replay_from: Flight) -> Vec<Segment> {
        let dead = |state: &State| {
            state.phase == Phase::Closed
                && state.live == 0
                && state.under_way == 0
                && state.last_flight < replay_from
        };
        (self.all())
            .filter(|(_, state)| dead(state))
            .map(|(segment, _)| segment)
            .collect()
    }

    /// Lets a dead segment be taken again.
    pub(crate) fn release(&mut self, segment: Segment) {
        let state = self.get_mut(segment);
        assert_eq!((state.phase, state.live), (Phase::Closed, 0), "{segment:?}");
        state.phase = Phase::Free;
        state.segment_use = Use(0);
        self.free.push_back(segment);
    }
}
