//! Reading files.

use std::io::Read;

use super::{Item, KeyItem, MAGIC, code};
use crate::{
    Thresholds, Value,
    rdb::{RdbError, VERSION, input::Input, object},
};

/// Reads a file item by item, in memory bounded by its largest value.
pub struct Reader<R> {
    input: Input<R>,
    limits: Thresholds,
    version: u16,
    skipped_empty: u64,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header. The reader need not be buffered.
    ///
    /// # Errors
    /// [`RdbError::Corrupt`] if this is no RDB file, [`RdbError::Unsupported`] if it is of a version
    /// above [`VERSION`].
    pub fn new(reader: R, thresholds: Thresholds) -> Result<Self, RdbError> {
        let mut input = Input::new(reader);
        let magic: [u8; 5] = input.array()?;
        let digits: [u8; 4] = input.array()?;
        let version = std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| digits.parse::<u16>().ok());
        let version = version.filter(|&version| &magic == MAGIC && version > 0);
        let version = version.ok_or_else(|| {
            let found = [magic.as_slice(), digits.as_slice()]
                .concat()
                .escape_ascii()
                .to_string();
            input.corrupt("an RDB file (REDIS and a version)", found)
        })?;
        if version > VERSION {
            return Err(input.unsupported("an RDB file of version", version.into()));
        }
        Ok(Self {
            input,
            limits: thresholds,
            version,
            skipped_empty: 0,
            ended: false,
        })
    }

    /// The file's version.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Keys without elements, which old versions of Redis could write; they are skipped.
    #[must_use]
    pub fn skipped_empty(&self) -> u64 {
        self.skipped_empty
    }

    /// The next item; none at the end, when the checksum has matched.
    ///
    /// # Errors
    /// See [`RdbError`]. Nothing can be read behind an error.
    pub fn next_item(&mut self) -> Result<Option<Item>, RdbError> {
        if self.ended {
            return Ok(None);
        }
        let item = self.read_item();
        self.ended = !matches!(item, Ok(Some(_)));
        item
    }

    fn read_item(&mut self) -> Result<Option<Item>, RdbError> {
        let (mut expires_ms, mut idle_s, mut frequency) = (None, None, None);
        loop {
            let input = &mut self.input;
            let kind = match input.byte()? {
                code::EXPIRES_MS => {
                    expires_ms = Some(i64::from_le_bytes(input.array()?));
                    continue;
                }
                code::EXPIRES_S => {
                    expires_ms = Some(i64::from(i32::from_le_bytes(input.array()?)) * 1000);
                    continue;
                }
                code::IDLE => {
                    idle_s = Some(input.length()?);
                    continue;
                }
                code::FREQUENCY => {
                    frequency = Some(input.byte()?);
                    continue;
                }
                code::MODULE => {
                    self.skip_module()?;
                    continue;
                }
                code::AUX => {
                    let name = input.string()?;
                    return Ok(Some(Item::Note {
                        name,
                        value: input.string()?,
                    }));
                }
                code::DATABASE => return Ok(Some(Item::Database(input.length()?))),
                code::SIZES => {
                    let keys = input.length()?;
                    return Ok(Some(Item::Sizes {
                        keys,
                        expires: input.length()?,
                    }));
                }
                code::FUNCTION => return Ok(Some(Item::Function(input.string()?))),
                code::FUNCTION_EARLY => {
                    return Err(input.unsupported("a function of a release candidate", 246));
                }
                code::END => {
                    self.check_sum()?;
                    return Ok(None);
                }
                kind => kind,
            };
            let key = input.string()?;
            let value = object::read(kind, input, &self.limits)?;
            if value.is_empty() && !matches!(value, Value::String(_) | Value::Stream(_)) {
                self.skipped_empty += 1;
                (expires_ms, idle_s, frequency) = (None, None, None);
                continue;
            }
            let item = KeyItem {
                key,
                value,
                expires_ms,
                idle_s,
                frequency,
            };
            return Ok(Some(Item::Key(Box::new(item))));
        }
    }

    /// Versions from 5 on have a checksum; 0 says that it was switched off.
    fn check_sum(&mut self) -> Result<(), RdbError> {
        if self.version < 5 {
            return Ok(());
        }
        let own = self.input.sum();
        let said = u64::from_le_bytes(self.input.array()?);
        if said != 0 && said != own {
            let found = format!("{said:#018x} for bytes of {own:#018x}");
            return Err(self.input.corrupt("the checksum of the file", found));
        }
        Ok(())
    }

    /// What a module has noted beside the keys is skipped.
    fn skip_module(&mut self) -> Result<(), RdbError> {
        let input = &mut self.input;
        for _ in 0..3 {
            input.length()?;
        }
        loop {
            match input.length()? {
                0 => return Ok(()),
                1 | 2 => input.length().map(|_| ())?,
                3 => input.array::<4>().map(|_| ())?,
                4 => input.array::<8>().map(|_| ())?,
                5 => input.string().map(|_| ())?,
                other => return Err(input.corrupt("a part of a module's note", format!("{other}"))),
            }
        }
    }
}
