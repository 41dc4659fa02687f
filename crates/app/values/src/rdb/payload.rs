//! What DUMP answers and RESTORE takes: an object with its kind in front, a version and a checksum
//! behind.

use std::io;

use super::{VERSION, crc, file::code, input::Input, kind, object, output::Output, streams};
use crate::{Stream, Thresholds, Value, ValueError};

/// Bytes of version and checksum.
const FOOTER: usize = 10;

/// The payload of a value.
#[must_use]
pub fn dump(value: &Value) -> Vec<u8> {
    pack(object::kind_of(value), |output| {
        object::write(value, output)
    })
}

/// The payload of a stream.
#[must_use]
pub fn dump_stream(stream: &Stream) -> Vec<u8> {
    pack(kind::STREAM_2, |output| streams::write(stream, output))
}

/// The payload of libraries of functions, by their code.
#[must_use]
pub fn dump_functions<'a>(codes: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    seal(|output| {
        codes.into_iter().try_for_each(|code_text| {
            output.bytes(&[code::FUNCTION])?;
            output.raw_string(code_text)
        })
    })
}

fn pack(kind: u8, write: impl FnOnce(&mut Output<Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
    seal(|output| output.bytes(&[kind]).and_then(|()| write(output)))
}

/// Puts version and checksum behind.
fn seal(write: impl FnOnce(&mut Output<Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
    let mut output = Output::new(Vec::new());
    let written = write(&mut output)
        .and_then(|()| output.bytes(&VERSION.to_le_bytes()))
        .and_then(|()| output.finish());
    written.expect("writing to memory does not fail")
}

/// The value of a payload.
///
/// # Errors
/// [`ValueError::Payload`] for a version above [`VERSION`] or a checksum that does not match,
/// [`ValueError::PayloadContent`] for anything else that is wrong.
pub fn restore(payload: &[u8], thresholds: &Thresholds) -> Result<Value, ValueError> {
    let body = unseal(payload)?;
    let (&kind, content) = body.split_first().ok_or(ValueError::PayloadContent)?;
    let mut input = Input::new(content);
    let value = object::read(kind, &mut input, thresholds);
    let value = value.map_err(|_| ValueError::PayloadContent)?;
    let is_whole = matches!(input.is_at_end(), Ok(true));
    let may_be_empty = matches!(value, Value::String(_) | Value::Stream(_));
    if !is_whole || (value.is_empty() && !may_be_empty) {
        return Err(ValueError::PayloadContent);
    }
    Ok(value)
}

/// The code of each library of a payload.
///
/// # Errors
/// As [`restore`].
pub fn restore_functions(payload: &[u8]) -> Result<Vec<Vec<u8>>, ValueError> {
    let mut input = Input::new(unseal(payload)?);
    let mut codes = Vec::new();
    loop {
        match input.is_at_end() {
            Ok(true) => return Ok(codes),
            Ok(false) => {}
            Err(_) => return Err(ValueError::PayloadContent),
        }
        match input.byte() {
            Ok(code::FUNCTION) => {}
            _ => return Err(ValueError::PayloadContent),
        }
        let code_text = input.string();
        codes.push(code_text.map_err(|_| ValueError::PayloadContent)?);
    }
}

/// What is in front of version and checksum, if these are right.
fn unseal(payload: &[u8]) -> Result<&[u8], ValueError> {
    let body = payload
        .len()
        .checked_sub(FOOTER)
        .ok_or(ValueError::Payload)?;
    let (body, footer) = payload.split_at(body);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let mut sum = crc();
    sum.update(&payload[..body.len() + 2]);
    if version > VERSION || sum.finalize().to_le_bytes() != footer[2..] {
        return Err(ValueError::Payload);
    }
    Ok(body)
}
