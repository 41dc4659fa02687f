//! Making checkpoints.

use super::Volume;
use super::state::State;
use crate::block::{Block, bytes, padded};
use crate::checkpoint::sheet::{SEGMENTS_PER_RECORD, SegmentRow, Sheet};
use crate::checkpoint::{COPIES, Header, copy_offset, sheet_offset, sheets_max};
use crate::error::{Result, VolumeError};
use crate::id::{Flight, ObjectId, Segment};
use crate::segments::Phase;
use env::Request;

/// Sheets that are filled in one go while the map is locked.
const SHEETS_AT_ONCE: usize = 4;

impl Volume {
    /// Writes the map down, so that the next start replays only what comes later, and segments of
    /// which nothing counts any more can be taken again.
    ///
    /// # Errors
    /// Of the disk: the volume stops; the checkpoint before is good.
    pub fn checkpoint(&self) -> Result<()> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        self.settle()?;
        let _upkeep = self.upkeep.lock();
        self.save()
    }

    /// As [`Volume::checkpoint`], for who has locked `upkeep`.
    pub(super) fn save(&self) -> Result<()> {
        let (number, replay_from, dead, rows) = {
            let state = self.state.lock();
            state.check()?;
            let replay_from = state.replay_from();
            let dead = state.segments.dead_below(replay_from);
            let rows = segment_rows(&state, replay_from, &dead);
            (state.checkpoint + 1, replay_from, dead, rows)
        };
        let mut writer = Writer {
            volume: self,
            number,
            sheets: 0,
            full: Vec::new(),
        };
        let saved = self.save_map(&mut writer, &rows);
        // What is in the sheets was written to the log before; the sync covers both.
        let complete_below = self.state.lock().applied_below;
        let saved =
            saved.and_then(|()| self.seal(number, replay_from, complete_below, writer.sheets));
        let mut state = self.state.lock();
        if let Err(error) = saved {
            let errno = match &error {
                VolumeError::Io { errno, .. } => *errno,
                _ => env::errno::Errno::IO,
            };
            state.stop("writing a checkpoint", errno);
            self.changed.notify_all();
            return Err(error);
        }
        state.checkpoint = number;
        // Those taken meanwhile are a few, and will be counted with the next.
        state.taken = 0;
        state.durable_below = state.durable_below.max(complete_below);
        state.counters.checkpoints += 1;
        for segment in dead {
            state.segments.release(segment);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn save_map(&self, writer: &mut Writer<'_>, rows: &[SegmentRow]) -> Result<()> {
        let mut sheet = Sheet::default();
        for (at, chunk) in rows.chunks(SEGMENTS_PER_RECORD).enumerate() {
            let first = Segment((at * SEGMENTS_PER_RECORD) as u32);
            if !sheet.push_segments(first, chunk) {
                writer.take(&mut sheet)?;
                sheet.push_segments(first, chunk);
            }
        }
        let mut position = Some((ObjectId(0), None));
        while let Some(from) = position {
            let mut filled = Vec::new();
            let mut state = self.state.lock();
            position = state.map.walk(from, &mut |object, size, leaf| {
                let pushed = |sheet: &mut Sheet| match leaf {
                    None => sheet.push_object(object, size),
                    Some((number, leaf)) => sheet.push_leaf(object, number, leaf),
                };
                if pushed(&mut sheet) {
                    return true;
                }
                if filled.len() == SHEETS_AT_ONCE {
                    return false;
                }
                filled.push(std::mem::take(&mut sheet));
                pushed(&mut sheet)
            });
            drop(state);
            for sheet in &mut filled {
                writer.take(sheet)?;
            }
        }
        if !sheet.is_empty() {
            writer.take(&mut sheet)?;
        }
        writer.flush()
    }

    /// Makes everything durable, then the header of the checkpoint.
    fn seal(
        &self,
        number: u64,
        replay_from: Flight,
        complete_below: Flight,
        sheets: u32,
    ) -> Result<()> {
        let header = Header {
            volume: self.id,
            number,
            replay_from,
            complete_below,
            sheets,
        };
        let block = padded(&header.encode());
        let write = || {
            COPIES.iter().try_for_each(|copy| {
                let offset = copy_offset(&self.geometry, number, *copy);
                self.disks[0]
                    .write_at(offset, bytes(&block))
                    .map_err(VolumeError::io("writing the header of a checkpoint"))
            })
        };
        #[cfg(test)]
        if self.planted(super::Plant::HasteCheckpoint) {
            write()?;
            return self.sync_all_disks();
        }
        self.sync_all_disks()?;
        write()?;
        self.state.lock().counters.checkpoint_blocks += 2;
        self.sync_all_disks()
    }
}

fn segment_rows(state: &State, replay_from: Flight, dead: &[Segment]) -> Vec<SegmentRow> {
    let row = |(_, of): (Segment, &crate::segments::State)| SegmentRow {
        segment_use: of.segment_use.0,
        replayed: of.phase == Phase::Open
            || of.phase == Phase::Closed && of.last_flight >= replay_from,
    };
    let mut rows: Vec<SegmentRow> = state.segments.all().map(row).collect();
    for segment in dead {
        if let Some(row) = rows.get_mut(segment.0 as usize) {
            row.segment_use = 0;
        }
    }
    rows
}

/// Writes sheets, each twice, several in one batch.
struct Writer<'v> {
    volume: &'v Volume,
    number: u64,
    sheets: u32,
    full: Vec<Vec<Block>>,
}

impl Writer<'_> {
    fn take(&mut self, sheet: &mut Sheet) -> Result<()> {
        let number = self.sheets + self.full.len() as u32;
        if number >= sheets_max(&self.volume.geometry) {
            // Admission keeps the map below this.
            return Err(VolumeError::NoSpace {
                what: "sheets of the checkpoint",
                needed: u64::from(number) + 1,
                free: sheets_max(&self.volume.geometry).into(),
            });
        }
        let bytes = sheet.seal(self.volume.id, self.number, number);
        self.full.push(padded(&bytes));
        match self.full.len() < SHEETS_AT_ONCE {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let geometry = &self.volume.geometry;
        let mut batch = Vec::new();
        for copy in COPIES {
            for (sheet, blocks) in (self.sheets..).zip(&self.full) {
                batch.push(Request::Write {
                    offset: sheet_offset(geometry, self.number, copy, sheet),
                    data: bytes(blocks),
                });
            }
        }
        let answers = self.volume.disks[0].submit(&mut batch);
        answers
            .into_iter()
            .collect::<env::Result<()>>()
            .map_err(VolumeError::io("writing a checkpoint"))?;
        let blocks: usize = self.full.iter().map(Vec::len).sum();
        self.volume.state.lock().counters.checkpoint_blocks += 2 * blocks as u64;
        self.sheets += self.full.len() as u32;
        self.full.clear();
        Ok(())
    }
}
