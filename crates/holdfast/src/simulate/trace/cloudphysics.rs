//! The block traces of CloudPhysics (C. Waldspurger and others, "Efficient MRC Construction with
//! SHARDS", FAST 2015) as the CSV files that libCacheSim offers: `version,time,op,size,lbn`. A trace is that of one disk.

use super::field::{exactly, hexadecimal, number};
use super::{BadLine, Kind, Line, TimeUnit, Volume};

/// Fields of a line.
pub const FIELDS: usize = 5;

/// Their names, as the first line has them.
pub const NAMES: &str = "version,time,op,size,lbn";

/// Bytes of a logical block.
const BLOCK_BYTES: u64 = 512;

/// What a line says.
///
/// # Errors
/// It is none of the format.
pub fn parse(line: &[u8], unit: TimeUnit) -> Result<Line, BadLine> {
    let [version, time, operation, size, block] = exactly::<FIELDS>(line)?;
    number("version", version)?;
    let time = number("time", time)?;
    let at = unit.ticks(time).ok_or(BadLine::Range { field: "time" })?;
    let bytes = number("size", size)?;
    let block = number("lbn", block)?;
    let operation = hexadecimal("op", operation)?;
    let kind = match operation {
        // READ and WRITE of 6, 10, 12 and 16 bytes (SCSI Block Commands).
        0x08 | 0x28 | 0xa8 | 0x88 => Kind::Read,
        0x0a | 0x2a | 0xaa | 0x8a => Kind::Write,
        other => return Ok(Line::Other(other)),
    };
    let offset = block.checked_mul(BLOCK_BYTES);
    let offset = offset.ok_or(BadLine::Range { field: "lbn" })?;
    super::request(at, Volume(0), kind, offset, bytes)
}
