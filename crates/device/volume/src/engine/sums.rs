//! Checksums of blocks in memory: a bounded number of segments' worth, those used last.

use crate::id::{Segment, Use};
use std::collections::HashMap;
use std::sync::Arc;

/// What stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    /// Nothing that is known.
    Unknown,
    /// A block with this checksum.
    Block(u32),
    /// A pack with this checksum.
    Pack(u32),
    /// A header with a pack in it.
    Header,
}

const _: () = assert!(size_of::<Stored>() == 8);

/// What stands in a segment, by the block in it.
pub(crate) type SegmentSums = Arc<[Stored]>;

type Generation = HashMap<Segment, (Use, SegmentSums)>;

/// Two generations: what is used moves to the young one; when that is full the old one goes.
#[derive(Debug)]
pub(crate) struct Sums {
    young: Generation,
    old: Generation,
    /// Most segments of a generation.
    segments_max: usize,
}

impl Sums {
    pub(crate) fn new(bytes_max: usize, segment_blocks: u32) -> Sums {
        let segment = segment_blocks as usize * size_of::<Stored>();
        Sums {
            young: HashMap::new(),
            old: HashMap::new(),
            segments_max: (bytes_max / segment / 2).max(2),
        }
    }

    pub(crate) fn insert(&mut self, segment: Segment, segment_use: Use, sums: SegmentSums) {
        if self.young.len() >= self.segments_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(segment, (segment_use, sums));
    }

    /// What stands at a block in this use of its segment: `None` where the segment is not here.
    pub(crate) fn find(
        &mut self,
        segment: Segment,
        segment_use: Use,
        index: u32,
    ) -> Option<Stored> {
        let current = |found: &(Use, SegmentSums)| found.0 == segment_use;
        if !self.young.get(&segment).is_some_and(current) {
            let (found_use, sums) = self.old.remove(&segment).filter(|found| current(found))?;
            self.insert(segment, found_use, sums);
        }
        let (_, sums) = self.young.get(&segment)?;
        Some(sums.get(index as usize).copied().unwrap_or(Stored::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_use_is_found_and_what_is_not_used_goes() {
        let mut sums = Sums::new(0, 16);
        let known = |sum| -> SegmentSums { Arc::new([Stored::Unknown, Stored::Block(sum)]) };
        sums.insert(Segment(1), Use(5), known(10));
        assert_eq!(sums.find(Segment(1), Use(5), 1), Some(Stored::Block(10)));
        assert_eq!(sums.find(Segment(1), Use(5), 0), Some(Stored::Unknown));
        assert_eq!(sums.find(Segment(1), Use(6), 1), None);
        sums.insert(Segment(1), Use(5), known(10));
        for segment in 2..8 {
            sums.insert(Segment(segment), Use(5), known(10));
            assert!(sums.find(Segment(1), Use(5), 1).is_some(), "{segment}");
        }
        assert_eq!(sums.find(Segment(2), Use(5), 1), None);
    }
}
