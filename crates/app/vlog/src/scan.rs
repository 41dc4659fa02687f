//! Reading the blocks of a segment file, whatever bytes it has.

use crate::block::{BlockHeader, BlockKey, HEADER_BYTES, Head, MAGIC, RawEntry, extent};
use crate::place::wrong;
use crate::segment::SECTOR_BYTES;
use codec::Corruption;
use env::Disk;
use env::errno::Errno;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// A block that verified.
pub(crate) struct Block<'a> {
    pub(crate) header: BlockHeader,
    head: Head<'a>,
    /// Empty where bodies were not asked for.
    pub(crate) records: Vec<RawEntry<'a>>,
    /// Just behind it.
    pub(crate) end: u64,
}

impl Block<'_> {
    pub(crate) fn kills(&self) -> impl ExactSizeIterator<Item = u64> {
        self.head.kills()
    }
}

/// What stands at the reader's place.
pub(crate) enum Found<'a> {
    Block(Block<'a>),
    /// The end of what was to be read.
    End,
    /// Bytes that are no block; the offset counts from the start of the file.
    Bad(Corruption),
}

/// Reads blocks one after the other.
pub(crate) struct Reader<'a> {
    disk: &'a dyn Disk,
    key: BlockKey,
    at: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Reader<'a> {
    /// From behind the first sector to `end`, which is not behind the end of the file.
    pub(crate) fn new(disk: &'a dyn Disk, key: BlockKey, end: u64) -> Reader<'a> {
        Reader {
            disk,
            key,
            at: SECTOR_BYTES,
            end,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Where the next block would be.
    pub(crate) fn place(&self) -> u64 {
        self.at
    }

    /// Has `bytes` from `self.at` on in the window, as far as there are any.
    fn fill(&mut self, bytes: u64) -> Result<(), Errno> {
        let wanted = bytes.min(self.end - self.at);
        let window_end = self.window_at + self.window.len() as u64;
        if self.at >= self.window_at && self.at + wanted <= window_end {
            return Ok(());
        }
        let length = wanted.max(WINDOW_BYTES).min(self.end - self.at);
        self.window.clear();
        self.window.resize(length as usize, 0);
        self.window_at = self.at;
        let read = self.disk.read_at(self.at, &mut self.window);
        read.inspect_err(|_| self.window.clear())
    }

    fn seen(&self) -> &[u8] {
        let start = (self.at - self.window_at) as usize;
        self.window.get(start..).unwrap_or_default()
    }

    /// The next block, with its records verified where `bodies` are asked for.
    pub(crate) fn next(&mut self, bodies: bool) -> Result<Found<'_>, Errno> {
        if self.at >= self.end {
            return Ok(Found::End);
        }
        let at = self.at;
        let bad = |why: Corruption| Ok(Found::Bad(why.moved(at)));
        self.fill(HEADER_BYTES as u64)?;
        let extent = match extent(self.seen()) {
            Ok(extent) => extent,
            Err(why) => return bad(why),
        };
        let whole = (extent.head_bytes + extent.body_bytes) as u64;
        let left = self.end - at;
        if whole > left {
            return bad(wrong("bytes of a block", 0, whole, left));
        }
        self.fill(if bodies {
            whole
        } else {
            extent.head_bytes as u64
        })?;
        let start = (at - self.window_at) as usize;
        let seen = self.window.get(start..).unwrap_or_default();
        let head = match self.key.open_head(at, seen) {
            Ok(head) => head,
            Err(why) => return bad(why),
        };
        let mut records = Vec::new();
        if bodies {
            let body = seen.get(extent.head_bytes..whole as usize);
            match head.open_body(body.unwrap_or_default()) {
                Ok(found) => records = found,
                Err(why) => return bad(why.moved(extent.head_bytes as u64)),
            }
        }
        let end = at + whole;
        self.at = match head.header.last {
            true => end.next_multiple_of(SECTOR_BYTES),
            false => end,
        };
        Ok(Found::Block(Block {
            header: head.header,
            head,
            records,
            end,
        }))
    }

    /// The largest place up to which a block behind this one says that the file had been durable.
    /// Only blocks of this very file at their own place verify, and each was sealed after what it
    /// says was true.
    pub(crate) fn durable_behind(&self) -> Result<u64, Errno> {
        let mut durable = 0;
        let mut at = self.at;
        let mut window = Vec::new();
        while at < self.end {
            let length = (self.end - at).min(WINDOW_BYTES) as usize;
            window.clear();
            window.resize(length, 0);
            self.disk.read_at(at, &mut window)?;
            let starts = window.windows(MAGIC.len()).enumerate();
            for (offset, _) in starts.filter(|(_, bytes)| *bytes == MAGIC) {
                let place = at + offset as u64;
                if let Some(found) = self.durable_at(place)? {
                    durable = durable.max(found);
                }
            }
            let step = length.saturating_sub(MAGIC.len() - 1).max(1);
            at += step as u64;
        }
        Ok(durable)
    }

    /// What the block at a place says, if one is there.
    fn durable_at(&self, place: u64) -> Result<Option<u64>, Errno> {
        let mut header = [0; HEADER_BYTES];
        if self.end - place < HEADER_BYTES as u64 {
            return Ok(None);
        }
        self.disk.read_at(place, &mut header)?;
        let Ok(extent) = extent(&header) else {
            return Ok(None);
        };
        if extent.head_bytes as u64 > self.end - place {
            return Ok(None);
        }
        let mut head = vec![0; extent.head_bytes];
        self.disk.read_at(place, &mut head)?;
        let head = self.key.open_head(place, &head);
        Ok(head.ok().map(|head| head.header.durable))
    }
}
