//! A disk that notes what is done to it.

use super::base;
use super::error::{Result, TraceError};
use super::event::{Event, EventNumber, HEADER_BYTES, Header, MARK_BYTES_MAX, content_bytes};
use codec::FrameKey;
use env::Disk;
use env::errno::Errno;
use mount::fixed::Content;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Bytes that are looked at, and written as zeros where need be, at once.
const ZEROS_BYTES: usize = 1 << 20;

/// The trace while it is written.
struct Tape {
    disk: Arc<dyn Disk>,
    /// Where the next event goes.
    end: u64,
    /// The last event.
    last: u64,
    /// Ranges that are being changed.
    busy: Vec<std::ops::Range<u64>>,
    /// Why it takes no more: a request or the trace failed, or it has ended.
    stopped: Option<Errno>,
}

/// A disk before which each request is noted in a trace as it comes, and each answer as it goes.
/// Overlapping changes are passed on one after the other. After the first failure, of the disk or
/// of the trace, it takes no more changes, for what is on the disk is not known.
pub struct Recorder {
    image: Arc<dyn Disk>,
    bytes: u64,
    key: FrameKey,
    tape: Mutex<Tape>,
    changed: Condvar,
}

impl Recorder {
    /// Begins a trace of `image` on `trace`, an empty file that can grow. Reads all of the image, for
    /// its checksum. Nobody else may change it from here on.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn start(image: Arc<dyn Disk>, trace: Arc<dyn Disk>, id: u128) -> Result<Recorder> {
        let header = Header {
            trace: id,
            disk_bytes: image
                .len()
                .map_err(TraceError::io("the length of a disk"))?,
            base_sum: base::sum(image.as_ref())?,
        };
        trace
            .write_at(0, &header.encode())
            .map_err(TraceError::io("writing the trace"))?;
        Ok(Recorder {
            image,
            bytes: header.disk_bytes,
            key: header.key(),
            tape: Mutex::new(Tape {
                disk: trace,
                end: HEADER_BYTES,
                last: 0,
                busy: Vec::new(),
                stopped: None,
            }),
            changed: Condvar::new(),
        })
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.tape.lock().last
    }

    /// Notes something that a program says, so that it can be told from the trace what was before it.
    ///
    /// # Errors
    /// EINVAL where it is longer than [`MARK_BYTES_MAX`], and of the trace.
    pub fn mark(&self, text: &[u8]) -> env::Result<EventNumber> {
        if text.len() > MARK_BYTES_MAX {
            return Err(Errno::INVAL);
        }
        self.note(&mut self.tape.lock(), &Event::Mark(text.to_vec()), &[])
    }

    /// Ends the trace, and makes it durable; changes are refused from then on.
    ///
    /// # Errors
    /// Of the trace.
    pub fn finish(&self) -> Result<EventNumber> {
        let failed = TraceError::io("writing the trace");
        let mut tape = self.tape.lock();
        let last = self.note(&mut tape, &Event::End, &[]).map_err(failed)?;
        tape.stopped = Some(Errno::ROFS);
        let synced = tape.disk.sync();
        synced.map_err(TraceError::io("writing the trace"))?;
        Ok(last)
    }

    /// Writes an event, with the content of a write.
    fn note(&self, tape: &mut Tape, event: &Event, content: &[u8]) -> env::Result<EventNumber> {
        if let Some(errno) = tape.stopped {
            return Err(errno);
        }
        let number = EventNumber(tape.last + 1);
        let mut bytes = event.encode(&self.key, number);
        bytes.extend_from_slice(content);
        let padding = content_bytes(content.len() as u64) - content.len() as u64;
        bytes.extend_from_slice([0; 8].get(..padding as usize).unwrap_or_default());
        if let Err(errno) = tape.disk.write_at(tape.end, &bytes) {
            tracing::error!(%errno, "the trace cannot be written; nothing more is recorded");
            tape.stopped = Some(errno);
            return Err(errno);
        }
        tape.end += bytes.len() as u64;
        tape.last = number.0;
        Ok(number)
    }

    /// Notes a request, does it, and notes its end.
    fn change(
        &self,
        event: &Event,
        range: std::ops::Range<u64>,
        content: &[u8],
        act: impl FnOnce() -> env::Result<()>,
    ) -> env::Result<()> {
        if range.end > self.bytes {
            return Err(Errno::INVAL);
        }
        let overlaps =
            |other: &std::ops::Range<u64>| other.start < range.end && range.start < other.end;
        let mut tape = self.tape.lock();
        while tape.busy.iter().any(overlaps) {
            self.changed.wait(&mut tape);
        }
        let request = self.note(&mut tape, event, content)?;
        tape.busy.push(range.clone());
        drop(tape);
        let done = act();
        let mut tape = self.tape.lock();
        if let Some(place) = tape.busy.iter().position(|busy| *busy == range) {
            tape.busy.swap_remove(place);
        }
        self.changed.notify_all();
        self.answer(&mut tape, request, done)
    }

    fn answer(
        &self,
        tape: &mut Tape,
        request: EventNumber,
        done: env::Result<()>,
    ) -> env::Result<()> {
        let errno = done.err().map_or(0, Errno::raw_os_error);
        let event = Event::Done {
            request,
            errno: errno.unsigned_abs(),
        };
        self.note(tape, &event, &[])?;
        if let Err(errno) = done {
            tracing::error!(%errno, "the disk below failed; nothing more is recorded");
            tape.stopped = Some(errno);
        }
        done
    }

    /// Makes a range zeros on the image, which may ignore a discard.
    fn clear(&self, offset: u64, length: u64) -> env::Result<()> {
        self.image.discard(offset, length)?;
        let mut buffer = vec![0; ZEROS_BYTES];
        let zeros = vec![0; ZEROS_BYTES];
        let mut done = 0;
        while done < length {
            let now = usize::try_from(length - done).map_or(ZEROS_BYTES, |l| l.min(ZEROS_BYTES));
            let (found, zeros) = (buffer.get_mut(..now), zeros.get(..now));
            let (found, zeros) = (found.unwrap_or_default(), zeros.unwrap_or_default());
            self.image.read_at(offset + done, found)?;
            if found != zeros {
                self.image.write_at(offset + done, zeros)?;
            }
            done += now as u64;
        }
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, free: bool) -> env::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let event = Event::Zero {
            offset,
            length,
            free,
        };
        let end = offset.checked_add(length).ok_or(Errno::INVAL)?;
        self.change(&event, offset..end, &[], || self.clear(offset, length))
    }
}

impl Disk for Recorder {
    fn len(&self) -> env::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> env::Result<()> {
        self.image.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> env::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let length = data.len() as u64;
        let event = Event::Write {
            offset,
            length,
            sum: codec::crc32c(data),
        };
        let end = offset.checked_add(length).ok_or(Errno::INVAL)?;
        self.change(&event, offset..end, data, || {
            self.image.write_at(offset, data)
        })
    }

    fn sync(&self) -> env::Result<()> {
        let request = self.note(&mut self.tape.lock(), &Event::Sync, &[])?;
        let done = self.image.sync();
        self.answer(&mut self.tape.lock(), request, done)
    }

    /// The range reads as zeros afterwards.
    fn discard(&self, offset: u64, length: u64) -> env::Result<()> {
        self.zero(offset, length, true)
    }
}

/// A disk that is recorded, as the content of a file.
pub struct Recorded(pub Arc<Recorder>);

impl Content for Recorded {
    fn size(&self) -> u64 {
        self.0.bytes
    }
    fn allocated(&self) -> u64 {
        self.0.bytes
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> mount::Result<()> {
        self.0.read_at(offset, buffer)
    }
    fn write(&self, offset: u64, data: &[u8]) -> mount::Result<()> {
        self.0.write_at(offset, data)
    }
    fn zero(&self, offset: u64, length: u64, free: bool) -> mount::Result<()> {
        self.0.zero(offset, length, free)
    }
    fn sync(&self) -> mount::Result<()> {
        self.0.sync()
    }
}

/// The marks of a recorder as a file that stays empty: what is written to it is one.
pub struct Marks(pub Arc<Recorder>);

impl Content for Marks {
    fn size(&self) -> u64 {
        0
    }
    fn allocated(&self) -> u64 {
        0
    }
    fn read(&self, _: u64, _: &mut [u8]) -> mount::Result<()> {
        Err(Errno::INVAL)
    }
    fn write(&self, _: u64, data: &[u8]) -> mount::Result<()> {
        self.0.mark(data).map(drop)
    }
    fn zero(&self, _: u64, _: u64, _: bool) -> mount::Result<()> {
        Err(Errno::OPNOTSUPP)
    }
    fn sync(&self) -> mount::Result<()> {
        Ok(())
    }
    fn takes_messages(&self) -> bool {
        true
    }
}
