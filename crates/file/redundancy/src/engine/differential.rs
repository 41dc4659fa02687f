//! Writes to encoded chunks: they go to the differentials of their stripe ([`crate::stripes::delayed`]).

use super::Engine;
use crate::encoded::Chunk;
use crate::inode::Inode;
use crate::journal::dirty::Entry;
use crate::label::ObjectId;
use crate::stripes::delayed::MergeReport;
use crate::stripes::{StripeError, Stripes};
use env::errno::{Errno, Fault, fault};
use mount::{Result, SetAttr, SetTime, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages that are merged before somebody who waits for the stripes has his turn.
const MERGE_PAGES: usize = 240;

/// So many times what may stay waits for its merge before writers do merges themselves.
const BACKLOG_SLOW: u64 = 2;
/// And so many before what they write to is given up: a store is away, and nothing can be merged.
const BACKLOG_MAX: u64 = 4;

/// The time, to the nanosecond.
pub(crate) fn now() -> Timestamp {
    let now = env::wall_time();
    Timestamp {
        sec: now.seconds,
        nsec: now.nanoseconds,
    }
}

impl Engine {
    /// The first encoded chunk that reaches into a range that is about to be written. The caller
    /// holds the gate for reading.
    pub(crate) fn encoded_for_write(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Option<Chunk> {
        if self.encoded.is_idle() {
            return None;
        }
        self.encoded.watch().change(object, offset, length);
        self.encoded.first_in(object, offset, length)
    }

    /// Writes to an encoded chunk; up to where `at` and `data` are written, which is nothing where
    /// the stripe was given up meanwhile. The caller holds the gate for reading.
    pub(crate) fn write_encoded(
        &self,
        inode: &Arc<Inode>,
        chunk: Chunk,
        at: u64,
        data: &[u8],
    ) -> Result<u64> {
        let delayed = self.encoded.delayed().ok_or(Errno::IO)?;
        if delayed.backlog() >= BACKLOG_SLOW
            && self.merge_some()? == 0
            && delayed.backlog() >= BACKLOG_MAX
        {
            self.before_change(inode.id, at, data.len() as u64)?;
            return Ok(at);
        }
        self.open_copies(inode, true)?;
        let at_once = self.options.encoding.is_some_and(|e| e.at_once);
        for _ in 0..=self.slots.len() {
            let is_whole = self.members().count() == self.slots.len();
            if at_once && (!is_whole || delayed.is_logged(chunk.stripe, chunk.shard)) {
                // Without a store nothing can be merged, and after a crash a log of an earlier start
                // would be put over what is merged now.
                self.before_change(inode.id, at, data.len() as u64)?;
                return Ok(at);
            }
            match delayed.write(chunk.stripe, chunk.shard, at - chunk.offset, data) {
                Ok(()) => {
                    self.wrote_elsewhere(inode)?;
                    return Ok(at + data.len() as u64);
                }
                Err(StripeError::NoStripe(_)) => {
                    // It is being given up: what holds then is known when that has ended.
                    drop(self.encoded.changing.lock());
                    return Ok(at);
                }
                Err(StripeError::NotWritten { errno, .. }) if fault(errno) == Fault::NoSpace => {
                    return Err(Errno::NOSPC);
                }
                // The others have it; without those that lack it, it is written again.
                Err(error) => self.fence_of(&error)?,
            }
        }
        Err(Errno::IO)
    }

    /// Makes what was written to a file's encoded chunks durable.
    pub(crate) fn sync_differentials(&self, inode: &Inode) -> Result<()> {
        if self.encoded.first_in(inode.id, 0, u64::MAX).is_none() {
            return Ok(());
        }
        let Some(delayed) = self.encoded.delayed() else {
            return Ok(());
        };
        self.until_it_holds(|| delayed.sync_all())
    }

    /// Merges differential pages into bases and parity while there are more than may stay; how many
    /// were merged.
    ///
    /// # Errors
    /// Fewer stores are left than the set can do with.
    pub(crate) fn merge_some(&self) -> Result<u64> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(0);
        };
        let merged = {
            let _one = self.encoded.changing.lock();
            delayed.merge_some(MERGE_PAGES)
        };
        self.merged(&stripes, merged)
    }

    /// Merges everything that can be merged, for as long as is given.
    ///
    /// # Errors
    /// Fewer stores are left than the set can do with.
    pub fn merge_all(&self, limit: Duration) -> Result<()> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(());
        };
        let began = Instant::now();
        for stripe in stripes.all() {
            if delayed.is_empty() || began.elapsed() > limit {
                break;
            }
            let merged = {
                let _one = self.encoded.changing.lock();
                delayed.merge_stripe(stripe.id)
            };
            self.merged(&stripes, merged)?;
        }
        let left = delayed.status().pages;
        if left > 0 {
            tracing::info!(
                pages = left,
                "differential pages are left; they stay until they can be merged"
            );
        }
        Ok(())
    }

    fn merged(
        &self,
        stripes: &Stripes,
        merged: std::result::Result<MergeReport, StripeError>,
    ) -> Result<u64> {
        let report = match merged {
            Ok(report) => report,
            Err(error) => return self.fence_of(&error).map(|()| 0),
        };
        for id in &report.stuck {
            if let Err(error) = stripes.scrub(*id, true) {
                tracing::warn!(%error, "a damaged stripe could not be scrubbed");
            }
        }
        Ok(report.merged)
    }

    /// The copies of a file get the time of a write that did not go to them: at once where
    /// somebody may have seen their time since the last, else when somebody looks.
    pub(crate) fn wrote_elsewhere(&self, inode: &Arc<Inode>) -> Result<()> {
        let now = now();
        if inode.wrote_elsewhere(now) {
            self.set_time(inode, now)?;
        }
        Ok(())
    }

    fn set_time(&self, inode: &Arc<Inode>, time: Timestamp) -> Result<()> {
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        let open = self.open_copies(inode, true)?;
        let change = SetAttr {
            mtime: Some(SetTime::To(time)),
            ..SetAttr::default()
        };
        let answers = open.files.iter().map(|(s, f)| (*s, f.set_attr(&change)));
        self.settle(answers.collect())
    }

    /// Somebody is about to see the times of a file: they are those of the last write after this.
    /// Whether there was one to be set.
    pub(crate) fn set_late_time(&self, inode: &Arc<Inode>) -> bool {
        let Some(time) = inode.take_late_time() else {
            return false;
        };
        // Who asks may hold the gate already, and nobody may wait here for who waits for it.
        let set = match self.gate.try_read_recursive() {
            Some(_gate) => self.set_time(inode, time),
            None => Err(Errno::AGAIN),
        };
        if let Err(errno) = set {
            tracing::debug!(%errno, "a file's time is set later");
            inode.keep_late_time(time);
        }
        true
    }
}
