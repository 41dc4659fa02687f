//! Weights that turn present shards into absent ones.

use crate::generator::{product, quotient, weight_in};
use crate::{Geometry, Misuse, Shard};
use smallvec::{SmallVec, smallvec};

/// Those of 32 data and 16 parity shards stay off the heap.
pub(crate) type Weights = SmallVec<[u8; 512]>;

/// Which of the present shards are read, and with which weights.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Places in the list of present shards, `data` of them.
    pub(crate) sources: SmallVec<[u8; 32]>,
    /// One row of `data` weights for each wanted shard.
    pub(crate) weights: Weights,
}

impl Recovery {
    /// `present` and `wanted` name shards of the geometry, none twice, and at least `data` are
    /// present.
    pub(crate) fn new(
        geometry: Geometry,
        present: &[Shard],
        wanted: &[Shard],
    ) -> Result<Recovery, Misuse> {
        let mut places: [Option<u8>; 256] = [None; 256];
        for (place, shard) in (0..=255).zip(present) {
            places[usize::from(shard.0)] = Some(place);
        }
        let has = |shard: &Shard| places[usize::from(shard.0)].is_some();
        let lost: SmallVec<[u8; 16]> = geometry
            .data_shards()
            .filter(|shard| !has(shard))
            .map(|shard| shard.0)
            .collect();
        let parity: SmallVec<[Shard; 16]> = geometry
            .parity_shards()
            .filter(has)
            .take(lost.len())
            .collect();
        let sources = geometry
            .data_shards()
            .filter(has)
            .chain(parity.iter().copied())
            .filter_map(|shard| places[usize::from(shard.0)])
            .collect();
        let inverse = invert(geometry, &parity, &lost).ok_or(Misuse::TooFew {
            present: present.len(),
            needed: usize::from(geometry.data()),
        })?;
        let kept: SmallVec<[u8; 32]> = geometry
            .data_shards()
            .filter(has)
            .map(|shard| shard.0)
            .collect();
        let mut weights = Weights::with_capacity(wanted.len() * usize::from(geometry.data()));
        for shard in wanted {
            // wanted = sum over kept data + sum over lost data; each lost one is the inverse
            // applied to (present parity - what kept data adds to it).
            let by_parity: Weights = (0..lost.len())
                .map(|column| {
                    let terms = lost.iter().zip(inverse.chunks_exact(lost.len().max(1)));
                    terms.fold(0, |sum, (data, row)| {
                        sum ^ product(weight_in(geometry, *shard, *data), row[column])
                    })
                })
                .collect();
            for data in &kept {
                let through = parity.iter().zip(&by_parity).fold(0, |sum, (parity, by)| {
                    sum ^ product(weight_in(geometry, *parity, *data), *by)
                });
                weights.push(weight_in(geometry, *shard, *data) ^ through);
            }
            weights.extend_from_slice(&by_parity);
        }
        Ok(Recovery { sources, weights })
    }
}

/// The inverse of the square matrix "weight of lost data in parity" by Gauss and Jordan, row by
/// row; `None` where it is not square or has none, which the generator matrix rules out.
fn invert(geometry: Geometry, parity: &[Shard], lost: &[u8]) -> Option<Weights> {
    let size = lost.len();
    if parity.len() != size {
        return None;
    }
    // Both halves of a row side by side: the matrix, and what becomes the inverse.
    let width = 2 * size;
    let mut rows: Weights = smallvec![0; size * width];
    for (number, (row, shard)) in rows.chunks_exact_mut(width.max(1)).zip(parity).enumerate() {
        let (left, right) = row.split_at_mut(size);
        for (cell, data) in left.iter_mut().zip(lost) {
            *cell = weight_in(geometry, *shard, *data);
        }
        right[number] = 1;
    }
    for pivot in 0..size {
        let found = (pivot..size).find(|row| rows[row * width + pivot] != 0)?;
        for column in 0..width {
            rows.swap(pivot * width + column, found * width + column);
        }
        let scale = quotient(1, rows[pivot * width + pivot]);
        for cell in &mut rows[pivot * width..(pivot + 1) * width] {
            *cell = product(*cell, scale);
        }
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = rows[row * width + pivot];
            for column in 0..width {
                let term = product(factor, rows[pivot * width + column]);
                rows[row * width + column] ^= term;
            }
        }
    }
    let right = rows
        .chunks_exact(width.max(1))
        .flat_map(|row| &row[size..])
        .copied();
    Some(right.collect())
}
