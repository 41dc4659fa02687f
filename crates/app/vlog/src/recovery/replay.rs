//! The second pass: live records, from all files.

use super::{Record, Recovered, Sink, open};
use crate::error::{Result, VlogError};
use crate::manifest::FileEntry;
use crate::place::{Places, wrong};
use crate::position::{Name, Position};
use crate::scan::{Found, Reader};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Hands every live record to `sink`, and returns how many records each file has that a compaction
/// wrote.
pub(crate) fn replay(
    places: &Places,
    log: u128,
    recovered: &Recovered,
    slots: &BTreeMap<u64, u32>,
    threads: u32,
    sink: &Sink<'_>,
) -> Result<BTreeMap<u64, u64>> {
    let files: Vec<(u64, FileEntry)> = recovered
        .manifest
        .files
        .iter()
        .map(|(number, entry)| (*number, *entry))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(u64, Counts)>> {
        let mut done = Vec::new();
        while let Some((number, entry)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let counts = replay_file(places, log, (*number, entry), recovered, slots, sink)?;
            done.push((*number, counts));
        }
        Ok(done)
    };
    let done = if threads < 2 || files.len() < 2 {
        work()?
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut done = Vec::new();
            for worker in workers {
                match worker.join() {
                    Ok(found) => done.extend(found?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(done)
        })?
    };
    let mut present = BTreeMap::new();
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    for (number, counts) in done {
        present.insert(number, counts.records);
        for (segment, count) in counts.live {
            *live.entry(segment).or_default() += count;
        }
    }
    for (segment, set) in &recovered.sets {
        let found = live.get(segment).copied().unwrap_or(0);
        if found != u64::from(set.live()) {
            let entry = recovered.manifest.segments.get(segment);
            let number = entry.map_or(*segment, |entry| entry.file);
            let directory = recovered.manifest.files.get(&number);
            let directory = directory.map_or(0, |entry| entry.directory);
            let file = places.shown(directory, &places.segment(number));
            let why = wrong("live records of a segment", 0, set.live().into(), found);
            return Err(VlogError::corrupt(&file)(why));
        }
    }
    Ok(present)
}

#[derive(Default)]
struct Counts {
    /// Records in the file.
    records: u64,
    /// Live ones by segment.
    live: BTreeMap<u64, u64>,
}

fn replay_file(
    places: &Places,
    log: u128,
    (number, entry): (u64, &FileEntry),
    recovered: &Recovered,
    slots: &BTreeMap<u64, u32>,
    sink: &Sink<'_>,
) -> Result<Counts> {
    let file = places.shown(entry.directory, &places.segment(number));
    let (disk, header, _) = open(places, log, number, entry)?;
    let mut reader = Reader::new(disk.as_ref(), header.key(), entry.bytes);
    let mut counts = Counts::default();
    loop {
        let block = match reader.next(true).map_err(VlogError::io("reading", &file))? {
            Found::End => return Ok(counts),
            Found::Bad(why) => return Err(VlogError::corrupt(&file)(why)),
            Found::Block(block) => block,
        };
        counts.records += block.records.len() as u64;
        let segment = block.header.segment;
        let here = recovered.manifest.segments.get(&segment);
        let known = here.is_some_and(|entry| entry.file == number);
        let (Some(set), Some(slot), true) =
            (recovered.sets.get(&segment), slots.get(&segment), known)
        else {
            continue;
        };
        for record in block.records.iter().filter(|r| set.contains(r.ordinal)) {
            *counts.live.entry(segment).or_default() += 1;
            let name = Name {
                segment,
                ordinal: record.ordinal,
            };
            sink(Record {
                stream: record.stream,
                position: Position::new(*slot, record.ordinal),
                order: name.to_u64(),
                payload: record.payload,
            });
        }
    }
}
