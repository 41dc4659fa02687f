//! Where the power is cut.

use crate::recording::Recording;
use env::Rng;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use volume::trace::{Cut, Ending, Event, EventNumber, Loss, Trace, Walk};

/// Bytes of a sector that is whole or not there.
const SECTOR_BYTES: u64 = 4096;

/// How many cuts a test makes.
pub(crate) fn wanted(usually: u64) -> u64 {
    match std::env::var("HOLDFAST_CUTS") {
        Ok(number) => number.parse().expect("HOLDFAST_CUTS is a number"),
        Err(_) => usually,
    }
}

/// A point.
pub(crate) struct Point {
    pub(crate) event: u64,
    pub(crate) loss: Loss,
    /// The mark before it; 0 where there is none.
    pub(crate) done: i64,
}

impl Point {
    /// For messages: what replays it.
    pub(crate) fn name(&self) -> String {
        format!("event {}, {:?}, {} done", self.event, self.loss, self.done)
    }
}

/// Goes through a recording and cuts the power at so many points, at most one at an event, all behind
/// the first mark. Marks are numbers. Every second point is where much is in flight, for most of the
/// time nothing is.
pub(crate) fn each(recording: &Recording, count: u64, mut act: impl FnMut(&Point, Cut)) {
    let go_on = |point: &Point, cut| {
        act(point, cut);
        ControlFlow::Continue(())
    };
    while_going_on(recording, count, go_on);
}

/// As [`each`], for cuts that are to find something: until `FOUND` of at most `FOUND_WITHIN` have, or the
/// test fails.
pub(crate) fn need_found(recording: &Recording, mut finds: impl FnMut(&Point, Cut) -> bool) {
    let (mut found, mut count) = (0, 0);
    while_going_on(recording, FOUND_WITHIN, |point, cut| {
        found += u64::from(finds(point, cut));
        count += 1;
        match found {
            FOUND => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    println!("{found} of {count} cuts have found it");
    assert_eq!(found, FOUND, "of {count} cuts");
}

/// Cuts that have to find a planted fault.
const FOUND: u64 = 3;

/// Of so many. It takes 1 of 3 to 1 of 10, as it is timed.
const FOUND_WITHIN: u64 = 300;

fn while_going_on(
    recording: &Recording,
    count: u64,
    mut act: impl FnMut(&Point, Cut) -> ControlFlow<()>,
) {
    let trace = recording.trace();
    let in_flight = in_flight(&trace, recording);
    let mut rng = Rng::new(in_flight.len() as u64);
    let mut points = BTreeSet::new();
    let count = count.min(in_flight.len() as u64) as usize;
    let mut draw = || rng.index(in_flight.len());
    while points.len() < count {
        let drawn = match points.len() % 2 {
            0 => draw(),
            _ => {
                let drawn = std::array::from_fn::<_, 8, _>(|_| draw());
                let most = drawn.into_iter().max_by_key(|index| in_flight[*index].1);
                most.expect("there are eight")
            }
        };
        points.insert(in_flight[drawn].0);
    }
    let mut walk = Walk::new(&trace, recording.base()).expect("the base is the one");
    let mut done = 0;
    for (number, event) in (0..).zip(points) {
        while walk.at() < EventNumber(event) {
            let found = walk
                .step()
                .expect("it can be read")
                .expect("it goes as far");
            if let Event::Mark(text) = found.event {
                let text = String::from_utf8(text).expect("a number");
                done = text.trim().parse().expect("a number");
            }
        }
        let loss = match number % 8 {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            _ => Loss::Random {
                seed: number,
                sector_bytes: SECTOR_BYTES,
            },
        };
        let cut = walk.cut(&loss).expect("nothing was chosen");
        let point = Point { event, loss, done };
        if act(&point, cut).is_break() {
            return;
        }
    }
}

/// Every event behind the first mark, and how many bytes of writes are in flight there.
fn in_flight(trace: &Trace, recording: &Recording) -> Vec<(u64, u64)> {
    let mut walk = Walk::new(trace, recording.base()).expect("the base is the one");
    let mut found = Vec::new();
    let mut marked = false;
    while let Some(next) = walk.step().expect("it can be read") {
        if marked {
            found.push((next.number.0, walk.in_flight_bytes()));
        }
        marked |= matches!(next.event, Event::Mark(_));
    }
    assert_eq!(walk.ending(), Some(Ending::Clean));
    assert!(!found.is_empty(), "there is no mark");
    found
}
