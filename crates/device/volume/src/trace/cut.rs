//! What of the writes in flight a power cut leaves.

use super::error::{Result, TraceError};
use super::event::EventNumber;
use env::Rng;
use std::collections::BTreeSet;
use std::ops::Range;

/// Sectors of one write that are decided one by one; a longer write keeps one run of its sectors.
const SECTORS_MAX: u64 = 4096;

/// What is lost of the writes that nothing has made durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing.
    Nothing,
    /// All of them.
    Everything,
    /// These.
    Writes(BTreeSet<EventNumber>),
    /// What a generator says: each write whole, not at all, or some of its sectors.
    Random {
        /// Of the generator, together with the place of the cut.
        seed: u64,
        /// Bytes of a sector, which is whole or not there: a multiple of 512.
        sector_bytes: u64,
    },
}

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// All of it is there.
    Whole,
    /// Nothing of it is.
    Nothing,
    /// So many bytes of it are.
    Part(u64),
}

/// A write that was in flight, and what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// The event with which it came in.
    pub write: EventNumber,
    /// Where.
    pub offset: u64,
    /// Bytes of it.
    pub length: u64,
    /// What is there.
    pub kept: Kept,
}

/// How a random cut treats the writes: what is found differs, so each is tried.
#[derive(Clone, Copy)]
enum Style {
    /// Whole or not, with this chance of four.
    Whole(u64),
    /// Every sector with this chance of four.
    Sectors(u64),
    /// The first so many whole, the next one torn, the rest lost: as if they went down in order.
    Order(usize),
    /// All but this one, which is torn.
    AllBut(usize),
    /// A third each: whole, lost, torn.
    Thirds,
}

/// Decides over writes in flight, which are given in order.
pub(super) struct Judge<'l> {
    loss: &'l Loss,
    style: Style,
    rng: Rng,
}

impl<'l> Judge<'l> {
    /// For a cut behind `event` with `in_flight` writes.
    pub(super) fn new(loss: &'l Loss, event: EventNumber, in_flight: usize) -> Judge<'l> {
        let seed = match loss {
            Loss::Random { seed, .. } => *seed,
            _ => 0,
        };
        let mut rng = Rng::new(seed ^ event.0.rotate_left(32));
        let style = match rng.below(6) {
            0 => Style::Whole(rng.below(5)),
            1 => Style::Sectors(1 + rng.below(3)),
            2 | 3 => Style::Order(rng.index(in_flight + 1)),
            4 => Style::AllBut(rng.index(in_flight)),
            _ => Style::Thirds,
        };
        Judge { loss, style, rng }
    }

    /// The ranges that are there of write number `index` of those in flight.
    pub(super) fn kept(
        &mut self,
        index: usize,
        write: EventNumber,
        range: &Range<u64>,
    ) -> Vec<Range<u64>> {
        let whole = || vec![range.clone()];
        let sector = match self.loss {
            Loss::Nothing => return whole(),
            Loss::Everything => return Vec::new(),
            Loss::Writes(lost) if lost.contains(&write) => return Vec::new(),
            Loss::Writes(_) => return whole(),
            Loss::Random { sector_bytes, .. } => (*sector_bytes).max(512),
        };
        match self.style {
            Style::Whole(wins) if self.rng.chance(wins, 4) => whole(),
            Style::Whole(_) => Vec::new(),
            Style::Sectors(wins) => self.torn(range, sector, wins),
            Style::Order(first) if index < first => whole(),
            Style::Order(first) if index > first => Vec::new(),
            Style::AllBut(other) if index != other => whole(),
            Style::Order(_) | Style::AllBut(_) => self.torn(range, sector, 2),
            Style::Thirds => match self.rng.below(3) {
                0 => whole(),
                1 => Vec::new(),
                _ => self.torn(range, sector, 2),
            },
        }
    }

    /// Some sectors of a range: each with a chance of `wins` of four, or a run.
    fn torn(&mut self, range: &Range<u64>, sector: u64, wins: u64) -> Vec<Range<u64>> {
        let first = range.start / sector;
        let sectors = range.end.div_ceil(sector) - first;
        let bytes = |from: u64, to: u64| {
            let start = (first + from).saturating_mul(sector).max(range.start);
            start..(first + to).saturating_mul(sector).min(range.end)
        };
        // Devices write what is long from its start, or leave its start out.
        if sectors > SECTORS_MAX || self.rng.chance(1, 3) {
            let at = self.rng.below(sectors + 1);
            let kept = match self.rng.chance(2, 3) {
                true => bytes(0, at),
                false => bytes(at, sectors),
            };
            return Some(kept)
                .into_iter()
                .filter(|kept| !kept.is_empty())
                .collect();
        }
        let kept = (0..sectors).filter(|_| self.rng.chance(wins, 4));
        kept.map(|sector| bytes(sector, sector + 1)).collect()
    }
}

/// What is left of a range of which these parts are there.
pub(super) fn summary(range: &Range<u64>, kept: &[Range<u64>]) -> Kept {
    let bytes: u64 = kept.iter().map(|part| part.end - part.start).sum();
    match bytes {
        0 => Kept::Nothing,
        all if all == range.end - range.start => Kept::Whole,
        some => Kept::Part(some),
    }
}

/// Refuses to lose what is not in flight.
pub(super) fn check(loss: &Loss, in_flight: impl Fn(EventNumber) -> bool) -> Result<()> {
    let Loss::Writes(named) = loss else {
        return Ok(());
    };
    match named.iter().find(|event| !in_flight(**event)) {
        None => Ok(()),
        Some(event) => Err(TraceError::NotInFlight { event: *event }),
    }
}
