//! The content of files, as it comes.

use super::batch::{Action, Written};
use super::proof::{Range, drop_cache};
use super::{Current, ENTRIES_MAX, Main, RANGES_MAX, check_entry, staging, unwritten};
use crate::content::{is_large, write_range};
use crate::entry::{Entry, What};
use crate::error::TransferError;
use crate::message::{Index, PAGE_BYTES, Want};
use crate::root_sum::Summing;
use crate::verify::Reader;
use rustix::fs::ftruncate;
use std::sync::Arc;

impl Main<'_> {
    pub(super) fn data(
        &mut self,
        index: Index,
        offset: u64,
        sums: Vec<u32>,
        bytes: &[u8],
        unlike: Vec<u64>,
    ) -> Result<(), TransferError> {
        self.begin_file(index)?;
        self.take_there(offset);
        let Some(current) = self
            .current
            .as_mut()
            .filter(|current| current.index == index)
        else {
            return Err(TransferError::Violation("content of two files at once"));
        };
        let page = PAGE_BYTES as u64;
        let end = offset.checked_add(bytes.len() as u64);
        let end = end.filter(|end| *end <= current.source.bytes);
        let end = end.ok_or(TransferError::Violation("content behind the end of a file"))?;
        let at_border = end.is_multiple_of(page) || end == current.source.bytes;
        if offset < current.at || !offset.is_multiple_of(page) || !at_border {
            return Err(TransferError::Violation("content out of order"));
        }
        self.ranges += 1;
        if self.ranges > RANGES_MAX {
            return Err(TransferError::Violation("a batch that is too long"));
        }
        let large = is_large(current.source.bytes);
        if current
            .there
            .front()
            .is_some_and(|there| there.offset < end)
        {
            return Err(TransferError::Violation("content that is there"));
        }
        write_range(&current.staged.file, offset, bytes, large).map_err(unwritten)?;
        current.at = end;
        let bytes = bytes.len();
        if let Some(summing) = &mut current.summing {
            summing.add(offset, bytes, &sums);
        }
        current.ranges.push(Range {
            offset,
            bytes,
            sums,
            unlike,
        });
        Ok(())
    }

    /// Has a file of its own for what comes, where it has none yet.
    pub(super) fn begin_file(&mut self, index: Index) -> Result<(), TransferError> {
        if self.current.is_some() {
            return Ok(());
        }
        if index != self.next_ended {
            return Err(TransferError::Violation("content out of order"));
        }
        let (entry, source, want) = self.wanted(index)?;
        let path = entry.path.clone();
        let note = self.notes.remove(&path);
        let there = self.there.remove(&index).unwrap_or_default();
        let goes_on = |note: &(u64, staging::Note), from: u64| {
            note.1.source == source && (from > 0 || !there.is_empty())
        };
        let (staged, at) = match (want, note) {
            (Want::Content { from, .. }, Some(note)) if goes_on(&note, from) => {
                let last = there.back().map_or(from, |it| it.offset + it.bytes as u64);
                let staged = self.staging.reopen(note.0, last).map_err(unwritten)?;
                (staged, from)
            }
            (_, note) => {
                if let Some((number, _)) = note {
                    self.staging.remove(number);
                }
                (self.staging.create().map_err(unwritten)?, 0)
            }
        };
        self.held.add(staged.number, &path, source)?;
        let summing = match (self.sums_wanted, at) {
            (false, _) => None,
            (true, 0) => Some(Summing::new()),
            // What an earlier transfer has proved is read once more.
            (true, proved_bytes) => {
                drop_cache(&staged.file, (0, 0)).map_err(unwritten)?;
                let mut reader = Reader::new(self.root.opened());
                Some(reader.sum(&staged.file, proved_bytes).map_err(unwritten)?)
            }
        };
        self.current = Some(Current {
            index,
            summing,
            staged: Arc::new(staged),
            path,
            source,
            at,
            ranges: Vec::new(),
            there,
        });
        Ok(())
    }

    /// A file has changed while it was read: what came of it is dropped.
    pub(super) fn restart(&mut self, index: Index, entry: Entry) -> Result<(), TransferError> {
        check_entry(&entry)?;
        let (before, _, _) = self.wanted(index)?;
        let is_file = matches!(entry.what, What::File(_));
        if before.path != entry.path || !is_file || index != self.next_ended {
            return Err(TransferError::Violation("another file in the place of one"));
        }
        self.drop_current();
        self.olds.remove(&index);
        self.there.remove(&index);
        let (from, held, old) = (0, 0, 0);
        let want = Want::Content { from, held, old };
        self.entries.insert(index, (entry, want));
        Ok(())
    }

    pub(super) fn drop_current(&mut self) {
        if let Some(current) = self.current.take() {
            self.staging.remove(current.staged.number);
        }
    }

    pub(super) fn end(&mut self, index: Index, failed: bool) -> Result<(), TransferError> {
        if index != self.next_ended {
            return Err(TransferError::Violation("entries that end out of order"));
        }
        let is_content = |want| matches!(want, Want::Content { .. } | Want::Compare);
        let found = self.entries.get(&index).map(|(_, want)| *want);
        let kept = self.kept.remove(&index);
        self.olds.remove(&index);
        if !failed && kept.is_none() && found.is_some_and(is_content) {
            // An empty file, or one that is nothing but a hole, has sent no data.
            self.begin_file(index)?;
        }
        let found = self.entries.remove(&index);
        let (entry, _) = found.ok_or(TransferError::Violation("an entry nobody offered"))?;
        self.next_ended += 1;
        if failed {
            self.drop_current();
            return Ok(());
        }
        self.take_there(u64::MAX);
        let action = match (self.current.take(), kept) {
            (Some(current), _) => {
                if current.at < current.source.bytes {
                    let length = current.source.bytes;
                    ftruncate(&current.staged.file, length).map_err(unwritten)?;
                }
                let file = Written {
                    index,
                    staged: current.staged,
                    source: current.source,
                    sum: current.summing.map(Summing::finish),
                    ranges: current.ranges,
                };
                Action::Place(file, entry)
            }
            (None, Some((file, bytes, sum))) => Action::Keep {
                file,
                entry,
                bytes,
                sum,
            },
            (None, None) => Action::Other(entry),
        };
        self.actions.push(action);
        if self.actions.len() > ENTRIES_MAX * 2 {
            return Err(TransferError::Violation("a batch that is too long"));
        }
        Ok(())
    }
}
