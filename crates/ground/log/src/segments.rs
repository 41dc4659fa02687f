//! The segments of a log on its directory: writing, rolling, recycling.

use crate::batch::Batch;
use crate::name::{State, file_name};
use crate::segment::length_is_legal;
use crate::{
    BLOCK_BYTES, Held, LogError, LogId, Options, RECORD_BYTES_MAX, Result, SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN, SegmentHeader, Sequence,
};
use codec::{FRAME_HEADER_BYTES, FrameKey};
use env::errno::{Errno, ErrorKind};
use env::{Dir, Disk, Open};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most spare segments kept; more are removed.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// A segment with records, or about to get them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) number: u64,
    pub(crate) first: Sequence,
    pub(crate) bytes: u64,
}

/// The segment that takes writes.
struct Current {
    disk: Arc<dyn Disk>,
    file: String,
    key: FrameKey,
    at: u64,
    bytes: u64,
}

/// A failure while writing, and whether the log may go on after it.
pub(crate) struct WriteFailure {
    pub(crate) error: LogError,
    /// Nothing was written and nothing is in doubt: the same records may be tried again.
    pub(crate) harmless: bool,
}

impl From<LogError> for WriteFailure {
    fn from(error: LogError) -> WriteFailure {
        WriteFailure {
            error,
            harmless: false,
        }
    }
}

pub(crate) struct Segments {
    dir: Arc<dyn Dir>,
    name: String,
    id: LogId,
    options: Options,
    /// Oldest first; never empty once the log exists.
    live: VecDeque<Live>,
    /// Numbers of the spare files, all of `options.segment_bytes` bytes.
    spare: Vec<u64>,
    /// The largest number that any file has or had.
    top: u64,
    /// None until the first write after an open: what a crash may have left behind the last
    /// record of the newest segment is never mixed with new frames.
    current: Option<Current>,
}

impl Segments {
    pub(crate) fn new(
        dir: Arc<dyn Dir>,
        name: &str,
        id: LogId,
        options: Options,
    ) -> Result<Segments> {
        if !length_is_legal(options.segment_bytes) {
            return Err(LogError::SegmentBytes {
                found: options.segment_bytes,
                min: SEGMENT_BYTES_MIN,
                max: SEGMENT_BYTES_MAX,
            });
        }
        Ok(Segments {
            dir,
            name: name.to_owned(),
            id,
            options,
            live: VecDeque::new(),
            spare: Vec::new(),
            top: 0,
            current: None,
        })
    }

    /// Takes note of a file that is there, in rising order of numbers.
    pub(crate) fn add_live(&mut self, live: Live) {
        self.top = self.top.max(live.number);
        self.live.push_back(live);
    }

    /// Takes note of a spare file; removes it where it is of no use.
    pub(crate) fn add_spare(&mut self, number: u64) -> Result<()> {
        self.top = self.top.max(number);
        let file = file_name(&self.name, number, State::Spare);
        let disk = self.dir.open(&file, Open::Read);
        let bytes = disk
            .and_then(|disk| disk.len())
            .map_err(LogError::io("opening", &file))?;
        self.keep_spare(number, bytes)
    }

    /// Takes note that a number was used.
    pub(crate) fn add_number(&mut self, number: u64) {
        self.top = self.top.max(number);
    }

    /// Longest payload of a record in bytes.
    pub(crate) fn record_bytes_max(&self) -> usize {
        let room = self.options.segment_bytes as usize - BLOCK_BYTES - FRAME_HEADER_BYTES;
        room.min(RECORD_BYTES_MAX)
    }

    pub(crate) fn held(&self, next: Sequence) -> Held {
        Held {
            first: self.live.front().map_or(next, |live| live.first),
            next,
            segments: self.live.len(),
            bytes: self.live.iter().map(|live| live.bytes).sum(),
        }
    }

    /// Writes `batch` durably, in as few device writes as segments allow, and calls `durable` with
    /// the sequence after each. What was not written stays in `batch`.
    pub(crate) fn write(
        &mut self,
        batch: &mut Batch,
        mut durable: impl FnMut(Sequence),
    ) -> core::result::Result<(), WriteFailure> {
        while let Some(first) = batch.first() {
            let room = self
                .current
                .as_ref()
                .map_or(0, |c| c.bytes.saturating_sub(c.at) as usize);
            if batch.first_bytes() > room {
                self.roll(first)?;
                continue;
            }
            let Some(current) = &mut self.current else {
                continue;
            };
            let mut front = batch.split_front(room);
            let Some((bytes, next)) = front.seal(&current.key) else {
                continue;
            };
            let written = current.disk.write_at(current.at, bytes);
            written.map_err(LogError::io("writing", &current.file))?;
            current.at += bytes.len() as u64;
            durable(next);
        }
        Ok(())
    }

    /// Starts a new segment, whose first record is `first`. All records before are durable.
    pub(crate) fn roll(&mut self, first: Sequence) -> core::result::Result<(), WriteFailure> {
        let number = self.top + 1;
        let header = SegmentHeader {
            log: self.id,
            number,
            first,
            segment_bytes: self.options.segment_bytes,
        };
        let source = match self.spare.last() {
            Some(spare) => file_name(&self.name, *spare, State::Spare),
            None => self.make_file(number).map_err(|error| WriteFailure {
                harmless: error.kind() == ErrorKind::NoSpace,
                error,
            })?,
        };
        let file = file_name(&self.name, number, State::Live);
        let disk = self.dir.open(&source, Open::WriteDurable);
        let disk = disk.map_err(LogError::io("opening", &source))?;
        let written = disk.write_at(0, &header.encode());
        written.map_err(LogError::io("writing the header of", &source))?;
        let renamed = self.dir.rename(&source, &file);
        renamed.map_err(LogError::io("renaming into place", &source))?;
        self.spare.pop();
        self.top = number;
        self.current = Some(Current {
            disk,
            file,
            key: FrameKey::new(self.id.0, number),
            at: BLOCK_BYTES as u64,
            bytes: self.options.segment_bytes,
        });
        self.live.push_back(Live {
            number,
            first,
            bytes: self.options.segment_bytes,
        });
        Ok(())
    }

    /// A new file of zeros for segment `number`.
    fn make_file(&mut self, number: u64) -> Result<String> {
        let file = file_name(&self.name, number, State::New);
        let made = match self
            .dir
            .open(&file, Open::Create(self.options.segment_bytes))
        {
            Err(Errno::EXIST) => {
                // Left by an earlier try that found the disk full.
                self.dir
                    .remove(&file)
                    .map_err(LogError::io("removing", &file))?;
                self.dir
                    .open(&file, Open::Create(self.options.segment_bytes))
            }
            answer => answer,
        };
        made.map_err(LogError::io("creating", &file))?;
        Ok(file)
    }

    /// Retires whole segments that hold only records before `sequence`, oldest first, each
    /// durably before the next, so that a crash leaves no gap.
    pub(crate) fn truncate_before(&mut self, sequence: Sequence) -> Result<()> {
        while let (Some(&oldest), Some(&second)) = (self.live.front(), self.live.get(1)) {
            if second.first > sequence {
                break;
            }
            let file = file_name(&self.name, oldest.number, State::Live);
            let spare = file_name(&self.name, oldest.number, State::Spare);
            let renamed = self.dir.rename(&file, &spare);
            renamed.map_err(LogError::io("retiring", &file))?;
            self.live.pop_front();
            self.keep_spare(oldest.number, oldest.bytes)?;
        }
        Ok(())
    }

    fn keep_spare(&mut self, number: u64, bytes: u64) -> Result<()> {
        if self.spare.len() < SPARE_SEGMENTS_MAX && bytes == self.options.segment_bytes {
            self.spare.push(number);
            return Ok(());
        }
        let file = file_name(&self.name, number, State::Spare);
        self.dir
            .remove(&file)
            .map_err(LogError::io("removing", &file))
    }
}
