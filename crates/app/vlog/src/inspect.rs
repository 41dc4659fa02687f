//! Files of a log as lines for people. All take bytes that may be anything.

use crate::block::{HEADER_BYTES, extent, records as read_records};
use crate::manifest::{Manifest, State};
use crate::place::{VERSION, wrong};
use crate::segment::{Origin, SECTOR_BYTES, SegmentHeader};
use crate::validity;
use codec::{Corruption, Field, kind};

/// Most blocks, files or segments listed one by one.
const SHOWN: usize = 1000;

fn field(name: &str, value: impl ToString) -> Field {
    (name.to_owned(), value.to_string())
}

/// The payload of a sealed object of a kind, with the lines that all have.
fn unseal(bytes: &[u8], kind: u16) -> Result<(&[u8], Vec<Field>), Corruption> {
    let object = codec::open_object(bytes, kind, None)?;
    if object.version != VERSION {
        let (expected, found) = (VERSION.into(), object.version.into());
        return Err(wrong("version", 12, expected, found));
    }
    let log = u128::from_le_bytes(object.identity.set);
    let lines = vec![
        field("log", format!("{log:032x}")),
        field("generation", object.identity.generation),
    ];
    Ok((object.payload, lines))
}

/// A segment file: its header, and a line for each of its first 1000 blocks.
///
/// # Errors
/// What is wrong with the header; damage further on is a line that begins with `DAMAGED`, a tail
/// that was never finished one that does not.
pub fn segment(bytes: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    let header = SegmentHeader::decode(bytes)?;
    let mut lines = vec![
        field("log", format!("{:032x}", header.log)),
        field("number", header.number),
        field("opening", header.opening),
        field("lane", header.lane),
        field(
            "origin",
            match header.origin {
                Origin::Appended => "appended",
                Origin::Compacted => "compacted",
            },
        ),
    ];
    let key = header.key();
    let mut at = SECTOR_BYTES;
    let (mut blocks, mut records, mut kills) = (0u64, 0u64, 0u64);
    let mut durable_behind = 0;
    let mut tail = None;
    let mut listed = Vec::new();
    while let Some(rest) = usize::try_from(at).ok().and_then(|at| bytes.get(at..)) {
        if rest.is_empty() {
            break;
        }
        let opened = extent(rest).and_then(|extent| {
            let head = key.open_head(at, rest)?;
            let end = extent.head_bytes.saturating_add(extent.body_bytes);
            let body = rest.get(extent.head_bytes..end);
            let short = || wrong("bytes of a block", 0, end as u64, rest.len() as u64);
            let found = head.open_body(body.ok_or_else(short)?)?;
            Ok((head, found.len(), end as u64))
        });
        match opened {
            Ok((head, found, size)) => {
                blocks += 1;
                records += found as u64;
                kills += head.kills().len() as u64;
                if listed.len() < SHOWN {
                    let header = head.header;
                    let group = match header.group {
                        0 => String::new(),
                        group => format!(", group {group} on {} lanes", header.parts),
                    };
                    let what = format!(
                        "{size} bytes, segment {}, {found} records, {} kills{group}, durable to {}",
                        header.segment,
                        head.kills().len(),
                        header.durable
                    );
                    listed.push(field(&format!("block at {at}"), what));
                }
                at = at.saturating_add(size);
                if head.header.last {
                    at = at.next_multiple_of(SECTOR_BYTES);
                }
            }
            Err(why) => {
                durable_behind = durable(bytes, &key, at);
                tail = Some(why.moved(at));
                break;
            }
        }
    }
    lines.push(field("blocks", blocks));
    lines.push(field("records", records));
    lines.push(field("kills", kills));
    lines.append(&mut listed);
    let cut = (bytes.len() as u64) < length;
    let end = match tail {
        None => "at the end of the file".to_owned(),
        Some(_) if cut => "at the end of what is shown".to_owned(),
        Some(why) if durable_behind > at => {
            format!("DAMAGED, durable blocks follow ({why})")
        }
        // Whether this may be there, the manifest says: it has the bytes of files that are complete.
        Some(why) => format!("at {at}, behind it no whole block ({why})"),
    };
    lines.push(field("end", end));
    Ok(lines)
}

/// The largest place that a block behind `from` says had been durable.
fn durable(bytes: &[u8], key: &crate::block::BlockKey, from: u64) -> u64 {
    let rest = bytes.get(from as usize..).unwrap_or_default();
    let starts = rest.windows(HEADER_BYTES).enumerate();
    starts
        .filter(|(_, window)| window.starts_with(&crate::block::MAGIC))
        .filter_map(|(offset, _)| {
            let behind = rest.get(offset..).unwrap_or_default();
            let head = key.open_head(from + offset as u64, behind).ok()?;
            Some(head.header.durable)
        })
        .max()
        .unwrap_or(0)
}

/// A manifest: what belongs to the log.
///
/// # Errors
/// What is wrong with it.
pub fn manifest(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let (payload, mut lines) = unseal(bytes, kind::VLOG_MANIFEST)?;
    let manifest = Manifest::decode(payload).map_err(|why| why.moved(64))?;
    lines.push(field("opening", manifest.opening));
    lines.push(field("next number", manifest.next_number));
    lines.push(field("least validity", manifest.validity));
    lines.push(field("whole groups below", manifest.group_floor));
    lines.push(field("directories", manifest.directories));
    lines.push(field("files", manifest.files.len()));
    lines.push(field("segments", manifest.segments.len()));
    for (number, file) in manifest.files.iter().take(SHOWN) {
        let state = match file.state {
            State::Open => "open",
            State::Closed => "closed",
            State::Sealed => "sealed",
            State::Compacted => "compacted",
        };
        let what = format!(
            "{state}, {} bytes, directory {}, lane {}, opening {}, {} kills",
            file.bytes, file.directory, file.lane, file.opening, file.kills
        );
        lines.push(field(&format!("file {number:016x}"), what));
    }
    for (number, segment) in manifest.segments.iter().take(SHOWN) {
        let what = format!("{} records, file {:016x}", segment.records, segment.file);
        lines.push(field(&format!("segment {number}"), what));
    }
    Ok(lines)
}

/// A validity file: which records were live.
///
/// # Errors
/// What is wrong with it.
pub fn validity(bytes: &[u8], length: u64) -> Result<Vec<Field>, Corruption> {
    if (bytes.len() as u64) < length {
        return Ok(vec![field(
            "segments",
            "not shown and not verified: the file is larger than what is read of it here",
        )]);
    }
    let (payload, mut lines) = unseal(bytes, kind::VLOG_VALIDITY)?;
    lines.append(&mut sets(payload).map_err(|why| why.moved(64))?);
    Ok(lines)
}

/// The payload of a validity file, a line for each of its first 1000 segments.
///
/// # Errors
/// What is wrong with it; the offset counts from the start of the payload.
pub fn sets(payload: &[u8]) -> Result<Vec<Field>, Corruption> {
    let found = validity::decode(payload)?;
    let live = found.values().map(|entry| u64::from(entry.live.live()));
    let mut lines = vec![
        field("segments", found.len()),
        field("live records", live.sum::<u64>()),
    ];
    for (number, entry) in found.iter().take(SHOWN) {
        let what = format!(
            "{} of {} live{}",
            entry.live.live(),
            entry.live.records(),
            if entry.finished { ", finished" } else { "" }
        );
        lines.push(field(&format!("segment {number}"), what));
    }
    Ok(lines)
}

/// A directory's own file.
///
/// # Errors
/// What is wrong with it.
pub fn directory(bytes: &[u8]) -> Result<Vec<Field>, Corruption> {
    let object = codec::open_object(bytes, kind::VLOG_DIRECTORY, None)?;
    let (payload, mut lines) = unseal(bytes, kind::VLOG_DIRECTORY)?;
    let count = payload
        .first_chunk()
        .map(|bytes| u32::from_le_bytes(*bytes));
    let count = count.ok_or(wrong("bytes of the payload", 48, 8, payload.len() as u64))?;
    lines.push(field("directory", object.identity.object));
    lines.push(field("of", count));
    Ok(lines)
}

/// How many records a block's body has that says it has `count`.
///
/// # Errors
/// What is wrong with it; the offset counts from its start.
pub fn records(body: &[u8], count: u32) -> Result<usize, Corruption> {
    read_records(body, count).map(|found| found.len())
}
