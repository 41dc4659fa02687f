//! LZF, which Redis compresses long strings with: runs of bytes, and references to what was written
//! up to 8 KiB before.

/// The most that a byte of input can become: three bytes name 264 of output.
const RATIO_MAX: usize = 264;

/// Decompresses `input` to exactly `length` bytes, or not at all.
pub(super) fn decompress(input: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > input.len().saturating_mul(RATIO_MAX) {
        return None;
    }
    let mut output = Vec::new();
    let mut rest = input;
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        let control = usize::from(control);
        if control < 32 {
            let (run, behind) = rest.split_at_checked(control + 1)?;
            output.extend_from_slice(run);
            rest = behind;
        } else {
            let mut count = control >> 5;
            if count == 7 {
                let (&more, behind) = rest.split_first()?;
                count += usize::from(more);
                rest = behind;
            }
            let (&low, behind) = rest.split_first()?;
            rest = behind;
            let distance = ((control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = output.len().checked_sub(distance)?;
            for at in start..start + count + 2 {
                output.push(*output.get(at)?);
            }
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}
