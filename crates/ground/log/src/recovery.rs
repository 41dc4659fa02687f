//! Finding what a log holds.

use crate::name::{self, State, file_name};
use crate::scan::{Stop, scan};
use crate::segment::length_is_legal;
use crate::segments::{Live, Segments};
use crate::{
    BLOCK_BYTES, LogError, LogId, Options, Record, Result, SEGMENT_BYTES_MIN, SegmentHeader,
    Sequence,
};
use codec::{Corruption, FrameKey};
use env::{Dir, Open};
use std::sync::Arc;

/// The files of a log, sorted by number.
pub(crate) struct Files {
    pub(crate) live: Vec<u64>,
    other: Vec<(u64, State)>,
}

impl Files {
    pub(crate) fn find(dir: &dyn Dir, log: &str) -> Result<Files> {
        let names = dir
            .list()
            .map_err(LogError::io("listing the files of", log))?;
        let mut found: Vec<_> = names
            .iter()
            .filter_map(|file| name::parse(log, file))
            .collect();
        found.sort_unstable();
        let (live, other): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, state)| *state == State::Live);
        Ok(Files {
            live: live.into_iter().map(|(number, _)| number).collect(),
            other,
        })
    }

    /// Hands spare files over to `segments` and removes half-made ones.
    pub(crate) fn settle(&self, dir: &dyn Dir, log: &str, segments: &mut Segments) -> Result<()> {
        for &(number, state) in &self.other {
            if state == State::Spare {
                segments.add_spare(number)?;
                continue;
            }
            segments.add_number(number);
            let file = file_name(log, number, state);
            dir.remove(&file).map_err(LogError::io("removing", &file))?;
        }
        Ok(())
    }
}

/// Reads all segments and calls `each` for every record in order. Returns the segments and the
/// sequence after the last record.
pub(crate) fn recover(
    dir: &Arc<dyn Dir>,
    log: &str,
    id: LogId,
    options: Options,
    each: &mut dyn FnMut(Record),
) -> Result<(Segments, Sequence)> {
    let mut segments = Segments::new(dir.clone(), log, id, options)?;
    let files = Files::find(dir.as_ref(), log)?;
    let mut headers = Vec::with_capacity(files.live.len());
    for &number in &files.live {
        headers.push(read_header(dir.as_ref(), log, id, number)?);
    }
    let newest = headers.last().ok_or_else(|| LogError::Missing {
        name: log.to_owned(),
    })?;
    sync(dir.as_ref(), &file_name(log, newest.number, State::Live))?;

    let mut next = headers
        .first()
        .map_or(Sequence::FIRST, |header| header.first);
    for (index, header) in headers.iter().enumerate() {
        let limit = headers.get(index + 1).map(|following| following.first);
        next = read_records(dir.as_ref(), log, header, next, limit, each)?;
        segments.add_live(Live {
            number: header.number,
            first: header.first,
            bytes: header.segment_bytes,
        });
    }
    files.settle(dir.as_ref(), log, &mut segments)?;
    Ok((segments, next))
}

/// Makes durable what a process that was killed had written and not yet synced: what recovery
/// returns once, it must return again.
fn sync(dir: &dyn Dir, file: &str) -> Result<()> {
    let disk = dir
        .open(file, Open::Write)
        .map_err(LogError::io("opening", file))?;
    disk.sync().map_err(LogError::io("syncing", file))
}

/// Calls `each` for the records of one segment, the first of which must be `next`, and all those before
/// `limit` must be there. Returns the sequence after the last.
fn read_records(
    dir: &dyn Dir,
    log: &str,
    header: &SegmentHeader,
    next: Sequence,
    limit: Option<Sequence>,
    each: &mut dyn FnMut(Record),
) -> Result<Sequence> {
    let file = file_name(log, header.number, State::Live);
    if header.first != next {
        return Err(missing(&file, next, header.first));
    }
    let bytes = read_file(dir, &file, usize::MAX)?;
    if bytes.len() as u64 != header.segment_bytes {
        return Err(LogError::corrupt(&file)(Corruption {
            what: "length of the segment",
            offset: 72,
            expected: header.segment_bytes,
            found: bytes.len() as u64,
        }));
    }
    let key = FrameKey::new(header.log.0, header.number);
    let found = scan(&bytes, &key, header.first, limit);
    if let Stop::Damage(corruption) = found.stop {
        return Err(LogError::corrupt(&file)(corruption));
    }
    if let Some(limit) = limit
        && found.next != limit
    {
        return Err(missing(&file, limit, found.next));
    }
    for frame in &found.frames {
        each(Record {
            sequence: Sequence(frame.header.sequence),
            kind: frame.header.kind,
            payload: frame.payload.to_vec(),
        });
    }
    Ok(found.next)
}

fn missing(file: &str, expected: Sequence, found: Sequence) -> LogError {
    LogError::corrupt(file)(Corruption {
        what: "record sequence",
        offset: 0,
        expected: expected.0,
        found: found.0,
    })
}

fn read_header(dir: &dyn Dir, log: &str, id: LogId, number: u64) -> Result<SegmentHeader> {
    let file = file_name(log, number, State::Live);
    let block = read_file(dir, &file, BLOCK_BYTES)?;
    SegmentHeader::decode_as(&block, id, number).map_err(LogError::corrupt(&file))
}

/// The first `most` bytes of a file, or all of it where it is shorter.
fn read_file(dir: &dyn Dir, file: &str, most: usize) -> Result<Vec<u8>> {
    let io = |errno| LogError::io("reading", file)(errno);
    let disk = dir.open(file, Open::Read).map_err(io)?;
    let length = disk.len().map_err(io)?;
    if !length_is_legal(length) {
        return Err(LogError::corrupt(file)(Corruption {
            what: "length of the segment",
            offset: 0,
            expected: SEGMENT_BYTES_MIN,
            found: length,
        }));
    }
    let mut bytes = vec![0; most.min(length as usize)];
    disk.read_at(0, &mut bytes).map_err(io)?;
    Ok(bytes)
}
