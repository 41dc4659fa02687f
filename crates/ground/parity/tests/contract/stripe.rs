//! A stripe with known content, and calls on it that have to be refused.

use crate::oracle;
use holdfast_parity::{Code, Geometry, Misuse, Shard, Unverified};
use proptest::prelude::*;
use std::ops::Range;

/// All shards as they have to be.
#[derive(Clone, Debug)]
pub(crate) struct Stripe {
    pub(crate) geometry: Geometry,
    shards: Vec<Vec<u8>>,
}

/// Mostly geometries that people use, and the extremes.
pub(crate) fn geometries() -> impl Strategy<Value = Geometry> {
    let new = |(data, parity)| Geometry::new(data, parity).expect("at most 255 shards");
    prop_oneof![
        12 => (1..=16u8, 0..=6u8).prop_map(new),
        2 => prop::sample::select(vec![(2, 1), (4, 2), (6, 2), (10, 4)]).prop_map(new),
        // Beyond the numbers of shards that need no allocation.
        1 => (30..=40u8, 14..=20u8).prop_map(new),
        1 => prop::sample::select(vec![(1, 254), (255, 0), (254, 1), (128, 127)]).prop_map(new),
    ]
}

/// Bytes from a seed: splitmix64, which needs no crate.
fn fill(seed: u64, bytes: &mut [u8]) {
    let mut state = seed;
    for byte in bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *byte = (mixed ^ (mixed >> 31)) as u8;
    }
}

impl Stripe {
    pub(crate) fn new(geometry: Geometry, bytes: usize, seed: u64) -> Stripe {
        let mut data = vec![vec![0; bytes]; geometry.data().into()];
        for (number, shard) in (1..).zip(&mut data) {
            fill(seed.wrapping_mul(number).wrapping_add(number), shard);
        }
        let shards = oracle::stripe(geometry, &data);
        Stripe { geometry, shards }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shards[0].len()
    }

    pub(crate) fn shard(&self, shard: Shard) -> &Vec<u8> {
        &self.shards[usize::from(shard.0)]
    }

    pub(crate) fn data(&self) -> Vec<&[u8]> {
        let data = self.shards.iter().take(self.geometry.data().into());
        data.map(Vec::as_slice).collect()
    }

    pub(crate) fn data_vecs(&self) -> Vec<Vec<u8>> {
        self.shards[..self.geometry.data().into()].to_vec()
    }

    pub(crate) fn parity(&self) -> &[Vec<u8>] {
        &self.shards[self.geometry.data().into()..]
    }

    /// The parity that the stripe would have with zeros in a data shard.
    pub(crate) fn without(&self, shard: Shard) -> Vec<Vec<u8>> {
        let mut data = self.data_vecs();
        data[usize::from(shard.0)].fill(0);
        oracle::stripe(self.geometry, &data).split_off(self.geometry.data().into())
    }

    pub(crate) fn of(&self, shards: &[Shard]) -> Vec<(Shard, &[u8])> {
        let parts = shards
            .iter()
            .map(|shard| (*shard, self.shard(*shard).as_slice()));
        parts.collect()
    }

    /// Buffers of the right length with content that must not matter.
    pub(crate) fn garbage(&self, count: usize) -> Vec<Vec<u8>> {
        vec![vec![0xa5; self.bytes()]; count]
    }

    /// Writes to a data shard; parity stays as it was.
    pub(crate) fn overwrite(&mut self, shard: Shard, range: Range<usize>, seed: u64) {
        fill(seed, &mut self.shards[usize::from(shard.0)][range]);
    }

    /// Changes one byte of one shard.
    pub(crate) fn damage(&mut self, shard: Shard, offset: usize, change: u8) {
        self.shards[usize::from(shard.0)][offset] ^= change;
    }
}

/// A call that has to be refused.
#[derive(Clone, Copy)]
pub(crate) enum Refused<'a> {
    /// Numbers of data and parity buffers.
    Encode(usize, usize),
    Update(Shard, &'a [Shard]),
    Reconstruct(&'a [Shard], &'a [Shard]),
    Verify(&'a [Shard]),
}

impl Stripe {
    /// Makes the call and expects this refusal, and outputs that were not touched.
    pub(crate) fn refused(
        &self,
        code: &impl Code,
        call: Refused<'_>,
        expected: Misuse,
    ) -> Result<(), TestCaseError> {
        let (found, untouched) = self.call(code, call, None);
        prop_assert_eq!(found, Err(expected));
        prop_assert!(untouched, "{} after bytes were changed", expected);
        Ok(())
    }

    /// Makes a call that is right but for the buffer in place `odd`, once a byte shorter and once a
    /// byte longer than the others.
    pub(crate) fn unequal(
        &self,
        code: &impl Code,
        call: Refused<'_>,
        odd: usize,
    ) -> Result<(), TestCaseError> {
        for bytes in [self.bytes() - 1, self.bytes() + 1] {
            let (found, untouched) = self.call(code, call, Some((odd, bytes)));
            let refused = matches!(found, Err(Misuse::Length { .. }));
            prop_assert!(refused, "buffer {} of {} bytes: {:?}", odd, bytes, found);
            prop_assert!(untouched, "refused after bytes were changed");
        }
        Ok(())
    }

    /// The answer, and whether all outputs are as before. `odd` gives one buffer of the call, by its
    /// place, another length.
    fn call(
        &self,
        code: &impl Code,
        call: Refused<'_>,
        odd: Option<(usize, usize)>,
    ) -> (Result<(), Misuse>, bool) {
        let length = |place| match odd {
            Some((odd, bytes)) if odd == place => bytes,
            _ => self.bytes(),
        };
        let buffers = |first: usize, count: usize| -> Vec<Vec<u8>> {
            (first..first + count)
                .map(|place| vec![0xa5; length(place)])
                .collect()
        };
        let (inputs, mut outputs);
        let result = match call {
            Refused::Encode(data, parity) => {
                (inputs, outputs) = (buffers(0, data), buffers(data, parity));
                let data: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let mut parity: Vec<&mut [u8]> =
                    outputs.iter_mut().map(Vec::as_mut_slice).collect();
                code.encode(&data, &mut parity)
            }
            Refused::Update(data, parity) => {
                (inputs, outputs) = (buffers(0, 1), buffers(1, parity.len()));
                code.update(data, &inputs[0], &mut writable(parity, &mut outputs))
            }
            Refused::Reconstruct(present, wanted) => {
                let count = present.len();
                (inputs, outputs) = (buffers(0, count), buffers(count, wanted.len()));
                let mut wanted = writable(wanted, &mut outputs);
                code.reconstruct(&readable(present, &inputs), &mut wanted)
            }
            Refused::Verify(present) => {
                (inputs, outputs) = (buffers(0, present.len()), Vec::new());
                match code.verify(&readable(present, &inputs)) {
                    Err(Unverified::Misuse(misuse)) => Err(misuse),
                    _ => Ok(()),
                }
            }
        };
        let untouched = outputs.iter().flatten().all(|byte| *byte == 0xa5);
        (result, untouched)
    }
}

fn readable<'a>(shards: &[Shard], buffers: &'a [Vec<u8>]) -> Vec<(Shard, &'a [u8])> {
    let buffers = buffers.iter().map(Vec::as_slice);
    shards.iter().copied().zip(buffers).collect()
}

fn writable<'a>(shards: &[Shard], buffers: &'a mut [Vec<u8>]) -> Vec<(Shard, &'a mut [u8])> {
    let buffers = buffers.iter_mut().map(Vec::as_mut_slice);
    shards.iter().copied().zip(buffers).collect()
}
