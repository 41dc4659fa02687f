//! The chunks of old files at the destination, as they come, and this side's own file cut alike.

use crate::chunks::{CHUNK_BYTES, CHUNKS_MAX, Chunk, Cutter, hash};
use crate::content::{range_length, read_range};
use crate::error::TransferError;
use crate::message::{Index, LISTS_AHEAD, Piece, RANGE_BYTES};
use env::errno::Errno;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

/// Bytes of lists that are asked for before they are needed. A list that is longer is asked for when
/// it is.
const LISTS_BYTES: u64 = 1 << 20;

/// The lists that were asked for.
#[derive(Default)]
pub(super) struct Lists {
    asked: HashMap<Index, List>,
}

/// The chunks of one file.
pub(super) struct List {
    found: HashMap<[u8; 32], u64>,
    cutter: Cutter,
    /// Bytes of the list, at most.
    promised: u64,
    /// Length of the old file.
    old: u64,
    /// Where the next chunk may begin.
    at: u64,
    whole: bool,
}

impl Lists {
    /// Whether there is room to ask for the list of a file of this length ahead of its need.
    pub(super) fn has_room(&self, old: u64, average: u32) -> bool {
        let promised: u64 = self.asked.values().map(|list| list.promised).sum();
        let more = promise(old, average);
        self.asked.len() < LISTS_AHEAD && promised.saturating_add(more) <= LISTS_BYTES
    }

    pub(super) fn ask(&mut self, index: Index, old: u64, average: u32) {
        let list = List {
            found: HashMap::new(),
            cutter: Cutter::new(average),
            promised: promise(old, average),
            old,
            at: 0,
            whole: false,
        };
        self.asked.insert(index, list);
    }

    pub(super) fn is_asked(&self, index: Index) -> bool {
        self.asked.contains_key(&index)
    }

    pub(super) fn is_whole(&self, index: Index) -> bool {
        self.asked.get(&index).is_some_and(|list| list.whole)
    }

    /// Takes what came of a list.
    pub(super) fn take(
        &mut self,
        index: Index,
        chunks: Vec<Chunk>,
        last: bool,
    ) -> Result<(), TransferError> {
        let list = self.asked.get_mut(&index).filter(|list| !list.whole);
        let list = list.ok_or(TransferError::Violation("chunks that nobody asked for"))?;
        for chunk in chunks {
            let end = chunk.offset.checked_add(u64::from(chunk.bytes));
            let end = end.filter(|end| chunk.offset >= list.at && *end <= list.old);
            let longest = list.cutter.longest();
            if chunk.bytes == 0 || chunk.bytes as usize > longest || end.is_none() {
                return Err(TransferError::Violation("chunks that are in no file"));
            }
            list.at = end.unwrap_or(list.at);
            if list.found.len() < CHUNKS_MAX {
                list.found.entry(chunk.hash).or_insert(chunk.offset);
            }
        }
        list.whole = last;
        Ok(())
    }

    pub(super) fn remove(&mut self, index: Index) -> Option<List> {
        self.asked.remove(&index)
    }
}

fn promise(old: u64, average: u32) -> u64 {
    let shortest = Cutter::new(average).shortest() as u64;
    (old / shortest + 1).saturating_mul(CHUNK_BYTES)
}

/// A file of this side that is cut, and held against a list.
pub(super) struct Cutting {
    list: List,
    /// What was read, from `start`.
    buffer: Vec<u8>,
    start: u64,
    /// How much of the buffer is cut.
    cut: usize,
    cuts: VecDeque<Cut>,
    /// How much was looked at, and how much of it was found.
    pub(super) looked_at: u64,
    pub(super) found: u64,
}

struct Cut {
    bytes: usize,
    old: Option<u64>,
}

/// A range, and what it is made of.
pub(super) struct Pieces<'a> {
    /// All of it.
    pub(super) bytes: &'a [u8],
    /// What of it is sent.
    pub(super) sent: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
}

impl Cutting {
    pub(super) fn new(list: List) -> Cutting {
        Cutting {
            list,
            buffer: Vec::new(),
            start: 0,
            cut: 0,
            cuts: VecDeque::new(),
            looked_at: 0,
            found: 0,
        }
    }

    /// The range from `data.0`, in data that ends at `data.1`, of at most `most` bytes; `None` where the file has become shorter.
    pub(super) fn range(
        &mut self,
        file: &OwnedFd,
        data: (u64, u64),
        most: usize,
        large: bool,
    ) -> Result<Option<Pieces<'_>>, Errno> {
        let (start, end) = data;
        if self.start != start {
            self.buffer.clear();
            self.cuts.clear();
            self.cut = 0;
            self.start = start;
        }
        let length = range_length(start, end).min(most);
        while self.cut < length {
            let known = self.start + self.buffer.len() as u64;
            let rest = self.buffer.get(self.cut..).unwrap_or_default();
            match self.list.cutter.first(rest, known >= end) {
                Some(bytes) => {
                    let chunk = rest.get(..bytes).unwrap_or_default();
                    let old = self.list.found.get(&hash(chunk)).copied();
                    self.cuts.push_back(Cut { bytes, old });
                    self.cut += bytes;
                }
                None => {
                    let had = self.buffer.len();
                    let more = RANGE_BYTES.max(self.list.cutter.longest()) as u64;
                    let more = more.min(end.saturating_sub(known)) as usize;
                    self.buffer.resize(had + more, 0);
                    let room = self.buffer.get_mut(had..).unwrap_or_default();
                    if more == 0 || read_range(file, known, room, large)? < more {
                        return Ok(None);
                    }
                }
            }
        }
        let (mut sent, mut pieces) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < length {
            let Some(cut) = self.cuts.front_mut() else {
                return Ok(None);
            };
            let bytes = cut.bytes.min(length - at);
            let piece = match &mut cut.old {
                Some(old) => {
                    let from = *old;
                    *old += bytes as u64;
                    self.found += bytes as u64;
                    let bytes = bytes as u32;
                    Piece::Old { from, bytes }
                }
                None => {
                    let new = self.buffer.get(at..at + bytes).unwrap_or_default();
                    sent.extend_from_slice(new);
                    Piece::Sent(bytes as u32)
                }
            };
            join(&mut pieces, piece);
            at += bytes;
            cut.bytes -= bytes;
            if cut.bytes == 0 {
                self.cuts.pop_front();
            }
        }
        self.looked_at += length as u64;
        let bytes = self.buffer.get(..length).unwrap_or_default();
        Ok(Some(Pieces {
            bytes,
            sent,
            pieces,
        }))
    }

    /// The first `length` bytes were sent.
    pub(super) fn sent(&mut self, length: usize) {
        self.buffer.drain(..length.min(self.buffer.len()));
        self.cut = self.cut.saturating_sub(length);
        self.start += length as u64;
    }
}

/// Adds a piece, to the one before it where they follow each other.
fn join(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (Some(Piece::Sent(before)), Piece::Sent(bytes)) => *before += bytes,
        (
            Some(Piece::Old {
                from,
                bytes: before,
            }),
            Piece::Old {
                from: next, bytes, ..
            },
        ) if *from + u64::from(*before) == next => *before += bytes,
        _ => pieces.push(piece),
    }
}
