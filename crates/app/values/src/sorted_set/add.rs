//! Adding members and changing scores.

use super::SortedSet;
use crate::{error::ValueError, thresholds::Thresholds};

/// The conditions of ZADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddOptions {
    /// NX: only members that are not there.
    pub only_new: bool,
    /// XX: only members that are there.
    pub only_present: bool,
    /// GT: change a score only to a higher one.
    pub only_higher: bool,
    /// LT: change a score only to a lower one.
    pub only_lower: bool,
    /// INCR: the score is added to the one that is there.
    pub increment: bool,
}

/// What an addition did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Added {
    /// The member is new, with this score.
    New(f64),
    /// The member has this score instead of another.
    Changed(f64),
    /// The member has had this score already.
    Same(f64),
    /// A condition kept everything as it was.
    Refused,
}

impl Added {
    /// The score that the member has now, if no condition was in the way.
    #[must_use]
    pub fn score(self) -> Option<f64> {
        match self {
            Self::New(score) | Self::Changed(score) | Self::Same(score) => Some(score),
            Self::Refused => None,
        }
    }
}

impl SortedSet {
    /// Adds a member or changes its score (ZADD).
    ///
    /// # Errors
    /// [`ValueError::ScoreNotNumber`] if the sum of an increment is not a number,
    /// [`ValueError::NotFloat`] if the score given is not.
    pub fn add(
        &mut self,
        score: f64,
        member: &[u8],
        options: AddOptions,
        thresholds: &Thresholds,
    ) -> Result<Added, ValueError> {
        if score.is_nan() {
            return Err(ValueError::NotFloat);
        }
        let Some(old) = self.score(member) else {
            if options.only_present {
                return Ok(Added::Refused);
            }
            self.0.insert(member, score, thresholds);
            return Ok(Added::New(score));
        };
        if options.only_new {
            return Ok(Added::Refused);
        }
        let score = if options.increment {
            old + score
        } else {
            score
        };
        if score.is_nan() {
            return Err(ValueError::ScoreNotNumber);
        }
        if (options.only_lower && score >= old) || (options.only_higher && score <= old) {
            return Ok(Added::Refused);
        }
        if score == old {
            return Ok(Added::Same(score));
        }
        self.0.move_to(member, old, score, thresholds);
        Ok(Added::Changed(score))
    }

    /// Adds to a member's score; a member that is not there counts as 0 (ZINCRBY). Returns the sum.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn increment(
        &mut self,
        member: &[u8],
        by: f64,
        thresholds: &Thresholds,
    ) -> Result<f64, ValueError> {
        let options = AddOptions {
            increment: true,
            ..AddOptions::default()
        };
        let added = self.add(by, member, options, thresholds)?;
        Ok(added.score().unwrap_or(by))
    }
}
