//! What can go wrong with a stripe.

use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use env::errno::Errno;
use parity::Shard;

/// Results of this module.
pub type Result<T> = core::result::Result<T, StripeError>;

/// Why something was not done. Nothing was changed unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum StripeError {
    /// There is no such stripe.
    #[error("there is no stripe {:#x}", .0.0)]
    NoStripe(StripeId),
    /// The stripe is there already.
    #[error("stripe {:#x} is there already", .0.0)]
    Exists(StripeId),
    /// A store that has to take part is not there.
    #[error("store {} is not there, and its shard is needed", .0.0)]
    Away(StoreIndex),
    /// A store did not do its part.
    #[error("store {}: {doing}: {errno}", store.0)]
    Io {
        /// The store.
        store: StoreIndex,
        /// What was being done.
        doing: &'static str,
        /// What it answered.
        errno: Errno,
    },
    /// The notes of a store did not do their part.
    #[error("store {}: {doing}: {source}", store.0)]
    Notes {
        /// The store.
        store: StoreIndex,
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: Box<filemeta::MetaError>,
    },
    /// A page of a shard is not what it was sealed as.
    #[error(
        "stripe {:#x}, {shard}, page {page}: checksum {found:#010x} where {expected:#010x} was \
         written; `holdfast scrub` mends it while enough other shards are there",
        stripe.0
    )]
    Rotten {
        /// The stripe.
        stripe: StripeId,
        /// The shard.
        shard: Shard,
        /// The page in it.
        page: u32,
        /// The checksum in the shard file.
        expected: u32,
        /// That of the bytes.
        found: u32,
    },
    /// Too few shards are there and right.
    #[error(
        "stripe {:#x}, page {page}: {right} shards are there and right, {needed} are needed",
        stripe.0
    )]
    TooFew {
        /// The stripe.
        stripe: StripeId,
        /// The page in each shard.
        page: u32,
        /// Shards that are there and right.
        right: usize,
        /// Shards that it takes.
        needed: u8,
    },
    /// Stores still have what of a stripe was to be removed.
    #[error(
        "stores {} still have shards of a stripe that was given up: they must not be used before \
         they are compared",
        .0.iter().map(|store| store.0.to_string()).collect::<Vec<_>>().join(", ")
    )]
    Left(StoreMask),
    /// A merge could not be ended.
    #[error(
        "stripe {:#x}: a merge could not be ended; it is decided at the next start, and the data \
         of its members is safe",
        .0.0
    )]
    Undecided(StripeId),
    /// No copy of a differential page is there and right.
    #[error(
        "stripe {:#x}, {shard}, page {page}: its newest bytes are on no store that is there and \
         right; bring back the stores that left last",
        stripe.0
    )]
    Lost {
        /// The stripe.
        stripe: StripeId,
        /// The shard.
        shard: Shard,
        /// The page in it.
        page: u32,
    },
    /// No store took a write: nothing of it is anywhere.
    #[error("no store could write to stripe {:#x}, {shard}: {errno}", stripe.0)]
    NotWritten {
        /// The stripe.
        stripe: StripeId,
        /// The shard.
        shard: Shard,
        /// What the first answered.
        errno: Errno,
    },
    /// A log of differentials lacks what was durable in it, and no other store can say what.
    #[error(
        "store {}: its log of differentials is damaged at byte {offset} of segment {segment}, and \
         the stores with the other copies are not all there; start with them, then this one is \
         made anew",
        store.0
    )]
    DamagedLog {
        /// The store.
        store: StoreIndex,
        /// Number of the segment.
        segment: u64,
        /// Where in it.
        offset: u32,
    },
    /// A layout or an argument that makes no sense.
    #[error("{0}")]
    Misuse(&'static str),
    /// Parity refused its arguments.
    #[error(transparent)]
    Parity(#[from] parity::Misuse),
}

impl StripeError {
    pub(super) fn io(store: StoreIndex, doing: &'static str) -> impl FnOnce(Errno) -> StripeError {
        move |errno| StripeError::Io {
            store,
            doing,
            errno,
        }
    }

    pub(super) fn notes(
        store: StoreIndex,
        doing: &'static str,
    ) -> impl FnOnce(filemeta::MetaError) -> StripeError {
        move |source| StripeError::Notes {
            store,
            doing,
            source: Box::new(source),
        }
    }

    /// What the medium answered, where that is known.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            StripeError::Io { errno, .. } | StripeError::NotWritten { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The store that failed, where one did.
    pub fn failed(&self) -> Option<StoreIndex> {
        match self {
            StripeError::Io { store, .. } | StripeError::Notes { store, .. } => Some(*store),
            _ => None,
        }
    }
}
