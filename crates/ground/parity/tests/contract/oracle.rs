//! What the shards of a stripe are by definition (docs/decisions/0006-parity-matrix.md), computed
//! from bit operations. It shares no arithmetic with the crate.

use holdfast_parity::{Geometry, Role, Shard};
use std::sync::LazyLock;

/// In GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, bit by bit.
fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    sum
}

/// All products, the factors being row and column.
static PRODUCTS: LazyLock<Vec<[u8; 256]>> = LazyLock::new(|| {
    let row = |a| std::array::from_fn(|b| multiply(a, b as u8));
    (0..=255).map(row).collect()
});

/// 1/a for a > 0.
static INVERSES: LazyLock<[u8; 256]> = LazyLock::new(|| {
    let inverse = |a: usize| PRODUCTS[a].iter().position(|product| *product == 1);
    std::array::from_fn(|a| inverse(a).unwrap_or(0) as u8)
});

/// All shards of the stripe with these data shards.
pub(crate) fn stripe(geometry: Geometry, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    assert_eq!(data.len(), usize::from(geometry.data()));
    let parity = geometry.parity_shards().map(|shard| {
        let mut content = vec![0; data[0].len()];
        for (number, data) in (0..).zip(data) {
            let products = &PRODUCTS[usize::from(weight(geometry, shard, number))];
            for (sum, byte) in content.iter_mut().zip(data) {
                *sum ^= products[usize::from(*byte)];
            }
        }
        content
    });
    data.iter().cloned().chain(parity).collect()
}

fn weight(geometry: Geometry, shard: Shard, data: u8) -> u8 {
    match geometry.role(shard).expect("a shard of the stripe") {
        Role::Data(same) => u8::from(same == data),
        Role::Parity(parity) => {
            let y = 255 - data;
            PRODUCTS[usize::from(y)][usize::from(INVERSES[usize::from(parity ^ y)])]
        }
    }
}
