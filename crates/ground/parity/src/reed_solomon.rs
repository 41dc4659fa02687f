//! The code itself: checks of every call, then weights for a kernel.

use crate::generator::weight;
use crate::recovery::{Recovery, Weights};
use crate::{Code, Geometry, Kernel, Mismatch, Misuse, Role, Shard, Unverified};
use smallvec::SmallVec;

// Up to 32 data and 16 parity shards, lists stay off the heap.
type Inputs<'a> = SmallVec<[&'a [u8]; 32]>;
type Outputs<'a> = SmallVec<[&'a mut [u8]; 16]>;
type Shards = SmallVec<[Shard; 48]>;
type Parts<'a> = SmallVec<[(Shard, &'a [u8]); 48]>;

/// Bytes that `verify` recomputes and compares at once.
const COMPARED_BYTES: usize = 4 << 10;

/// Systematic Reed-Solomon over GF(2^8), with the generator matrix of
/// docs/decisions/0006-parity-matrix.md.
#[derive(Debug, Clone)]
pub struct ReedSolomon {
    geometry: Geometry,
    kernel: Kernel,
    /// A row of weights for each parity shard.
    rows: Box<[u8]>,
}

impl ReedSolomon {
    /// With the fastest kernel that this processor runs.
    pub fn new(geometry: Geometry) -> ReedSolomon {
        ReedSolomon::of(geometry, Kernel::best())
    }

    /// With a given kernel; for comparisons.
    pub fn with_kernel(geometry: Geometry, kernel: Kernel) -> Result<ReedSolomon, Misuse> {
        if kernel.is_available() {
            Ok(ReedSolomon::of(geometry, kernel))
        } else {
            Err(Misuse::NoKernel { kernel })
        }
    }

    /// `kernel` is available.
    fn of(geometry: Geometry, kernel: Kernel) -> ReedSolomon {
        let rows = (0..geometry.parity())
            .flat_map(|parity| (0..geometry.data()).map(move |data| weight(parity, data)));
        ReedSolomon {
            geometry,
            kernel,
            rows: rows.collect(),
        }
    }

    /// The kernel in use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The weights of all data shards in a parity shard, counted from 0: a row of the generator
    /// matrix. `None` where the stripe has no such parity shard.
    pub fn row(&self, parity: u8) -> Option<&[u8]> {
        let data = usize::from(self.geometry.data());
        self.rows.chunks_exact(data).nth(usize::from(parity))
    }

    /// Weights for the recovery of `wanted` from `present`, and the buffers to read.
    fn recovery<'a>(
        &self,
        present: &[(Shard, &'a [u8])],
        wanted: &[Shard],
    ) -> Result<(Weights, Inputs<'a>), Misuse> {
        let names: Shards = present.iter().map(|(shard, _)| *shard).collect();
        let recovery = Recovery::new(self.geometry, &names, wanted)?;
        let sources = recovery.sources.iter();
        let inputs = sources.map(|place| present[usize::from(*place)].1);
        Ok((recovery.weights, inputs.collect()))
    }
}

impl Code for ReedSolomon {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Misuse> {
        check_count("data", self.geometry.data(), data.len())?;
        check_count("parity", self.geometry.parity(), parity.len())?;
        let shards = (0..=u8::MAX).map(Shard);
        let data_lengths = data.iter().map(|buffer| buffer.len());
        let parity_lengths = parity.iter().map(|buffer| buffer.len());
        check_lengths(shards.zip(data_lengths.chain(parity_lengths)))?;
        self.kernel.combine(&self.rows, data, parity);
        Ok(())
    }

    fn update(
        &self,
        data: Shard,
        difference: &[u8],
        parity: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse> {
        let Role::Data(column) = self.geometry.role(data)? else {
            return Err(Misuse::NotData { shard: data });
        };
        let mut seen = Seen::default();
        let mut weights: SmallVec<[u8; 16]> = SmallVec::with_capacity(parity.len());
        for (shard, _) in parity.iter() {
            let shard = *shard;
            seen.once(self.geometry, shard)?;
            let Role::Parity(parity) = self.geometry.role(shard)? else {
                return Err(Misuse::NotParity { shard });
            };
            weights.push(weight(parity, column));
        }
        let lengths = parity.iter().map(|(shard, buffer)| (*shard, buffer.len()));
        check_lengths([(data, difference.len())].into_iter().chain(lengths))?;
        let mut outputs: Outputs = parity.iter_mut().map(|(_, buffer)| &mut **buffer).collect();
        self.kernel.accumulate(&weights, difference, &mut outputs);
        Ok(())
    }

    fn reconstruct(
        &self,
        present: &[(Shard, &[u8])],
        wanted: &mut [(Shard, &mut [u8])],
    ) -> Result<(), Misuse> {
        let mut seen = Seen::default();
        for (shard, _) in present {
            seen.once(self.geometry, *shard)?;
        }
        for (shard, _) in wanted.iter() {
            seen.once(self.geometry, *shard)?;
        }
        let given = present.iter().map(|(shard, buffer)| (*shard, buffer.len()));
        let asked = wanted.iter().map(|(shard, buffer)| (*shard, buffer.len()));
        check_lengths(given.chain(asked))?;
        check_present(present.len(), usize::from(self.geometry.data()))?;
        let names: Shards = wanted.iter().map(|(shard, _)| *shard).collect();
        let (weights, inputs) = self.recovery(present, &names)?;
        let mut outputs: Outputs = wanted.iter_mut().map(|(_, buffer)| &mut **buffer).collect();
        self.kernel.combine(&weights, &inputs, &mut outputs);
        Ok(())
    }

    fn verify(&self, present: &[(Shard, &[u8])]) -> Result<(), Unverified> {
        let mut seen = Seen::default();
        for (shard, _) in present {
            seen.once(self.geometry, *shard)?;
        }
        check_lengths(present.iter().map(|(shard, buffer)| (*shard, buffer.len())))?;
        check_present(present.len(), usize::from(self.geometry.data()) + 1)?;
        let mut order: Parts<'_> = SmallVec::from_slice(present);
        order.sort_unstable_by_key(|(shard, _)| *shard);
        let (basis, rest) = order.split_at(usize::from(self.geometry.data()));
        let names: Shards = rest.iter().map(|(shard, _)| *shard).collect();
        let (weights, inputs) = self.recovery(basis, &names)?;
        let bytes = rest.first().map_or(0, |(_, buffer)| buffer.len());
        let mut computed = [0; COMPARED_BYTES];
        for start in (0..bytes).step_by(COMPARED_BYTES) {
            let strip = start..bytes.min(start + COMPARED_BYTES);
            let inputs: Inputs = inputs.iter().map(|input| &input[strip.clone()]).collect();
            let computed = &mut computed[..strip.len()];
            for ((shard, found), row) in rest.iter().zip(weights.chunks_exact(inputs.len())) {
                self.kernel.combine(row, &inputs, &mut [&mut *computed]);
                compare(*shard, start, computed, &found[strip.clone()])?;
            }
        }
        Ok(())
    }
}

/// Which shards a call has named.
#[derive(Default)]
struct Seen([u64; 4]);

impl Seen {
    /// Notes a shard of the geometry that was not named before.
    fn once(&mut self, geometry: Geometry, shard: Shard) -> Result<(), Misuse> {
        geometry.role(shard)?;
        let word = &mut self.0[usize::from(shard.0 / 64)];
        let bit = 1 << (shard.0 % 64);
        if *word & bit != 0 {
            return Err(Misuse::Twice { shard });
        }
        *word |= bit;
        Ok(())
    }
}

fn check_count(role: &'static str, expected: u8, found: usize) -> Result<(), Misuse> {
    if usize::from(expected) == found {
        Ok(())
    } else {
        Err(Misuse::Count {
            role,
            expected,
            found,
        })
    }
}

fn check_present(present: usize, needed: usize) -> Result<(), Misuse> {
    if present >= needed {
        Ok(())
    } else {
        Err(Misuse::TooFew { present, needed })
    }
}

/// All as long as the first.
fn check_lengths(mut lengths: impl Iterator<Item = (Shard, usize)>) -> Result<(), Misuse> {
    let Some((_, expected)) = lengths.next() else {
        return Ok(());
    };
    for (shard, found) in lengths {
        if found != expected {
            return Err(Misuse::Length {
                shard,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Whether bytes that start at `start` in their shard are as computed.
fn compare(shard: Shard, start: usize, computed: &[u8], found: &[u8]) -> Result<(), Mismatch> {
    if computed == found {
        return Ok(());
    }
    let mut pairs = computed.iter().zip(found).enumerate();
    match pairs.find(|(_, (expected, found))| expected != found) {
        Some((offset, (expected, found))) => Err(Mismatch {
            shard,
            offset: start + offset,
            expected: *expected,
            found: *found,
        }),
        None => Ok(()),
    }
}

/// Writes the xor of the old and the new content of a range of a data shard into `into`: what
/// [`Code::update`] takes. All three have the same length.
pub fn difference(old: &[u8], new: &[u8], into: &mut [u8]) -> Result<(), Misuse> {
    if old.len() != new.len() || old.len() != into.len() {
        return Err(Misuse::Difference {
            old: old.len(),
            new: new.len(),
            into: into.len(),
        });
    }
    for ((into, old), new) in into.iter_mut().zip(old).zip(new) {
        *into = old ^ new;
    }
    Ok(())
}
