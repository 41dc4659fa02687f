//! Sorted sets: members by score, and among equal scores by their bytes.

mod add;
mod combine;
mod form;
mod interval;
mod range;
#[cfg(test)]
mod tests;
mod tree;

pub use add::{AddOptions, Added};
pub use combine::{Aggregate, ScoreSource, difference, intersection, union};
pub use interval::{LexBound, LexRange, ScoreBound, ScoreRange};
pub use range::Members;

use crate::{
    Thresholds,
    element::Element,
    listpack::Listpack,
    sample::{self, Draw},
};
use form::Form;

/// A sorted set: a listpack of members and scores while it is small, a table and a counting tree
/// above.
#[derive(Debug, Clone)]
pub struct SortedSet(Form);

/// A member and its score.
pub type Scored<'a> = (Element<'a>, f64);

impl Default for SortedSet {
    fn default() -> Self {
        Self(Form::new())
    }
}

impl SortedSet {
    /// Without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Members (ZCARD).
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none: the key has to go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The score of a member (ZSCORE).
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.0.score(member)
    }

    /// How many members are before this one (ZRANK).
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.0.rank_of(member)
    }

    /// How many members are behind this one (ZREVRANK).
    #[must_use]
    pub fn rank_back(&self, member: &[u8]) -> Option<usize> {
        self.rank(member).map(|rank| self.len() - 1 - rank)
    }

    /// Removes a member (ZREM); returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.score(member)?;
        self.0.remove(member, score);
        Some(score)
    }

    /// Removes and returns the first members (ZPOPMIN).
    pub fn pop_first(&mut self, count: usize) -> Vec<(Vec<u8>, f64)> {
        let count = count.min(self.len());
        let popped: Vec<_> = self
            .iter()
            .take(count)
            .map(|(member, score)| (member.to_vec(), score))
            .collect();
        self.remove_ranks(0, count);
        popped
    }

    /// Removes and returns the last members, the last first (ZPOPMAX).
    pub fn pop_last(&mut self, count: usize) -> Vec<(Vec<u8>, f64)> {
        let count = count.min(self.len());
        let popped: Vec<_> = self
            .iter_back()
            .take(count)
            .map(|(member, score)| (member.to_vec(), score))
            .collect();
        self.remove_ranks(self.len() - count, count);
        popped
    }

    /// The members from the first one on.
    pub fn iter(&self) -> impl Iterator<Item = Scored<'_>> {
        self.0.walk(0)
    }

    /// The members from the last one on.
    pub fn iter_back(&self) -> impl Iterator<Item = Scored<'_>> {
        self.0.walk_back(self.len().saturating_sub(1))
    }

    /// `count` distinct members, or all (ZRANDMEMBER with a count).
    pub fn random_distinct(&self, count: usize, draw: &mut Draw<'_>) -> Vec<Scored<'_>> {
        self.0.nth(&sample::distinct(self.len(), count, draw))
    }

    /// `count` members, each drawn anew (ZRANDMEMBER without or with a negative count).
    pub fn random_repeated(&self, count: usize, draw: &mut Draw<'_>) -> Vec<Scored<'_>> {
        self.0.nth(&sample::repeated(self.len(), count, draw))
    }

    /// Visits about `count` members from a cursor on; returns the next cursor, 0 at the end
    /// (ZSCAN). A member that is there from the first call to the last is visited.
    pub fn scan(&self, cursor: u64, count: usize, visit: impl FnMut(Scored<'_>)) -> u64 {
        self.0.scan(cursor, count, visit)
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        self.0.encoding()
    }

    /// Bytes of memory behind it.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    /// Removes `count` members from a rank on.
    fn remove_ranks(&mut self, rank: usize, count: usize) {
        let members: Vec<_> = self
            .0
            .walk(rank)
            .take(count)
            .map(|(member, score)| (member.to_vec(), score))
            .collect();
        for (member, score) in members {
            self.0.remove(&member, score);
        }
    }
}

impl PartialEq for SortedSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl SortedSet {
    /// The listpack, if it is one.
    pub(crate) fn pack(&self) -> Option<&Listpack> {
        self.0.pack()
    }

    /// Takes a listpack of a dump. None if scores are missing or no numbers, or a member comes
    /// twice. The order is not taken on trust.
    pub(crate) fn from_pack(pack: Listpack, thresholds: &Thresholds) -> Option<Self> {
        if !pack.len().is_multiple_of(2) || !pack.has_distinct_keys() {
            return None;
        }
        if form::may_be_taken(&pack, thresholds)? {
            return Some(Self(Form::Packed(pack)));
        }
        let mut set = Self::new();
        let mut elements = pack.iter();
        while let (Some(member), Some(score)) = (elements.next(), elements.next()) {
            set.add_new(&member.to_vec(), form::read_score(score)?, thresholds)?;
        }
        Some(set)
    }

    /// Adds a member of a dump. None if it comes twice or the score is not a number.
    pub(crate) fn add_new(
        &mut self,
        member: &[u8],
        score: f64,
        thresholds: &Thresholds,
    ) -> Option<()> {
        let added = self.add(
            score,
            member,
            AddOptions {
                only_new: true,
                ..AddOptions::default()
            },
            thresholds,
        );
        matches!(added, Ok(Added::New(_))).then_some(())
    }
}
