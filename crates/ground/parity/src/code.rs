//! What an erasure code offers.

use crate::{Geometry, Misuse, Shard, Unverified};

/// A systematic linear erasure code over bytes.
///
/// Data shards stay as they are; each parity shard is a linear function of all of them, and any
/// `data` shards of a stripe give all others. Byte `i` of a shard depends on the bytes `i` of other
/// shards only, so every call works on whole shards or on any range of them, as long as all
/// buffers of the call hold the same range. All have the same length, which may be any, also 0.
///
/// A call that returns [`Misuse`] has not changed any buffer. Implementations keep no state between
/// calls.
pub trait Code {
    /// The numbers of data and parity shards.
    fn geometry(&self) -> Geometry;

    /// Computes all parity shards. `data` and `parity` hold one buffer for each shard, in order;
    /// what was in `parity` does not matter.
    fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Misuse>;

    /// Brings one or more parity shards up to date after a change of one data shard.
    ///
    /// `difference` is the old content xor the new one (see [`difference`](crate::difference)), and
    /// `parity` the same range of each parity shard to update, in any order. Those left out keep
    /// the old state and need the same update later: updates of one shard add up, and their
    /// order does not matter.
    fn update(
        &self,
        data: Shard,
        difference: &[u8],
        parity: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse>;

    /// Computes the wanted shards, data or parity, from any `data` or more others. What is not
    /// wanted is not computed, and no more than `data` of those present are read, data shards
    /// first, then in the order of their numbers.
    fn reconstruct(
        &self,
        present: &[(Shard, &[u8])],
        wanted: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse>;

    /// Checks that the shards present, of which there are more than `data`, belong together.
    ///
    /// With exactly `data` shards there is nothing to compare, which is an error and not a success.
    fn verify(&self, present: &[(Shard, &[u8])]) -> Result<(), Unverified>;
}
