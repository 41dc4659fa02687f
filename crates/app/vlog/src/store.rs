//! The manifest and the validity file of an open log.

use crate::cut::Progress;
use crate::error::{Result, VlogError};
use crate::manifest::{FileEntry, Manifest, SegmentEntry, State};
use crate::place::{Places, VERSION};
use codec::{Identity, kind, seal_object};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Where a closed file ends: what has to be durable before all of it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) lane: usize,
    pub(crate) chunk: u64,
    pub(crate) group: u64,
}

/// A file that gets no more blocks.
pub(crate) struct Closed {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) kills: u32,
    pub(crate) records: u32,
    pub(crate) end: End,
}

pub(crate) struct Books {
    pub(crate) manifest: Manifest,
    /// Of the manifest that was last tried.
    pub(crate) generation: u64,
    /// Of the validity file that was last tried.
    pub(crate) validity: u64,
    /// Ends of closed files.
    ends: BTreeMap<u64, End>,
    /// Records in each file that a compaction wrote.
    pub(crate) present: BTreeMap<u64, u64>,
    /// Files that no manifest names once one has been written: directory and number.
    unnamed: Vec<(u32, u64)>,
}

/// What is durable besides segment files.
pub(crate) struct Store {
    pub(crate) places: Places,
    pub(crate) log: u128,
    pub(crate) books: Mutex<Books>,
}

impl Store {
    pub(crate) fn new(
        places: Places,
        log: u128,
        manifest: Manifest,
        generation: u64,
        validity: u64,
    ) -> Store {
        Store {
            places,
            log,
            books: Mutex::new(Books {
                manifest,
                generation,
                validity,
                ends: BTreeMap::new(),
                present: BTreeMap::new(),
                unnamed: Vec::new(),
            }),
        }
    }

    fn seal(&self, kind: u16, object: u64, generation: u64, payload: &[u8]) -> Vec<u8> {
        let identity = Identity {
            set: self.log.to_le_bytes(),
            object,
            generation,
        };
        seal_object(kind, VERSION, &identity, payload)
    }

    /// Makes `manifest` the one that counts, then removes what only older ones named. Where that
    /// fails it is not known which one counts: nothing may be removed before another has succeeded.
    pub(crate) fn write(&self, books: &mut Books, manifest: Manifest) -> Result<()> {
        books.generation += 1;
        let bytes = self.seal(kind::VLOG_MANIFEST, 0, books.generation, &manifest.encode());
        self.places
            .replace(0, &self.places.plain("manifest"), &bytes)?;
        books.manifest = manifest;
        for (directory, number) in std::mem::take(&mut books.unnamed) {
            // An open removes what is left over.
            let _ = self.places.remove(directory, number);
        }
        Ok(())
    }

    /// Puts a new file of a lane in the manifest, and closes the one before it.
    pub(crate) fn roll(
        &self,
        closed: Option<Closed>,
        number: u64,
        entry: FileEntry,
        progress: &Mutex<Progress>,
    ) -> Result<()> {
        let mut books = self.books.lock();
        let mut manifest = books.manifest.clone();
        if let Some(closed) = &closed {
            close(&mut manifest, closed);
        }
        manifest.next_number = manifest.next_number.max(number + 1);
        manifest.files.insert(number, entry);
        let segment = SegmentEntry {
            file: number,
            records: 0,
        };
        manifest.segments.insert(number, segment);
        if let Some(closed) = &closed {
            books.ends.insert(closed.number, closed.end);
        }
        promote(&mut manifest, &books.ends, &progress.lock());
        self.write(&mut books, manifest)
    }

    /// Closes files at the orderly end of an opening.
    pub(crate) fn finish(&self, closed: &[Closed], progress: &Mutex<Progress>) -> Result<()> {
        let mut books = self.books.lock();
        let mut manifest = books.manifest.clone();
        for closed in closed {
            close(&mut manifest, closed);
            books.ends.insert(closed.number, closed.end);
        }
        promote(&mut manifest, &books.ends, &progress.lock());
        self.write(&mut books, manifest)
    }

    /// Files that count as a whole: in memory; the next manifest says so.
    pub(crate) fn promote(&self, progress: &Mutex<Progress>) {
        let mut books = self.books.lock();
        let books = &mut *books;
        promote(&mut books.manifest, &books.ends, &progress.lock());
    }

    /// Replaces the validity file and returns its generation. A number is not used for a second
    /// content, also when it is not known whether the first was written.
    pub(crate) fn write_validity(&self, payload: &[u8]) -> Result<u64> {
        let mut books = self.books.lock();
        books.validity += 1;
        let generation = books.validity;
        drop(books);
        let bytes = self.seal(kind::VLOG_VALIDITY, 0, generation, payload);
        let file = self.places.plain("validity");
        self.places.replace(0, &file, &bytes)?;
        Ok(generation)
    }

    /// Puts the file that a compaction wrote, if it wrote one, in place of those that it read.
    pub(crate) fn install(&self, installed: Installed<'_>) -> Result<()> {
        let mut books = self.books.lock();
        let mut manifest = books.manifest.clone();
        let mut old = Vec::new();
        for number in installed.read {
            if let Some(entry) = manifest.files.remove(number) {
                old.push((entry.directory, *number));
            }
        }
        manifest
            .segments
            .retain(|_, segment| !installed.read.contains(&segment.file));
        if let Some((number, entry)) = installed.written {
            manifest.next_number = manifest.next_number.max(number + 1);
            manifest.files.insert(number, entry);
            for (segment, records) in installed.segments {
                let (segment, records) = (*segment, *records);
                let file = number;
                manifest
                    .segments
                    .insert(segment, SegmentEntry { file, records });
            }
        }
        manifest.validity = installed.validity;
        let kept = std::mem::take(&mut books.unnamed);
        books.unnamed = old;
        books.unnamed.extend(&kept);
        let written = self.write(&mut books, manifest);
        if written.is_ok() {
            for number in installed.read {
                books.ends.remove(number);
                books.present.remove(number);
            }
            if let Some((number, _)) = installed.written {
                books.present.insert(number, installed.records);
            }
        } else {
            // One of the two manifests counts: what either names stays until it is known.
            books.unnamed = kept;
            if let Some((number, entry)) = installed.written {
                books.unnamed.push((entry.directory, number));
            }
        }
        written
    }
}

/// What a compaction did.
pub(crate) struct Installed<'a> {
    /// Files that it read, whose live records are in the new one.
    pub(crate) read: &'a [u64],
    /// The new file.
    pub(crate) written: Option<(u64, FileEntry)>,
    /// Records in it.
    pub(crate) records: u64,
    /// Segments with records in it, and ordinals given out in each.
    pub(crate) segments: &'a [(u64, u32)],
    /// Generation of the validity file of its barrier.
    pub(crate) validity: u64,
}

fn close(manifest: &mut Manifest, closed: &Closed) {
    if let Some(entry) = manifest.files.get_mut(&closed.number) {
        entry.bytes = closed.bytes;
        entry.kills = closed.kills;
        entry.state = State::Closed;
    }
    if let Some(segment) = manifest.segments.get_mut(&closed.number) {
        segment.records = closed.records;
    }
}

fn promote(manifest: &mut Manifest, ends: &BTreeMap<u64, End>, progress: &Progress) {
    manifest.group_floor = progress.group_floor();
    for (number, entry) in &mut manifest.files {
        if entry.state == State::Closed
            && let Some(end) = ends.get(number)
            && end.chunk <= progress.cut(end.lane)
            && end.group < progress.group_floor()
        {
            entry.state = State::Sealed;
        }
    }
}

impl VlogError {
    /// As an error that the caller may wait out, where it is one of room.
    pub(crate) fn into_full(self) -> VlogError {
        match self {
            VlogError::Io { doing, file, errno } if self_is_no_space(errno) => {
                VlogError::Full { doing, file, errno }
            }
            other => other,
        }
    }
}

fn self_is_no_space(errno: env::errno::Errno) -> bool {
    env::errno::fault(errno) == env::errno::Fault::NoSpace
}
