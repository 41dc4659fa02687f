//! Which bytes of a disk come from where.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where bytes come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// They are zeros.
    Zeros,
    /// They are in the trace, from this byte on.
    Trace(u64),
}

impl Source {
    /// The source of what is `by` bytes further on.
    pub(super) fn after(self, by: u64) -> Source {
        match self {
            Source::Zeros => Source::Zeros,
            Source::Trace(at) => Source::Trace(at + by),
        }
    }
}

/// Ranges of bytes that are not those of the base, without overlap.
#[derive(Clone, Default, Debug)]
pub(super) struct Pieces {
    /// Start to end and source.
    pieces: BTreeMap<u64, (u64, Source)>,
}

impl Pieces {
    /// Puts a range over what is there.
    pub(super) fn put(&mut self, range: Range<u64>, source: Source) {
        if range.is_empty() {
            return;
        }
        self.cut_at(range.start);
        self.cut_at(range.end);
        let covered: Vec<u64> = self
            .pieces
            .range(range.clone())
            .map(|(start, _)| *start)
            .collect();
        for start in covered {
            self.pieces.remove(&start);
        }
        self.pieces.insert(range.start, (range.end, source));
    }

    /// Makes sure that no piece reaches over this byte.
    fn cut_at(&mut self, at: u64) {
        let Some((start, (end, source))) = self.pieces.range(..at).next_back() else {
            return;
        };
        let (start, end, source) = (*start, *end, *source);
        if end > at {
            self.pieces.insert(start, (at, source));
            self.pieces.insert(at, (end, source.after(at - start)));
        }
    }

    /// The parts of a range, in order: those with a source, and `None` for those of the base.
    pub(super) fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<Source>)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let before = self.pieces.range(..range.start).next_back();
        let inside = self.pieces.range(range.clone());
        for (start, (end, source)) in before.into_iter().chain(inside) {
            let (from, to) = ((*start).max(at), (*end).min(range.end));
            if from >= to {
                continue;
            }
            if at < from {
                parts.push((at..from, None));
            }
            parts.push((from..to, Some(source.after(from - start))));
            at = to;
        }
        if at < range.end {
            parts.push((at..range.end, None));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_what_a_plain_array_would_be(
            puts in proptest::collection::vec((0_u64..64, 0_u64..40, any::<bool>()), 0..40),
            from in 0_u64..64, length in 0_u64..64,
        ) {
            let mut plain: Vec<Option<Source>> = vec![None; 128];
            let mut pieces = Pieces::default();
            for (number, (start, length, zeros)) in puts.iter().enumerate() {
                let source = match zeros {
                    true => Source::Zeros,
                    false => Source::Trace(number as u64 * 1000),
                };
                pieces.put(*start..start + length, source);
                for at in 0..*length {
                    plain[(start + at) as usize] = Some(source.after(at));
                }
            }
            let mut at = from;
            for (range, source) in pieces.parts(from..from + length) {
                prop_assert_eq!(range.start, at);
                for byte in range.clone() {
                    let here = source.map(|source| source.after(byte - range.start));
                    prop_assert_eq!(here, plain[byte as usize]);
                }
                at = range.end;
            }
            prop_assert_eq!(at, from + length);
        }
    }
}
