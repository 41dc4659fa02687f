//! A metadata store: open, read, change, checkpoint.

mod medium;
mod open;
mod read;
mod share;
mod stage;
mod state;
mod transaction;

pub(crate) use medium::Medium;
pub use open::{OpenNote, Opened, Replay};
pub(crate) use share::RosterEntry;
pub use share::{ROSTER_ENTRY_BYTES, SHARED_BYTES_MAX};
pub(crate) use state::State;
pub(crate) use transaction::Transaction;

use crate::action::{Action, Checkpoint, PARTS_MAX, RECORD_CHECKPOINT, RECORD_DONE, RECORD_PART};
use crate::request::Request;
use crate::{MetaError, Result, StoreId, action};
use env::errno::{Errno, ErrorKind};
use env::{Dir, Files, Lock};
use log::{Log, LogError, Sequence};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of requests between journal and files, and of the blocks that readers get from memory
/// meanwhile; a request that goes beyond commits.
pub const QUEUED_BYTES_MAX: usize = 8 << 20;

/// Longest request in the journal, in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Where a store lies; all three on one file system.
#[derive(Clone)]
pub struct Places {
    /// The files that get metadata.
    pub files: Arc<dyn Files>,
    /// A directory for the metadata, used by nothing else.
    pub objects: Arc<dyn Dir>,
    /// A directory for the journal, used by nothing else.
    pub journal: Arc<dyn Dir>,
}

/// How a store works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of each segment of the journal, as in [`log::Options`]. Counts when they are made.
    pub segment_bytes: u64,
    /// Bytes that may be written to the journal before the next request makes a checkpoint: the
    /// bound of a replay.
    pub journal_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 16 << 20,
            journal_bytes: 64 << 20,
        }
    }
}

/// A request that the journal has: its sequence there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A metadata store, open. All calls may come from several threads at once.
pub struct Store {
    id: StoreId,
    files: Arc<dyn Files>,
    objects: Arc<dyn Dir>,
    log: Log,
    options: Options,
    state: Mutex<State>,
    /// One checkpoint at a time.
    checkpointing: Mutex<()>,
    /// Bytes written to the journal since the last checkpoint.
    journaled: AtomicU64,
    replay: Replay,
    _lock: Option<Lock>,
}

/// What a store does, for people and machines.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Status {
    /// The store's id, in hexadecimal.
    pub store: String,
    /// Objects made so far, at most: numbers are handed out once.
    pub numbers_used: u64,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// Requests in the journal and not yet in the files.
    pub queued_requests: usize,
    /// Requests whose notes are open.
    pub open_notes: usize,
    /// What the open had to do.
    pub replay: Replay,
}

impl Store {
    /// An empty request.
    pub fn request(&self) -> Request<'_> {
        Request::new(self)
    }

    /// Which store it is.
    pub fn id(&self) -> StoreId {
        self.id
    }

    /// What the store does.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        Status {
            store: format!("{:032x}", self.id.0),
            numbers_used: state.next_number() - 1,
            journal_bytes: self.log.held().bytes,
            queued_requests: state.queue.len(),
            open_notes: state.open.len(),
            replay: self.replay,
        }
    }

    /// Writes a request to the journal's buffer and shows its effect to readers.
    pub(crate) fn change(
        &self,
        plan: impl FnOnce(&mut Transaction<'_>) -> Result<()>,
    ) -> Result<Ticket> {
        self.make_room()?;
        let mut state = self.state.lock();
        state.check()?;
        let mut txn = Transaction::new(&mut state);
        let bytes = match plan(&mut txn) {
            Ok(()) => action::encode(&txn.changes.actions),
            Err(error) => {
                txn.abandon();
                return Err(error);
            }
        };
        if bytes.len() > REQUEST_BYTES_MAX {
            txn.abandon();
            return Err(MetaError::TooLong {
                what: "a request",
                found: bytes.len() as u64,
                max: REQUEST_BYTES_MAX as u64,
            });
        }
        if bytes.is_empty() {
            let before = self.log.next_sequence().0.saturating_sub(1);
            return Ok(Ticket(before));
        }
        #[cfg(test)]
        if txn.state.planted == Planted::AppliesFirst {
            for action in &txn.changes.actions {
                let _ = txn.state.medium.apply(action);
            }
        }
        let (first, last) = match self.append(&bytes) {
            Ok(sequences) => sequences,
            Err(Unwritten::Nothing(error)) => {
                txn.abandon();
                return Err(error.into());
            }
            Err(Unwritten::Part) => {
                return Err(state.stop("writing the metadata journal", Errno::IO));
            }
        };
        let changes = std::mem::take(&mut txn.changes);
        let notes = changes.actions.iter();
        if notes
            .clone()
            .any(|action| matches!(action, Action::Note { .. }))
        {
            state.open.insert(last, first);
        }
        state.queue(changes, first, last, bytes.len());
        let is_long = state.queued_bytes > QUEUED_BYTES_MAX;
        drop(state);
        self.journaled
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if is_long {
            self.flush_to(Ticket(last.0))?;
        }
        Ok(Ticket(last.0))
    }

    /// First and last sequence of the records of a request. The caller holds the state, so that
    /// they stand together.
    fn append(&self, bytes: &[u8]) -> core::result::Result<(Sequence, Sequence), Unwritten> {
        let piece_bytes = (self.options.segment_bytes / 4).clamp(2048, 512 << 10) as usize;
        // A request of the most bytes in the smallest pieces stays below the most parts, or the
        // pieces are made longer.
        let piece_bytes = piece_bytes.max(bytes.len().div_ceil(PARTS_MAX as usize));
        let parts = bytes.len().div_ceil(piece_bytes) as u32;
        let mut first = None;
        let mut last = Sequence::FIRST;
        for (part, piece) in (0..parts).zip(bytes.chunks(piece_bytes)) {
            let record = action::part(part, parts, piece);
            match (self.log.append(RECORD_PART, &record), first) {
                (Ok(sequence), _) => {
                    first = first.or(Some(sequence));
                    last = sequence;
                }
                (Err(error), None) => return Err(Unwritten::Nothing(error)),
                (Err(_), Some(_)) => return Err(Unwritten::Part),
            }
        }
        Ok((first.unwrap_or(last), last))
    }

    /// Makes everything that was submitted durable.
    ///
    /// # Errors
    /// [`MetaError::Stopped`].
    pub fn flush(&self) -> Result<()> {
        self.flush_to(Ticket(u64::MAX))
    }

    /// Makes this request durable, and all before it.
    ///
    /// # Errors
    /// [`MetaError::Stopped`].
    pub fn flush_to(&self, ticket: Ticket) -> Result<()> {
        // A ticket from elsewhere must not harm the journal.
        let last = self.log.next_sequence().0.saturating_sub(1).min(ticket.0);
        if last > 0 {
            self.write_journal(Sequence(last))?;
        }
        let mut state = self.state.lock();
        state.settle(self.log.durable_sequence())
    }

    /// Commits the journal. Where the disk is full, a checkpoint may free segments to use again.
    fn write_journal(&self, upto: Sequence) -> Result<()> {
        let Err(error) = self.log.commit(upto) else {
            return Ok(());
        };
        let mut failed = error;
        if failed.kind() == ErrorKind::NoSpace {
            let freed = self.truncate();
            match freed.map(|()| self.log.commit(upto)) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(again)) => failed = again,
                Err(_) => {}
            }
        }
        let errno = match &failed {
            LogError::Io { errno, .. } | LogError::Poisoned { errno, .. } => *errno,
            _ => Errno::IO,
        };
        Err(self
            .state
            .lock()
            .stop("writing the metadata journal", errno))
    }

    /// Lets the journal go of what is in the files already, which it makes durable for that.
    fn truncate(&self) -> Result<()> {
        let (upto, keep, open) = {
            let mut state = self.state.lock();
            state.settle(self.log.durable_sequence())?;
            let next = self.log.durable_sequence();
            let front = state.queue.front();
            let upto = front.map_or(next, |pending| pending.last.min(next));
            let first = front.map_or(next, |pending| pending.first.min(next));
            let pinned = state.open.values().next().copied();
            let open: Vec<u64> = state.open.keys().map(|sequence| sequence.0).collect();
            (upto, pinned.map_or(first, |pinned| pinned.min(first)), open)
        };
        #[cfg(test)]
        let skips = self.state.lock().planted == Planted::TruncatesUnsynced;
        #[cfg(not(test))]
        let skips = false;
        if !skips {
            let synced = self.files.sync_all();
            synced.map_err(|errno| self.state.lock().stop("syncing the file system", errno))?;
        }
        // Not committed here: without it a replay does more than it must, and nothing wrong.
        let record = Checkpoint { upto: upto.0, open };
        let result = self
            .log
            .append(RECORD_CHECKPOINT, &record.encode())
            .and_then(|_| self.log.truncate_before(keep));
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NoSpace => Err(error.into()),
            Err(_) => {
                let mut state = self.state.lock();
                Err(state.stop("truncating the metadata journal", Errno::IO))
            }
        }
    }

    /// Makes everything durable, brings it into the files, and empties the journal as far as
    /// notes allow, so that the next open has nothing to replay.
    ///
    /// # Errors
    /// [`MetaError::Stopped`], or no room for the journal.
    pub fn checkpoint(&self) -> Result<()> {
        let _one = self.checkpointing.lock();
        self.flush()?;
        self.journaled.store(0, Ordering::Relaxed);
        self.truncate()?;
        let last = self.log.next_sequence().0.saturating_sub(1);
        self.write_journal(Sequence(last))
    }

    /// A checkpoint where the journal has grown enough.
    fn make_room(&self) -> Result<()> {
        if self.journaled.load(Ordering::Relaxed) <= self.options.journal_bytes {
            return Ok(());
        }
        self.checkpoint()?;
        let bytes = self.log.held().bytes;
        // What notes keep: four times what a checkpoint would keep without them.
        if bytes > 4 * self.options.journal_bytes.max(self.options.segment_bytes) {
            self.journaled
                .store(self.options.journal_bytes + 1, Ordering::Relaxed);
            return Err(MetaError::JournalFull { bytes });
        }
        Ok(())
    }

    /// What the notes of this request say is done, durably; the journal may let go of them. It
    /// learns of this with the next commit, and a crash before that hands them back again.
    pub fn done(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        if state.open.remove(&Sequence(ticket.0)).is_some() {
            // A journal that takes no more hands the notes back at the next open, which is allowed.
            let _ = self.log.append(RECORD_DONE, &ticket.0.to_le_bytes());
        }
    }

    /// Ends with a checkpoint. Dropping a store loses nothing that was committed either, and
    /// leaves more to the next open.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn close(self) -> Result<()> {
        self.checkpoint()
    }

    /// Names of the files of all objects, and of what else is in their directory.
    pub(crate) fn object_files(&self) -> Result<Vec<String>> {
        let mut files = self
            .objects
            .list()
            .map_err(MetaError::io("listing metadata"))?;
        files.retain(|file| file != crate::superblock::STORE_FILE && file != open::LOCK);
        Ok(files)
    }

    /// Calls `work` while nobody else reads or changes anything.
    pub(crate) fn with_state<T>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        state.check()?;
        work(&mut state)
    }
}

/// How much of a request is in the journal's buffer after a failure.
enum Unwritten {
    Nothing(LogError),
    Part,
}

/// Bugs that the tests plant to see that they find them.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planted {
    Nothing,
    /// Changes go to the files before the journal has them.
    AppliesFirst,
    /// What an attribute says is believed on any file.
    BelievesEveryAttribute,
    /// The journal is truncated without a sync of the files.
    TruncatesUnsynced,
    /// A large object is referred to before its name is durable.
    StagesWithoutDirSync,
}

#[cfg(test)]
mod tests;
