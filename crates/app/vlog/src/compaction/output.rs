//! The file that a compaction writes.

use crate::block::{BlockHeader, push_record};
use crate::error::{Result, VlogError};
use crate::lane::CHUNK_BYTES;
use crate::manifest::{FileEntry, State};
use crate::segment::{Origin, SECTOR_BYTES, SegmentHeader};
use crate::shared::Shared;
use env::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of one device write.
const WRITE_BYTES: usize = 1 << 20;

/// A block of the new file.
struct Piece {
    segment: u64,
    records: u32,
    body: Vec<u8>,
}

/// The file that a compaction writes.
pub(super) struct Output<'a> {
    shared: &'a Shared,
    directory: u32,
    file: Option<(u64, Arc<dyn Disk>)>,
    pieces: Vec<Piece>,
    pending: usize,
    at: u64,
    end: u64,
    /// Records in it.
    pub(super) records: u64,
    /// Of each segment.
    pub(super) copied: BTreeMap<u64, u64>,
    told: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(shared: &'a Shared, directory: u32) -> Output<'a> {
        Output {
            shared,
            directory,
            file: None,
            pieces: Vec::new(),
            pending: 0,
            at: SECTOR_BYTES,
            end: SECTOR_BYTES,
            records: 0,
            copied: BTreeMap::new(),
            told: 0,
        }
    }

    fn shown(&self, number: u64) -> String {
        let places = &self.shared.store.places;
        places.shown(self.directory, &places.segment(number))
    }

    pub(super) fn push(
        &mut self,
        segment: u64,
        stream: u32,
        ordinal: u32,
        payload: &[u8],
    ) -> Result<()> {
        let joins = self.pieces.last().is_some_and(|piece| {
            piece.segment == segment && piece.body.len() + payload.len() <= CHUNK_BYTES
        });
        if !joins {
            if self.pending >= WRITE_BYTES {
                self.write()?;
            }
            self.pieces.push(Piece {
                segment,
                records: 0,
                body: Vec::new(),
            });
        }
        if let Some(piece) = self.pieces.last_mut() {
            let before = piece.body.len();
            push_record(&mut piece.body, stream, ordinal, payload);
            piece.records += 1;
            self.pending += piece.body.len() - before;
        }
        self.records += 1;
        *self.copied.entry(segment).or_default() += 1;
        Ok(())
    }

    /// Bytes written since the last call.
    pub(super) fn taken(&mut self) -> u64 {
        self.at - std::mem::replace(&mut self.told, self.at).min(self.at)
    }

    fn write(&mut self) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let (number, disk) = match &self.file {
            Some((number, disk)) => (*number, disk.clone()),
            None => self.make()?,
        };
        let shared = self.shared;
        let key = shared.key(number);
        let mut bytes = Vec::with_capacity(self.pending + 4096);
        let count = self.pieces.len();
        for (index, piece) in self.pieces.drain(..).enumerate() {
            let header = BlockHeader {
                segment: piece.segment,
                records: piece.records,
                durable: 0,
                group: 0,
                parts: 0,
                last: index + 1 == count,
            };
            let place = self.at + bytes.len() as u64;
            key.seal(place, &header, &[], &piece.body, &mut bytes);
        }
        self.pending = 0;
        self.end = self.at + bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        disk.write_at(self.at, &bytes)
            .map_err(VlogError::io("writing", &self.shown(number)))?;
        disk.start_sync();
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn make(&mut self) -> Result<(u64, Arc<dyn Disk>)> {
        let shared = self.shared;
        let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
        let header = SegmentHeader {
            log: shared.store.log,
            number,
            opening: shared.opening,
            lane: 0,
            origin: Origin::Compacted,
        };
        let shown = self.shown(number);
        let name = shared.store.places.segment(number);
        let dir = shared.store.places.dir(self.directory)?;
        let disk = dir.make(&name).map_err(VlogError::io("creating", &shown))?;
        self.file = Some((number, disk.clone()));
        disk.write_at(0, &header.encode())
            .map_err(VlogError::io("creating", &shown))?;
        Ok((number, disk))
    }

    /// Makes all of it durable, with its name.
    pub(super) fn finish(&mut self) -> Result<Option<(u64, FileEntry)>> {
        self.write()?;
        let Some((number, disk)) = &self.file else {
            return Ok(None);
        };
        let shown = self.shown(*number);
        #[cfg(test)]
        let skip = self.shared.planted(crate::shared::Plant::InstalledUnsynced);
        #[cfg(not(test))]
        let skip = false;
        if !skip {
            disk.sync().map_err(VlogError::io("syncing", &shown))?;
        }
        let dir = self.shared.store.places.dir(self.directory)?;
        dir.sync().map_err(VlogError::io("syncing", &shown))?;
        let entry = FileEntry {
            bytes: self.end,
            opening: self.shared.opening,
            directory: self.directory,
            lane: 0,
            state: State::Compacted,
            kills: 0,
        };
        Ok(Some((*number, entry)))
    }

    /// Gives up: no manifest names the file.
    pub(super) fn remove(&self) {
        if let Some((number, _)) = &self.file {
            // Where this fails, the next open removes it.
            let _ = self.shared.store.places.remove(self.directory, *number);
        }
    }
}
