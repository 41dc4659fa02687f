//! The loops over bytes, in several implementations that give the same bytes.

mod portable;
mod simd;
mod strips;

#[cfg(feature = "isal")]
mod isal;

use std::fmt;

/// An implementation of the loops over bytes. All give the same bytes; they differ in speed and in
/// what they need (docs/decisions/0007-parity-kernel.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Table look-ups in Rust; runs everywhere.
    Portable,
    /// Vector instructions of reed-solomon-erasure; on x86-64 it needs those of 2013 (AVX2, BMI).
    Simd,
    /// Intel's ISA-L; only with the feature `isal`.
    Isal,
}

impl Kernel {
    /// Every kernel, the fastest first.
    pub const ALL: [Kernel; 3] = [Kernel::Isal, Kernel::Simd, Kernel::Portable];

    /// Whether this build has it and this processor can run it.
    pub fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            Kernel::Simd => simd::is_available(),
            Kernel::Isal => cfg!(feature = "isal"),
        }
    }

    /// The fastest one available.
    pub fn best() -> Kernel {
        let all = Kernel::ALL.into_iter();
        let mut available = all.filter(|kernel| kernel.is_available());
        available.next().unwrap_or(Kernel::Portable)
    }

    /// Sets each output to the weighted sum of all inputs. `weights` has a row for each output with
    /// one weight for each input; there is at least one input, and all lengths are equal.
    pub(crate) fn combine(self, weights: &[u8], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        match self {
            Kernel::Simd => strips::combine(&simd::LOOPS, weights, inputs, outputs),
            #[cfg(feature = "isal")]
            Kernel::Isal => isal::combine(weights, inputs, outputs),
            _ => strips::combine(&portable::LOOPS, weights, inputs, outputs),
        }
    }

    /// Adds the weighted input to each output. `weights` has one for each output; all lengths are
    /// equal.
    pub(crate) fn accumulate(self, weights: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
        match self {
            Kernel::Simd => strips::accumulate(&simd::LOOPS, weights, input, outputs),
            #[cfg(feature = "isal")]
            Kernel::Isal => isal::accumulate(weights, input, outputs),
            _ => strips::accumulate(&portable::LOOPS, weights, input, outputs),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kernel::Portable => "portable",
            Kernel::Simd => "simd",
            Kernel::Isal => "isal",
        })
    }
}
