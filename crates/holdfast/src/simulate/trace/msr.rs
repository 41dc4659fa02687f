//! The block traces of Microsoft Research Cambridge (D. Narayanan, A. Donnelly, A. Rowstron,
//! "Write Off-Loading", FAST 2008): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.

use super::field::{exactly, number, wrong};
use super::{BadLine, Kind, Line, Ticks, Volumes};

/// Fields of a line.
pub const FIELDS: usize = 7;

/// Their names, as a first line may have them.
pub const NAMES: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

/// Longest host name, as in DNS.
const HOST_BYTES_MAX: usize = 255;

/// What a line says.
///
/// # Errors
/// It is none of the format.
pub fn parse(line: &[u8], volumes: &mut Volumes) -> Result<Line, BadLine> {
    let [timestamp, host, disk, kind, offset, size, response] = exactly::<FIELDS>(line)?;
    let at = Ticks(number("timestamp", timestamp)?);
    if host.is_empty() || host.len() > HOST_BYTES_MAX {
        return Err(wrong("host", "a host name", host));
    }
    let disk = number("disk", disk)?;
    let kind = match kind {
        kind if kind.eq_ignore_ascii_case(b"read") => Kind::Read,
        kind if kind.eq_ignore_ascii_case(b"write") => Kind::Write,
        other => return Err(wrong("type", "Read or Write", other)),
    };
    let offset = number("offset", offset)?;
    let bytes = number("size", size)?;
    number("response time", response)?;
    // Last, so that a bad line does not make a disk.
    let line = super::request(at, super::Volume(0), kind, offset, bytes)?;
    let volume = volumes.volume(host, disk)?;
    Ok(match line {
        Line::Request(request) => Line::Request(super::Request { volume, ..request }),
        other => other,
    })
}
