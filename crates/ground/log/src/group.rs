//! Group commit: many callers, one device write.

use crate::batch::Batch;
use crate::recovery::{Files, recover};
use crate::segments::{Segments, WriteFailure};
use crate::{Held, LogError, LogId, Options, Record, Result, Sequence};
use env::Dir;
use env::errno::Errno;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

/// A record log, open for appending. All calls may come from several threads at once.
pub struct Log {
    state: Mutex<State>,
    /// Signalled when a leader has finished.
    finished: Condvar,
    /// Locked after `state` is let go, never while it is held.
    segments: Mutex<Segments>,
    record_bytes_max: usize,
}

struct State {
    pending: Batch,
    next: Sequence,
    /// Every record below is durable.
    durable: Sequence,
    /// Whether some caller is writing now.
    led: bool,
    poison: Option<(&'static str, Errno)>,
}

impl Log {
    /// Makes an empty log, durably.
    ///
    /// # Errors
    /// [`LogError::Exists`] where `dir` has segments of that name.
    pub fn create(dir: Arc<dyn Dir>, name: &str, id: LogId, options: Options) -> Result<Log> {
        let mut segments = Segments::new(dir.clone(), name, id, options)?;
        let files = Files::find(dir.as_ref(), name)?;
        if !files.live.is_empty() {
            return Err(LogError::Exists {
                name: name.to_owned(),
            });
        }
        files.settle(dir.as_ref(), name, &mut segments)?;
        segments
            .roll(Sequence::FIRST)
            .map_err(|failure| failure.error)?;
        Ok(Log::new(segments, Sequence::FIRST))
    }

    /// Opens a log and returns what it holds, in order.
    ///
    /// What follows the last whole record of the last device write is dropped: it was never
    /// committed. `options.segment_bytes` may differ from before and counts for new segments.
    ///
    /// # Errors
    /// [`LogError::Missing`], and [`LogError::Corrupt`] where records are damaged that had been
    /// committed; nothing is changed then.
    pub fn open(
        dir: Arc<dyn Dir>,
        name: &str,
        id: LogId,
        options: Options,
    ) -> Result<(Log, Vec<Record>)> {
        let mut records = Vec::new();
        let log = Log::open_each(dir, name, id, options, &mut |record| records.push(record))?;
        Ok((log, records))
    }

    /// As [`Log::open`], for a log that may not fit in memory: calls `each` for every record in
    /// order. Memory holds one segment at a time.
    ///
    /// # Errors
    /// As [`Log::open`]; `each` may have seen the records before the damage.
    pub fn open_each(
        dir: Arc<dyn Dir>,
        name: &str,
        id: LogId,
        options: Options,
        each: &mut dyn FnMut(Record),
    ) -> Result<Log> {
        let (segments, next) = recover(&dir, name, id, options, each)?;
        Ok(Log::new(segments, next))
    }

    fn new(segments: Segments, next: Sequence) -> Log {
        Log {
            record_bytes_max: segments.record_bytes_max(),
            state: Mutex::new(State {
                pending: Batch::default(),
                next,
                durable: next,
                led: false,
                poison: None,
            }),
            finished: Condvar::new(),
            segments: Mutex::new(segments),
        }
    }

    /// Adds a record in memory; it is durable once [`Log::commit`] has returned for it or for a
    /// later one. Where [`crate::PENDING_BYTES_MAX`] bytes wait already, they are committed first.
    ///
    /// # Errors
    /// [`LogError::TooLong`], [`LogError::Poisoned`], or the error of that commit. The record was
    /// not added then.
    pub fn append(&self, kind: u16, payload: &[u8]) -> Result<Sequence> {
        if payload.len() > self.record_bytes_max {
            return Err(LogError::TooLong {
                found: payload.len() as u64,
                max: self.record_bytes_max as u64,
            });
        }
        let payload_crc = codec::crc32c(payload);
        let mut state = self.state.lock();
        loop {
            state.check()?;
            if state.pending.has_room(payload.len()) {
                let sequence = state.next;
                state.pending.push(sequence, kind, payload, payload_crc);
                state.next = sequence.next();
                return Ok(sequence);
            }
            state = self.advance(state)?;
        }
    }

    /// Returns when record `upto` and all before it are durable.
    ///
    /// # Errors
    /// Any error means that this is not known. After NoSpace ([`LogError::kind`]) the records wait
    /// on, and another call may succeed once there is room; after any other the log is poisoned.
    pub fn commit(&self, upto: Sequence) -> Result<()> {
        let mut state = self.state.lock();
        if upto >= state.next {
            return Err(LogError::NotAppended {
                sequence: upto.0,
                next: state.next.0,
            });
        }
        while state.durable <= upto {
            state.check()?;
            state = self.advance(state)?;
        }
        Ok(())
    }

    /// Lets go of whole segments that hold only records before `sequence`; they are recycled. After
    /// a crash the records from `sequence` on are all there, and older ones may be. The newest
    /// segment always stays.
    ///
    /// # Errors
    /// After any the log is poisoned.
    pub fn truncate_before(&self, sequence: Sequence) -> Result<()> {
        self.state.lock().check()?;
        let truncated = self.segments.lock().truncate_before(sequence);
        truncated.inspect_err(|error| self.state.lock().poison_with(error))
    }

    /// The sequence that the next append gets.
    pub fn next_sequence(&self) -> Sequence {
        self.state.lock().next
    }

    /// Every record below this sequence is durable.
    pub fn durable_sequence(&self) -> Sequence {
        self.state.lock().durable
    }

    /// What the log holds now.
    pub fn held(&self) -> Held {
        let next = self.next_sequence();
        self.segments.lock().held(next)
    }

    /// Moves the durable sequence forward: waits for the write in flight, or makes one.
    fn advance<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        if state.led {
            self.finished.wait(&mut state);
            return Ok(state);
        }
        state.led = true;
        let mut batch = std::mem::take(&mut state.pending);
        drop(state);
        let lead = Lead { log: self };
        let mut reached = None;
        let written = self
            .segments
            .lock()
            .write(&mut batch, |next| reached = Some(next));
        std::mem::forget(lead);

        let mut state = self.state.lock();
        state.led = false;
        self.finished.notify_all();
        if let Some(reached) = reached {
            state.durable = reached;
        }
        match written {
            Ok(()) => Ok(state),
            Err(WriteFailure { error, harmless }) => {
                if harmless {
                    let later = std::mem::replace(&mut state.pending, batch);
                    state.pending.extend(later);
                } else {
                    state.poison_with(&error);
                }
                Err(error)
            }
        }
    }
}

/// Held while a write is in flight: should it panic, the callers who wait for it get an error
/// instead of waiting for ever.
struct Lead<'a> {
    log: &'a Log,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        state.led = false;
        state.poison.get_or_insert(("writing", Errno::IO));
        self.log.finished.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match self.poison {
            Some((doing, errno)) => Err(LogError::Poisoned { doing, errno }),
            None => Ok(()),
        }
    }

    fn poison_with(&mut self, error: &LogError) {
        let cause = match error {
            LogError::Io { doing, errno, .. } => (*doing, *errno),
            _ => ("writing", Errno::IO),
        };
        self.poison.get_or_insert(cause);
    }
}
