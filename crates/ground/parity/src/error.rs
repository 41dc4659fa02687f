//! What can be wrong with a call, and with a stripe.

use crate::{Kernel, SHARDS_MAX, Shard};

/// A call that cannot be carried out. No byte of any buffer was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// A geometry without data shards.
    #[error("a stripe needs at least one data shard")]
    NoData,
    /// A geometry with more shards than the code has.
    #[error("{data} data and {parity} parity shards are more than {SHARDS_MAX} in a stripe")]
    TooManyShards {
        /// Data shards asked for.
        data: u8,
        /// Parity shards asked for.
        parity: u8,
    },
    /// A shard that the geometry does not have.
    #[error("{shard} of a stripe that has {shards}, counted from 0")]
    NoSuchShard {
        /// The one named.
        shard: Shard,
        /// How many there are.
        shards: u8,
    },
    /// A parity shard where a data shard belongs.
    #[error("{shard} is not a data shard")]
    NotData {
        /// The one named.
        shard: Shard,
    },
    /// A data shard where a parity shard belongs.
    #[error("{shard} is not a parity shard")]
    NotParity {
        /// The one named.
        shard: Shard,
    },
    /// A shard named more than once in one call, or both present and wanted.
    #[error("{shard} is named more than once")]
    Twice {
        /// The one named.
        shard: Shard,
    },
    /// More or fewer data or parity buffers than the geometry has shards of that role.
    #[error("{found} buffers for {expected} {role} shards")]
    Count {
        /// "data" or "parity".
        role: &'static str,
        /// Shards of that role.
        expected: u8,
        /// Buffers given.
        found: usize,
    },
    /// Buffers of different lengths.
    #[error("{shard} has {found} bytes, the first buffer of the call has {expected}")]
    Length {
        /// The shard whose buffer is of another length.
        shard: Shard,
        /// Bytes of the first buffer.
        expected: usize,
        /// Bytes of this one.
        found: usize,
    },
    /// Buffers of different lengths for a difference.
    #[error("old content has {old} bytes, new content {new}, room for their difference {into}")]
    Difference {
        /// Bytes of old content.
        old: usize,
        /// Bytes of new content.
        new: usize,
        /// Bytes of the buffer for the difference.
        into: usize,
    },
    /// Not enough shards to compute others from, or to verify anything with.
    #[error("{present} shards are present, this takes {needed}")]
    TooFew {
        /// Shards given.
        present: usize,
        /// Shards that it takes.
        needed: usize,
    },
    /// A kernel that this processor or this build does not have.
    #[error("the kernel {kernel} does not run on this processor, or is not in this build")]
    NoKernel {
        /// The one asked for.
        kernel: Kernel,
    },
}

/// The first byte that is not what the other shards say.
///
/// It does not tell which shard is wrong: where one byte of a stripe is damaged, any of the shards
/// that were compared may hold it. Checksums beside the shards tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{shard} differs at byte {offset}: the others make it {expected:#04x}, it is {found:#04x}")]
pub struct Mismatch {
    /// The shard that differs from what the others make it.
    pub shard: Shard,
    /// Where in the buffer, in bytes.
    pub offset: usize,
    /// The byte that the other shards make.
    pub expected: u8,
    /// The byte that is there.
    pub found: u8,
}

/// Why a stripe was not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// The call makes no sense; nothing is known about the stripe.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The shards do not belong together.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}
