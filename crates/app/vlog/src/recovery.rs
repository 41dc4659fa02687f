//! Recovery: what of a log counts, and its live records.
//!
//! First the manifest and the validity file are read, then the heads of blocks that may have kills
//! the validity file does not know, then all blocks, for their live records. Nothing is changed
//! before all of that was found good.

use crate::cut::{Group, lower};
use crate::error::{Result, VlogError};
use crate::live::LiveSet;
use crate::manifest::{FileEntry, Manifest, State};
use crate::place::{Places, wrong};
use crate::position::{Name, Position};
use crate::scan::{Found, Reader};
use crate::segment::{SECTOR_BYTES, SegmentHeader};
use crate::validity::{self, Entry};
use codec::{Corruption, kind};
use env::{Disk, Open};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A live record that recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Its stream.
    pub stream: u32,
    /// Where the log keeps it from now on.
    pub position: Position,
    /// Of two records of one stream the one that was appended later has the larger number.
    pub order: u64,
    /// Its content.
    pub payload: &'a [u8],
}

/// Takes live records, from several threads at once and in no order.
pub type Sink<'a> = dyn Fn(Record<'_>) + Sync + 'a;

/// What a log's small files say.
pub(crate) struct Read {
    pub(crate) log: u128,
    pub(crate) manifest: Manifest,
    pub(crate) generation: u64,
    /// Generation of the validity file, 0 for none.
    pub(crate) validity_generation: u64,
    validity: BTreeMap<u64, Entry>,
}

/// What counts, once everything was read.
pub(crate) struct Recovered {
    /// With all files sealed.
    pub(crate) manifest: Manifest,
    /// Live sets of its segments.
    pub(crate) sets: BTreeMap<u64, LiveSet>,
    /// Files that may have bytes which are not on the medium.
    pub(crate) unsynced: Vec<(u64, FileEntry)>,
    /// Files of which nothing counts.
    pub(crate) emptied: Vec<(u64, FileEntry)>,
}

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
struct TailFile {
    number: u64,
    entry: FileEntry,
    blocks: Vec<Tail>,
    /// Of its lane, the number of the first block; they are counted from 1.
    first: u64,
}

/// Reads manifest and validity, and looks whether the directories are the log's.
pub(crate) fn read(places: &Places) -> Result<Read> {
    let file = places.plain("manifest");
    let shown = places.shown(0, &file);
    let bytes = places.read(0, &file)?;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => return Err(no_manifest(places, shown)?),
    };
    let object = places.unseal(0, &file, &bytes, kind::VLOG_MANIFEST, None)?;
    let log = u128::from_le_bytes(object.identity.set);
    let corrupt = |why: Corruption| VlogError::corrupt(&shown)(why.moved(64));
    let manifest = Manifest::decode(object.payload).map_err(corrupt)?;
    let generation = object.identity.generation;
    if manifest.directories != places.count() {
        return Err(VlogError::Directories {
            expected: manifest.directories,
            found: places.count(),
        });
    }
    check_directories(places, log)?;
    let (validity_generation, validity) = read_validity(places, log, manifest.validity)?;
    Ok(Read {
        log,
        manifest,
        generation,
        validity_generation,
        validity,
    })
}

/// The error for a directory without a manifest: there is no log, or it lost its manifest.
fn no_manifest(places: &Places, shown: String) -> Result<VlogError> {
    let has_segments = places
        .dir(0)?
        .list()
        .map_err(VlogError::io("listing", &shown))?
        .iter()
        .any(|name| places.parse_segment(name).is_some());
    Ok(match has_segments {
        true => VlogError::Lost { file: shown },
        false => VlogError::Missing { file: shown },
    })
}

/// Each directory says which it is.
fn check_directories(places: &Places, log: u128) -> Result<()> {
    let file = places.plain("directory");
    for index in 0..places.count() {
        let shown = places.shown(index, &file);
        let Some(bytes) = places.read(index, &file)? else {
            return Err(VlogError::Lost { file: shown });
        };
        let object = places.unseal(index, &file, &bytes, kind::VLOG_DIRECTORY, Some(log))?;
        if object.identity.object != u64::from(index) {
            return Err(VlogError::Foreign { file: shown });
        }
    }
    Ok(())
}

fn read_validity(places: &Places, log: u128, floor: u64) -> Result<(u64, BTreeMap<u64, Entry>)> {
    let file = places.plain("validity");
    let shown = places.shown(0, &file);
    let Some(bytes) = places.read(0, &file)? else {
        return match floor {
            0 => Ok((0, BTreeMap::new())),
            _ => Err(VlogError::Lost { file: shown }),
        };
    };
    let object = places.unseal(0, &file, &bytes, kind::VLOG_VALIDITY, Some(log))?;
    let generation = object.identity.generation;
    if generation < floor {
        let why = wrong("generation", 40, floor, generation);
        return Err(VlogError::corrupt(&shown)(why));
    }
    let corrupt = |why: Corruption| VlogError::corrupt(&shown)(why.moved(64));
    let validity = validity::decode(object.payload).map_err(corrupt)?;
    Ok((generation, validity))
}

/// A file of the manifest, opened, with its key.
fn open(
    places: &Places,
    log: u128,
    number: u64,
    entry: &FileEntry,
) -> Result<(Arc<dyn Disk>, SegmentHeader, u64)> {
    let file = places.shown(entry.directory, &places.segment(number));
    let disk = places.open(entry.directory, number, Open::Read)?;
    let length = disk.len().map_err(VlogError::io("reading", &file))?;
    let due = entry.bytes.max(SECTOR_BYTES);
    if length < due {
        let why = wrong("length of the file", 0, due, length);
        return Err(VlogError::corrupt(&file)(why));
    }
    let mut sector = vec![0; SECTOR_BYTES as usize];
    disk.read_at(0, &mut sector)
        .map_err(VlogError::io("reading", &file))?;
    let header = SegmentHeader::decode(&sector).map_err(|why| match why.what {
        "version of a segment file" => VlogError::Version {
            file: file.clone(),
            found: why.found as u16,
            known: crate::place::VERSION,
        },
        _ => VlogError::corrupt(&file)(why),
    })?;
    let differs = [
        (
            "log of the file",
            (header.log >> 64) as u64,
            (log >> 64) as u64,
        ),
        ("log of the file", header.log as u64, log as u64),
        ("number of the file", header.number, number),
        ("opening of the file", header.opening, entry.opening),
    ];
    for (what, found, expected) in differs {
        if found != expected {
            return Err(VlogError::corrupt(&file)(wrong(what, 16, expected, found)));
        }
    }
    Ok((disk, header, length))
}

/// Finds out what counts; reads only.
pub(crate) fn recover(places: &Places, read: &Read, tear_groups: bool) -> Result<Recovered> {
    let manifest = &read.manifest;
    let mut tails = Vec::new();
    let mut kills = Vec::new();
    for (number, entry) in &manifest.files {
        match entry.state {
            State::Open | State::Closed => {
                tails.push(read_tail(places, read.log, *number, *entry)?);
            }
            State::Sealed => {
                let known = read.validity.get(number);
                if !known.is_some_and(|entry| entry.finished) && entry.kills > 0 {
                    read_kills(places, read.log, *number, entry, &mut kills)?;
                }
            }
            State::Compacted => {
                // Kills are never copied; but the file has to be there and be this one.
                open(places, read.log, *number, entry)?;
            }
        }
    }
    let ends = cut(&mut tails, manifest.group_floor, tear_groups);
    let mut recovered = Recovered {
        manifest: manifest.clone(),
        sets: BTreeMap::new(),
        unsynced: Vec::new(),
        emptied: Vec::new(),
    };
    settle_tails(&mut recovered, tails, &ends, &mut kills);
    for (number, segment) in &recovered.manifest.segments {
        let set = live_set(places, read, *number, segment.records)?;
        recovered.sets.insert(*number, set);
    }
    for kill in kills {
        let name = Name::from_u64(kill);
        if let Some(set) = recovered.sets.get_mut(&name.segment) {
            // The validity file may have known it.
            let _ = set.kill(name.ordinal);
        }
    }
    Ok(recovered)
}

/// What the validity file says of a segment, and of later ordinals that they are live.
fn live_set(places: &Places, read: &Read, number: u64, records: u32) -> Result<LiveSet> {
    let Some(known) = read.validity.get(&number) else {
        return Ok(LiveSet::all(records));
    };
    let mut set = known.live.clone();
    if set.records() > records {
        // They had been durable.
        let file = places.shown(0, &places.segment(number));
        let why = wrong("records", 0, set.records().into(), records.into());
        return Err(VlogError::corrupt(&file)(why));
    }
    while set.records() < records {
        set.push();
    }
    Ok(set)
}

/// The blocks of a file that may end anywhere, or whose groups may not be whole.
fn read_tail(places: &Places, log: u128, number: u64, entry: FileEntry) -> Result<TailFile> {
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

/// Adds the kills of a file of which everything counts.
fn read_kills(
    places: &Places,
    log: u128,
    number: u64,
    entry: &FileEntry,
    kills: &mut Vec<u64>,
) -> Result<()> {
    let file = places.shown(entry.directory, &places.segment(number));
    let (disk, header, _) = open(places, log, number, entry)?;
    let mut reader = Reader::new(disk.as_ref(), header.key(), entry.bytes);
    loop {
        match reader
            .next(false)
            .map_err(VlogError::io("reading", &file))?
        {
            Found::End => return Ok(()),
            Found::Bad(why) => return Err(VlogError::corrupt(&file)(why)),
            Found::Block(block) => kills.extend(block.kills()),
        }
    }
}

/// Counts the blocks of each lane, and says up to which each lane counts.
fn cut(tails: &mut [TailFile], group_floor: u64, tear_groups: bool) -> BTreeMap<u32, u64> {
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
fn settle_tails(
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
