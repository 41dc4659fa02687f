//! Compaction: the live records of some files into a new one, beside the work.

use crate::error::{Result, VlogError};
use crate::live::LiveSet;
use crate::manifest::{FileEntry, State};
use crate::place::wrong;
use crate::scan::{Found, Reader};
use crate::shared::{Counters, Shared};
use crate::store::Installed;
use crate::validity;
use env::Open;
use env::real::RealClock;
use output::Output;
use pace::Pace;
use std::collections::{BTreeMap, BTreeSet};

mod output;
mod pace;

/// Most files that one compaction reads.
const FILES_MAX: usize = 64;

/// Files of less than 1 / this of a segment are put together when there are as many of them.
const SMALL: u64 = 8;

/// What a compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// Files that it read and removed.
    pub files: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    /// Bytes of the new file; 0 where no record was live.
    pub bytes_written: u64,
    /// Records copied.
    pub records: u64,
}

/// Live sets at a barrier.
struct Copies {
    /// The payload of the validity file.
    payload: Vec<u8>,
    /// Of the segments asked for.
    sets: BTreeMap<u64, LiveSet>,
}

impl Shared {
    /// Compacts the files that are worth it most, if any has `dead_percent_min` percent dead.
    pub(crate) fn compact(&self, dead_percent_min: u32) -> Result<Option<Compacted>> {
        self.check()?;
        let _one = self.compacting.lock();
        self.store.promote(&self.progress);
        let victims = self.pick(dead_percent_min);
        if victims.is_empty() {
            return Ok(None);
        }
        let compacted = self.compact_files(&victims);
        compacted.map(Some).map_err(|error| match error {
            // What is damaged stays as it is, and the log goes on.
            error @ (VlogError::Corrupt { .. } | VlogError::Lost { .. }) => error,
            error => self.failed(error),
        })
    }

    /// The files to compact, by number.
    fn pick(&self, dead_percent_min: u32) -> Vec<(u64, FileEntry)> {
        let books = self.store.books.lock();
        let files: Vec<_> = books
            .manifest
            .files
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Sealed | State::Compacted))
            .map(|(number, entry)| (*number, *entry))
            .collect();
        let by_file = books.manifest.by_file();
        let segments = books.manifest.segments.clone();
        let present = books.present.clone();
        drop(books);
        let all = self.table.all();
        let live_in = |segments: &BTreeSet<u64>| -> u64 {
            let found = segments.iter().filter_map(|number| {
                let at = all.binary_search_by_key(number, |segment| segment.number);
                at.ok().and_then(|at| all.get(at))
            });
            found
                .map(|segment| u64::from(segment.live.lock().live()))
                .sum()
        };
        let none = BTreeSet::new();
        // Percent dead, bytes that would be copied, file.
        let mut rated: Vec<(u64, u64, (u64, FileEntry))> = files
            .into_iter()
            .map(|(number, entry)| {
                let of_file = by_file.get(&number).unwrap_or(&none);
                let records = match entry.state {
                    State::Compacted => present.get(&number).copied().unwrap_or(0),
                    _ => of_file
                        .iter()
                        .filter_map(|number| segments.get(number))
                        .map(|segment| u64::from(segment.records))
                        .sum(),
                };
                let entries = (records + u64::from(entry.kills)).max(1);
                let live = live_in(of_file).min(entries);
                let dead = 100 - live * 100 / entries;
                (dead, entry.bytes / entries * live, (number, entry))
            })
            .collect();
        rated.sort_by_key(|(dead, ..)| std::cmp::Reverse(*dead));
        let mut victims = Vec::new();
        let mut copied = 0;
        for (dead, bytes, file) in &rated {
            let fits = copied == 0 || copied + bytes <= self.options.segment_bytes;
            if *dead >= u64::from(dead_percent_min) && fits && victims.len() < FILES_MAX {
                copied += bytes;
                victims.push(*file);
            }
        }
        if victims.is_empty() {
            let small = self.options.segment_bytes / SMALL;
            let files = rated.iter().filter(|(.., (_, entry))| entry.bytes < small);
            victims = files.map(|(.., file)| *file).take(SMALL as usize).collect();
            if victims.len() < SMALL as usize {
                victims.clear();
            }
        }
        victims.sort_by_key(|(number, _)| *number);
        victims
    }

    /// The payload of a validity file as of now, and copies of the sets of some segments.
    fn copy(&self, wanted: &BTreeSet<u64>) -> Copies {
        // Before the sets are copied: a file that is finished has no kill whose bit is not set.
        let books = self.store.books.lock();
        let finished: BTreeSet<u64> = books
            .manifest
            .segments
            .iter()
            .filter(|(_, segment)| {
                let file = books.manifest.files.get(&segment.file);
                file.is_some_and(|file| file.state != State::Open)
            })
            .map(|(number, _)| *number)
            .collect();
        drop(books);
        let mut copies = Copies {
            payload: Vec::new(),
            sets: BTreeMap::new(),
        };
        for segment in self.table.all() {
            let live = segment.live.lock();
            let number = segment.number;
            let is_finished = finished.contains(&number);
            validity::push(&mut copies.payload, number, &live, is_finished);
            if wanted.contains(&number) {
                copies.sets.insert(number, live.clone());
            }
        }
        copies
    }

    /// Copies the live sets, and makes durable whatever they rest on and then themselves.
    fn barrier(&self, wanted: &BTreeSet<u64>) -> Result<(Copies, u64)> {
        let copies = self.copy(wanted);
        #[cfg(test)]
        if self.planted(crate::shared::Plant::KillsDropped) {
            self.settle()?;
            let validity = self.store.books.lock().manifest.validity;
            return Ok((copies, validity));
        }
        #[cfg(test)]
        if self.planted(crate::shared::Plant::BitsBeforeKillers) {
            let validity = self.store.write_validity(&copies.payload)?;
            return Ok((copies, validity));
        }
        self.settle()?;
        let validity = self.store.write_validity(&copies.payload)?;
        Ok((copies, validity))
    }

    /// Has what was appended before this call survive any crash from now on.
    fn settle(&self) -> Result<()> {
        let lanes = self.lanes.iter();
        let ends: Vec<u64> = lanes.map(|lane| lane.buffer.lock().last_chunk).collect();
        self.flush_and_sync_all()?;
        for (lane, end) in ends.into_iter().enumerate() {
            self.wait_durable(lane, end)?;
        }
        Ok(())
    }

    /// Makes a validity file as of now, without a compaction.
    pub(crate) fn write_sets(&self) -> Result<()> {
        self.barrier(&BTreeSet::new()).map(|_| ())
    }

    fn compact_files(&self, victims: &[(u64, FileEntry)]) -> Result<Compacted> {
        let numbers: Vec<u64> = victims.iter().map(|(number, _)| *number).collect();
        let by_file = self.store.books.lock().manifest.by_file();
        let segments: BTreeSet<u64> = numbers
            .iter()
            .filter_map(|number| by_file.get(number))
            .flatten()
            .copied()
            .collect();
        let (copies, validity) = self.barrier(&segments)?;
        let directory = victims.first().map_or(0, |(_, entry)| entry.directory);
        let mut pace = Pace::new(&RealClock, self.options.compaction.bytes_per_s_max);
        let mut output = Output::new(self, directory);
        let copied = self.copy_files(victims, &copies.sets, &mut output, &mut pace);
        let written = copied.and_then(|bytes_read| Ok((bytes_read, output.finish()?)));
        let (bytes_read, written) = match written {
            Ok(written) => written,
            Err(error) => {
                output.remove();
                return Err(error);
            }
        };
        #[cfg(test)]
        if self.planted(crate::shared::Plant::RemovedFirst) {
            for (number, entry) in victims {
                self.store.places.remove(entry.directory, *number)?;
            }
        }
        let live: Vec<(u64, u32)> = copies
            .sets
            .iter()
            .filter(|(_, set)| set.live() > 0)
            .map(|(number, set)| (*number, set.records()))
            .collect();
        self.store.install(Installed {
            read: &numbers,
            written,
            records: output.records,
            segments: &live,
            validity,
        })?;
        let gone = copies.sets.iter().filter(|(_, set)| set.live() == 0);
        let gone: BTreeSet<u64> = gone.map(|(number, _)| *number).collect();
        for segment in self.table.all() {
            if gone.contains(&segment.number) {
                self.table.remove(&segment);
            }
        }
        let compacted = Compacted {
            files: numbers.len() as u64,
            bytes_read,
            bytes_written: written.map_or(0, |(_, entry)| entry.bytes),
            records: output.records,
        };
        let counters = &self.counters;
        Counters::add(&counters.compactions, 1);
        Counters::add(&counters.compacted_read_bytes, compacted.bytes_read);
        Counters::add(&counters.compacted_written_bytes, compacted.bytes_written);
        Ok(compacted)
    }

    /// Copies live records; the bytes of the files read.
    fn copy_files(
        &self,
        victims: &[(u64, FileEntry)],
        sets: &BTreeMap<u64, LiveSet>,
        output: &mut Output<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<u64> {
        let mut bytes_read = 0;
        for (number, entry) in victims {
            let places = &self.store.places;
            let file = places.shown(entry.directory, &places.segment(*number));
            let disk = places.open(entry.directory, *number, Open::Read)?;
            let mut key = self.key(*number);
            key.opening = entry.opening;
            let mut reader = Reader::new(disk.as_ref(), key, entry.bytes);
            loop {
                let place = reader.place();
                match reader.next(true).map_err(VlogError::io("reading", &file))? {
                    Found::End => break,
                    Found::Bad(why) => return Err(VlogError::corrupt(&file)(why)),
                    Found::Block(block) => {
                        let segment = block.header.segment;
                        let Some(set) = sets.get(&segment) else {
                            continue;
                        };
                        for record in block.records.iter().filter(|r| set.contains(r.ordinal)) {
                            output.push(segment, record.stream, record.ordinal, record.payload)?;
                        }
                        pace.took(block.end - place + output.taken(), &self.ending);
                    }
                }
            }
            bytes_read += entry.bytes;
        }
        for (segment, set) in sets {
            let found = output.copied.get(segment).copied().unwrap_or(0);
            if found != u64::from(set.live()) {
                let why = wrong("live records of a segment", 0, set.live().into(), found);
                let first = victims.first().map_or(0, |(_, entry)| entry.directory);
                let file = self.store.places.segment(*segment);
                return Err(VlogError::corrupt(&self.store.places.shown(first, &file))(
                    why,
                ));
            }
        }
        Ok(bytes_read)
    }

    /// Has the thread that compacts look whether there is something to do.
    pub(crate) fn hint_compaction(&self) {
        let (hinted, wake) = &self.compact;
        *hinted.lock() = true;
        wake.notify_one();
    }
}
