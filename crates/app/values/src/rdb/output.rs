//! Writing numbers and strings.

use std::io::{self, Write};

use super::{crc, length};
use crate::{
    element::Element,
    number::{INTEGER_BYTES_MAX, format_integer, parse_integer},
};

/// What is gathered before it is written.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes with their checksum.
pub(super) struct Output<W> {
    inner: W,
    buffer: Vec<u8>,
    crc: crc_fast::Digest,
}

impl<W: Write> Output<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            crc: crc(),
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.drain()?;
        }
        if bytes.len() > CHUNK_BYTES {
            self.crc.update(bytes);
            return self.inner.write_all(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        self.crc.update(&self.buffer);
        self.inner.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the checksum behind everything and gives the writer back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.drain()?;
        let sum = self.crc.finalize();
        self.inner.write_all(&sum.to_le_bytes())?;
        Ok(self.inner)
    }

    pub(super) fn length(&mut self, length: u64) -> io::Result<()> {
        let bytes = length.to_be_bytes();
        if length < 1 << 6 {
            self.bytes(&bytes[7..])
        } else if length < 1 << 14 {
            self.bytes(&[length::BITS_14 | bytes[6], bytes[7]])
        } else if length <= u64::from(u32::MAX) {
            self.bytes(&[length::BITS_32])?;
            self.bytes(&bytes[4..])
        } else {
            self.bytes(&[length::BITS_64])?;
            self.bytes(&bytes)
        }
    }

    pub(super) fn string(&mut self, string: &[u8]) -> io::Result<()> {
        /// No longer text is an integer of 32 bits.
        const INTEGER_TEXT_MAX: usize = 11;
        let integer = if string.len() <= INTEGER_TEXT_MAX {
            parse_integer(string)
        } else {
            None
        };
        match integer.filter(|&integer| i32::try_from(integer).is_ok()) {
            Some(integer) => self.integer(integer),
            None => self.raw_string(string),
        }
    }

    /// A string that is not an integer for readers: a node, an object of its own.
    pub(super) fn raw_string(&mut self, string: &[u8]) -> io::Result<()> {
        self.length(string.len() as u64)?;
        self.bytes(string)
    }

    pub(super) fn element(&mut self, element: Element<'_>) -> io::Result<()> {
        match element {
            Element::Bytes(bytes) => self.string(bytes),
            Element::Integer(integer) => self.integer(integer),
        }
    }

    fn integer(&mut self, integer: i64) -> io::Result<()> {
        let bytes = integer.to_le_bytes();
        if i8::try_from(integer).is_ok() {
            self.bytes(&[length::SPECIAL | length::INTEGER_8, bytes[0]])
        } else if i16::try_from(integer).is_ok() {
            self.bytes(&[length::SPECIAL | length::INTEGER_16, bytes[0], bytes[1]])
        } else if i32::try_from(integer).is_ok() {
            self.bytes(&[length::SPECIAL | length::INTEGER_32])?;
            self.bytes(&bytes[..4])
        } else {
            self.raw_string(format_integer(integer, &mut [0; INTEGER_BYTES_MAX]))
        }
    }
}
