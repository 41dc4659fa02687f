//! Chunks by home and load, and the choice of a stripe among them.

use crate::encoding::Load;
use crate::label::{StoreIndex, StoreMask};
use std::collections::BTreeSet;

/// For each home its chunks, coldest first. A chunk is its place in the list of the round.
#[derive(Debug)]
pub(super) struct Homes {
    by_home: Vec<BTreeSet<(Load, usize)>>,
}

impl Homes {
    pub(super) fn new() -> Homes {
        Homes {
            by_home: vec![BTreeSet::new(); 64],
        }
    }

    pub(super) fn insert(&mut self, home: StoreIndex, load: Load, at: usize) {
        self.by_home[usize::from(home.0)].insert((load, at));
    }

    pub(super) fn remove(&mut self, home: StoreIndex, load: Load, at: usize) {
        self.by_home[usize::from(home.0)].remove(&(load, at));
    }

    pub(super) fn coldest(&self, home: StoreIndex) -> Option<(Load, usize)> {
        self.by_home[usize::from(home.0)].first().copied()
    }

    pub(super) fn warmest(&self, home: StoreIndex) -> Option<(Load, usize)> {
        self.by_home[usize::from(home.0)].last().copied()
    }

    fn len(&self, home: StoreIndex) -> u64 {
        self.by_home[usize::from(home.0)].len() as u64
    }

    /// Chunks for a stripe, each of another home among `present`, best choice first: no choice
    /// where fewer than `width` homes have a chunk or none is `wanted`.
    ///
    /// The last choice are the coldest, of equally cold ones those of the homes with most
    /// chunks. That can use up all homes but one, whose chunks then find no partner. So where
    /// all stripes that are still possible are wanted, the best choice is one after which all
    /// others still are.
    pub(super) fn stripe(&self, present: StoreMask, width: usize, wanted: u64) -> Vec<Vec<usize>> {
        let homes: Vec<StoreIndex> = present.iter().filter(|home| self.len(*home) > 0).collect();
        let counts: Vec<u64> = homes.iter().map(|home| self.len(*home)).collect();
        let possible = stripes_possible(&counts, width as u64);
        if possible == 0 || wanted == 0 {
            return Vec::new();
        }
        let choose = |scarce: bool| -> Vec<usize> {
            let mut heads: Vec<(bool, Load, std::cmp::Reverse<u64>, usize)> = homes
                .iter()
                .filter_map(|home| {
                    let (load, at) = self.coldest(*home)?;
                    let count = self.len(*home);
                    let spare = !(scarce && count >= possible);
                    Some((spare, load, std::cmp::Reverse(count), at))
                })
                .collect();
            heads.sort_unstable();
            heads.truncate(width);
            heads.into_iter().map(|(.., at)| at).collect()
        };
        if possible > wanted {
            return vec![choose(false)];
        }
        vec![choose(true), choose(false)]
    }
}

/// Most stripes of `width` chunks of different homes that can be made of so many chunks each:
/// the largest t for which the sum of `min(count, t)` is at least `width * t`.
fn stripes_possible(counts: &[u64], width: u64) -> u64 {
    let enough = |stripes: u64| {
        let usable: u64 = counts.iter().map(|count| (*count).min(stripes)).sum();
        usable >= width * stripes
    };
    let (mut yes, mut no) = (0, counts.iter().sum::<u64>() / width + 1);
    while yes + 1 < no {
        let middle = u64::midpoint(yes, no);
        if enough(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a stripe at a time as greedily as can be: of the homes with most chunks.
    fn by_hand(counts: &[u64], width: usize) -> u64 {
        let mut counts = counts.to_vec();
        for made in 0.. {
            counts.sort_unstable_by(|a, b| b.cmp(a));
            if counts.len() < width || counts[width - 1] == 0 {
                return made;
            }
            counts[..width].iter_mut().for_each(|count| *count -= 1);
        }
        0
    }

    #[test]
    fn possible_stripes_are_those_that_the_greedy_choice_makes() {
        for a in 0..6 {
            for b in 0..6 {
                for c in 0..12 {
                    for width in 1..=4 {
                        let counts = [a, b, c];
                        let possible = stripes_possible(&counts, width as u64);
                        assert_eq!(possible, by_hand(&counts, width), "{counts:?} {width}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_chunk_is_stranded_while_a_partner_could_be_found() {
        // Home 0 has four chunks, and the other two are colder: pairing those two would leave
        // two stripes of the three that are possible.
        let mut homes = Homes::new();
        let present = StoreMask::first(3);
        for at in 0..4 {
            homes.insert(StoreIndex(0), Load(9), at);
        }
        homes.insert(StoreIndex(1), Load(1), 4);
        homes.insert(StoreIndex(2), Load(1), 5);
        assert_eq!(homes.stripe(present, 2, 2), [vec![0, 4], vec![4, 5]]);
        assert_eq!(
            homes.stripe(present, 2, 1),
            [vec![4, 5]],
            "only one is wanted"
        );
        assert!(homes.stripe(present, 2, 0).is_empty());
        assert!(homes.stripe(present, 4, 1).is_empty());
    }
}
