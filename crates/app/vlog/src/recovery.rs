//! Recovery: what of a log counts, and its live records.
//!
//! First the manifest and the validity file are read, then the heads of blocks that may have kills
//! the validity file does not know, then all blocks, for their live records. Nothing is changed
//! before all of that was found good.

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
use tail::{cut, read_tail, settle_tails};

mod replay;
mod tail;

pub(crate) use replay::replay;

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
