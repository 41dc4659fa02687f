//! Table look-ups: for every processor.

use super::strips::Loops;
use reed_solomon_erasure::galois_8::MUL_TABLE;

pub(super) const LOOPS: Loops = Loops { set, add };

fn set(weight: u8, input: &[u8], output: &mut [u8]) {
    let products = &MUL_TABLE[usize::from(weight)];
    for (output, input) in output.iter_mut().zip(input) {
        *output = products[usize::from(*input)];
    }
}

fn add(weight: u8, input: &[u8], output: &mut [u8]) {
    let products = &MUL_TABLE[usize::from(weight)];
    for (output, input) in output.iter_mut().zip(input) {
        *output ^= products[usize::from(*input)];
    }
}
