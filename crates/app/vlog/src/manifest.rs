//! What belongs to a log: its files and segments.

use crate::place::wrong;
use crate::position::{NUMBER_END, ORDINALS_MAX};
use codec::Corruption;
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How far a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is appended to, and may end anywhere.
    Open,
    /// All of it is durable; groups in it may not be whole.
    Closed,
    /// All of it counts.
    Sealed,
    /// As sealed; a compaction wrote it.
    Compacted,
}

/// A file of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry {
    /// What counts of it; 0 while it is open.
    pub bytes: u64,
    /// The opening of the log that made it.
    pub opening: u64,
    /// Index of the directory that it is in.
    pub directory: u32,
    /// Who appended to it.
    pub lane: u32,
    /// How far it is.
    pub state: State,
    /// Kills in it; 0 while it is open.
    pub kills: u32,
}

/// A segment that has records in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEntry {
    /// The file.
    pub file: u64,
    /// Ordinals that were given out; 0 while its file is open.
    pub records: u32,
}

/// The payload of a manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// Counts openings of the log.
    pub opening: u64,
    /// No file or segment has this number or a larger one.
    pub next_number: u64,
    /// Least generation of the validity file.
    pub validity: u64,
    /// Groups below this number are whole.
    pub group_floor: u64,
    /// How many directories there are.
    pub directories: u32,
    /// Files by number.
    pub files: BTreeMap<u64, FileEntry>,
    /// Segments by number.
    pub segments: BTreeMap<u64, SegmentEntry>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawManifest {
    opening: U64,
    next_number: U64,
    validity: U64,
    group_floor: U64,
    directories: U32,
    files: U32,
    segments: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFile {
    number: U64,
    bytes: U64,
    opening: U64,
    directory: U32,
    lane: U32,
    state: U32,
    kills: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSegmentEntry {
    number: U64,
    file: U64,
    records: U32,
    reserved: U32,
}

const _: () = assert!(
    size_of::<RawManifest>() == 48
        && size_of::<RawFile>() == 40
        && size_of::<RawSegmentEntry>() == 24
);

impl Manifest {
    /// The payload of the sealed object.
    pub fn encode(&self) -> Vec<u8> {
        let raw = RawManifest {
            opening: U64::new(self.opening),
            next_number: U64::new(self.next_number),
            validity: U64::new(self.validity),
            group_floor: U64::new(self.group_floor),
            directories: U32::new(self.directories),
            files: U32::new(self.files.len() as u32),
            segments: U32::new(self.segments.len() as u32),
            reserved: U32::ZERO,
        };
        let mut bytes = raw.as_bytes().to_vec();
        for (number, file) in &self.files {
            let raw = RawFile {
                number: U64::new(*number),
                bytes: U64::new(file.bytes),
                opening: U64::new(file.opening),
                directory: U32::new(file.directory),
                lane: U32::new(file.lane),
                state: U32::new(match file.state {
                    State::Open => 0,
                    State::Closed => 1,
                    State::Sealed => 2,
                    State::Compacted => 3,
                }),
                kills: U32::new(file.kills),
            };
            bytes.extend_from_slice(raw.as_bytes());
        }
        for (number, segment) in &self.segments {
            let raw = RawSegmentEntry {
                number: U64::new(*number),
                file: U64::new(segment.file),
                records: U32::new(segment.records),
                reserved: U32::ZERO,
            };
            bytes.extend_from_slice(raw.as_bytes());
        }
        bytes
    }

    /// Reads the payload of a sealed object.
    ///
    /// # Errors
    /// What is wrong; the offset counts from the start of the payload.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, Corruption> {
        let length = bytes.len() as u64;
        let (raw, rest) = RawManifest::ref_from_prefix(bytes)
            .map_err(|_| wrong("bytes of a manifest", 0, 48, length))?;
        let (files, segments) = (raw.files.get() as usize, raw.segments.get() as usize);
        let due = files * size_of::<RawFile>() + segments * size_of::<RawSegmentEntry>();
        if rest.len() != due {
            return Err(wrong("bytes of a manifest", 0, 48 + due as u64, length));
        }
        let (raw_files, raw_segments) = rest.split_at(files * size_of::<RawFile>());
        let bad = || wrong("bytes of a manifest", 0, 48 + due as u64, length);
        let raw_files = <[RawFile]>::ref_from_bytes(raw_files).map_err(|_| bad())?;
        let raw_segments = <[RawSegmentEntry]>::ref_from_bytes(raw_segments).map_err(|_| bad())?;
        let mut manifest = Manifest {
            opening: raw.opening.get(),
            next_number: raw.next_number.get(),
            validity: raw.validity.get(),
            group_floor: raw.group_floor.get(),
            directories: raw.directories.get(),
            ..Manifest::default()
        };
        if manifest.next_number > NUMBER_END {
            return Err(wrong("next number", 8, NUMBER_END, manifest.next_number));
        }
        let mut at = 48;
        for raw in raw_files {
            manifest.take_file(raw, at)?;
            at += size_of::<RawFile>() as u64;
        }
        for raw in raw_segments {
            manifest.take_segment(raw, at)?;
            at += size_of::<RawSegmentEntry>() as u64;
        }
        Ok(manifest)
    }

    fn take_file(&mut self, raw: &RawFile, at: u64) -> Result<(), Corruption> {
        let number = raw.number.get();
        let state = match raw.state.get() {
            0 => State::Open,
            1 => State::Closed,
            2 => State::Sealed,
            3 => State::Compacted,
            other => return Err(wrong("state of a file", at + 32, 3, other.into())),
        };
        if raw.directory.get() >= self.directories {
            let (most, found) = (self.directories.into(), raw.directory.get().into());
            return Err(wrong("directory of a file", at + 24, most, found));
        }
        let rises = self
            .files
            .last_key_value()
            .is_none_or(|(last, _)| *last < number);
        if number >= self.next_number || !rises {
            return Err(wrong("number of a file", at, self.next_number, number));
        }
        let entry = FileEntry {
            bytes: raw.bytes.get(),
            opening: raw.opening.get(),
            directory: raw.directory.get(),
            lane: raw.lane.get(),
            state,
            kills: raw.kills.get(),
        };
        self.files.insert(number, entry);
        Ok(())
    }

    fn take_segment(&mut self, raw: &RawSegmentEntry, at: u64) -> Result<(), Corruption> {
        let (number, file) = (raw.number.get(), raw.file.get());
        let last = self.segments.last_key_value();
        let rises = last.is_none_or(|(last, _)| *last < number);
        if number >= self.next_number || !rises {
            return Err(wrong("number of a segment", at, self.next_number, number));
        }
        if !self.files.contains_key(&file) {
            return Err(wrong("file of a segment", at + 8, self.next_number, file));
        }
        let records = raw.records.get();
        if records > ORDINALS_MAX {
            let most = ORDINALS_MAX.into();
            return Err(wrong("records of a segment", at + 16, most, records.into()));
        }
        self.segments.insert(number, SegmentEntry { file, records });
        Ok(())
    }

    /// Segments of each file.
    pub(crate) fn by_file(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut found: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (number, segment) in &self.segments {
            found.entry(segment.file).or_default().insert(*number);
        }
        found
    }
}
