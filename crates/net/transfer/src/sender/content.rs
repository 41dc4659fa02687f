//! What is in files: read, and sent.

use super::Sender;
use super::lists::Cutting;
use crate::chunks::DELTA_MIN;
use crate::content::{is_large, next_data, range_length, read_range, sums_of};
use crate::entry::{Source, What};
use crate::error::TransferError;
use crate::message::{Index, PAGE_BYTES, RANGE_BYTES, ToReceiver};
use crate::walk::{source_of, words};
use env::errno::Errno;
use std::os::fd::OwnedFd;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;

/// Which pages the destination has, from an offset on.
struct Pages {
    from: u64,
    bits: Vec<u8>,
}

impl Pages {
    /// Whether the page at `start` is there, and where that changes, before `end`. What is there is
    /// told a range at most at once.
    fn run(&self, start: u64, end: u64) -> (bool, u64) {
        let page = PAGE_BYTES as u64;
        let is_there = |offset: u64| {
            let number = offset.checked_sub(self.from).map(|it| it / page);
            let number = number.and_then(|it| usize::try_from(it).ok());
            let byte = number.and_then(|it| self.bits.get(it / 8).map(|byte| (it % 8, byte)));
            byte.is_some_and(|(bit, byte)| byte >> bit & 1 == 1)
        };
        let there = is_there(start);
        if !there && start >= self.from.saturating_add(self.bits.len() as u64 * 8 * page) {
            return (false, end);
        }
        let mut at = start;
        while at < end && is_there(at) == there && at - start < RANGE_BYTES as u64 {
            at = (at / page + 1) * page;
        }
        (there, at.min(end))
    }
}

/// What came of reading a file.
enum Reading {
    Whole,
    /// It is not what was offered any more.
    Changed,
    Failed(Errno),
}

impl Sender<'_> {
    /// Sends the checksums of a file's content in `part`; whether they are those of all of it.
    pub(super) fn compare(
        &mut self,
        index: Index,
        part: (u64, u64),
    ) -> Result<bool, TransferError> {
        let whole = match self.open(index)? {
            Some((file, source)) => self.compare_open(index, &file, &source, part)?,
            None => false,
        };
        self.say(&ToReceiver::Compared { index }, &[])?;
        Ok(whole)
    }

    fn compare_open(
        &mut self,
        index: Index,
        file: &OwnedFd,
        source: &Source,
        part: (u64, u64),
    ) -> Result<bool, TransferError> {
        let (mut at, to) = (part.0, part.1.min(source.bytes));
        loop {
            let (offset, end) = match next_data(file, at, to) {
                Ok(Some(data)) => data,
                Ok(None) => break,
                // The content that is sent in its place finds the same, and tells it.
                Err(_) => return Ok(false),
            };
            let length = range_length(offset, end);
            let room = self.buffer.get_mut(..length).unwrap_or_default();
            if read_range(file, offset, room, is_large(source.bytes)) != Ok(length) {
                return Ok(false);
            }
            let (sums, bytes) = (sums_of(room), length as u32);
            let compare = ToReceiver::Compare {
                index,
                offset,
                bytes,
                sums,
            };
            self.say(&compare, &[])?;
            at = offset + length as u64;
            self.hear_what_is_there()?;
        }
        Ok(source_of(file) == Ok(*source))
    }

    /// Sends a file's content from `from`; why it could not.
    pub(super) fn content(
        &mut self,
        index: Index,
        from: u64,
        held: u64,
    ) -> Result<Option<String>, TransferError> {
        let mut from = from;
        let begun = self.clock.now();
        while self.lists.is_asked(index) && !self.lists.is_whole(index) {
            self.hear()?;
        }
        while held > from && !self.held.contains_key(&index) {
            self.hear()?;
        }
        let mut pages = Pages {
            from,
            bits: self.held.remove(&index).unwrap_or_default(),
        };
        let mut cutting = self.lists.remove(index).map(Cutting::new);
        let parts = cutting.is_some();
        for attempt in 1..=ATTEMPTS {
            let reading = match self.open(index)? {
                Some((file, source)) => {
                    if attempt == 1 {
                        self.report.bytes_resumed += from;
                    }
                    self.stream(index, &file, &source, from, &pages, cutting.take())?
                }
                None => Reading::Changed,
            };
            match reading {
                Reading::Whole => {
                    let bytes = self.flight.get(&index).map_or(0, |sent| sent.bytes());
                    let time = self.clock.now().since(begun);
                    // Of shorter files what is measured is not the content.
                    if bytes >= DELTA_MIN {
                        self.pays.took(parts, bytes.saturating_sub(from), time);
                    }
                    return Ok(None);
                }
                Reading::Failed(errno) => {
                    return Ok(Some(format!("it cannot be read: {}", words(errno))));
                }
                Reading::Changed => {}
            }
            let Some(sent) = self.flight.get_mut(&index) else {
                return Err(TransferError::Violation("an entry that is not under way"));
            };
            let now = match sent.place.look_again(&sent.entry) {
                Ok(now) => now,
                Err(Errno::NOENT) => return Ok(Some("it was removed meanwhile".to_owned())),
                Err(errno) => return Ok(Some(format!("it cannot be read: {}", words(errno)))),
            };
            sent.entry = now.clone();
            let restart = ToReceiver::Restart { index, entry: now };
            self.say(&restart, &[])?;
            from = 0;
            pages.bits.clear();
        }
        Ok(Some(format!(
            "it changed each of {ATTEMPTS} times that it was read"
        )))
    }

    fn stream(
        &mut self,
        index: Index,
        file: &OwnedFd,
        source: &Source,
        from: u64,
        pages: &Pages,
        cutting: Option<Cutting>,
    ) -> Result<Reading, TransferError> {
        let (mut at, mut cutting) = (from, cutting);
        loop {
            let (start, end) = match next_data(file, at, source.bytes) {
                Ok(Some(data)) => data,
                Ok(None) => break,
                Err(errno) => return Ok(Reading::Failed(errno)),
            };
            let large = is_large(source.bytes);
            let (there, until) = pages.run(start, end);
            let length = if there {
                self.report.bytes_resumed += until - start;
                until - start
            } else {
                let data = (start, until);
                let sent = match &mut cutting {
                    Some(cutting) => self.mixed(index, file, data, large, cutting)?,
                    None => self.plain(index, file, data, large)?,
                };
                match sent {
                    Ok(length) => length as u64,
                    Err(reading) => return Ok(reading),
                }
            };
            let gives_up = |it: &Cutting| self.pays.gives_up(it.looked_at, it.found);
            if cutting.as_ref().is_some_and(gives_up) {
                cutting = None;
            }
            at = start + length;
            self.batch.bytes += length;
            self.show();
            self.hear_what_is_there()?;
            if self.options.order.ends_within_a_file(&self.batch) && at < source.bytes {
                self.close_batch()?;
            }
        }
        Ok(match source_of(file) {
            Ok(now) if now == *source => Reading::Whole,
            Ok(_) => Reading::Changed,
            Err(errno) => Reading::Failed(errno),
        })
    }

    /// Sends one range of the data from `data.0` to `data.1`, all of it; its length.
    fn plain(
        &mut self,
        index: Index,
        file: &OwnedFd,
        data: (u64, u64),
        large: bool,
    ) -> Result<Result<usize, Reading>, TransferError> {
        let (offset, end) = data;
        let length = range_length(offset, end).min(self.pace.range_bytes());
        let room = self.buffer.get_mut(..length).unwrap_or_default();
        match read_range(file, offset, room, large) {
            Ok(count) if count == length => {}
            Ok(_) => return Ok(Err(Reading::Changed)),
            Err(errno) => return Ok(Err(Reading::Failed(errno))),
        }
        let buffer = std::mem::take(&mut self.buffer);
        let bytes = buffer.get(..length).unwrap_or_default();
        let sums = sums_of(bytes);
        let said = self.say(
            &ToReceiver::Data {
                index,
                offset,
                sums,
            },
            bytes,
        );
        self.buffer = buffer;
        said?;
        self.report.bytes_sent += length as u64;
        Ok(Ok(length))
    }

    /// Sends what of one range the destination does not have; its length.
    fn mixed(
        &mut self,
        index: Index,
        file: &OwnedFd,
        data: (u64, u64),
        large: bool,
        cutting: &mut Cutting,
    ) -> Result<Result<usize, Reading>, TransferError> {
        let (offset, end) = data;
        let found = match cutting.range(file, (offset, end), self.pace.range_bytes(), large) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Err(Reading::Changed)),
            Err(errno) => return Ok(Err(Reading::Failed(errno))),
        };
        let (length, sums) = (found.bytes.len(), sums_of(found.bytes));
        let sent = found.sent.len();
        let message = match sent == length {
            true => ToReceiver::Data {
                index,
                offset,
                sums,
            },
            false => ToReceiver::Mixed {
                index,
                offset,
                sums,
                pieces: found.pieces,
            },
        };
        self.say(&message, &found.sent)?;
        cutting.sent(length);
        self.report.bytes_sent += sent as u64;
        self.report.bytes_reused += (length - sent) as u64;
        Ok(Ok(length))
    }

    /// Opens a file that was offered; `None` where it is not that any more.
    fn open(&self, index: Index) -> Result<Option<(OwnedFd, Source)>, TransferError> {
        let sent = self.flight.get(&index);
        let sent = sent.ok_or(TransferError::Violation("an entry that is not under way"))?;
        let What::File(source) = sent.entry.what else {
            return Err(TransferError::Violation("the content of what is no file"));
        };
        let file = sent.place.open().ok();
        let same = |file: &OwnedFd| source_of(file).is_ok_and(|now| now == source);
        Ok(file.filter(same).map(|file| (file, source)))
    }

    /// Sends pages again.
    pub(super) fn patch(&mut self, index: Index, pages: &[u64]) -> Result<(), TransferError> {
        let mut failed = None;
        match self.open(index)? {
            None => failed = Some("it has changed since it was sent".to_owned()),
            Some((file, source)) => {
                for offset in pages.iter().copied() {
                    let whole = source.bytes.saturating_sub(offset).min(PAGE_BYTES as u64);
                    let mut page = vec![0; whole as usize];
                    match read_range(&file, offset, &mut page, false) {
                        Ok(count) if count == page.len() && count > 0 => {
                            let sums = sums_of(&page);
                            let patch = ToReceiver::Patch {
                                index,
                                offset,
                                sums,
                            };
                            self.say(&patch, &page)?;
                            self.report.bytes_sent += page.len() as u64;
                        }
                        _ => failed = Some("it has changed since it was sent".to_owned()),
                    }
                }
                if source_of(&file) != Ok(source) {
                    failed = Some("it has changed since it was sent".to_owned());
                }
            }
        }
        self.say(&ToReceiver::Patched { index, failed }, &[])
    }
}
