//! Writing and syncing a lane.

use crate::block::BlockKey;
use crate::error::{Result, VlogError};
use crate::lane::{Chunk, Writer, Writing};
use crate::manifest::{FileEntry, State};
use crate::segment::{Origin, SECTOR_BYTES, SegmentHeader};
use crate::shared::{Counters, Shared};
use crate::store::{Closed, End};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of one device write, more or less.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of memory that are kept for the next write at most.
const KEPT_BYTES: usize = 2 * WRITE_BYTES;

impl Shared {
    /// Writes what a lane has in memory to its file; nothing of that is durable yet.
    pub(crate) fn flush(&self, lane: usize) -> Result<()> {
        let Some(state) = self.lanes.get(lane) else {
            return Ok(());
        };
        self.check()?;
        let mut writer = state.writer.lock();
        let mut buffer = state.buffer.lock();
        let mut chunks = std::mem::take(&mut buffer.chunks);
        let bytes = std::mem::take(&mut buffer.bytes);
        drop(buffer);
        if chunks.is_empty() {
            return Ok(());
        }
        state.room.notify_all();
        let mut left = bytes;
        let written = self.write_chunks(lane, &mut writer, &mut chunks, &mut left);
        // It locks the lanes.
        let written = written.map_err(|error| self.failed(error));
        let mut buffer = state.buffer.lock();
        writer.give_back(&mut buffer);
        match written {
            Ok(()) => {
                buffer.full = None;
                Ok(())
            }
            Err(error) => {
                // Back to the front: they are tried again once there is room.
                buffer.bytes += left;
                while let Some(chunk) = chunks.pop_back() {
                    buffer.chunks.push_front(chunk);
                }
                if let VlogError::Full { .. } = error {
                    buffer.full = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Makes durable what was written to a lane.
    pub(crate) fn sync(&self, lane: usize) -> Result<()> {
        let Some(state) = self.lanes.get(lane) else {
            return Ok(());
        };
        self.check()?;
        let mut writer = state.writer.lock();
        self.sync_file(lane, &mut writer)
            .map_err(|error| self.stop(error))
    }

    fn sync_file(&self, lane: usize, writer: &mut Writer) -> Result<()> {
        if writer.synced == writer.written {
            return Ok(());
        }
        let Some(file) = &mut writer.file else {
            return Ok(());
        };
        file.disk
            .sync()
            .map_err(VlogError::io("syncing", &file.shown))?;
        file.durable = file.end;
        writer.synced = writer.written;
        Counters::add(&self.counters.syncs, 1);
        let mut progress = self.progress.lock();
        progress.synced(lane, writer.synced);
        drop(progress);
        self.advanced.notify_all();
        if let Some(wake) = &self.options.wake {
            // A group can move every lane on.
            (0..self.options.lanes).for_each(|lane| wake(lane));
        }
        Ok(())
    }

    /// After a failed sync nothing is known, also where it failed for want of room.
    fn stop(&self, error: VlogError) -> VlogError {
        if let VlogError::Io { doing, file, errno } = &error
            && error.is_no_space()
        {
            let (doing, file) = (*doing, file.clone());
            let medium = env::errno::Errno::IO;
            self.failed(VlogError::Io {
                doing,
                file: file.clone(),
                errno: medium,
            });
            return VlogError::Stopped {
                doing,
                file,
                errno: *errno,
            };
        }
        self.failed(error)
    }

    /// Writes chunks from the front, and takes out those that are written.
    fn write_chunks(
        &self,
        lane: usize,
        writer: &mut Writer,
        chunks: &mut VecDeque<Chunk>,
        left: &mut usize,
    ) -> Result<()> {
        while let Some(first) = chunks.front() {
            let number = first.segment.number;
            if writer.file.as_ref().map(|file| file.segment.number) != Some(number) {
                let segment = first.segment.clone();
                self.roll(lane, writer, &segment)?;
            }
            let Some(file) = &mut writer.file else {
                return Ok(());
            };
            // As many as make one write.
            let mut count = 0;
            let mut size = 0;
            for chunk in chunks.iter() {
                let other = chunk.segment.number != number;
                if other || (count > 0 && size + chunk.bytes() > WRITE_BYTES) {
                    break;
                }
                count += 1;
                size += chunk.bytes();
            }
            let bytes = &mut writer.bytes;
            bytes.clear();
            bytes.reserve(size.next_multiple_of(SECTOR_BYTES as usize));
            let key = self.key(number);
            for (index, chunk) in chunks.iter().take(count).enumerate() {
                let place = file.at + bytes.len() as u64;
                let header = chunk.header(file.durable, index + 1 == count);
                key.seal(place, &header, &chunk.kills, &chunk.body, bytes);
            }
            let end = file.at + bytes.len() as u64;
            bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES as usize), 0);
            file.disk
                .write_at(file.at, bytes)
                .map_err(VlogError::io("writing", &file.shown))?;
            Counters::add(&self.counters.written_bytes, bytes.len() as u64);
            file.at += bytes.len() as u64;
            file.end = end;
            for chunk in chunks.drain(..count) {
                *left = left.saturating_sub(chunk.bytes());
                file.kills += chunk.kills.len() as u64;
                file.last_group = file.last_group.max(chunk.group);
                writer.written = chunk.id;
                crate::lane::keep(&mut writer.spare, chunk.body);
            }
            if writer.bytes.capacity() > KEPT_BYTES {
                writer.bytes = Vec::new();
            }
        }
        Ok(())
    }

    pub(crate) fn key(&self, file: u64) -> BlockKey {
        BlockKey {
            log: self.store.log,
            file,
            opening: self.opening,
        }
    }

    /// Goes on in the file of another segment. The one before is made durable first: a lane keeps a
    /// prefix, so nothing may be in the new one that the old one could lose.
    fn roll(
        &self,
        lane: usize,
        writer: &mut Writer,
        segment: &Arc<crate::table::Segment>,
    ) -> Result<()> {
        #[cfg(test)]
        let skip = self.planted(crate::shared::Plant::RolledUnsynced);
        #[cfg(not(test))]
        let skip = false;
        if !skip {
            self.sync_file(lane, writer)
                .map_err(|error| self.stop(error))?;
        }
        let next = match writer.next.take() {
            Some(next) if next.segment.number == segment.number => next,
            _ => self.make(lane, segment.clone())?,
        };
        let entry = FileEntry {
            bytes: 0,
            opening: self.opening,
            directory: next.directory,
            lane: lane as u32,
            state: State::Open,
            kills: 0,
        };
        let closed = writer
            .file
            .as_ref()
            .map(|file| self.closed(lane, file, writer.written));
        let rolled = self
            .store
            .roll(closed, segment.number, entry, &self.progress);
        if let Err(error) = rolled {
            // The manifest on disk may name it already.
            writer.next = Some(next);
            return Err(error);
        }
        writer.file = Some(next);
        self.hint_compaction();
        Ok(())
    }

    fn closed(&self, lane: usize, file: &Writing, written: u64) -> Closed {
        Closed {
            number: file.segment.number,
            bytes: file.end,
            kills: u32::try_from(file.kills).unwrap_or(u32::MAX),
            records: file.segment.live.lock().records(),
            end: End {
                lane,
                chunk: written,
                group: file.last_group,
            },
        }
    }

    /// A new file, durable with its name, that no manifest names yet.
    fn make(&self, lane: usize, segment: Arc<crate::table::Segment>) -> Result<Writing> {
        let places = &self.store.places;
        let directory = lane as u32 % places.count();
        let header = SegmentHeader {
            log: self.store.log,
            number: segment.number,
            opening: self.opening,
            lane: lane as u32,
            origin: Origin::Appended,
        };
        let name = places.segment(segment.number);
        let shown = places.shown(directory, &name);
        let dir = places.dir(directory)?;
        let disk = dir.make(&name).map_err(VlogError::io("creating", &shown))?;
        let written = disk
            .write_at(0, &header.encode())
            .and_then(|()| disk.sync())
            .and_then(|()| dir.sync());
        if let Err(errno) = written {
            // No manifest names it; where this fails, the next open removes it.
            let _ = places.remove(directory, segment.number);
            return Err(VlogError::io("creating", &shown)(errno));
        }
        Ok(Writing {
            disk,
            segment,
            shown,
            directory,
            at: SECTOR_BYTES,
            end: SECTOR_BYTES,
            durable: SECTOR_BYTES,
            kills: 0,
            last_group: 0,
        })
    }

    /// Waits until a crash would leave what a receipt is for.
    pub(crate) fn wait_durable(&self, lane: usize, chunk: u64) -> Result<()> {
        let newest = self
            .lanes
            .get(lane)
            .map(|lane| lane.buffer.lock().last_chunk);
        if newest.is_none_or(|newest| chunk > newest) {
            return Err(VlogError::Option {
                what: "the number of a receipt",
                found: chunk,
                min: 0,
                max: newest.unwrap_or(0),
            });
        }
        let mut progress = self.progress.lock();
        while !self.is_durable_in(&progress, lane, chunk) {
            drop(progress);
            self.check()?;
            if self.options.threads {
                self.ask_for_sync();
                progress = self.progress.lock();
                if !self.is_durable_in(&progress, lane, chunk) && self.check().is_ok() {
                    self.advanced.wait(&mut progress);
                }
            } else {
                self.flush_and_sync_all()?;
                progress = self.progress.lock();
            }
        }
        Ok(())
    }

    pub(crate) fn is_durable_in(
        &self,
        progress: &crate::cut::Progress,
        lane: usize,
        chunk: u64,
    ) -> bool {
        #[cfg(test)]
        if self.planted(crate::shared::Plant::DurableWithoutGroups) {
            return chunk <= progress.synced_up_to(lane);
        }
        chunk <= progress.cut(lane)
    }

    /// Writes and syncs every lane.
    pub(crate) fn flush_and_sync_all(&self) -> Result<()> {
        for lane in 0..self.lanes.len() {
            self.flush(lane)?;
            self.sync(lane)?;
        }
        Ok(())
    }

    /// Ends the files of all lanes in good order.
    pub(crate) fn finish(&self) -> Result<()> {
        self.flush_and_sync_all()?;
        let mut closed = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            let mut writer = lane.writer.lock();
            let written = writer.written;
            if let Some(file) = writer.file.take() {
                closed.push(self.closed(index, &file, written));
            }
        }
        let finished = self.store.finish(&closed, &self.progress);
        finished.map_err(|error| self.failed(error))?;
        // Not demanded by the manifest: it spares the next open the kills.
        self.write_sets().map_err(|error| self.failed(error))?;
        Ok(())
    }
}
