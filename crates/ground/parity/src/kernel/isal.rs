//! The loops of ISA-L, through its C interface (erasure_code.h of libisal-dev 2.30).
//!
//! ISA-L's field has the same polynomial, 0x11d, and it takes any weights; so its bytes are those of
//! the other kernels. It chooses its instructions when it runs.

use smallvec::{SmallVec, smallvec};
use std::ffi::c_int;

/// Bytes of table that ISA-L keeps for each weight.
const TABLE_BYTES: usize = 32;

/// Bytes given to one call. Lengths are C ints there; strips also keep the outputs of the many calls
/// that it makes of one with more than six rows in the second-level cache.
const STRIP_BYTES: usize = 64 << 10;

type Tables = SmallVec<[u8; 32 * TABLE_BYTES]>;

#[link(name = "isal")]
#[expect(unsafe_code, reason = "the C interface of ISA-L")]
unsafe extern "C" {
    fn ec_init_tables(k: c_int, rows: c_int, a: *const u8, gftbls: *mut u8);
    fn ec_encode_data(
        len: c_int,
        k: c_int,
        rows: c_int,
        gftbls: *const u8,
        data: *const *const u8,
        coding: *const *mut u8,
    );
    fn ec_encode_data_update(
        len: c_int,
        k: c_int,
        rows: c_int,
        vec_i: c_int,
        gftbls: *const u8,
        data: *const u8,
        coding: *const *mut u8,
    );
}

/// A number of shards or of bytes of a strip; both are far below the limit of a C int.
fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("at most 255 shards and 64 KiB")
}

#[expect(unsafe_code, reason = "the C interface of ISA-L")]
fn tables(inputs: usize, outputs: usize, weights: &[u8]) -> Tables {
    assert_eq!(weights.len(), inputs * outputs);
    let mut tables: Tables = smallvec![0; TABLE_BYTES * weights.len()];
    // SAFETY: reads inputs * outputs weights and writes 32 bytes for each, which both buffers have
    // (asserted, and allocated above); it keeps no pointer.
    unsafe {
        ec_init_tables(
            int(inputs),
            int(outputs),
            weights.as_ptr(),
            tables.as_mut_ptr(),
        );
    }
    tables
}

#[expect(unsafe_code, reason = "the C interface of ISA-L")]
pub(super) fn combine(weights: &[u8], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let Some(bytes) = outputs.first().map(|output| output.len()) else {
        return;
    };
    let tables = tables(inputs.len(), outputs.len(), weights);
    for start in (0..bytes).step_by(STRIP_BYTES) {
        let strip = start..bytes.min(start + STRIP_BYTES);
        let from: SmallVec<[*const u8; 32]> = inputs
            .iter()
            .map(|input| input[strip.clone()].as_ptr())
            .collect();
        let to: SmallVec<[*mut u8; 16]> = outputs
            .iter_mut()
            .map(|output| output[strip.clone()].as_mut_ptr())
            .collect();
        // SAFETY: `from` and `to` have one pointer for each input and output, and each is to a slice
        // of strip.len() bytes (sliced above, so checked). Outputs are exclusive borrows, so they
        // overlap with nothing. The tables are those of inputs * outputs weights. Any length and
        // any alignment is allowed. It keeps no pointer.
        unsafe {
            ec_encode_data(
                int(strip.len()),
                int(inputs.len()),
                int(outputs.len()),
                tables.as_ptr(),
                from.as_ptr(),
                to.as_ptr(),
            );
        }
    }
}

#[expect(unsafe_code, reason = "the C interface of ISA-L")]
pub(super) fn accumulate(weights: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
    if outputs.is_empty() {
        return;
    }
    let tables = tables(1, outputs.len(), weights);
    for start in (0..input.len()).step_by(STRIP_BYTES) {
        let strip = start..input.len().min(start + STRIP_BYTES);
        let to: SmallVec<[*mut u8; 16]> = outputs
            .iter_mut()
            .map(|output| output[strip.clone()].as_mut_ptr())
            .collect();
        // SAFETY: as in `combine`, with one input, whose place among one is 0.
        unsafe {
            ec_encode_data_update(
                int(strip.len()),
                1,
                int(outputs.len()),
                0,
                tables.as_ptr(),
                input[strip].as_ptr(),
                to.as_ptr(),
            );
        }
    }
}
