//! Reading files back, and having sent again what is wrong.

use super::{Outcome, Patch, Refusal, Worker, Written, fatal};
use crate::content::write_range;
use crate::entry::Entry;
use crate::error::TransferError;
use crate::message::{PAGE_BYTES, Placed, ToSender};
use crate::receiver::carry;
use crate::receiver::plant::Plant;
use crate::receiver::proof::{Proof, Range};
use env::errno::Errno;
use rustix::fs::{fstat, fsync, ftruncate};
use std::collections::BTreeSet;

/// How often pages that read back different are sent again.
const REPAIRS: usize = 3;

/// Pages that are asked for at once.
const PAGES_AGAIN: usize = 256;

impl Worker<'_> {
    /// Reads a file back, and has pages that are wrong sent again. `entry` is that of a complete
    /// file.
    pub(super) fn prove(
        &mut self,
        file: &Written,
        entry: Option<&Entry>,
        placed: &mut Placed,
    ) -> Result<Outcome, TransferError> {
        let staged = &file.staged;
        let direct = match self.staging.open_direct(staged.number) {
            Ok(direct) => direct,
            // A file that was begun anew meanwhile.
            Err(Errno::NOENT) => return Ok(Outcome::Refused("it was begun anew".to_owned())),
            Err(errno) => return Err(fatal(errno)),
        };
        let unlike = file.ranges.iter().flat_map(|range| range.unlike.iter());
        let unlike: Vec<u64> = unlike.copied().collect();
        for pages in unlike.chunks(PAGES_AGAIN) {
            if let Err(what) = self.repair(file, pages)? {
                return Ok(Outcome::Refused(what));
            }
        }
        if !unlike.is_empty() {
            self.settle_again(file, entry)?;
        }
        if self.settings.plants(Plant::NoProof) {
            return Ok(Outcome::Proved);
        }
        let mut repairs = 0;
        loop {
            let whole = entry.is_some();
            let proof = self
                .prover
                .prove(&staged.file, &direct, &file.ranges, whole);
            let wrong = match proof {
                Ok(Proof::Right) if !whole || has_length(file)? => return Ok(Outcome::Proved),
                Ok(Proof::Right) => Vec::new(),
                Ok(Proof::Wrong(wrong)) => wrong,
                Ok(Proof::Cached(pages)) => return Ok(Outcome::Cached(pages)),
                // The device does not return what it was given.
                Err(Errno::IO | Errno::BADMSG | Errno::UCLEAN) => {
                    let what = "it could not be read back: input/output error";
                    return Ok(Outcome::Refused(what.to_owned()));
                }
                Err(errno) => return Err(fatal(errno)),
            };
            if repairs == REPAIRS {
                let count = wrong.len();
                return Ok(Outcome::Refused(format!(
                    "{count} of its pages, or its length, read back wrong after each of {REPAIRS} repairs"
                )));
            }
            repairs += 1;
            for pages in wrong.chunks(PAGES_AGAIN) {
                if let Err(what) = self.repair(file, pages)? {
                    return Ok(Outcome::Refused(what));
                }
                placed.pages_resent += pages.len() as u64;
            }
            if whole {
                ftruncate(&staged.file, file.source.bytes).map_err(fatal)?;
            }
            self.settle_again(file, entry)?;
        }
    }

    /// Gives a file that was repaired what it carries, and syncs it.
    fn settle_again(&self, file: &Written, entry: Option<&Entry>) -> Result<(), TransferError> {
        let file = &file.staged.file;
        if let Some(entry) = entry {
            carry::to_open(file, &entry.meta).map_err(fatal)?;
        }
        fsync(file).map_err(fatal)?;
        if let Some(hook) = &self.after_sync {
            hook(file);
        }
        Ok(())
    }

    /// Asks for pages again, and writes them.
    fn repair(
        &mut self,
        file: &Written,
        pages: &[u64],
    ) -> Result<Result<(), Refusal>, TransferError> {
        let (index, asked) = (file.index, pages.to_vec());
        self.say(&ToSender::Again {
            index,
            pages: asked,
        })?;
        let mut left: BTreeSet<u64> = pages.iter().copied().collect();
        loop {
            let patch = self.patches.recv_timeout(self.patience);
            let patch = patch.map_err(|_| TransferError::Rpc(Errno::TIMEDOUT.into()))?;
            match patch {
                Patch::Page {
                    index: of,
                    offset,
                    sums,
                    bytes,
                } => {
                    if of != index || !left.remove(&offset) {
                        return Err(TransferError::Violation("a page that nobody asked for"));
                    }
                    if expected(&file.ranges, offset) != sums.first().copied() {
                        return Ok(Err("it has changed since it was sent".to_owned()));
                    }
                    write_range(&file.staged.file, offset, &bytes, false).map_err(fatal)?;
                }
                Patch::End { index: of, failed } => {
                    if of != index {
                        return Err(TransferError::Violation("a repair of another file"));
                    }
                    return Ok(match failed {
                        Some(what) => Err(what),
                        None if left.is_empty() => Ok(()),
                        None => Err("pages of it did not come again".to_owned()),
                    });
                }
            }
        }
    }
}

/// Whether a complete file is as long as it has to be: what is behind its pages nobody reads back.
fn has_length(file: &Written) -> Result<bool, TransferError> {
    let length = fstat(&file.staged.file).map_err(fatal)?.st_size;
    Ok(u64::try_from(length) == Ok(file.source.bytes))
}

/// The checksum that a page has to have.
fn expected(ranges: &[Range], offset: u64) -> Option<u32> {
    let covers =
        |range: &&Range| (range.offset..range.offset + range.bytes as u64).contains(&offset);
    let range = ranges.iter().find(covers)?;
    let page = (offset - range.offset) / PAGE_BYTES as u64;
    range.sums.get(usize::try_from(page).ok()?).copied()
}
