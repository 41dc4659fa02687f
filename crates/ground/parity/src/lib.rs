//! Reed-Solomon arithmetic: encode, delta update, reconstruct, verify.
//!
//! # Promise
//! Any `data` of a stripe's `data + parity` shards give all others back, byte for byte. A parity
//! shard that was brought up to date by differences is the one that encoding anew would give. A call
//! that makes no sense is a [`Misuse`] and changes nothing; nothing panics. The bytes depend neither
//! on the processor nor on the [`Kernel`].
//!
//! # What it rests on
//! The field GF(2^8) with the polynomial 0x11d, from `reed-solomon-erasure`: its tables, and its
//! vector loops where the processor has the instructions. With the feature `isal`, ISA-L's loops
//! instead. A shard that is present is taken to be right: damage is found by checksums elsewhere, or
//! by [`Code::verify`] where shards are left over. No I/O, no clock, no state between calls; unsafe
//! code only where ISA-L is called. Up to 32 data and 16 parity shards no call allocates, but for
//! ISA-L's tables.
//!
//! # Invariants
//! - 1 <= data shards; data + parity shards <= [`SHARDS_MAX`] = 255
//! - weight of data shard j in parity shard i = y / (i xor y) with y = 255 - j, for every geometry
//! - so parity shard 0 = xor of all data shards, and more shards do not change those there are
//! - bytes i of a stripe's shards depend on each other and on no other bytes
//! - present shards that a reconstruction reads = data shards of the geometry
//!
//! # On disk
//! Parity bytes are on disk, so the generator matrix is part of the format:
//! `docs/decisions/0006-parity-matrix.md`. Nothing else of this crate is.
//!
//! # How it is tested
//! One contract suite over [`Code`], run on every kernel against the definition of the code computed
//! from bit operations: all erasures of all geometries up to 8 shards, properties over geometry, length, erasures and
//! sequences of updates, every misuse. The suite is run on codes with planted bugs, each of which it
//! has to find. Golden bytes made by a program of their own, and a fuzz target.
//!
//! ```
//! # use holdfast_parity as parity;
//! use parity::{Code, Geometry, ReedSolomon, Shard};
//! let code = ReedSolomon::new(Geometry::new(2, 1)?);
//! let (first, second, mut third) = (*b"data", *b"more", [0; 4]);
//! code.encode(&[&first, &second], &mut [&mut third])?;
//!
//! // The first data shard changes.
//! let mut difference = [0; 4];
//! parity::difference(&first, b"DATA", &mut difference)?;
//! code.update(Shard(0), &difference, &mut [(Shard(2), &mut third)])?;
//!
//! // It is lost, and comes back from the other two.
//! let mut lost = [0; 4];
//! code.reconstruct(&[(Shard(1), &second), (Shard(2), &third)], &mut [(Shard(0), &mut lost)])?;
//! assert_eq!(&lost, b"DATA");
//! # Ok::<(), parity::Misuse>(())
//! ```

mod code;
mod error;
mod generator;
mod geometry;
mod kernel;
mod recovery;
mod reed_solomon;

pub use code::Code;
pub use error::{Mismatch, Misuse, Unverified};
pub use geometry::{Geometry, Role, SHARDS_MAX, Shard};
pub use kernel::Kernel;
pub use reed_solomon::{ReedSolomon, difference};
