//! A trace that is read.

use super::error::{Result, TraceError};
use super::event::{
    Decoded, EVENT_BYTES_MAX, Event, EventNumber, HEADER_BYTES, Header, content_bytes,
};
use crate::corrupt::{equal, wrong};
use codec::{Checksum, Corruption};
use env::Disk;
use std::sync::Arc;

/// Bytes of content that are verified at once.
const CHUNK: usize = 1 << 20;

/// A trace.
#[derive(Clone)]
pub struct Trace {
    disk: Arc<dyn Disk>,
    header: Header,
    bytes: u64,
}

/// How a trace ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The recorder ended it.
    Clean,
    /// It stops behind an event: the recorder was killed there.
    Open,
    /// What follows does not verify: the recorder was killed while it wrote it, or it is damaged.
    /// All before it holds.
    Broken(Corruption),
}

/// An event that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number.
    pub number: EventNumber,
    /// What it is.
    pub event: Event,
    /// Where in the trace its content begins, if it is a write.
    pub content: u64,
}

impl Trace {
    /// Reads the header of one.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`], and of the disk.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Trace> {
        let bytes = disk
            .len()
            .map_err(TraceError::io("the length of the trace"))?;
        let mut head = vec![0; bytes.min(HEADER_BYTES) as usize];
        disk.read_at(0, &mut head)
            .map_err(TraceError::io("reading the trace"))?;
        let header = Header::decode(&head).map_err(TraceError::NotATrace)?;
        Ok(Trace {
            disk,
            header,
            bytes,
        })
    }

    /// What it says of itself.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its bytes.
    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Reads it from the first event.
    pub fn reader(&self) -> Reader {
        Reader {
            trace: self.clone(),
            at: HEADER_BYTES,
            next: 1,
            ending: None,
            buffer: Vec::new(),
        }
    }
}

/// A trace that is read from its start.
pub struct Reader {
    trace: Trace,
    at: u64,
    next: u64,
    ending: Option<Ending>,
    buffer: Vec<u8>,
}

impl Reader {
    /// The last event that was read; 0 before the first.
    pub fn last(&self) -> EventNumber {
        EventNumber(self.next - 1)
    }

    /// How the trace ends, once that is known.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// Of the disk. What does not verify is the end of the trace.
    pub fn read_next(&mut self) -> Result<Option<Found>> {
        if self.ending.is_some() {
            return Ok(None);
        }
        let room = self.trace.bytes.saturating_sub(self.at);
        if room == 0 {
            self.ending = Some(Ending::Open);
            return Ok(None);
        }
        let length = room.min(EVENT_BYTES_MAX as u64) as usize;
        let mut head = std::mem::take(&mut self.buffer);
        head.resize(length, 0);
        let read = self.trace.disk.read_at(self.at, &mut head);
        let decoded = Event::decode(&self.trace.header.key(), &head);
        self.buffer = head;
        read.map_err(TraceError::io("reading the trace"))?;
        let at = self.at;
        let checked = match decoded {
            Ok(decoded) => self.check(&decoded)?.map(|()| decoded),
            Err(corruption) => Err(corruption.moved(at)),
        };
        let decoded = match checked {
            Ok(decoded) => decoded,
            Err(corruption) => {
                self.ending = Some(Ending::Broken(corruption));
                return Ok(None);
            }
        };
        let content = at + decoded.bytes;
        self.at = match &decoded.event {
            Event::Write { length, .. } => content + content_bytes(*length),
            _ => content,
        };
        self.next += 1;
        if decoded.event == Event::End {
            self.ending = Some(Ending::Clean);
        }
        Ok(Some(Found {
            number: decoded.number,
            event: decoded.event,
            content,
        }))
    }

    /// Whether an event fits here, and its content verifies.
    fn check(&self, decoded: &Decoded) -> Result<core::result::Result<(), Corruption>> {
        let at = self.at;
        let fits = || {
            equal("number of the event", at + 8, self.next, decoded.number.0)?;
            let disk = self.trace.header.disk_bytes;
            match &decoded.event {
                Event::Write { offset, length, .. } | Event::Zero { offset, length, .. } => {
                    let end = offset.saturating_add(*length);
                    match end <= disk {
                        true => Ok(()),
                        false => Err(wrong("end of a range", at + 32, disk, end)),
                    }
                }
                Event::Done { request, .. } if request.0 == 0 || *request >= decoded.number => {
                    let wanted = decoded.number.0;
                    Err(wrong("request of an answer", at + 32, wanted, request.0))
                }
                _ => Ok(()),
            }
        };
        if let Err(corruption) = fits() {
            return Ok(Err(corruption));
        }
        match decoded.event {
            Event::Write { length, sum, .. } => self.check_content(at + decoded.bytes, length, sum),
            _ => Ok(Ok(())),
        }
    }

    fn check_content(
        &self,
        start: u64,
        length: u64,
        wanted: u32,
    ) -> Result<core::result::Result<(), Corruption>> {
        let room = self.trace.bytes.saturating_sub(start);
        if room < length {
            return Ok(Err(wrong("bytes of content", start, length, room)));
        }
        let mut buffer = vec![0; usize::try_from(length).map_or(CHUNK, |length| length.min(CHUNK))];
        let mut sum = Checksum::new();
        let mut done = 0;
        while done < length {
            let now = usize::try_from(length - done).map_or(CHUNK, |rest| rest.min(CHUNK));
            let part = buffer.get_mut(..now).unwrap_or_default();
            let read = self.trace.disk.read_at(start + done, part);
            read.map_err(TraceError::io("reading the trace"))?;
            sum = sum.with(part);
            done += now as u64;
        }
        Ok(equal("checksum of content", start, wanted, sum.finish()))
    }
}
