//! Which prefix of each lane counts, so that no group is torn: for an open log, and after a crash.

/// A group on several lanes, and which chunk of each lane has its part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) number: u64,
    /// Lane and chunk.
    pub(crate) parts: Vec<(usize, u64)>,
}

/// Lowers `ends` (the last chunk of each lane that is there) so that each group is in front of
/// them with all its parts, or behind. Groups come by number. Where two groups share lanes, their
/// parts stand in the order of their numbers on each, so that lowering for one never tears one
/// with a lower number: one pass is enough.
///
/// Returns whether each group is whole.
pub(crate) fn lower(ends: &mut [u64], groups: &[Group]) -> Vec<bool> {
    let mut whole = Vec::with_capacity(groups.len());
    for group in groups {
        let is_there =
            |(lane, chunk): &(usize, u64)| ends.get(*lane).is_some_and(|end| chunk <= end);
        let all = group.parts.iter().all(is_there);
        whole.push(all);
        if all {
            continue;
        }
        for (lane, chunk) in &group.parts {
            if let Some(end) = ends.get_mut(*lane) {
                *end = (*end).min(chunk.saturating_sub(1));
            }
        }
    }
    whole
}

/// How far the lanes of an open log are.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The last chunk of each lane that is on the medium.
    synced: Vec<u64>,
    /// The last chunk of each lane that a crash now would leave to it.
    cut: Vec<u64>,
    /// Groups that are not whole on the medium, by number.
    open: Vec<Group>,
    next_group: u64,
}

impl Progress {
    pub(crate) fn new(lanes: usize) -> Progress {
        Progress {
            synced: vec![0; lanes],
            cut: vec![0; lanes],
            open: Vec::new(),
            next_group: 1,
        }
    }

    /// The number of a new group with these parts, none of which was written yet.
    pub(crate) fn begin(&mut self, parts: Vec<(usize, u64)>) -> u64 {
        let number = self.next_group;
        self.next_group += 1;
        self.open.push(Group { number, parts });
        number
    }

    /// A lane was synced up to a chunk.
    pub(crate) fn synced(&mut self, lane: usize, chunk: u64) {
        if let Some(synced) = self.synced.get_mut(lane) {
            *synced = (*synced).max(chunk);
        }
        self.cut.clone_from(&self.synced);
        let whole = lower(&mut self.cut, &self.open);
        let mut whole = whole.into_iter();
        self.open.retain(|_| !whole.next().unwrap_or(false));
    }

    /// The last chunk of a lane that a crash would leave.
    pub(crate) fn cut(&self, lane: usize) -> u64 {
        self.cut.get(lane).copied().unwrap_or(0)
    }

    /// The last chunk of a lane that is on the medium, whether or not a crash would leave it.
    #[cfg(test)]
    pub(crate) fn synced_up_to(&self, lane: usize) -> u64 {
        self.synced.get(lane).copied().unwrap_or(0)
    }

    /// All groups below this number are whole on the medium.
    pub(crate) fn group_floor(&self) -> u64 {
        self.open
            .first()
            .map_or(self.next_group, |group| group.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_waits_for_the_groups_that_it_is_part_of() {
        let mut progress = Progress::new(3);
        assert_eq!(progress.begin(vec![(0, 2), (1, 1)]), 1);
        assert_eq!(progress.begin(vec![(1, 3), (2, 1)]), 2);
        progress.synced(0, 5);
        assert_eq!([0, 1, 2].map(|lane| progress.cut(lane)), [1, 0, 0]);
        progress.synced(1, 4);
        assert_eq!([0, 1, 2].map(|lane| progress.cut(lane)), [5, 2, 0]);
        assert_eq!(progress.group_floor(), 2);
        progress.synced(2, 1);
        assert_eq!([0, 1, 2].map(|lane| progress.cut(lane)), [5, 4, 1]);
        assert_eq!(progress.group_floor(), 3);
        assert!(progress.open.is_empty());
    }

    #[test]
    fn a_lost_group_takes_the_groups_behind_it_along() {
        let groups = [
            Group {
                number: 1,
                parts: vec![(0, 1), (1, 9)],
            },
            Group {
                number: 2,
                parts: vec![(0, 4), (2, 2)],
            },
        ];
        let mut ends = [9, 8, 9];
        assert_eq!(lower(&mut ends, &groups), [false, false]);
        assert_eq!(ends, [0, 8, 1]);
    }
}
