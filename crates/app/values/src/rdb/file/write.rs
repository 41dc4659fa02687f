//! Writing files.

use std::io::{self, Write};

use super::{MAGIC, code};
use crate::{
    Value,
    rdb::{VERSION, object, output::Output},
};

/// Writes a file.
pub struct Writer<W> {
    output: Output<W>,
}

impl<W: Write> Writer<W> {
    /// Writes the header. The writer need not be buffered.
    ///
    /// # Errors
    /// Those of the writer, here and in every method. A file is whole only after [`Self::finish`].
    pub fn new(writer: W) -> io::Result<Self> {
        let mut output = Output::new(writer);
        output.bytes(MAGIC)?;
        output.bytes(format!("{VERSION:04}").as_bytes())?;
        Ok(Self { output })
    }

    /// Writes a note; Redis reads `redis-ver`, `ctime`, `used-mem` and ignores what it does not
    /// know.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn note(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.output.bytes(&[code::AUX])?;
        self.output.string(name)?;
        self.output.string(value)
    }

    /// Writes the code of a library of functions. Functions stand before every database.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn function(&mut self, code_text: &[u8]) -> io::Result<()> {
        self.output.bytes(&[code::FUNCTION])?;
        self.output.raw_string(code_text)
    }

    /// Says which database the keys that follow are of, and how many they are about.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn database(&mut self, number: u64, keys: u64, expires: u64) -> io::Result<()> {
        self.output.bytes(&[code::DATABASE])?;
        self.output.length(number)?;
        self.output.bytes(&[code::SIZES])?;
        self.output.length(keys)?;
        self.output.length(expires)
    }

    /// Says which database the keys that follow are of, and nothing of how many they are. It may be said
    /// any number of times.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn select(&mut self, number: u64) -> io::Result<()> {
        self.output.bytes(&[code::DATABASE])?;
        self.output.length(number)
    }

    /// Writes a key. A collection without elements is no value of a key.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn key(&mut self, key: &[u8], value: &Value, expires_ms: Option<i64>) -> io::Result<()> {
        debug_assert!(
            !value.is_empty() || matches!(value, Value::String(_) | Value::Stream(_)),
            "a collection without elements has no key"
        );
        if let Some(expires_ms) = expires_ms {
            self.output.bytes(&[code::EXPIRES_MS])?;
            self.output.bytes(&expires_ms.to_le_bytes())?;
        }
        self.output.bytes(&[object::kind_of(value)])?;
        self.output.string(key)?;
        object::write(value, &mut self.output)
    }

    /// Writes the end and the checksum; gives the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.bytes(&[code::END])?;
        self.output.finish()
    }
}
