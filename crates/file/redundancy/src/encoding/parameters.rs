//! What an operator sets: shares, the code's shape, chunk size, interval; checked before use.

use super::PAGE_BYTES;
use crate::config::STORES_MAX;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Millionths in a whole.
const WHOLE: u32 = 1_000_000;

/// Smallest chunk: a page. Below 64 KiB the counters cost more than they find.
pub const CHUNK_BYTES_MIN: u64 = 4096;

/// Largest chunk: the block of HDFS, with which \[F\] compares.
pub const CHUNK_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Most data shards of a stripe that [`Geometry::widest`] takes: more save little space, and make
/// a lost store cost more reads.
pub const DATA_MAX: u8 = 8;

/// Greatest read weight: above it a read's load could not be told from many writes.
pub const READ_WEIGHT_MAX: f64 = 1000.0;

/// A parameter, or several together, that no policy can work with.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// A share outside 0 to 1, or not a number.
    #[error("{0} is not a share: it has to be a number from 0 to 1")]
    Share(f64),
    /// A read weight below 0 or too large, or not a number.
    #[error("{0} is not a read weight: it has to be a number from 0 to {READ_WEIGHT_MAX}")]
    ReadWeight(f64),
    /// Text where a number has to be.
    #[error("{0:?} is not a number")]
    Number(String),
    /// A chunk size that is no power of two or out of range.
    #[error(
        "{0} bytes is not a chunk size: it has to be a power of two from {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
    )]
    Chunk(u64),
    /// No data or no parity shards.
    #[error("a code of {data}+{parity} is none: it has at least one data and one parity shard")]
    NoCode {
        /// Data shards.
        data: u8,
        /// Parity shards.
        parity: u8,
    },
    /// Too few stores for the code.
    #[error(
        "a code of {data}+{parity} needs {} stores, one for each shard, and there are {stores}",
        u16::from(*data) + u16::from(*parity)
    )]
    TooFewStores {
        /// Data shards.
        data: u8,
        /// Parity shards.
        parity: u8,
        /// Stores.
        stores: u8,
    },
    /// More stores than a set can have.
    #[error("{0} stores are more than the {STORES_MAX} of a set")]
    TooManyStores(u8),
    /// More copies than stores.
    #[error("{copies} copies need {copies} stores, and there are {stores}")]
    TooManyCopies {
        /// Copies of what is not encoded.
        copies: u8,
        /// Stores.
        stores: u8,
    },
    /// Encoded data would survive fewer losses than copies do.
    #[error(
        "encoding would make data less safe: lost stores that {copies} copies survive: {}, that the code survives: {parity}",
        copies - 1
    )]
    LessSafe {
        /// Parity shards.
        parity: u8,
        /// Copies of what is not encoded.
        copies: u8,
    },
    /// Encoded data would take as much space as copies.
    #[error("a code of {data}+{parity} takes no less space than {copies} copies")]
    FreesNothing {
        /// Data shards.
        data: u8,
        /// Parity shards.
        parity: u8,
        /// Copies of what is not encoded.
        copies: u8,
    },
    /// A monitoring interval of no length.
    #[error("the interval has to be longer than 0")]
    NoInterval,
}

/// A share of a whole from 0 to 1, in whole millionths, so that comparisons are exact.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(u32);

impl Share {
    /// 0.
    pub const NONE: Share = Share(0);
    /// 1.
    pub const ALL: Share = Share(WHOLE);

    /// A share from thousandths, at most the whole.
    pub const fn per_mille(thousandths: u16) -> Share {
        let millionths = thousandths as u32 * (WHOLE / 1000);
        if millionths > WHOLE {
            Share::ALL
        } else {
            Share(millionths)
        }
    }

    /// A share from a fraction, rounded to the nearest millionth.
    ///
    /// # Errors
    /// It is outside 0 to 1.
    pub fn new(fraction: f64) -> Result<Share, ParameterError> {
        if (0.0..=1.0).contains(&fraction) {
            Ok(Share((fraction * f64::from(WHOLE)).round() as u32))
        } else {
            Err(ParameterError::Share(fraction))
        }
    }

    /// As a fraction from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// This share of `whole`, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.0) / u128::from(WHOLE);
        // A share is at most 1, so the part is at most the whole.
        u64::try_from(part).unwrap_or(whole)
    }

    /// Whether `part` of `whole` is at most this share. Nothing of nothing is.
    pub(super) fn holds(self, part: u128, whole: u128) -> bool {
        part.saturating_mul(u128::from(WHOLE)) <= whole.saturating_mul(u128::from(self.0))
    }

    /// Whether `part` of `whole` is less than this share.
    pub(super) fn exceeds(self, part: u128, whole: u128) -> bool {
        part.saturating_mul(u128::from(WHOLE)) < whole.saturating_mul(u128::from(self.0))
    }
}

impl TryFrom<f64> for Share {
    type Error = ParameterError;
    fn try_from(fraction: f64) -> Result<Share, ParameterError> {
        Share::new(fraction)
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> f64 {
        share.fraction()
    }
}

impl FromStr for Share {
    type Err = ParameterError;
    fn from_str(text: &str) -> Result<Share, ParameterError> {
        Share::new(number(text)?)
    }
}

/// What a read counts beside a write: `a` of \[F\] equation 4.1. 0, the default, ignores reads,
/// which are as fast from encoded data as from copies while every store is there; 1 also
/// protects reads while one is lost.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(try_from = "f64", into = "f64")]
pub struct ReadWeight(u32);

impl ReadWeight {
    /// A weight, rounded to the nearest millionth.
    ///
    /// # Errors
    /// It is below 0 or above [`READ_WEIGHT_MAX`].
    pub fn new(weight: f64) -> Result<ReadWeight, ParameterError> {
        if (0.0..=READ_WEIGHT_MAX).contains(&weight) {
            Ok(ReadWeight((weight * f64::from(WHOLE)).round() as u32))
        } else {
            Err(ParameterError::ReadWeight(weight))
        }
    }

    /// As a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    pub(super) fn millionths(self) -> u64 {
        u64::from(self.0)
    }
}

impl TryFrom<f64> for ReadWeight {
    type Error = ParameterError;
    fn try_from(weight: f64) -> Result<ReadWeight, ParameterError> {
        ReadWeight::new(weight)
    }
}

impl From<ReadWeight> for f64 {
    fn from(weight: ReadWeight) -> f64 {
        weight.value()
    }
}

impl FromStr for ReadWeight {
    type Err = ParameterError;
    fn from_str(text: &str) -> Result<ReadWeight, ParameterError> {
        ReadWeight::new(number(text)?)
    }
}

fn number(text: &str) -> Result<f64, ParameterError> {
    text.parse()
        .map_err(|_| ParameterError::Number(text.to_owned()))
}

/// Bytes of a chunk: a power of two from [`CHUNK_BYTES_MIN`] to [`CHUNK_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct ChunkBytes(u64);

impl ChunkBytes {
    /// 512 KiB, as in \[F\] section 4.3.3.
    pub const DEFAULT: ChunkBytes = ChunkBytes(512 * 1024);

    /// A chunk size.
    ///
    /// # Errors
    /// It is none.
    pub fn new(bytes: u64) -> Result<ChunkBytes, ParameterError> {
        let fits = (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes);
        if fits && bytes.is_power_of_two() {
            Ok(ChunkBytes(bytes))
        } else {
            Err(ParameterError::Chunk(bytes))
        }
    }

    /// In bytes.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Differential pages in a chunk.
    pub fn pages(self) -> u64 {
        self.0 / PAGE_BYTES
    }
}

impl TryFrom<u64> for ChunkBytes {
    type Error = ParameterError;
    fn try_from(bytes: u64) -> Result<ChunkBytes, ParameterError> {
        ChunkBytes::new(bytes)
    }
}

impl From<ChunkBytes> for u64 {
    fn from(chunk: ChunkBytes) -> u64 {
        chunk.0
    }
}

/// The code's shape, the copies it replaces, and the stores there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Geometry {
    data: u8,
    parity: u8,
    copies: u8,
    stores: u8,
}

impl Geometry {
    /// `data` + `parity` shards (k and m of \[F\] chapter 4) for data that else has `copies`
    /// copies, on `stores` stores.
    ///
    /// # Errors
    /// They do not fit together: too few stores for a stripe or the copies, or encoded data
    /// would be less safe or no smaller.
    pub fn new(data: u8, parity: u8, copies: u8, stores: u8) -> Result<Geometry, ParameterError> {
        if data == 0 || parity == 0 {
            return Err(ParameterError::NoCode { data, parity });
        }
        if usize::from(stores) > STORES_MAX {
            return Err(ParameterError::TooManyStores(stores));
        }
        if u16::from(data) + u16::from(parity) > u16::from(stores) {
            return Err(ParameterError::TooFewStores {
                data,
                parity,
                stores,
            });
        }
        if copies > stores {
            return Err(ParameterError::TooManyCopies { copies, stores });
        }
        if parity < copies.saturating_sub(1) {
            return Err(ParameterError::LessSafe { parity, copies });
        }
        let geometry = Geometry {
            data,
            parity,
            copies,
            stores,
        };
        if !geometry.frees(data) {
            return Err(ParameterError::FreesNothing {
                data,
                parity,
                copies,
            });
        }
        Ok(geometry)
    }

    /// The widest code for a set, with as much parity as there are copies to lose and at most
    /// [`DATA_MAX`] data shards; `None` where none would free anything.
    pub fn widest(copies: u8, stores: u8) -> Option<Geometry> {
        let parity = copies.checked_sub(1).filter(|parity| *parity > 0)?;
        let data = stores.checked_sub(parity)?.min(DATA_MAX);
        Geometry::new(data, parity, copies, stores).ok()
    }

    /// Data shards of a stripe (k).
    pub fn data(self) -> usize {
        self.data.into()
    }

    /// Parity shards of a stripe (m).
    pub fn parity(self) -> usize {
        self.parity.into()
    }

    /// Copies of what is not encoded (the replication factor r).
    pub fn copies(self) -> usize {
        self.copies.into()
    }

    /// Stores.
    pub fn stores(self) -> usize {
        self.stores.into()
    }

    /// Whether a stripe with only `members` chunks, its other slots vacant, takes less space
    /// than copies of them.
    pub(super) fn frees(self, members: u8) -> bool {
        u16::from(members) * u16::from(self.copies) > u16::from(members) + u16::from(self.parity)
    }

    /// User data over all space taken where `encoded` of the data is encoded, without metadata.
    /// With `copies = parity + 1` it is \[F\] equation 4.4,
    /// `1 / (1 + m (1 - R (k - 1) / k))`.
    pub fn capacity_efficiency(self, encoded: Share) -> f64 {
        let copies = f64::from(self.copies);
        let stripe = f64::from(self.parity) / f64::from(self.data) + 1.0;
        1.0 / (copies - encoded.fraction() * (copies - stripe))
    }

    /// The share to encode so that differential pages up to the share `differential` cost no
    /// space: \[F\] equation 5.3, `R + B r / (r - (k + m) / k)`, at most 1. (Chapter 5 calls the
    /// data shards m and the parity shards k; here they have the letters of chapter 4.)
    pub fn encoded_target(self, target_rate: Share, differential: Share) -> Share {
        let (data, copies) = (u64::from(self.data), u64::from(self.copies));
        // Above 0: `new` refuses a code that frees nothing.
        let freed = copies * data - (data + u64::from(self.parity));
        let extra = u64::from(differential.0) * copies * data / freed;
        let target = u64::from(target_rate.0) + extra;
        Share(u32::try_from(target).map_or(WHOLE, |target| target.min(WHOLE)))
    }
}

/// All parameters of the policy.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Parameters {
    /// The code's shape and the stores.
    pub geometry: Geometry,
    /// Bytes of a chunk. Files without one whole chunk are left alone.
    pub chunk: ChunkBytes,
    /// What a read counts (a).
    pub read_weight: ReadWeight,
    /// Most of the load that encoded chunks may have (L); 1 is no limit.
    pub load_limit: Share,
    /// Most of the capacity to encode (R), before differential pages are made up for.
    pub target_rate: Share,
    /// Most of the capacity that differential pages take before they are merged (B).
    pub differential: Share,
    /// Merges each write before it is answered: the naive method of \[F\] section 5.1.3.
    pub at_once: bool,
    /// How long counts are gathered before a round.
    pub interval: Duration,
}

impl Parameters {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// The interval has no length.
    pub fn validate(&self) -> Result<(), ParameterError> {
        if self.interval.is_zero() {
            return Err(ParameterError::NoInterval);
        }
        Ok(())
    }

    /// The limits that a [`super::Plan`] keeps: L, and R made up for differential pages.
    pub fn limits(&self) -> super::Limits {
        super::Limits {
            load: self.load_limit,
            encoded: self
                .geometry
                .encoded_target(self.target_rate, self.differential),
        }
    }
}
