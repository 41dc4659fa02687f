//! Operations over several sets. A key that is not there is an empty set.

use super::SortedSet;
use crate::{element::Element, set::Set, thresholds::Thresholds};

/// One of the sets: a plain set counts with scores of 1.
#[derive(Debug, Clone, Copy)]
pub enum ScoreSource<'a> {
    /// A set.
    Plain(&'a Set),
    /// A sorted set.
    Sorted(&'a SortedSet),
}

/// How scores of one member become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregate {
    /// Their sum.
    #[default]
    Sum,
    /// The lowest.
    Min,
    /// The highest.
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => number(a + b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// What is not a number (inf - inf, 0 * inf) counts as 0, as in Redis.
fn number(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

impl<'a> ScoreSource<'a> {
    fn len(self) -> usize {
        match self {
            Self::Plain(set) => set.len(),
            Self::Sorted(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Plain(set) => set.contains(member).then_some(1.0),
            Self::Sorted(set) => set.score(member),
        }
    }

    fn iter(self) -> Box<dyn Iterator<Item = (Element<'a>, f64)> + 'a> {
        match self {
            Self::Plain(set) => Box::new(set.iter().map(|member| (member, 1.0))),
            Self::Sorted(set) => Box::new(set.iter()),
        }
    }
}

/// The sources from the smallest on, each with its weight; 1 where there is none.
fn ascending<'a>(sources: &[ScoreSource<'a>], weights: &[f64]) -> Vec<(ScoreSource<'a>, f64)> {
    let weights = weights.iter().copied().chain(std::iter::repeat(1.0));
    let mut sorted: Vec<_> = sources.iter().copied().zip(weights).collect();
    sorted.sort_by_key(|(source, _)| source.len());
    sorted
}

fn put(result: &mut SortedSet, member: &[u8], score: f64, thresholds: &Thresholds) {
    // Neither scores nor sums are NaN here, and no condition is given.
    let _ = result.add(score, member, super::AddOptions::default(), thresholds);
}

/// Members that any source has (ZUNION, ZUNIONSTORE).
#[must_use]
pub fn union(
    sources: &[ScoreSource<'_>],
    weights: &[f64],
    aggregate: Aggregate,
    thresholds: &Thresholds,
) -> SortedSet {
    let mut result = SortedSet::new();
    for (source, weight) in ascending(sources, weights) {
        for (member, score) in source.iter() {
            let member = member.to_vec();
            let score = number(score * weight);
            let score = result
                .score(&member)
                .map_or(score, |own| aggregate.of(own, score));
            put(&mut result, &member, score, thresholds);
        }
    }
    result
}

/// Members that all sources have, at most `limit` of them (ZINTER, ZINTERSTORE, ZINTERCARD).
#[must_use]
pub fn intersection(
    sources: &[ScoreSource<'_>],
    weights: &[f64],
    aggregate: Aggregate,
    limit: Option<usize>,
    thresholds: &Thresholds,
) -> SortedSet {
    let mut result = SortedSet::new();
    let sorted = ascending(sources, weights);
    let Some((&(smallest, weight), others)) = sorted.split_first() else {
        return result;
    };
    for (member, score) in smallest.iter() {
        if limit.is_some_and(|limit| result.len() >= limit) {
            break;
        }
        let member = member.to_vec();
        let score = others
            .iter()
            .try_fold(number(score * weight), |sum, (other, weight)| {
                other
                    .score(&member)
                    .map(|score| aggregate.of(sum, number(score * weight)))
            });
        if let Some(score) = score {
            put(&mut result, &member, score, thresholds);
        }
    }
    result
}

/// Members of the first source that no other has (ZDIFF, ZDIFFSTORE).
#[must_use]
pub fn difference(sources: &[ScoreSource<'_>], thresholds: &Thresholds) -> SortedSet {
    let mut result = SortedSet::new();
    let Some((first, others)) = sources.split_first() else {
        return result;
    };
    for (member, score) in first.iter() {
        let member = member.to_vec();
        if others.iter().all(|other| other.score(&member).is_none()) {
            put(&mut result, &member, score, thresholds);
        }
    }
    result
}
