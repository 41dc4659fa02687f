//! The map of 512 blocks of an object: few runs, or a place for each block.

use crate::id::Place;

/// Blocks of a leaf: 2 MiB.
pub const LEAF_BLOCKS: u32 = 512;

/// More runs than this become places: 8 bytes each against 4 for each of 512 blocks. Below the
/// second they become runs again, when the leaf is next checkpointed.
const RUNS_MAX: usize = 256;
const RUNS_AGAIN: usize = 120;

/// Runs that a list grows by, so that it is never twice as long as it has to be.
const RUNS_STEP: usize = 8;

const HOLE: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// Nowhere: it reads as zeros.
    Hole,
    /// Its content was found damaged and given up.
    Lost,
    /// In the log; of several blocks the first.
    At(Place),
}

impl Mapped {
    fn code(self) -> u32 {
        match self {
            Mapped::Hole => HOLE,
            Mapped::Lost => LOST,
            Mapped::At(place) => place.0,
        }
    }

    fn from_code(code: u32) -> Mapped {
        match code {
            HOLE => Mapped::Hole,
            LOST => Mapped::Lost,
            place => Mapped::At(Place(place)),
        }
    }

    /// The same, `count` blocks on.
    pub fn after(self, count: u32) -> Mapped {
        match self {
            Mapped::At(place) => Mapped::At(place.after(count)),
            other => other,
        }
    }
}

/// Blocks of a leaf that follow each other in the log; never holes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First block in the leaf.
    pub start: u16,
    /// How many.
    pub length: u16,
    /// As [`Run::mapped`] says.
    code: u32,
}

const _: () = assert!(size_of::<Run>() == 8);

impl Run {
    /// Checked: inside of a leaf and not a hole.
    pub fn new(start: u32, length: u32, mapped: Mapped) -> Option<Run> {
        let inside = length > 0 && start.checked_add(length)? <= LEAF_BLOCKS;
        (inside && mapped != Mapped::Hole).then(|| Run {
            start: start as u16,
            length: length as u16,
            code: mapped.code(),
        })
    }

    /// Where the first block is.
    pub fn mapped(&self) -> Mapped {
        Mapped::from_code(self.code)
    }

    fn end(&self) -> u32 {
        u32::from(self.start) + u32::from(self.length)
    }

    /// The part from block `from` to block `to` of the leaf.
    fn part(&self, from: u32, to: u32) -> Option<Run> {
        let start = from.max(self.start.into());
        let end = to.min(self.end());
        let by = start.checked_sub(self.start.into())?;
        Run::new(start, end.checked_sub(start)?, self.mapped().after(by))
    }

    /// Both as one, where `next` goes on where this ends.
    fn joined(&self, next: &Run) -> Option<Run> {
        let goes_on = self.end() == u32::from(next.start)
            && self.mapped().after(self.length.into()) == next.mapped();
        let length = u32::from(self.length) + u32::from(next.length);
        goes_on.then(|| Run::new(self.start.into(), length, self.mapped()))?
    }
}

/// The map of a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// Ordered, apart from each other.
    Runs(Vec<Run>),
    /// A code for each block.
    Places(Box<[u32; LEAF_BLOCKS as usize]>),
}

impl Leaf {
    /// Nothing but holes.
    pub fn empty() -> Leaf {
        Leaf::Runs(Vec::new())
    }

    /// From runs in order; `None` where they are not.
    pub fn from_runs(runs: Vec<Run>) -> Option<Leaf> {
        let apart = |pair: &[Run]| match pair {
            [first, second] => first.end() <= second.start.into(),
            _ => true,
        };
        runs.windows(2).all(apart).then_some(Leaf::Runs(runs))
    }

    /// From a code for each block, as [`Leaf::codes`] gives them.
    pub fn from_codes(codes: Box<[u32; LEAF_BLOCKS as usize]>) -> Leaf {
        Leaf::Places(codes)
    }

    /// A code for each block, where it is kept so.
    pub fn codes(&self) -> Option<&[u32; LEAF_BLOCKS as usize]> {
        match self {
            Leaf::Runs(_) => None,
            Leaf::Places(codes) => Some(codes),
        }
    }

    /// Whether there are only holes.
    pub fn is_empty(&self) -> bool {
        match self {
            Leaf::Runs(runs) => runs.is_empty(),
            Leaf::Places(codes) => codes.iter().all(|code| *code == HOLE),
        }
    }

    /// All runs, in order.
    pub fn runs(&self) -> Vec<Run> {
        let codes = match self {
            Leaf::Runs(runs) => return runs.clone(),
            Leaf::Places(codes) => codes,
        };
        let mut runs: Vec<Run> = Vec::new();
        for (at, code) in (0..).zip(codes.iter()) {
            let Some(run) = Run::new(at, 1, Mapped::from_code(*code)) else {
                continue;
            };
            match runs
                .last_mut()
                .and_then(|last| Some((last.joined(&run)?, last)))
            {
                Some((joined, last)) => *last = joined,
                None => runs.push(run),
            }
        }
        runs
    }

    /// Where block `at` is, and how many from there on follow each other, up to `count`.
    pub fn find(&self, at: u32, count: u32) -> (Mapped, u32) {
        let end = (at + count).min(LEAF_BLOCKS);
        match self {
            Leaf::Runs(runs) => {
                let next = runs.partition_point(|run| run.end() <= at);
                match runs.get(next) {
                    Some(run) if u32::from(run.start) <= at => {
                        let mapped = run.mapped().after(at - u32::from(run.start));
                        (mapped, run.end().min(end) - at)
                    }
                    Some(run) => (Mapped::Hole, u32::from(run.start).min(end) - at),
                    None => (Mapped::Hole, end - at),
                }
            }
            Leaf::Places(codes) => {
                let code = |at: u32| codes.get(at as usize).copied().unwrap_or(HOLE);
                let first = Mapped::from_code(code(at));
                let same =
                    |at_next: &u32| Mapped::from_code(code(*at_next)) == first.after(*at_next - at);
                let length = 1 + (at + 1..end).take_while(same).count() as u32;
                (first, length)
            }
        }
    }

    /// Maps blocks anew; calls `displaced` for places that they had before.
    pub fn set(
        &mut self,
        at: u32,
        count: u32,
        mapped: Mapped,
        displaced: &mut impl FnMut(Place, u32),
    ) {
        match self {
            Leaf::Runs(runs) => {
                set_runs(runs, at, count, mapped, displaced);
                if runs.len() > RUNS_MAX {
                    self.spread();
                }
            }
            Leaf::Places(codes) => {
                let range = at as usize..(at + count) as usize;
                let room = codes.get_mut(range).unwrap_or_default();
                for (by, code) in (0..).zip(room) {
                    if let Mapped::At(place) = Mapped::from_code(*code) {
                        displaced(place, 1);
                    }
                    *code = mapped.after(by).code();
                }
                if count == LEAF_BLOCKS {
                    let run = Run::new(0, count, mapped);
                    *self = Leaf::Runs(run.into_iter().collect());
                }
            }
        }
    }

    fn spread(&mut self) {
        let mut codes = Box::new([HOLE; LEAF_BLOCKS as usize]);
        for run in self.runs() {
            let range = usize::from(run.start)..run.end() as usize;
            for (by, code) in (0..).zip(codes.get_mut(range).unwrap_or_default()) {
                *code = run.mapped().after(by).code();
            }
        }
        *self = Leaf::Places(codes);
    }

    /// Goes back to runs where that is much smaller.
    pub fn settle(&mut self) {
        if let Leaf::Places(_) = self {
            let runs = self.runs();
            if runs.len() < RUNS_AGAIN {
                *self = Leaf::Runs(runs);
            }
        }
    }

    /// Bytes that it takes besides its own size.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Leaf::Runs(runs) => runs.capacity() * size_of::<Run>(),
            Leaf::Places(codes) => size_of_val(codes.as_ref()),
        }
    }

    /// Bytes of it in a checkpoint, without a head.
    pub fn encoded_bytes(&self) -> u64 {
        match self {
            Leaf::Runs(runs) => size_of_val(runs.as_slice()) as u64,
            Leaf::Places(codes) => size_of_val(codes.as_ref()) as u64,
        }
    }
}

fn set_runs(
    runs: &mut Vec<Run>,
    at: u32,
    count: u32,
    mapped: Mapped,
    displaced: &mut impl FnMut(Place, u32),
) {
    let end = at + count;
    let first = runs.partition_point(|run| run.end() <= at);
    let behind = runs.partition_point(|run| u32::from(run.start) < end);
    let hit = runs.get(first..behind).unwrap_or_default();
    for run in hit {
        let part = run.part(at, end);
        if let Some((Mapped::At(place), part)) = part.map(|part| (part.mapped(), part)) {
            displaced(place, part.length.into());
        }
    }
    let before = hit.first().and_then(|run| run.part(0, at));
    let after = hit.last().and_then(|run| run.part(end, LEAF_BLOCKS));
    let mut range = first..behind;
    // At most the neighbours on both sides and the new one.
    let mut put: [Option<Run>; 3] = [before, Run::new(at, count, mapped), after];
    if let (None, Some(new)) = (put[0], put[1]) {
        let left = first.checked_sub(1).and_then(|index| runs.get(index));
        if let Some(joined) = left.and_then(|left| left.joined(&new)) {
            put[1] = Some(joined);
            range.start -= 1;
        }
    }
    if let (Some(new), None) = (put[1], put[2]) {
        let right = runs.get(behind);
        if let Some(joined) = right.and_then(|right| new.joined(right)) {
            put[1] = Some(joined);
            range.end += 1;
        }
    }
    if let (Some(before), Some(new)) = (put[0], put[1])
        && let Some(joined) = before.joined(&new)
    {
        put[0] = None;
        put[1] = Some(joined);
    }
    if let (Some(new), Some(after)) = (put[1], put[2])
        && let Some(joined) = new.joined(&after)
    {
        put[1] = Some(joined);
        put[2] = None;
    }
    let count = put.iter().flatten().count();
    if count > range.len() && runs.len() + count - range.len() > runs.capacity() {
        runs.reserve_exact(RUNS_STEP);
    }
    runs.splice(range, put.into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapped() -> impl Strategy<Value = Mapped> {
        prop_oneof![
            1 => Just(Mapped::Hole),
            1 => Just(Mapped::Lost),
            6 => (0..2000u32).prop_map(|place| Mapped::At(Place(place))),
        ]
    }

    proptest! {
        #[test]
        fn a_leaf_does_what_an_array_does(
            steps in prop::collection::vec((0..512u32, 1..40u32, mapped()), 1..400),
        ) {
            let mut leaf = Leaf::empty();
            let mut model = [Mapped::Hole; 512];
            for (at, count, mapped) in steps {
                let count = count.min(512 - at);
                let mut gone = Vec::new();
                leaf.set(at, count, mapped, &mut |place, count| {
                    gone.extend((0..count).map(|by| place.after(by)));
                });
                let mut expected = Vec::new();
                for by in 0..count {
                    let slot = &mut model[(at + by) as usize];
                    if let Mapped::At(place) = *slot {
                        expected.push(place);
                    }
                    *slot = mapped.after(by);
                }
                prop_assert_eq!(gone, expected);
                if at % 7 == 0 {
                    leaf.settle();
                }
                let runs = leaf.runs();
                prop_assert!(Leaf::from_runs(runs.clone()).is_some());
                prop_assert_eq!(leaf.is_empty(), runs.is_empty());
            }
            let mut at = 0;
            while at < 512 {
                let (found, count) = leaf.find(at, 512 - at);
                prop_assert!(count > 0);
                for by in 0..count {
                    prop_assert_eq!(found.after(by), model[(at + by) as usize]);
                }
                at += count;
            }
        }
    }

    #[test]
    fn a_leaf_never_takes_more_than_8_bytes_for_a_block_and_a_step() {
        let mut leaf = Leaf::empty();
        for step in 0..512u32 {
            let block = (step * 211) % 512;
            leaf.set(block, 1, Mapped::At(Place(step * 3)), &mut |_, _| {});
            let blocks = step as usize + 1;
            assert!(
                leaf.heap_bytes() <= blocks * 8 + RUNS_STEP * 8 + 128,
                "{blocks}"
            );
        }
        assert_eq!(leaf.heap_bytes(), 2048);
    }
}
