//! What was proved, and what waits until more can be: files for which level `medium` was asked are
//! read once more when enough has been written behind them.

use super::proof::drop_cache;
use super::staging::Staging;
use crate::content::write_range;
use crate::error::TransferError;
use crate::level::Level;
use crate::manifest::{self, Listed, Proved, Signer, Writer};
use crate::message::{PROBLEMS_MAX, Placed};
use crate::verify::{Difference, Reader};
use env::Rng;
use env::errno::{Errno, Fault, fault};
use rustix::fs::fdatasync;
use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::batch::{fatal, problem};

/// Files that wait; each takes a few hundred bytes of memory.
const WAITING_MAX: usize = 200_000;

/// Bytes that are written and synced at once while scratch data pushes other data out.
const SCRATCH_BYTES: usize = 4 << 20;

/// A file in place that waits.
struct Waiting {
    proved: Proved,
    /// How much had been written when it was synced.
    mark: u64,
    /// Whether an earlier transfer has left it.
    earlier: bool,
}

/// The evidence of a transfer.
pub(super) struct Evidence {
    /// What the device's write cache holds; files wait where this is known.
    write_cache: Option<u64>,
    /// Bytes that this transfer has written and synced.
    written: u64,
    waiting: VecDeque<Waiting>,
    /// Files for which there was no place to wait.
    unheard: u64,
    manifest: Option<Writer>,
    /// Whether the sender can still be asked for a file.
    mends: bool,
    reader: Reader,
}

impl Evidence {
    /// Begins, with what earlier transfers have left to wait.
    pub(super) fn begin(
        root: &Arc<OwnedFd>,
        staging: &Staging,
        write_cache: Option<u64>,
        notes: Option<&[String]>,
    ) -> Result<Evidence, Errno> {
        let manifest = match notes {
            Some(notes) => Some(Writer::begin(staging.unnamed()?, notes)),
            None => None,
        };
        let mut evidence = Evidence {
            write_cache,
            written: 0,
            waiting: VecDeque::new(),
            unheard: 0,
            manifest,
            mends: true,
            reader: Reader::new(root.clone()),
        };
        if write_cache.is_some()
            && let Ok(pending) = staging.open_pending()
        {
            evidence.take_pending(pending);
        }
        Ok(evidence)
    }

    /// A ledger that is damaged says nothing: the files are in place, proved at level `device`.
    fn take_pending(&mut self, pending: OwnedFd) {
        let mut found = VecDeque::new();
        let take = |listed| {
            // A ledger has no other objects.
            if let Listed::File(proved) = listed
                && found.len() < WAITING_MAX
            {
                found.push_back(Waiting {
                    proved,
                    mark: 0,
                    earlier: true,
                });
            }
        };
        if manifest::read(BufReader::new(File::from(pending)), take).is_ok() {
            self.waiting = found;
        }
    }

    /// Whether anything is to be known of files in place.
    pub(super) fn wants_files(&self) -> bool {
        self.lists() || self.write_cache.is_some()
    }

    /// Whether all objects in place are to be listed.
    pub(super) fn lists(&self) -> bool {
        self.manifest.is_some()
    }

    /// So many bytes more were written and synced.
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// A file in place was proved before it got there, after what was written so far.
    pub(super) fn proved(&mut self, proved: Proved) -> Result<(), TransferError> {
        if self.write_cache.is_none() {
            return self.list(&Listed::File(proved));
        }
        if self.waiting.len() >= WAITING_MAX {
            self.unheard += 1;
            return self.list(&Listed::File(proved));
        }
        let mark = self.written;
        self.waiting.push_back(Waiting {
            proved,
            mark,
            earlier: false,
        });
        Ok(())
    }

    /// Lists an object in place, where somebody wants to know.
    pub(super) fn list(&mut self, listed: &Listed) -> Result<(), TransferError> {
        match &mut self.manifest {
            Some(manifest) => manifest.add(listed).map_err(fatal),
            None => Ok(()),
        }
    }

    /// Reads again what has enough behind it.
    pub(super) fn settle(&mut self, placed: &mut Placed) -> Result<(), TransferError> {
        let Some(cache) = self.write_cache else {
            return Ok(());
        };
        let ripe = |waiting: &Waiting, written: u64| written - waiting.mark > cache;
        while let Some(first) = self.waiting.front() {
            if !ripe(first, self.written) {
                break;
            }
            if let Some(first) = self.waiting.pop_front() {
                self.read_again(first, placed)?;
            }
        }
        Ok(())
    }

    fn read_again(&mut self, first: Waiting, placed: &mut Placed) -> Result<(), TransferError> {
        let Waiting {
            mut proved,
            earlier,
            ..
        } = first;
        self.reader.forget();
        match self.reader.compare(&proved) {
            Ok(false) => {
                proved.level = Level::Medium;
                proved.at = env::wall_time().seconds;
                placed.settled += 1;
                return self.list(&Listed::File(proved));
            }
            // Somebody has it mapped: it stays what it is.
            Ok(true) => {
                self.unheard += 1;
                return self.list(&Listed::File(proved));
            }
            Err(Difference::Unreadable(errno)) if fault(errno) == Fault::Medium => {}
            Err(Difference::Rotten) => {}
            // What an earlier transfer has left may have been replaced since, as it should.
            Err(_) if earlier => return Ok(()),
            Err(difference) => {
                let what = format!("while it waited for level medium: {difference}");
                problem(placed, &proved.path, what, false);
                return Ok(());
            }
        }
        if self.mends && placed.again.len() < PROBLEMS_MAX && proved.path.as_bytes().len() <= 512 {
            placed.again.push(proved.path);
            return Ok(());
        }
        let what = "the medium has not kept it: it was right before, and reads wrong now; \
                    look at the disk, and send again";
        problem(placed, &proved.path, what.to_owned(), false);
        Ok(())
    }

    /// Reads again what has enough behind it, and writes until all has where that is wanted.
    pub(super) fn settle_all(
        &mut self,
        staging: &Staging,
        scratches: bool,
        placed: &mut Placed,
    ) -> Result<(), TransferError> {
        self.settle(placed)?;
        if scratches && let (Some(cache), Some(last)) = (self.write_cache, self.waiting.back()) {
            let wanted = last.mark.saturating_add(cache).saturating_add(1);
            let more = wanted.saturating_sub(self.written);
            match scratch(staging, more) {
                Ok(()) => {
                    self.wrote(more);
                    self.settle(placed)?;
                }
                // They go on waiting.
                Err(errno) if fault(errno) == Fault::NoSpace => {}
                Err(errno) => return Err(fatal(errno)),
            }
        }
        Ok(())
    }

    /// Ends: writes until nothing has to wait, where that is wanted; notes what waits still, and
    /// ends the manifest. How many files wait, and the manifest with its length.
    pub(super) fn close(
        &mut self,
        staging: &Staging,
        settle: bool,
        signer: Option<&Signer>,
        placed: &mut Placed,
    ) -> Result<(u64, Option<(OwnedFd, u64)>), TransferError> {
        self.mends = false;
        self.settle_all(staging, settle, placed)?;
        let pending = self.waiting.len() as u64 + self.unheard;
        if self.write_cache.is_some() {
            let waiting = std::mem::take(&mut self.waiting).into_iter();
            let waiting: Vec<Listed> = waiting.map(|it| Listed::File(it.proved)).collect();
            staging.write_pending(&waiting).map_err(fatal)?;
            for listed in &waiting {
                self.list(listed)?;
            }
        }
        let manifest = self.manifest.take();
        let manifest = manifest.map(|manifest| manifest.finish(signer)).transpose();
        Ok((pending, manifest.map_err(fatal)?))
    }
}

/// Writes so much that no device can make less of it, and forgets it.
fn scratch(staging: &Staging, bytes: u64) -> Result<(), Errno> {
    let file = staging.unnamed()?;
    let seed = env::wall_time();
    let mut rng = Rng::new(seed.seconds.unsigned_abs() ^ u64::from(seed.nanoseconds));
    let mut noise = vec![0; SCRATCH_BYTES];
    let mut at = 0;
    while at < bytes {
        rng.fill(&mut noise);
        write_range(&file, at, &noise, true)?;
        fdatasync(&file)?;
        drop_cache(&file, (0, 0))?;
        at += noise.len() as u64;
    }
    Ok(())
}
