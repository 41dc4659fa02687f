//! The content of one simulated file: what programs see, and what a crash may leave of it.

use super::SECTOR_BYTES;
use crate::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a crash treats what was not synced.
pub(super) enum Fate<'a> {
    /// All of it is lost.
    Lost,
    /// All of it had reached the medium.
    Kept,
    /// As chance has it, each write by itself, some torn.
    Mixed(&'a mut Rng),
}

/// A write and what a sector held after it.
type Version = (u64, Arc<Vec<u8>>);

#[derive(Clone, Default)]
pub(super) struct File {
    /// As programs see it.
    pub(super) current: Arc<Vec<u8>>,
    /// What is on the medium for certain.
    durable: Arc<Vec<u8>>,
    /// For each sector that was written since: its versions, oldest first. The medium holds the durable one or any of these.
    dirty: BTreeMap<usize, Vec<Version>>,
    /// Lengths since the last sync.
    lengths: Vec<usize>,
}

impl File {
    /// A file whose content is on the medium.
    pub(super) fn settled(content: Vec<u8>) -> File {
        let content = Arc::new(content);
        File {
            current: content.clone(),
            durable: content,
            ..File::default()
        }
    }

    pub(super) fn set_length(&mut self, length: usize) {
        Arc::make_mut(&mut self.current).resize(length, 0);
        self.lengths.push(length);
    }

    /// Writes `data`, extending the file where it ends before; `write` tells writes apart.
    pub(super) fn write(&mut self, write: u64, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if end > self.current.len() {
            self.set_length(end);
        }
        Arc::make_mut(&mut self.current)[offset..end].copy_from_slice(data);
        for sector in sectors(offset, data.len()) {
            let content = Arc::new(part(&self.current, sector).to_vec());
            self.dirty.entry(sector).or_default().push((write, content));
        }
    }

    /// A durable write of this range has returned.
    pub(super) fn flush(&mut self, offset: usize, length: usize) {
        let size = self.current.len();
        Arc::make_mut(&mut self.durable).resize(size, 0);
        self.lengths.clear();
        for sector in sectors(offset, length) {
            self.dirty.remove(&sector);
            put(&mut self.durable, sector, part(&self.current, sector));
        }
    }

    pub(super) fn sync(&mut self) {
        let size = self.current.len();
        Arc::make_mut(&mut self.durable).resize(size, 0);
        for sector in std::mem::take(&mut self.dirty).into_keys() {
            put(&mut self.durable, sector, part(&self.current, sector));
        }
        self.lengths.clear();
    }

    /// A sync that failed: the kernel marks the pages clean though only some reached the medium
    /// (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020), so a later
    /// sync succeeds and changes nothing.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        self.durable = self.after_crash(&mut Fate::Mixed(rng));
        self.dirty.clear();
        self.lengths.clear();
    }

    /// Flips a bit on the medium and in the cache.
    pub(super) fn rot(&mut self, offset: usize, bit: u8) {
        for content in [&mut self.current, &mut self.durable] {
            if let Some(byte) = Arc::make_mut(content).get_mut(offset) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Whether a crash would leave exactly what programs see.
    pub(super) fn is_settled(&self) -> bool {
        self.dirty.is_empty() && self.lengths.is_empty()
    }

    /// The content after a crash.
    pub(super) fn after_crash(&self, fate: &mut Fate<'_>) -> Arc<Vec<u8>> {
        let mut content = self.durable.clone();
        let length = match fate {
            Fate::Lost => None,
            Fate::Kept => self.lengths.last(),
            Fate::Mixed(rng) => self.lengths.get(rng.index(self.lengths.len() + 1)),
        };
        if let Some(length) = length {
            Arc::make_mut(&mut content).resize(*length, 0);
        }
        let mut outcomes = BTreeMap::new();
        for (sector, versions) in &self.dirty {
            let kept = match fate {
                Fate::Lost => None,
                Fate::Kept => versions.last(),
                Fate::Mixed(rng) => versions
                    .iter()
                    .rfind(|(write, _)| outcome(&mut outcomes, *write, rng)),
            };
            if let Some((_, version)) = kept {
                put(&mut content, *sector, version);
            }
        }
        content
    }
}

/// Whether a sector of `write` reached the medium: a third of the writes are whole, a third lost,
/// a third torn, so that each of their sectors is decided by itself.
fn outcome(outcomes: &mut BTreeMap<u64, u64>, write: u64, rng: &mut Rng) -> bool {
    match outcomes.entry(write).or_insert_with(|| rng.below(3)) {
        0 => false,
        1 => true,
        _ => rng.chance(1, 2),
    }
}

fn sectors(offset: usize, length: usize) -> std::ops::Range<usize> {
    offset / SECTOR_BYTES..(offset + length).div_ceil(SECTOR_BYTES)
}

/// The bytes of a sector; fewer at the end of the file.
fn part(content: &[u8], sector: usize) -> &[u8] {
    let rest = content.get(sector * SECTOR_BYTES..).unwrap_or_default();
    rest.get(..SECTOR_BYTES).unwrap_or(rest)
}

/// Puts a sector in place, as far as the file goes.
fn put(content: &mut Arc<Vec<u8>>, sector: usize, bytes: &[u8]) {
    let content = Arc::make_mut(content);
    let rest = content.get_mut(sector * SECTOR_BYTES..).unwrap_or_default();
    rest.iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
}
