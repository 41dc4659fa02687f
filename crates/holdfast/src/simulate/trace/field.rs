//! Fields of a line. Bytes come from anywhere: every number is checked.

use super::BadLine;

/// Most characters of a wrong field that a message shows.
const SHOWN: usize = 24;

/// The fields between commas.
pub(super) fn split(line: &[u8]) -> Vec<&[u8]> {
    // A line of commas alone has no more fields than bytes; more than these fit no format.
    line.splitn(16, |byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .collect()
}

/// The fields of a line that has to have `N`.
pub(super) fn exactly<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], BadLine> {
    let fields = split(line);
    let found = fields.len();
    fields
        .try_into()
        .map_err(|_| BadLine::Fields { expected: N, found })
}

/// A decimal number.
pub(super) fn number(field: &'static str, text: &[u8]) -> Result<u64, BadLine> {
    digits(text, 10).ok_or_else(|| wrong(field, "a whole number", text))
}

/// A byte in hexadecimal, such as a SCSI code.
pub(super) fn hexadecimal(field: &'static str, text: &[u8]) -> Result<u8, BadLine> {
    let value = digits(text, 16).and_then(|value| u8::try_from(value).ok());
    value.ok_or_else(|| wrong(field, "a SCSI code in hexadecimal", text))
}

/// Digits only, no sign.
fn digits(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| u64::from_str_radix(text, radix).ok())?
}

/// A field that is not what it has to be.
pub(super) fn wrong(field: &'static str, wanted: &'static str, text: &[u8]) -> BadLine {
    let text = String::from_utf8_lossy(text);
    BadLine::Field {
        field,
        wanted,
        text: text.chars().take(SHOWN).collect(),
    }
}
