//! Weighted sums in strips that stay in the first-level cache.

/// Bytes that are worked on at once. Outputs of a strip are written once for each input, so a few
/// of them and one input have to fit into 32 KiB.
const STRIP_BYTES: usize = 8 << 10;

/// What a kernel brings: loops over one input and one output of equal length, not empty.
pub(super) struct Loops {
    /// output = weight * input
    pub(super) set: fn(weight: u8, input: &[u8], output: &mut [u8]),
    /// output = output + weight * input
    pub(super) add: fn(weight: u8, input: &[u8], output: &mut [u8]),
}

pub(super) fn combine(loops: &Loops, weights: &[u8], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let bytes = outputs.first().map_or(0, |output| output.len());
    for start in (0..bytes).step_by(STRIP_BYTES) {
        let strip = start..bytes.min(start + STRIP_BYTES);
        for (number, input) in inputs.iter().enumerate() {
            let input = &input[strip.clone()];
            let rows = weights.chunks_exact(inputs.len());
            for (output, row) in outputs.iter_mut().zip(rows) {
                let output = &mut output[strip.clone()];
                match (number, row[number]) {
                    (0, 1) => output.copy_from_slice(input),
                    (0, weight) => (loops.set)(weight, input, output),
                    (_, 1) => xor(input, output),
                    (_, weight) => (loops.add)(weight, input, output),
                }
            }
        }
    }
}

pub(super) fn accumulate(loops: &Loops, weights: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
    for start in (0..input.len()).step_by(STRIP_BYTES) {
        let strip = start..input.len().min(start + STRIP_BYTES);
        for (output, weight) in outputs.iter_mut().zip(weights) {
            let (input, output) = (&input[strip.clone()], &mut output[strip.clone()]);
            match *weight {
                1 => xor(input, output),
                weight => (loops.add)(weight, input, output),
            }
        }
    }
}

/// Adds one slice to another of the same length; addition in the field is exclusive or.
pub(crate) fn xor(input: &[u8], output: &mut [u8]) {
    for (output, input) in output.iter_mut().zip(input) {
        *output ^= *input;
    }
}
