//! The vector loops of reed-solomon-erasure.
//!
//! They are C, compiled for one processor family when the library is built and not chosen when it
//! runs. Whether this processor has the instructions is therefore asked here, before the first call.

use super::strips::Loops;
use reed_solomon_erasure::galois_8;

pub(super) const LOOPS: Loops = Loops {
    set: galois_8::mul_slice,
    add: galois_8::mul_slice_xor,
};

/// The library compiles for "haswell" unless this variable of its build names another family. What
/// is refused here would need instructions that [`is_available`] does not ask for.
const _: () = {
    if let Some(family) = option_env!("RUST_REED_SOLOMON_ERASURE_ARCH") {
        assert!(
            is_one_of(family, &["haswell", "x86-64-v3", "x86-64-v2", "x86-64"])
                || !cfg!(target_arch = "x86_64"),
            "RUST_REED_SOLOMON_ERASURE_ARCH names a processor that no check at run time covers"
        );
    }
};

const fn is_one_of(name: &str, names: &[&str]) -> bool {
    let mut number = 0;
    while number < names.len() {
        if is_same(name.as_bytes(), names[number].as_bytes()) {
            return true;
        }
        number += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Whether this processor has every instruction that a compiler may use for "haswell" in loops over
/// integers. Without one of them the first call would end the process with SIGILL.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("movbe")
        && is_x86_feature_detected!("fma")
}

/// Elsewhere the library compiles for the target as it is.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_available() -> bool {
    true
}
