//! A file's bytes with their versions.

use super::{Certain, Difference, History, Moment};
use std::collections::BTreeMap;

/// Unit in which media write whole and versions are kept, bytes.
pub const SECTOR_BYTES: u64 = 512;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Unit in which writeback lets a size grow, bytes.
const PAGE: u64 = 4096;

type Sector = Box<[u8]>;

/// A file's bytes now, and what a crash may leave of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileHistory {
    now: Vec<u8>,
    sizes: History<u64>,
    /// Versions of the sectors that have changed since the last sync.
    sectors: BTreeMap<u64, History<Sector>>,
}

impl Default for FileHistory {
    fn default() -> FileHistory {
        FileHistory {
            now: Vec::new(),
            sizes: History::new(0),
            sectors: BTreeMap::new(),
        }
    }
}

impl FileHistory {
    /// The bytes as of the last operation.
    pub fn now(&self) -> &[u8] {
        &self.now
    }

    fn sector(&self, sector: u64) -> Sector {
        let start = ((sector * SECTOR_BYTES) as usize).min(self.now.len());
        let end = (start + SECTOR).min(self.now.len());
        let mut bytes = vec![0; SECTOR];
        bytes[..end - start].copy_from_slice(&self.now[start..end]);
        bytes.into()
    }

    /// Runs a change and records the sectors from byte `start` to byte `end` before and after.
    fn change(&mut self, at: Moment, start: u64, end: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let range = start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        for sector in range.clone() {
            let before = self.sector(sector);
            self.sectors
                .entry(sector)
                .or_insert_with(|| History::new(before));
        }
        change(&mut self.now);
        for sector in range {
            let after = self.sector(sector);
            if let Some(history) = self.sectors.get_mut(&sector) {
                history.push(at, after);
            }
        }
        self.sizes.push(at, self.now.len() as u64);
    }

    /// Writes `data` at byte `offset`; a gap before it becomes zeros.
    pub fn write(&mut self, at: Moment, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let (start, end) = (offset as usize, offset as usize + data.len());
        self.change(at, offset, end as u64, |now| {
            now.resize(now.len().max(end), 0);
            now[start..end].copy_from_slice(data);
        });
    }

    /// Sets the length in bytes.
    pub fn truncate(&mut self, at: Moment, length: u64) {
        let size = self.now.len() as u64;
        // Growth changes no bytes, but the tail of the last sector may hold what an earlier cut
        // left there on the medium: versions of it exist already.
        let end = if length < size { size } else { length };
        let start = length.min(end);
        self.change(at, start, end, |now| now.resize(length as usize, 0));
    }

    /// Zeros a range; the length stays.
    pub fn zero(&mut self, at: Moment, offset: u64, length: u64) {
        let size = self.now.len() as u64;
        let (start, end) = (offset.min(size), offset.saturating_add(length).min(size));
        self.change(at, start, end, |now| {
            now[start as usize..end as usize].fill(0)
        });
    }

    /// Everything up to now is durable.
    pub fn sync(&mut self) {
        self.sectors.clear();
        self.sizes.settle();
    }

    /// Compares with what was found.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn check(&self, found: &[u8], certain: Certain) -> Result<(), Difference> {
        let size = found.len() as u64;
        let sizes: Vec<u64> = self.sizes.allowed(certain).copied().collect();
        let least = sizes.iter().min().copied().unwrap_or(0);
        let most = sizes.iter().max().copied().unwrap_or(0);
        // Writeback may have got through some pages of a write that made the file longer.
        let between = size.is_multiple_of(PAGE) && (least..=most).contains(&size);
        if !sizes.contains(&size) && !between {
            return Err(Difference::Size {
                found: size,
                allowed: sizes,
            });
        }
        for (index, bytes) in found.chunks(SECTOR).enumerate() {
            let sector = index as u64;
            let start = index * SECTOR;
            let versions = self.sectors.get(&sector);
            let matches = match versions {
                None => {
                    let end = (start + bytes.len()).min(self.now.len());
                    let known = &self.now[start.min(end)..end];
                    let (head, tail) = bytes.split_at(known.len());
                    head == known && tail.iter().all(|byte| *byte == 0)
                }
                Some(versions) => versions
                    .allowed(certain)
                    .any(|version| version.starts_with(bytes)),
            };
            if !matches {
                let last = self.sector(sector);
                let differs = bytes.iter().zip(last.iter()).position(|(a, b)| a != b);
                let at = differs.unwrap_or(0);
                return Err(Difference::Bytes {
                    offset: (start + at) as u64,
                    found: bytes[at..].iter().take(16).copied().collect(),
                    expected: last[at..].iter().take(16).copied().collect(),
                    versions: versions.map_or(1, |v| v.allowed(certain).count()),
                });
            }
        }
        Ok(())
    }

    /// Takes what was found for the present.
    pub fn adopt(&mut self, at: Moment, found: &[u8]) {
        if self.now == found {
            return;
        }
        let end = self.now.len().max(found.len()) as u64;
        let changed: Vec<u64> = (0..end.div_ceil(SECTOR_BYTES))
            .filter(|sector| {
                let start = (sector * SECTOR_BYTES) as usize;
                let part = |bytes: &[u8]| {
                    let from = start.min(bytes.len());
                    let to = (start + SECTOR).min(bytes.len());
                    let mut whole = bytes[from..to].to_vec();
                    whole.resize(SECTOR, 0);
                    whole
                };
                part(&self.now) != part(found)
            })
            .collect();
        for sector in &changed {
            let before = self.sector(*sector);
            self.sectors
                .entry(*sector)
                .or_insert_with(|| History::new(before));
        }
        self.now = found.to_vec();
        for sector in changed {
            let after = self.sector(sector);
            if let Some(history) = self.sectors.get_mut(&sector) {
                history.push(at, after);
            }
        }
        self.sizes.push(at, found.len() as u64);
    }
}
