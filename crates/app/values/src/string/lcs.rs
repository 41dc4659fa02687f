//! The longest common subsequence of two strings (LCS).

use crate::StringValue;

/// The lengths for all pairs of beginnings, of which everything else follows.
#[derive(Debug)]
pub struct LongestCommon<'a> {
    a: &'a [u8],
    b: &'a [u8],
    /// Rows for the beginnings of `a`, columns for those of `b`.
    lengths: Vec<u32>,
}

/// A run of bytes that is in both strings, as first and last indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonRun {
    /// Where it is in the first string.
    pub a: (usize, usize),
    /// Where it is in the second string.
    pub b: (usize, usize),
}

impl CommonRun {
    /// Its bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.a.1 - self.a.0 + 1
    }
}

impl<'a> LongestCommon<'a> {
    /// Compares two strings, in time and memory of the product of their lengths. None if that
    /// memory is more than the longest string may take.
    #[must_use]
    pub fn new(a: &'a [u8], b: &'a [u8]) -> Option<Self> {
        let (rows, columns) = (a.len().checked_add(1)?, b.len().checked_add(1)?);
        let cells = rows.checked_mul(columns)?;
        if cells > StringValue::BYTES_MAX / 4 {
            return None;
        }
        let mut lengths = vec![0u32; cells];
        for i in 1..rows {
            for j in 1..columns {
                lengths[i * columns + j] = if a[i - 1] == b[j - 1] {
                    lengths[(i - 1) * columns + j - 1] + 1
                } else {
                    lengths[(i - 1) * columns + j].max(lengths[i * columns + j - 1])
                };
            }
        }
        Some(Self { a, b, lengths })
    }

    /// Bytes of the subsequence (LCS LEN).
    #[must_use]
    pub fn length(&self) -> usize {
        self.at(self.a.len(), self.b.len()) as usize
    }

    /// The subsequence.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let runs = self.runs(0);
        runs.iter()
            .rev()
            .flat_map(|run| self.a[run.a.0..=run.a.1].iter().copied())
            .collect()
    }

    /// The runs that it is made of, of at least `length_min` bytes, the last one first (LCS IDX).
    #[must_use]
    pub fn runs(&self, length_min: usize) -> Vec<CommonRun> {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        let mut runs: Vec<CommonRun> = Vec::new();
        while i > 0 && j > 0 {
            if self.a[i - 1] != self.b[j - 1] {
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.a.0 == i && run.b.0 == j => (run.a.0, run.b.0) = (i - 1, j - 1),
                _ => runs.push(CommonRun {
                    a: (i - 1, i - 1),
                    b: (j - 1, j - 1),
                }),
            }
            i -= 1;
            j -= 1;
        }
        runs.retain(|run| run.length() >= length_min);
        runs
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }
}
