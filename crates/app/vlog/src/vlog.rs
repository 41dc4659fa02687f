//! The log as its users see it.

use crate::append::{Change, Receipt};
use crate::compaction::Compacted;
use crate::error::Result;
use crate::options::Options;
use crate::place::Directory;
use crate::position::Position;
use crate::recovery::{Record, Sink};
use crate::shared::Shared;
use crate::status::Status;
use crate::{VlogId, open, threads};
use env::Lock;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A validity-tracked log, open. All calls may come from several threads at once.
///
/// A drop is like a crash of the process: what was not written may be lost. [`Vlog::close`] is the
/// orderly end.
pub struct Vlog {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _locks: Vec<Lock>,
}

impl Vlog {
    /// Makes an empty log, durably. [`Vlog::open`] opens it.
    ///
    /// # Errors
    /// [`crate::VlogError::Exists`] where a directory has a log of that name, or belongs to one.
    pub fn create(name: &str, directories: Vec<Directory>, id: VlogId) -> Result<()> {
        open::create(name, directories, id.0)
    }

    /// The id of a log whose [`Vlog::create`] a crash cut short, if the first directory is left like
    /// that: it can be made again under this id.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn unfinished(name: &str, directories: Vec<Directory>) -> Result<Option<VlogId>> {
        open::unfinished(name, directories)
    }

    /// Opens a log and hands every live record to `sink`: each entry once, in no order, from
    /// [`Options::recovery_threads`] threads at once.
    ///
    /// # Errors
    /// Where something that had been durable is damaged or missing the log is left as it is; `sink`
    /// may have seen part of it.
    pub fn open(
        name: &str,
        directories: Vec<Directory>,
        options: Options,
        sink: &Sink<'_>,
    ) -> Result<Vlog> {
        let (shared, locks) = open::open(name, directories, options, sink, false)?;
        Vlog::start(shared, locks)
    }

    pub(crate) fn start(shared: Shared, locks: Vec<Lock>) -> Result<Vlog> {
        let shared = Arc::new(shared);
        let threads = match shared.options.threads {
            true => threads::start(&shared)?,
            false => Vec::new(),
        };
        Ok(Vlog {
            shared,
            threads,
            _locks: locks,
        })
    }

    /// As [`Vlog::open`], for a few records: they are returned, by stream and then by age.
    ///
    /// # Errors
    /// As [`Vlog::open`].
    pub fn open_all(
        name: &str,
        directories: Vec<Directory>,
        options: Options,
    ) -> Result<(Vlog, Vec<OwnedRecord>)> {
        let found = parking_lot::Mutex::new(Vec::new());
        let sink = |record: Record<'_>| {
            found.lock().push(OwnedRecord {
                stream: record.stream,
                order: record.order,
                position: record.position,
                payload: record.payload.to_vec(),
            });
        };
        let log = Vlog::open(name, directories, options, &sink)?;
        let mut found = found.into_inner();
        found.sort_by_key(|record| (record.stream, record.order));
        Ok((log, found))
    }

    /// Adds a record, in place of another of the same entry and stream if it replaces one. It does no
    /// I/O, unless
    /// [`Options::pending_bytes_max`] bytes wait already.
    ///
    /// # Errors
    /// Nothing was appended, and what was to be replaced is live as before.
    pub fn append(
        &self,
        stream: u32,
        payload: &[u8],
        replaces: Option<Position>,
    ) -> Result<(Position, Receipt)> {
        let change = Change::Append {
            stream,
            payload,
            replaces,
        };
        let mut positions = Vec::with_capacity(1);
        let receipt = self.shared.change(&[change], &mut positions)?;
        let position = positions.pop().expect("an append gives a position");
        Ok((position, receipt))
    }

    /// The record at a position is dead from now on. `stream` is the one that a later record of the
    /// same entry would be appended to.
    ///
    /// # Errors
    /// [`crate::VlogError::NotLive`] and others; nothing was changed.
    pub fn kill(&self, stream: u32, position: Position) -> Result<Receipt> {
        let change = Change::Kill { stream, position };
        self.shared.change(&[change], &mut Vec::new())
    }

    /// Makes all changes or none, also after a crash, on any number of streams. The positions of
    /// new records are added to `positions`, in order.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn group(&self, changes: &[Change<'_>], positions: &mut Vec<Position>) -> Result<Receipt> {
        self.shared.change(changes, positions)
    }

    /// Whether changes are taken now: not while a disk is full, and never after a write or sync failed.
    /// An append may still be refused, where that comes between.
    ///
    /// # Errors
    /// The one that an append would give.
    pub fn accepts(&self) -> Result<()> {
        self.shared.check()?;
        for lane in &self.shared.lanes {
            if let Some(full) = &lane.buffer.lock().full {
                return Err(full.clone());
            }
        }
        Ok(())
    }

    /// Returns when what a receipt is for would survive any crash; lanes are synced for it.
    ///
    /// # Errors
    /// Any means that this is not known.
    pub fn durable(&self, receipt: Receipt) -> Result<()> {
        self.shared
            .wait_durable(receipt.lane as usize, receipt.chunk)
    }

    /// Whether what a receipt is for would survive any crash.
    pub fn is_durable(&self, receipt: Receipt) -> bool {
        let progress = self.shared.progress.lock();
        self.shared
            .is_durable_in(&progress, receipt.lane as usize, receipt.chunk)
    }

    /// What all changes made so far wait for: one receipt for each lane that had any.
    pub fn receipts(&self) -> Vec<Receipt> {
        let lanes = (0..).zip(&self.shared.lanes);
        lanes
            .map(|(lane, state)| Receipt {
                lane,
                chunk: state.buffer.lock().last_chunk,
            })
            .filter(|receipt| receipt.chunk > 0)
            .collect()
    }

    /// Writes what a lane has in memory to its file: it survives the end of this process, not yet
    /// a power cut. The log's threads do this by themselves.
    ///
    /// # Errors
    /// After [`crate::VlogError::Full`] it waits in memory on; after others the log has stopped.
    pub fn flush(&self, lane: u32) -> Result<()> {
        self.shared.flush(lane as usize)
    }

    /// Makes durable what was written to a lane. The log's threads do this by themselves.
    ///
    /// # Errors
    /// After any the log has stopped.
    pub fn sync(&self, lane: u32) -> Result<()> {
        self.shared.sync(lane as usize)
    }

    /// Compacts now, once, the files that are worth it most, if any has that many percent dead;
    /// work goes on meanwhile. `None` where none has.
    ///
    /// # Errors
    /// [`crate::VlogError::Corrupt`] and [`crate::VlogError::Lost`] name a file that is damaged: it
    /// stays as it is, and the log goes on.
    pub fn compact(&self, dead_percent_min: u32) -> Result<Option<Compacted>> {
        self.shared.compact(dead_percent_min)
    }

    /// What it holds and does.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Makes everything durable and ends in good order, so that the next open has less to read.
    ///
    /// # Errors
    /// It is closed after any too; what had been durable is.
    pub fn close(mut self) -> Result<()> {
        threads::end(&self.shared, std::mem::take(&mut self.threads));
        self.shared.finish()
    }
}

impl Drop for Vlog {
    fn drop(&mut self) {
        threads::end(&self.shared, std::mem::take(&mut self.threads));
    }
}

/// A live record that [`Vlog::open_all`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRecord {
    /// Its stream.
    pub stream: u32,
    /// As [`Record::order`].
    pub order: u64,
    /// Where the log keeps it from now on.
    pub position: Position,
    /// Its content.
    pub payload: Vec<u8>,
}
