//! Block traces: one request a line, read as a stream.
//!
//! Two formats, told apart by the number of fields of the first line:
//!
//! | format | fields of a line |
//! |---|---|
//! | MSR Cambridge | timestamp (100 ns since 1601), host, disk, `Read` or `Write`, offset and size in bytes, response time |
//! | CloudPhysics CSV | version, time, operation (SCSI code in hexadecimal), size in bytes, first block of 512 bytes |
//!
//! A line may end in CR LF, blank lines say nothing, and the first line may name the fields.

pub mod cloudphysics;
mod field;
pub mod msr;

use std::collections::HashMap;
use std::io::{self, BufRead};

/// Bytes of a line that are looked at; a longer one is none of a trace.
pub const LINE_BYTES_MAX: usize = 4096;

/// Most bytes of one request. The largest that a SCSI WRITE(10) of 512-byte blocks can have is
/// 32 MiB; a greater size by far is damage, and would take long to go through.
pub const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// Most disks of a trace.
pub const VOLUMES_MAX: usize = 65_536;

/// A time in units of 100 ns, from whatever the trace counts from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticks(pub u64);

impl Ticks {
    /// In a second.
    pub const SECOND: u64 = 10_000_000;

    /// Seconds between an earlier time and this one.
    pub fn seconds_since(self, earlier: Ticks) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / Ticks::SECOND as f64
    }
}

/// A disk of the trace, numbered as it is met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Volume(pub u32);

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A read or a write: `offset + bytes` is in range, `bytes` at most [`REQUEST_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it came.
    pub at: Ticks,
    /// Its disk.
    pub volume: Volume,
    /// What it does.
    pub kind: Kind,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is; 0 is possible.
    pub bytes: u64,
}

/// What a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// A read or a write.
    Request(Request),
    /// An operation that is neither, by its SCSI code.
    Other(u8),
    /// The names of the fields.
    Header,
    /// Nothing.
    Blank,
}

/// Why a line is none of the format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadLine {
    /// Too few or too many fields.
    #[error("{found} fields where the format has {expected}")]
    Fields {
        /// Of the format.
        expected: usize,
        /// Of the line.
        found: usize,
    },
    /// A field that is not what it has to be.
    #[error("{field} is {text:?}, not {wanted}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// Its text, shortened.
        text: String,
    },
    /// A number that is in range but leads out of it.
    #[error("{field} is out of range")]
    Range {
        /// The field that does.
        field: &'static str,
    },
    /// More than [`LINE_BYTES_MAX`].
    #[error("the line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// More than [`VOLUMES_MAX`].
    #[error("more than {VOLUMES_MAX} disks")]
    TooManyVolumes,
}

/// A format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// MSR Cambridge: seven fields
    Msr,
    /// CloudPhysics as CSV: five fields
    #[value(name = "cloudphysics")]
    CloudPhysics,
}

impl Format {
    /// The format of a trace with this first line; `None` where it is neither.
    pub fn detect(line: &[u8]) -> Option<Format> {
        match field::split(line).len() {
            msr::FIELDS => Some(Format::Msr),
            cloudphysics::FIELDS => Some(Format::CloudPhysics),
            _ => None,
        }
    }
}

/// What CloudPhysics times count. The public CSV traces were made from times in microseconds by
/// a division, and come in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum TimeUnit {
    /// Seconds
    #[default]
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
}

impl TimeUnit {
    fn ticks(self, time: u64) -> Option<Ticks> {
        let each = match self {
            TimeUnit::S => Ticks::SECOND,
            TimeUnit::Ms => Ticks::SECOND / 1000,
            TimeUnit::Us => Ticks::SECOND / 1_000_000,
        };
        time.checked_mul(each).map(Ticks)
    }
}

/// The disks met so far, by host and number.
#[derive(Debug, Default)]
pub struct Volumes {
    known: HashMap<(Vec<u8>, u64), Volume>,
}

impl Volumes {
    /// The disk with this name.
    ///
    /// # Errors
    /// It is one too many.
    pub fn volume(&mut self, host: &[u8], disk: u64) -> Result<Volume, BadLine> {
        let key = (host.to_vec(), disk);
        if let Some(volume) = self.known.get(&key) {
            return Ok(*volume);
        }
        if self.known.len() >= VOLUMES_MAX {
            return Err(BadLine::TooManyVolumes);
        }
        let next = u32::try_from(self.known.len()).map_err(|_| BadLine::TooManyVolumes)?;
        self.known.insert(key, Volume(next));
        Ok(Volume(next))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none was met.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Turns lines of one trace into what they say.
#[derive(Debug)]
pub struct Parser {
    format: Format,
    unit: TimeUnit,
    volumes: Volumes,
    first: bool,
}

impl Parser {
    /// For a trace from its beginning.
    pub fn new(format: Format, unit: TimeUnit) -> Parser {
        Parser {
            format,
            unit,
            volumes: Volumes::default(),
            first: true,
        }
    }

    /// What the next line says; without its newline.
    ///
    /// # Errors
    /// It is none of the format.
    pub fn line(&mut self, line: &[u8]) -> Result<Line, BadLine> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Line::Blank);
        }
        let first = std::mem::take(&mut self.first);
        if line.len() > LINE_BYTES_MAX {
            return Err(BadLine::TooLong);
        }
        let names = match self.format {
            Format::Msr => msr::NAMES,
            Format::CloudPhysics => cloudphysics::NAMES,
        };
        if first && line.eq_ignore_ascii_case(names.as_bytes()) {
            return Ok(Line::Header);
        }
        match self.format {
            Format::Msr => msr::parse(line, &mut self.volumes),
            Format::CloudPhysics => cloudphysics::parse(line, self.unit),
        }
    }

    /// The disks met so far.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

/// A request from its parts, where they are in range.
fn request(
    at: Ticks,
    volume: Volume,
    kind: Kind,
    offset: u64,
    bytes: u64,
) -> Result<Line, BadLine> {
    if bytes > REQUEST_BYTES_MAX || offset.checked_add(bytes).is_none() {
        return Err(BadLine::Range { field: "size" });
    }
    Ok(Line::Request(Request {
        at,
        volume,
        kind,
        offset,
        bytes,
    }))
}

/// Lines of an input of any length; memory is bounded by [`LINE_BYTES_MAX`].
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// From the input's beginning.
    pub fn new(input: R) -> Lines<R> {
        Lines {
            input,
            line: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line without its newline; `None` at the end. Of a line that is too long one byte
    /// more than [`LINE_BYTES_MAX`] is kept, so that it is seen to be.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        loop {
            let some = match self.input.fill_buf() {
                Ok(some) => some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = some.iter().position(|byte| *byte == b'\n');
            let (taken, used) = match end {
                Some(end) => (&some[..end], end + 1),
                None => (some, some.len()),
            };
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend(taken.iter().take(room));
            let at_end = used == 0;
            self.input.consume(used);
            self.bytes = self.bytes.saturating_add(used as u64);
            if at_end && self.line.is_empty() {
                return Ok(None);
            }
            if at_end || end.is_some() {
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests;
