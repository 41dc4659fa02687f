//! What an earlier transfer has left of a file that was not proved: page by page it is held against
//! the sender's checksums, and only what is not there comes again.

use super::plant::Plant;
use super::proof::Range;
use super::{Main, say};
use crate::content::{is_zero, read_range, sums_of};
use crate::error::TransferError;
use crate::message::{HELD_BYTES, Index, PAGE_BYTES, RANGE_BYTES, ToSender, Want};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// A file that is being looked at.
pub(super) struct Looking {
    index: Index,
    file: OwnedFd,
    from: u64,
    to: u64,
    at: u64,
    there: VecDeque<Range>,
    pages: Vec<u8>,
    /// Whether all that is no data is zeros, as it has to be.
    clean: bool,
}

/// Up to where a file of this length may be there beyond what was proved.
pub(super) fn held_to(from: u64, written: u64, bytes: u64) -> u64 {
    let to = written.min(bytes).min(from.saturating_add(HELD_BYTES));
    match to == bytes {
        true => to,
        false => to / PAGE_BYTES as u64 * PAGE_BYTES as u64,
    }
    .max(from)
}

impl Main<'_> {
    /// Whether the sums of an entry are for this.
    pub(super) fn is_held(&self, index: Index) -> bool {
        let want = self.entries.get(&index).map(|(_, want)| *want);
        matches!(want, Some(Want::Content { from, held, .. }) if held > from)
    }

    pub(super) fn look(
        &mut self,
        index: Index,
        offset: u64,
        bytes: u32,
        sums: &[u32],
    ) -> Result<(), TransferError> {
        self.begin_look(index)?;
        const WRONG: TransferError = TransferError::Violation("a comparison out of order");
        let looking = self.looking.as_mut().filter(|it| it.index == index);
        let looking = looking.ok_or(WRONG)?;
        let (length, page) = (bytes as usize, PAGE_BYTES as u64);
        let end = offset.checked_add(u64::from(bytes));
        let end = end
            .filter(|end| offset >= looking.at && *end <= looking.to)
            .ok_or(WRONG)?;
        let fits = (1..=RANGE_BYTES).contains(&length) && sums.len() == length.div_ceil(PAGE_BYTES);
        if !fits || !offset.is_multiple_of(page) {
            return Err(WRONG);
        }
        let mut buffer = vec![0; length];
        looking.clean &= is_zero(&looking.file, looking.at, offset) == Ok(true);
        // What cannot be read is not there.
        let count = read_range(&looking.file, offset, &mut buffer, false).unwrap_or(0);
        let found = sums_of(buffer.get(..count).unwrap_or_default());
        let mut last: Option<Range> = None;
        for (number, sum) in sums.iter().enumerate() {
            let start = number * PAGE_BYTES;
            let bytes = PAGE_BYTES.min(length - start);
            let whole = start + bytes <= count;
            let believed = self.settings.plants(Plant::HeldBelieved);
            if !believed && (!whole || found.get(number) != Some(sum)) {
                looking.there.extend(last.take());
                continue;
            }
            let bit = (offset - looking.from) / page + number as u64;
            if let Some(byte) = looking.pages.get_mut((bit / 8) as usize) {
                *byte |= 1 << (bit % 8);
            }
            let range = last.get_or_insert_with(|| Range {
                offset: offset + start as u64,
                bytes: 0,
                sums: Vec::new(),
                unlike: Vec::new(),
            });
            range.bytes += bytes;
            range.sums.push(*sum);
        }
        looking.there.extend(last);
        looking.at = end;
        Ok(())
    }

    fn begin_look(&mut self, index: Index) -> Result<(), TransferError> {
        if self.looking.as_ref().is_some_and(|it| it.index == index) {
            return Ok(());
        }
        let (entry, _, want) = self.wanted(index)?;
        let again = self.looking.is_some() || self.there.contains_key(&index);
        let (Want::Content { from, held, .. }, false) = (want, again) else {
            return Err(TransferError::Violation("a comparison that nobody wanted"));
        };
        let number = self.notes.get(&entry.path).map(|(number, _)| *number);
        let file = number.map(|number| self.staging.open_part(number));
        let Some(Ok(file)) = file else {
            return Err(TransferError::Violation("a comparison that nobody wanted"));
        };
        let pages = (held - from).div_ceil(PAGE_BYTES as u64).div_ceil(8);
        self.looking = Some(Looking {
            index,
            file,
            from,
            to: held,
            at: from,
            there: VecDeque::new(),
            pages: vec![0; usize::try_from(pages).unwrap_or(0)],
            clean: true,
        });
        Ok(())
    }

    /// Tells what is there.
    pub(super) fn looked(&mut self, index: Index) -> Result<(), TransferError> {
        self.begin_look(index)?;
        let Some(mut looking) = self.looking.take() else {
            return Ok(());
        };
        looking.clean &= is_zero(&looking.file, looking.at, looking.to) == Ok(true);
        if !looking.clean {
            looking.pages.clear();
            looking.there.clear();
        }
        self.there.insert(index, looking.there);
        let pages = looking.pages;
        let held = ToSender::Held { index, pages };
        say(self.channel, self.clock, self.settings, &held)
    }

    /// Takes what is there before `offset` as written.
    pub(super) fn take_there(&mut self, offset: u64) {
        let Some(current) = &mut self.current else {
            return;
        };
        while current.there.front().is_some_and(|it| it.offset < offset) {
            let Some(range) = current.there.pop_front() else {
                return;
            };
            if let Some(summing) = &mut current.summing {
                summing.add(range.offset, range.bytes, &range.sums);
            }
            current.at = range.offset + range.bytes as u64;
            current.ranges.push(range);
        }
    }
}
