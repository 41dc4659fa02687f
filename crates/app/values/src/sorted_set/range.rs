//! Ranges of members.

use std::ops::Range;

use super::{LexRange, ScoreRange, Scored, SortedSet};
use crate::{number::INTEGER_BYTES_MAX, range::indices};

/// Members of a range, in its order; how many is known.
pub struct Members<'a> {
    left: usize,
    members: Box<dyn Iterator<Item = Scored<'a>> + 'a>,
}

impl<'a> Members<'a> {
    fn none() -> Members<'a> {
        Members {
            left: 0,
            members: Box::new(std::iter::empty()),
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Scored<'a>;

    fn next(&mut self) -> Option<Scored<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.members.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Members<'_> {}

impl SortedSet {
    /// Members from rank `start` to `end`, both included, negative ones counted from the end
    /// (ZRANGE). With `back` ranks count from the highest score, and members come in that order.
    #[must_use]
    pub fn by_rank(&self, start: i64, end: i64, back: bool) -> Members<'_> {
        let length = self.len();
        let Some((start, end)) = indices(start, end, length) else {
            return Members::none();
        };
        let ranks = if back {
            length - 1 - end..length - start
        } else {
            start..end + 1
        };
        self.ranks(ranks, back, 0, None)
    }

    /// Members within a range of scores, `offset` of them skipped, at most `limit` (ZRANGE BYSCORE).
    #[must_use]
    pub fn by_score(
        &self,
        range: ScoreRange,
        back: bool,
        offset: usize,
        limit: Option<usize>,
    ) -> Members<'_> {
        self.ranks(self.score_ranks(range), back, offset, limit)
    }

    /// Members within a range of members, `offset` of them skipped, at most `limit` (ZRANGE BYLEX).
    #[must_use]
    pub fn by_lex(
        &self,
        range: &LexRange,
        back: bool,
        offset: usize,
        limit: Option<usize>,
    ) -> Members<'_> {
        self.ranks(self.lex_ranks(range), back, offset, limit)
    }

    /// How many members are within a range of scores (ZCOUNT).
    #[must_use]
    pub fn count_scores(&self, range: ScoreRange) -> usize {
        self.score_ranks(range).len()
    }

    /// How many members are within a range of members (ZLEXCOUNT).
    #[must_use]
    pub fn count_lex(&self, range: &LexRange) -> usize {
        self.lex_ranks(range).len()
    }

    /// Removes the members from rank `start` to `end` (ZREMRANGEBYRANK); returns how many.
    pub fn remove_by_rank(&mut self, start: i64, end: i64) -> usize {
        let Some((start, end)) = indices(start, end, self.len()) else {
            return 0;
        };
        self.remove_ranks(start, end + 1 - start);
        end + 1 - start
    }

    /// Removes the members within a range of scores (ZREMRANGEBYSCORE); returns how many.
    pub fn remove_by_score(&mut self, range: ScoreRange) -> usize {
        let ranks = self.score_ranks(range);
        self.remove_ranks(ranks.start, ranks.len());
        ranks.len()
    }

    /// Removes the members within a range of members (ZREMRANGEBYLEX); returns how many.
    pub fn remove_by_lex(&mut self, range: &LexRange) -> usize {
        let ranks = self.lex_ranks(range);
        self.remove_ranks(ranks.start, ranks.len());
        ranks.len()
    }

    fn score_ranks(&self, range: ScoreRange) -> Range<usize> {
        let start = self.0.partition_scores(|score| range.is_before(score));
        let end = self.0.partition_scores(|score| range.is_up_to_end(score));
        start..end.max(start)
    }

    fn lex_ranks(&self, range: &LexRange) -> Range<usize> {
        let start = self
            .0
            .partition(|(member, _)| range.is_before(member.bytes(&mut [0; INTEGER_BYTES_MAX])));
        let end = self
            .0
            .partition(|(member, _)| range.is_up_to_end(member.bytes(&mut [0; INTEGER_BYTES_MAX])));
        start..end.max(start)
    }

    fn ranks(
        &self,
        ranks: Range<usize>,
        back: bool,
        offset: usize,
        limit: Option<usize>,
    ) -> Members<'_> {
        let count = ranks
            .len()
            .saturating_sub(offset)
            .min(limit.unwrap_or(usize::MAX));
        if count == 0 {
            return Members::none();
        }
        Members {
            left: count,
            members: match back {
                true => Box::new(self.0.walk_back(ranks.end - 1 - offset)),
                false => Box::new(self.0.walk(ranks.start + offset)),
            },
        }
    }
}
