//! Files that were written when the log ended: up to where they count.

use super::{Recovered, open};
use crate::cut::{Group, lower};
use crate::error::{Result, VlogError};
use crate::manifest::{FileEntry, State};
use crate::place::{Places, wrong};
use crate::scan::{Found, Reader};
use std::collections::BTreeMap;

/// A block of a file in which not everything need count.
struct Tail {
    end: u64,
    group: u64,
    parts: u32,
    kills: Vec<u64>,
    /// Ordinals given out up to its end.
    records: u32,
}

/// Such a file.
pub(super) struct TailFile {
    number: u64,
    entry: FileEntry,
    blocks: Vec<Tail>,
    /// Of its lane, the number of the first block; they are counted from 1.
    first: u64,
}

/// The blocks of a file that may end anywhere, or whose groups may not be whole.
pub(super) fn read_tail(
    places: &Places,
    log: u128,
    number: u64,
    entry: FileEntry,
) -> Result<TailFile> {
    let file = places.shown(entry.directory, &places.segment(number));
    let (disk, header, length) = open(places, log, number, &entry)?;
    let is_open = entry.state == State::Open;
    let end = if is_open { length } else { entry.bytes };
    let mut reader = Reader::new(disk.as_ref(), header.key(), end);
    let mut blocks: Vec<Tail> = Vec::new();
    let io = |errno| VlogError::io("reading", &file)(errno);
    let damage = loop {
        let place = reader.place();
        let known = blocks.last().map_or(0, |block| block.records);
        let block = match reader.next(true).map_err(io)? {
            Found::End => break None,
            Found::Bad(why) => break Some((place, why)),
            Found::Block(block) => block,
        };
        if block.header.segment != number {
            let why = wrong(
                "segment of a block",
                place + 16,
                number,
                block.header.segment,
            );
            return Err(VlogError::corrupt(&file)(why));
        }
        let in_order = (known..).zip(&block.records);
        if let Some((expected, record)) = in_order.clone().find(|(n, r)| *n != r.ordinal) {
            let why = wrong("ordinal", place, expected.into(), record.ordinal.into());
            return Err(VlogError::corrupt(&file)(why));
        }
        blocks.push(Tail {
            end: block.end,
            group: block.header.group,
            parts: block.header.parts,
            kills: block.kills().collect(),
            records: known + block.header.records,
        });
    };
    if let Some((place, why)) = damage {
        // Of a closed file all was durable.
        if !is_open || reader.durable_behind().map_err(io)? > place {
            return Err(VlogError::corrupt(&file)(why));
        }
    }
    Ok(TailFile {
        number,
        entry,
        blocks,
        first: 0,
    })
}

/// Counts the blocks of each lane, and says up to which each lane counts.
pub(super) fn cut(
    tails: &mut [TailFile],
    group_floor: u64,
    tear_groups: bool,
) -> BTreeMap<u32, u64> {
    let mut lanes: BTreeMap<u32, usize> = BTreeMap::new();
    let mut ends: Vec<u64> = Vec::new();
    let mut groups: BTreeMap<u64, (u32, Vec<(usize, u64)>)> = BTreeMap::new();
    // By number, so each lane's files come in the order in which they were written.
    for tail in tails {
        let next = lanes.len();
        let lane = *lanes.entry(tail.entry.lane).or_insert(next);
        if lane == ends.len() {
            ends.push(0);
        }
        let Some(end) = ends.get_mut(lane) else {
            continue;
        };
        tail.first = *end + 1;
        for block in &tail.blocks {
            *end += 1;
            if block.group >= group_floor.max(1) {
                let (parts, found) = groups.entry(block.group).or_default();
                *parts = block.parts;
                found.push((lane, *end));
            }
        }
    }
    let groups: Vec<Group> = groups
        .into_iter()
        .map(|(number, (due, mut parts))| {
            if parts.len() < due as usize {
                // A part that is nowhere.
                parts.push((usize::MAX, 0));
            }
            Group { number, parts }
        })
        .collect();
    if !tear_groups {
        lower(&mut ends, &groups);
    }
    let by_lane = lanes.into_iter();
    by_lane
        .filter_map(|(lane, index)| Some((lane, *ends.get(index)?)))
        .collect()
}

/// Seals the files in which not everything need count, at the ends that were found.
pub(super) fn settle_tails(
    recovered: &mut Recovered,
    tails: Vec<TailFile>,
    ends: &BTreeMap<u32, u64>,
    kills: &mut Vec<u64>,
) {
    for tail in tails {
        let end = ends.get(&tail.entry.lane).copied().unwrap_or(0);
        let kept = (tail.first..)
            .zip(tail.blocks)
            .take_while(|(n, _)| *n <= end);
        let mut last = None;
        let mut count = 0;
        for (_, block) in kept {
            count += block.kills.len();
            kills.extend_from_slice(&block.kills);
            last = Some((block.end, block.records));
        }
        let manifest = &mut recovered.manifest;
        match last {
            None => {
                manifest.files.remove(&tail.number);
                manifest.segments.remove(&tail.number);
                recovered.emptied.push((tail.number, tail.entry));
            }
            Some((bytes, records)) => {
                let entry = FileEntry {
                    bytes,
                    state: State::Sealed,
                    kills: u32::try_from(count).unwrap_or(u32::MAX),
                    ..tail.entry
                };
                manifest.files.insert(tail.number, entry);
                if let Some(segment) = manifest.segments.get_mut(&tail.number) {
                    segment.records = records;
                }
                recovered.unsynced.push((tail.number, entry));
            }
        }
    }
}
