//! The generator matrix. It is part of the on-disk format: docs/decisions/0006-parity-matrix.md.

use crate::{Geometry, Role, Shard};
use reed_solomon_erasure::galois_8;

/// The product of two elements of GF(2^8) with the polynomial 0x11d.
pub(crate) fn product(a: u8, b: u8) -> u8 {
    galois_8::mul(a, b)
}

/// The quotient of two elements; 0 by a zero divisor, which no caller has.
pub(crate) fn quotient(a: u8, b: u8) -> u8 {
    if b == 0 { 0 } else { galois_8::div(a, b) }
}

/// The weight of data shard `data` in parity shard `parity`, both counted from 0.
///
/// A Cauchy matrix 1 / (x_i + y_j) with x_i = i and y_j = 255 - j, each column divided by its
/// element in row 0. The x and y differ from each other as long as i + j < 255, which
/// [`SHARDS_MAX`](crate::SHARDS_MAX) ensures. Every square submatrix of a Cauchy matrix can be
/// inverted, and scaling columns leaves that so; this is what makes any `data` shards enough
/// (Bloemer et al., "An XOR-based erasure-resilient coding scheme", ICSI TR-95-048, 1995).
pub(crate) fn weight(parity: u8, data: u8) -> u8 {
    let y = 255 - data;
    quotient(y, parity ^ y)
}

/// The weight of data shard `data` in any shard.
pub(crate) fn weight_in(geometry: Geometry, shard: Shard, data: u8) -> u8 {
    match geometry.role(shard) {
        Ok(Role::Data(same)) => u8::from(same == data),
        Ok(Role::Parity(parity)) => weight(parity, data),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_parity_shard_is_the_plain_xor_of_all_data() {
        assert!((0..255).all(|data| weight(0, data) == 1));
    }

    #[test]
    fn the_points_of_the_cauchy_matrix_differ_for_every_geometry() {
        // x_i = i < parity <= 255 - data < 255 - j = y_j for j < data: no x is a y.
        for data in 1..=255u8 {
            let Ok(geometry) = Geometry::new(data, 255 - data) else {
                panic!("{data} data shards are possible");
            };
            let x: Vec<u8> = (0..geometry.parity()).collect();
            let y: Vec<u8> = (0..geometry.data()).map(|data| 255 - data).collect();
            assert!(y.iter().all(|y| !x.contains(y) && *y != 0));
            assert!(y.windows(2).all(|pair| pair[0] > pair[1]));
        }
    }

    #[test]
    fn no_weight_is_zero() {
        for parity in 0..=254 {
            for data in 0..255 - parity {
                assert_ne!(weight(parity, data), 0, "parity {parity}, data {data}");
            }
        }
    }
}
