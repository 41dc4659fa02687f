//! Ranges of scores and of members.

use crate::{error::ValueError, number::parse_double};

/// An end of a range of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    /// The score.
    pub score: f64,
    /// Whether the score itself is outside.
    pub exclusive: bool,
}

/// Scores between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRange {
    /// The lowest.
    pub min: ScoreBound,
    /// The highest.
    pub max: ScoreBound,
}

impl ScoreRange {
    /// Every score.
    pub const ALL: Self = Self {
        min: ScoreBound {
            score: f64::NEG_INFINITY,
            exclusive: false,
        },
        max: ScoreBound {
            score: f64::INFINITY,
            exclusive: false,
        },
    };

    /// Reads `1`, `(1`, `-inf`, `+inf`.
    ///
    /// # Errors
    /// [`ValueError::ScoreBound`].
    pub fn parse(min: &[u8], max: &[u8]) -> Result<Self, ValueError> {
        let bound = |text: &[u8]| {
            let (exclusive, number) = match text {
                [b'(', number @ ..] => (true, number),
                _ => (false, text),
            };
            let score = parse_double(number).ok_or(ValueError::ScoreBound)?;
            Ok(ScoreBound { score, exclusive })
        };
        Ok(Self {
            min: bound(min)?,
            max: bound(max)?,
        })
    }

    pub(super) fn is_before(&self, score: f64) -> bool {
        score < self.min.score || (self.min.exclusive && score <= self.min.score)
    }

    pub(super) fn is_up_to_end(&self, score: f64) -> bool {
        score < self.max.score || (!self.max.exclusive && score <= self.max.score)
    }
}

/// An end of a range of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LexBound {
    /// Below every member (`-`).
    Lowest,
    /// Above every member (`+`).
    Highest,
    /// This member and what is on its inner side (`[`).
    Included(Vec<u8>),
    /// What is on the inner side of this member (`(`).
    Excluded(Vec<u8>),
}

impl LexBound {
    /// Reads one end.
    ///
    /// # Errors
    /// [`ValueError::LexBound`].
    pub fn parse(text: &[u8]) -> Result<Self, ValueError> {
        match text {
            b"-" => Ok(Self::Lowest),
            b"+" => Ok(Self::Highest),
            [b'[', member @ ..] => Ok(Self::Included(member.to_vec())),
            [b'(', member @ ..] => Ok(Self::Excluded(member.to_vec())),
            _ => Err(ValueError::LexBound),
        }
    }
}

/// Members between two, of a sorted set whose scores are all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexRange {
    /// The lowest.
    pub min: LexBound,
    /// The highest.
    pub max: LexBound,
}

impl LexRange {
    /// Reads `-`, `+`, `[member`, `(member`.
    ///
    /// # Errors
    /// [`ValueError::LexBound`].
    pub fn parse(min: &[u8], max: &[u8]) -> Result<Self, ValueError> {
        Ok(Self {
            min: LexBound::parse(min)?,
            max: LexBound::parse(max)?,
        })
    }

    pub(super) fn is_before(&self, member: &[u8]) -> bool {
        match &self.min {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(bound) => member < bound.as_slice(),
            LexBound::Excluded(bound) => member <= bound.as_slice(),
        }
    }

    pub(super) fn is_up_to_end(&self, member: &[u8]) -> bool {
        match &self.max {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(bound) => member <= bound.as_slice(),
            LexBound::Excluded(bound) => member < bound.as_slice(),
        }
    }
}
