//! How many shards a stripe has, and which is which.

use crate::Misuse;
use std::fmt;

/// Most shards of a stripe, data and parity together.
///
/// The field has 256 elements, so the code would allow 256; 255 lets a byte hold every count and
/// every index, with one value left over.
pub const SHARDS_MAX: u8 = 255;

/// How many data and parity shards a stripe has: data >= 1, data + parity <= [`SHARDS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Geometry {
    data: u8,
    parity: u8,
}

impl Geometry {
    /// `data` shards with user data and `parity` shards computed from them. `parity` may be 0: such
    /// a stripe survives no loss.
    pub fn new(data: u8, parity: u8) -> Result<Geometry, Misuse> {
        if data == 0 {
            return Err(Misuse::NoData);
        }
        match data.checked_add(parity) {
            Some(_) => Ok(Geometry { data, parity }),
            None => Err(Misuse::TooManyShards { data, parity }),
        }
    }

    /// Number of data shards, and so of shards that it takes to get all others back.
    pub fn data(self) -> u8 {
        self.data
    }

    /// Number of parity shards, and so of shards that may be lost.
    pub fn parity(self) -> u8 {
        self.parity
    }

    /// Number of all shards.
    pub fn shards(self) -> u8 {
        self.data + self.parity
    }

    /// The data shards in order.
    pub fn data_shards(self) -> impl DoubleEndedIterator<Item = Shard> + ExactSizeIterator {
        (0..self.data).map(Shard)
    }

    /// The parity shards in order.
    pub fn parity_shards(self) -> impl DoubleEndedIterator<Item = Shard> + ExactSizeIterator {
        (self.data..self.shards()).map(Shard)
    }

    /// Whether `shard` holds user data or parity.
    pub fn role(self, shard: Shard) -> Result<Role, Misuse> {
        if shard.0 < self.data {
            Ok(Role::Data(shard.0))
        } else if shard.0 < self.shards() {
            Ok(Role::Parity(shard.0 - self.data))
        } else {
            let shards = self.shards();
            Err(Misuse::NoSuchShard { shard, shards })
        }
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

/// A shard by its place in the stripe, from 0: data shards first, then parity shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u8);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// What a shard holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// User data; the number counts data shards from 0.
    Data(u8),
    /// Parity; the number counts parity shards from 0.
    Parity(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_geometry_is_taken_or_refused_by_its_numbers_alone() {
        for data in 0..=255u8 {
            for parity in 0..=255u8 {
                let sum = u16::from(data) + u16::from(parity);
                match Geometry::new(data, parity) {
                    Ok(geometry) => {
                        assert!(data >= 1 && sum <= u16::from(SHARDS_MAX));
                        assert_eq!(u16::from(geometry.shards()), sum);
                    }
                    Err(Misuse::NoData) => assert_eq!(data, 0),
                    Err(why) => {
                        assert_eq!(why, Misuse::TooManyShards { data, parity });
                        assert!(sum > u16::from(SHARDS_MAX));
                    }
                }
            }
        }
    }

    #[test]
    fn data_shards_come_first() {
        let geometry = Geometry::new(4, 2).unwrap();
        let roles: Vec<Role> = geometry
            .data_shards()
            .chain(geometry.parity_shards())
            .map(|shard| geometry.role(shard).unwrap())
            .collect();
        assert_eq!(roles[..4], [0, 1, 2, 3].map(Role::Data));
        assert_eq!(roles[4..], [0, 1].map(Role::Parity));
        let shard = Shard(6);
        assert_eq!(
            geometry.role(shard),
            Err(Misuse::NoSuchShard { shard, shards: 6 })
        );
        assert_eq!(geometry.to_string(), "4+2");
    }
}
