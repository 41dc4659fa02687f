//! Parts of files that are cut by their content, so that equal parts are found wherever they are.

use fastcdc::v2020::{Normalization, cut, select_masks};
use serde::{Deserialize, Serialize};

/// Shortest files of which parts are looked for; below, the list costs about what it saves.
pub(crate) const DELTA_MIN: u64 = 64 << 10;

/// Average lengths of chunks, powers of two.
pub(crate) const AVERAGES: std::ops::RangeInclusive<u32> = 16 << 10..=4 << 20;

/// So many chunks are aimed at where files are long.
const CHUNKS: u64 = 1 << 18;

/// Most chunks of a file that a sender keeps; what is behind them is sent.
pub(crate) const CHUNKS_MAX: usize = 1 << 20;

/// Most chunks of one message, which keeps it within `rpc::BODY_MAX`.
pub(crate) const CHUNKS_A_MESSAGE: usize = 4096;

/// Bytes of a chunk in a message, at most: two numbers and the hash.
pub(crate) const CHUNK_BYTES: u64 = 48;

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u32,
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
}

/// The average length of chunks for files of up to this length.
pub(crate) fn average_for(bytes: u64) -> u32 {
    let wanted = (bytes / CHUNKS).checked_next_power_of_two();
    let wanted = wanted.unwrap_or(u64::MAX);
    let (least, most) = (*AVERAGES.start(), *AVERAGES.end());
    u32::try_from(wanted).unwrap_or(most).clamp(least, most)
}

/// Whether a peer may ask for it.
pub(crate) fn is_average(average: u32) -> bool {
    average.is_power_of_two() && AVERAGES.contains(&average)
}

/// The name of a chunk.
pub(crate) fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// Cuts chunks, from a quarter to four times the average: FastCDC as published in 2020, with
/// normalization level 1 and the gear table of the crate. Both sides cut alike within one version
/// of the protocol.
#[derive(Clone, Copy)]
pub(crate) struct Cutter {
    average: usize,
    masks: (u64, u64),
}

impl Cutter {
    pub(crate) fn new(average: u32) -> Cutter {
        let average = average as usize;
        Cutter {
            average,
            masks: select_masks(average, Normalization::Level1),
        }
    }

    /// Length of the longest chunk.
    pub(crate) fn longest(&self) -> usize {
        self.average * 4
    }

    /// Length of the shortest chunk that is not the last.
    pub(crate) fn shortest(&self) -> usize {
        self.average / 4
    }

    /// Length of the chunk that `bytes` begins with; `None` where more is needed to know it.
    /// `ends` says that nothing follows.
    pub(crate) fn first(&self, bytes: &[u8], ends: bool) -> Option<usize> {
        if bytes.is_empty() || (bytes.len() < self.longest() && !ends) {
            return None;
        }
        let (strict, loose) = self.masks;
        let (_, length) = cut(
            bytes,
            self.shortest(),
            self.average,
            self.longest(),
            strict,
            loose,
            strict << 1,
            loose << 1,
        );
        Some(length.clamp(1, bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::Rng;
    use std::collections::HashSet;

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Rng::new(seed).fill(&mut bytes);
        bytes
    }

    fn chunks(bytes: &[u8], average: u32) -> Vec<usize> {
        let cutter = Cutter::new(average);
        let (mut at, mut found) = (0, Vec::new());
        while let Some(length) = cutter.first(&bytes[at..], true) {
            found.push(length);
            at += length;
        }
        assert_eq!(at, bytes.len());
        found
    }

    /// Senders and receivers of one version of the protocol have to cut alike.
    #[test]
    fn chunks_are_cut_where_they_always_were() {
        let lengths = chunks(&noise(1, 200_000), 16 << 10);
        assert_eq!(lengths, GOLDEN);
        let (bytes, whole) = (noise(2, 1 << 20), 16 << 10);
        let cutter = Cutter::new(whole);
        for length in chunks(&bytes, whole).iter().rev().skip(1) {
            assert!((cutter.shortest()..=cutter.longest()).contains(length));
        }
    }

    const GOLDEN: &[usize] = &[
        23245, 21921, 18561, 17712, 17312, 23973, 19561, 18504, 8118, 29495, 1598,
    ];

    #[test]
    fn what_is_inserted_changes_few_chunks() {
        let before = noise(3, 4 << 20);
        let after = [&before[..1 << 20], b"inserted", &before[1 << 20..]].concat();
        let names = |bytes: &[u8]| {
            let mut at = 0;
            let lengths = chunks(bytes, 16 << 10);
            let names = lengths.iter().map(|length| {
                at += length;
                hash(&bytes[at - length..at])
            });
            names.collect::<HashSet<_>>()
        };
        let (old, new) = (names(&before), names(&after));
        assert!(new.len() > 150);
        assert!(new.difference(&old).count() <= 3);
    }

    #[test]
    fn a_chunk_is_the_same_however_much_was_read_behind_it() {
        let bytes = noise(4, 400_000);
        let cutter = Cutter::new(16 << 10);
        let whole = cutter.first(&bytes, true);
        assert_eq!(cutter.first(&bytes[..cutter.longest()], false), whole);
        assert_eq!(cutter.first(&bytes[..cutter.longest() - 1], false), None);
        assert_eq!(cutter.first(&[], true), None);
    }

    #[test]
    fn lists_stay_short_however_long_a_file_is() {
        assert_eq!(average_for(0), 16 << 10);
        assert_eq!(average_for(4 << 30), 16 << 10);
        assert_eq!(average_for((4 << 30) + (1 << 20)), 32 << 10);
        assert_eq!(average_for(1 << 40), 4 << 20);
        assert_eq!(average_for(u64::MAX), 4 << 20);
        assert!(is_average(average_for(1 << 36)));
        assert!(!is_average(0) && !is_average(3 << 14) && !is_average(8 << 20));
    }
}
