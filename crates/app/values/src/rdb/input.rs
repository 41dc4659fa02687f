//! Reading numbers and strings.

use std::io::{self, Read};

use super::{Corrupt, RdbError, crc, length, lzf};
use crate::number::{INTEGER_BYTES_MAX, format_integer};

/// What is read at once, and the most that is taken on the word of a length alone.
const CHUNK_BYTES: usize = 64 << 10;

/// The longest string that is read: what surely fits a listpack as one element.
const STRING_BYTES_MAX: u64 = 1 << 31;

/// A length, or the special form of a string.
pub(super) enum Length {
    Plain(u64),
    Special(u8),
}

/// Bytes with their checksum.
pub(super) struct Input<R> {
    inner: R,
    buffer: Vec<u8>,
    /// The next byte of the buffer.
    at: usize,
    /// The first byte of the buffer that is not in the checksum.
    unsummed: usize,
    crc: crc_fast::Digest,
    /// Bytes before the buffer.
    before: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            at: 0,
            unsummed: 0,
            crc: crc(),
            before: 0,
        }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    pub(super) fn corrupt(&self, expected: &'static str, found: impl Into<String>) -> RdbError {
        Corrupt {
            offset: self.offset(),
            expected,
            found: found.into(),
        }
        .into()
    }

    pub(super) fn unsupported(&self, what: &'static str, number: u64) -> RdbError {
        RdbError::Unsupported {
            offset: self.offset(),
            what,
            number,
        }
    }

    /// The checksum of what was read so far.
    pub(super) fn sum(&mut self) -> u64 {
        self.crc.update(&self.buffer[self.unsummed..self.at]);
        self.unsummed = self.at;
        self.crc.clone().finalize()
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, RdbError> {
        Ok(self.at == self.buffer.len() && !self.fill()?)
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> Result<bool, RdbError> {
        self.sum();
        self.before += self.at as u64;
        self.buffer.drain(..self.at);
        self.at = 0;
        self.unsummed = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + CHUNK_BYTES, 0);
        loop {
            match self.inner.read(&mut self.buffer[had..]) {
                Ok(count) => {
                    self.buffer.truncate(had + count);
                    return Ok(count > 0);
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    self.buffer.truncate(had);
                    return Err(why.into());
                }
            }
        }
    }

    fn ended(&self) -> RdbError {
        self.corrupt("more bytes", "the end")
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        while self.at == self.buffer.len() {
            if !self.fill()? {
                return Err(self.ended());
            }
        }
        self.at += 1;
        Ok(self.buffer[self.at - 1])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// Reads `count` bytes, taking memory as they come.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, RdbError> {
        if count > STRING_BYTES_MAX {
            return Err(self.corrupt("a string of at most 2 GiB", format!("one of {count} bytes")));
        }
        let mut left = usize::try_from(count).map_err(|_| self.ended())?;
        let mut bytes = Vec::with_capacity(left.min(CHUNK_BYTES));
        while left > 0 {
            if self.at == self.buffer.len() && !self.fill()? {
                return Err(self.ended());
            }
            let some = left.min(self.buffer.len() - self.at);
            bytes.extend_from_slice(&self.buffer[self.at..self.at + some]);
            self.at += some;
            left -= some;
        }
        Ok(bytes)
    }

    fn length_or_special(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        Ok(match first & 0xc0 {
            0 => Length::Plain(u64::from(first)),
            length::BITS_14 => {
                Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?))
            }
            length::SPECIAL => Length::Special(first & 0x3f),
            _ => Length::Plain(match first {
                length::BITS_32 => u64::from(u32::from_be_bytes(self.array()?)),
                length::BITS_64 => u64::from_be_bytes(self.array()?),
                _ => return Err(self.corrupt("a length", format!("byte {first:#04x}"))),
            }),
        })
    }

    /// A length.
    pub(super) fn length(&mut self) -> Result<u64, RdbError> {
        match self.length_or_special()? {
            Length::Plain(length) => Ok(length),
            Length::Special(code) => Err(self.corrupt("a length", format!("string form {code}"))),
        }
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, RdbError> {
        let integer = match self.length_or_special()? {
            Length::Plain(length) => return self.bytes(length),
            Length::Special(length::INTEGER_8) => i64::from(i8::from_le_bytes(self.array()?)),
            Length::Special(length::INTEGER_16) => i64::from(i16::from_le_bytes(self.array()?)),
            Length::Special(length::INTEGER_32) => i64::from(i32::from_le_bytes(self.array()?)),
            Length::Special(length::LZF) => {
                let packed = self.length()?;
                let full = self.length()?;
                let packed = self.bytes(packed)?;
                let full = usize::try_from(full)
                    .ok()
                    .filter(|&full| full as u64 <= STRING_BYTES_MAX);
                let string = full.and_then(|full| lzf::decompress(&packed, full));
                return string.ok_or_else(|| self.corrupt("a compressed string", "other bytes"));
            }
            Length::Special(code) => return Err(self.corrupt("a string", format!("form {code}"))),
        };
        Ok(format_integer(integer, &mut [0; INTEGER_BYTES_MAX]).to_vec())
    }
}
