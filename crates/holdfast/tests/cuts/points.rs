//! Where the power is cut.

use crate::recording::Recording;
use env::Rng;
use std::collections::BTreeSet;
use volume::trace::{Cut, Ending, Event, EventNumber, Loss, Walk};

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
/// the first mark. Marks are numbers.
pub(crate) fn each(recording: &Recording, count: u64, mut act: impl FnMut(&Point, Cut)) {
    let trace = recording.trace();
    let mut reader = trace.reader();
    let mut first = None;
    let mut last = 0;
    while let Some(found) = reader.read_next().expect("it can be read") {
        if let Event::Mark(_) = found.event {
            first = first.or(Some(found.number.0));
        }
        last = found.number.0;
    }
    assert_eq!(reader.ending(), Some(Ending::Clean));
    let first = first.expect("a mark");
    let mut rng = Rng::new(last);
    let mut points = BTreeSet::new();
    while (points.len() as u64) < count.min(last - first) {
        points.insert(first + 1 + rng.below(last - first));
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
        act(&point, cut);
    }
}
