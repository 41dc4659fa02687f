//! An image that stands nowhere: base, trace, and what was written to it since, in memory.

use super::base;
use super::error::{Result, TraceError};
use super::pieces::{Pieces, Source};
use env::Disk;
use env::errno::Errno;
use mount::fixed::Content;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are kept as one once they were written.
const BLOCK: u64 = 4096;

/// What a block became.
#[derive(Clone)]
enum Written {
    Zeros,
    Bytes(Box<[u8]>),
}

/// What a power cut left of a disk. It can be written like any disk; base and trace stay as they are,
/// and what is written is gone with it.
pub struct Image {
    base: Arc<dyn Disk>,
    trace: Arc<dyn Disk>,
    pieces: Pieces,
    bytes: u64,
    written: RwLock<HashMap<u64, Written>>,
}

/// A range cut at the multiples of a block: the number of each, the part of the range in it.
fn blocks(offset: u64, length: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    let end = offset + length;
    (offset / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let start = block * BLOCK;
        (block, offset.max(start)..end.min(start + BLOCK))
    })
}

impl Image {
    pub(super) fn new(
        base: Arc<dyn Disk>,
        trace: Arc<dyn Disk>,
        pieces: Pieces,
    ) -> env::Result<Image> {
        Ok(Image {
            bytes: base.len()?,
            base,
            trace,
            pieces,
            written: RwLock::default(),
        })
    }

    /// Copies all of it to a file or device of its length, of which every byte is zero.
    ///
    /// # Errors
    /// Of the disks.
    pub fn copy_to(&self, out: &dyn Disk) -> Result<()> {
        base::for_content(self, |offset, bytes| {
            out.write_at(offset, bytes)
                .map_err(TraceError::io("writing the image"))
        })
    }

    /// What the cut left, without what was written since.
    fn read_cut(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        let mut rest = buffer;
        for (range, source) in self.pieces.parts(offset..offset + rest.len() as u64) {
            let length = (range.end - range.start) as usize;
            let (part, later) = rest.split_at_mut(length);
            match source {
                None => self.base.read_at(range.start, part)?,
                Some(Source::Zeros) => part.fill(0),
                Some(Source::Trace(at)) => self.trace.read_at(at, part)?,
            }
            rest = later;
        }
        Ok(())
    }

    /// A range that is inside.
    fn inside(&self, offset: u64, length: u64) -> env::Result<()> {
        match offset.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }
}

impl Disk for Image {
    fn len(&self) -> env::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        let length = buffer.len() as u64;
        self.inside(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let written = self.written.read();
        self.read_cut(offset, buffer)?;
        if written.is_empty() {
            return Ok(());
        }
        for (block, range) in blocks(offset, length) {
            let Some(found) = written.get(&block) else {
                continue;
            };
            let here = (range.start - offset) as usize..(range.end - offset) as usize;
            let part = buffer.get_mut(here).unwrap_or_default();
            match found {
                Written::Zeros => part.fill(0),
                Written::Bytes(bytes) => {
                    let start = (range.start - block * BLOCK) as usize;
                    let bytes = bytes.get(start..start + part.len());
                    part.copy_from_slice(bytes.ok_or(Errno::IO)?);
                }
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        self.inside(offset, data.len() as u64)?;
        let mut written = self.written.write();
        let mut rest = data;
        for (block, range) in blocks(offset, data.len() as u64) {
            let (part, later) = rest.split_at((range.end - range.start) as usize);
            rest = later;
            let start = block * BLOCK;
            let mut bytes = match written.remove(&block) {
                Some(Written::Bytes(bytes)) => bytes,
                Some(Written::Zeros) => vec![0; BLOCK as usize].into(),
                None => {
                    let mut bytes = vec![0; (self.bytes - start).min(BLOCK) as usize];
                    if part.len() < bytes.len() {
                        self.read_cut(start, &mut bytes)?;
                    }
                    bytes.into()
                }
            };
            let at = (range.start - start) as usize;
            let room = bytes.get_mut(at..at + part.len());
            room.ok_or(Errno::IO)?.copy_from_slice(part);
            written.insert(block, Written::Bytes(bytes));
        }
        Ok(())
    }

    fn sync(&self) -> env::Result<()> {
        Ok(())
    }

    /// The range reads as zeros afterwards.
    fn discard(&self, offset: u64, length: u64) -> env::Result<()> {
        self.inside(offset, length)?;
        for (block, range) in blocks(offset, length) {
            if range.end - range.start == BLOCK {
                self.written.write().insert(block, Written::Zeros);
            } else {
                let zeros = vec![0; (range.end - range.start) as usize];
                self.write_at(range.start, &zeros)?;
            }
        }
        Ok(())
    }
}

impl Content for Image {
    fn size(&self) -> u64 {
        self.bytes
    }
    fn allocated(&self) -> u64 {
        self.bytes
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> mount::Result<()> {
        self.read_at(offset, buffer)
    }
    fn write(&self, offset: u64, data: &[u8]) -> mount::Result<()> {
        self.write_at(offset, data)
    }
    fn zero(&self, offset: u64, length: u64, _: bool) -> mount::Result<()> {
        self.discard(offset, length)
    }
    fn sync(&self) -> mount::Result<()> {
        Ok(())
    }
}
