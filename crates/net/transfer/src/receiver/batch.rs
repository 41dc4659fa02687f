//! What is proved and put in place together.

use super::Settings;
use super::carry;
use super::plant::Plant;
use super::proof::{Prover, Range, quarantine_path};
use super::root::Root;
use super::staging::{Note, Staged, Staging, name};
use super::waiting::Evidence;
use crate::content::read_range;
use crate::entry::{Entry, Source, TreePath};
use crate::error::TransferError;
use crate::level::Level;
use crate::manifest::{Carried, Proved, Signer};
use crate::message::{
    FailureKind, Index, PAGE_BYTES, PROBLEMS_MAX, Placed, Problem, RANGE_BYTES, ToSender,
};
use crate::root_sum::RootSum;
use crate::walk::words;
use env::Clock;
use env::errno::{Errno, Fault, fault};
use rpc::Channel;
use rustix::fs::{fsync, syncfs};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

mod objects;
mod repair;

/// Up to so many files are synced one by one; more by one call for the file system.
const SYNC_EACH: usize = 8;

/// What a test does to a file that was synced and is to be read back.
pub type AfterSync = dyn Fn(&OwnedFd) + Send + Sync;

/// What was written of a file.
pub(super) struct Written {
    pub(super) index: Index,
    pub(super) staged: Arc<Staged>,
    pub(super) source: Source,
    /// The sum of all its content, once it is complete, where it is wanted.
    pub(super) sum: Option<RootSum>,
    /// What was not proved yet.
    pub(super) ranges: Vec<Range>,
}

/// A step towards the tree, in order.
pub(super) enum Action {
    /// A file that is complete.
    Place(Written, Entry),
    /// A part of a file that is not, where it is to go, and up to where it is all written.
    Progress(Written, TreePath, u64),
    /// A file whose content was there and was compared.
    Keep {
        file: OwnedFd,
        entry: Entry,
        bytes: u64,
        sum: RootSum,
    },
    /// Anything that is no file.
    Other(Entry),
}

/// Pages that came again.
pub(super) enum Patch {
    Page {
        index: Index,
        offset: u64,
        sums: Vec<u32>,
        bytes: Vec<u8>,
    },
    End {
        index: Index,
        failed: Option<String>,
    },
}

/// Proves batches and puts them in place.
pub(super) struct Worker<'a> {
    pub(super) channel: &'a Channel,
    pub(super) clock: &'a dyn Clock,
    pub(super) settings: &'a Settings,
    pub(super) patience: Duration,
    pub(super) staging: &'a Staging,
    pub(super) root: Root,
    pub(super) prover: Prover,
    pub(super) patches: Receiver<Patch>,
    /// Parts of files of earlier batches, by number.
    pub(super) open: HashMap<u64, Open>,
    /// How many batches are done.
    pub(super) done: &'a AtomicU64,
    pub(super) level: Level,
    pub(super) after_sync: Option<Arc<AfterSync>>,
    pub(super) evidence: Evidence,
    /// Whether all directories are complete, and files come only to replace those that rotted.
    pub(super) mends: bool,
    pub(super) signer: Option<Arc<Signer>>,
}

/// What an earlier batch found of a file that is not complete.
#[derive(Default)]
pub(super) struct Open {
    /// What could not be proved yet.
    ranges: Vec<Range>,
    /// Why it must not get into place.
    condemned: Option<Refusal>,
}

/// Why a file does not get into place.
type Refusal = String;

/// What came of a proof, with its repairs.
enum Outcome {
    /// All of it is right.
    Proved,
    /// The kernel keeps so many of its pages in memory.
    Cached(u64),
    /// It must not get into place.
    Refused(Refusal),
}

impl Worker<'_> {
    /// Works through one batch.
    pub(super) fn run(&mut self, number: u64, actions: Vec<Action>) -> Result<(), TransferError> {
        let mut placed = Placed::default();
        self.carry_and_sync(&actions, &mut placed)?;
        let mut touched = BTreeSet::new();
        for action in actions {
            match action {
                Action::Place(file, entry) => {
                    self.place(file, &entry, &mut touched, &mut placed)?;
                }
                Action::Progress(file, path, proved_bytes) => {
                    self.progress(file, path, proved_bytes, &mut placed)?;
                }
                Action::Keep {
                    file,
                    entry,
                    bytes,
                    sum,
                } => {
                    if !carry::is_kept(&file, &entry.meta).map_err(fatal)? {
                        let lost = carry::to_open(&file, &entry.meta).map_err(fatal)?;
                        kept_less(&mut placed, &entry.path, lost);
                        fsync(&file).map_err(fatal)?;
                    }
                    placed.files += 1;
                    placed.kept += 1;
                    placed.bytes += bytes;
                    self.note_proof(&file, &entry, bytes, sum)?;
                }
                Action::Other(entry) => {
                    if self.other(&entry, &mut touched, &mut placed)? {
                        placed.others += 1;
                        self.list(entry, &mut placed)?;
                    }
                }
            }
        }
        self.sync_names(&touched)?;
        self.root.forget();
        self.evidence.settle(&mut placed)?;
        self.done.fetch_add(1, Ordering::AcqRel);
        self.say(&ToSender::Done { number, placed })
    }

    /// Proves what waits and can be proved.
    pub(super) fn settle_waiting(&mut self, scratch: bool) -> Result<(), TransferError> {
        self.mends = true;
        let mut placed = Placed::default();
        self.evidence
            .settle_all(self.staging, scratch, &mut placed)?;
        self.say(&ToSender::Settled { placed })
    }

    /// Ends the work on all batches: what waits is proved or noted, and the manifest is sent.
    pub(super) fn close(&mut self, settle: bool) -> Result<(), TransferError> {
        let mut placed = Placed::default();
        let signer = self.signer.as_deref();
        let closed = self
            .evidence
            .close(self.staging, settle, signer, &mut placed);
        let (pending, manifest) = closed?;
        let manifest_bytes = manifest.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.say(&ToSender::Closed {
            placed,
            pending,
            manifest_bytes,
        })?;
        let Some((file, bytes)) = manifest else {
            return Ok(());
        };
        let mut at = 0;
        let body = rpc::encode(&ToSender::Manifest)?;
        while at < bytes {
            let mut piece = vec![0; RANGE_BYTES.min((bytes - at) as usize)];
            let count = read_range(&file, at, &mut piece, false).map_err(fatal)?;
            let piece = piece.get(..count).unwrap_or_default();
            if piece.is_empty() {
                return Err(fatal(Errno::IO));
            }
            let deadline = self.clock.now().after(self.patience);
            self.channel.send(&body, piece, deadline)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Notes what was proved of a file in place, and what it carries there.
    fn note_proof(
        &mut self,
        file: &OwnedFd,
        entry: &Entry,
        bytes: u64,
        sum: RootSum,
    ) -> Result<(), TransferError> {
        if !self.evidence.wants_files() {
            return Ok(());
        }
        let there = carry::of_open(file).map_err(fatal)?;
        self.evidence.proved(Proved {
            level: self.level,
            at: env::wall_time().seconds,
            bytes,
            modified: there.modified,
            sum,
            carried: Some(Carried::of(&there)),
            path: entry.path.clone(),
        })
    }

    /// What was written of a file and not proved yet, over all batches, and why it must not get
    /// into place.
    fn so_far(&mut self, file: &mut Written) -> Option<Refusal> {
        let earlier = self.open.remove(&file.staged.number)?;
        let ranges = std::mem::replace(&mut file.ranges, earlier.ranges);
        file.ranges.extend(ranges);
        earlier.condemned
    }

    /// Proves a complete file and puts it in place.
    fn place(
        &mut self,
        mut file: Written,
        entry: &Entry,
        touched: &mut BTreeSet<TreePath>,
        placed: &mut Placed,
    ) -> Result<(), TransferError> {
        let outcome = match self.so_far(&mut file) {
            Some(what) => Outcome::Refused(what),
            None => self.prove(&file, Some(entry), placed)?,
        };
        let number = file.staged.number;
        let what = match outcome {
            Outcome::Proved => {
                if self.settle(&name(number, "part"), entry, touched, placed)? {
                    self.staging.remove_note(&file.staged);
                    placed.files += 1;
                    placed.bytes += file.source.bytes;
                    if let Some(sum) = file.sum {
                        self.note_proof(&file.staged.file, entry, file.source.bytes, sum)?;
                    }
                } else {
                    self.staging.remove(number);
                }
                return Ok(());
            }
            Outcome::Cached(pages) => {
                format!(
                    "it could not be read back: the kernel keeps {pages} of its pages in memory"
                )
            }
            Outcome::Refused(what) => what,
        };
        let what = match self.staging.quarantine(&file.staged) {
            Ok(()) => format!("{what}; see {}", quarantine_path()),
            Err(_) => what,
        };
        missing(placed, &entry.path, what);
        Ok(())
    }

    /// Proves a part of a file, and notes how far it is proved.
    fn progress(
        &mut self,
        mut file: Written,
        path: TreePath,
        proved_bytes: u64,
        placed: &mut Placed,
    ) -> Result<(), TransferError> {
        let number = file.staged.number;
        let mut left = Open {
            condemned: self.so_far(&mut file),
            ranges: Vec::new(),
        };
        if left.condemned.is_none() && !file.ranges.is_empty() {
            match self.prove(&file, None, placed)? {
                Outcome::Proved => {
                    let proved_bytes = match self.settings.plants(Plant::NoteAhead) {
                        true => file.source.bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64,
                        false => proved_bytes,
                    };
                    let note = Note {
                        path,
                        source: file.source,
                        level: self.level,
                        proved_bytes,
                    };
                    self.staging.write_note(&file.staged, &note)?;
                    self.staging.sync().map_err(fatal)?;
                }
                // What is written beside it may hold its pages: the next batch tries again.
                Outcome::Cached(_) => left.ranges = file.ranges,
                Outcome::Refused(what) => left.condemned = Some(what),
            }
        }
        self.open.insert(number, left);
        Ok(())
    }

    /// Gives complete files what they carry, and makes all that was written durable.
    fn carry_and_sync(
        &mut self,
        actions: &[Action],
        placed: &mut Placed,
    ) -> Result<(), TransferError> {
        let mut files = Vec::new();
        for action in actions {
            match action {
                Action::Place(file, entry) => {
                    let lost = carry::to_open(&file.staged.file, &entry.meta).map_err(fatal)?;
                    kept_less(placed, &entry.path, lost);
                    files.push(&file.staged);
                }
                Action::Progress(file, ..) => files.push(&file.staged),
                _ => {}
            }
        }
        if self.settings.plants(Plant::NoSync) {
            return Ok(());
        }
        if files.len() <= SYNC_EACH {
            for staged in &files {
                fsync(&staged.file).map_err(fatal)?;
            }
        } else {
            syncfs(self.staging.dir()).map_err(fatal)?;
        }
        let ranges = actions.iter().flat_map(|action| match action {
            Action::Place(file, _) | Action::Progress(file, ..) => &file.ranges[..],
            _ => &[],
        });
        self.evidence
            .wrote(ranges.map(|range| range.bytes as u64).sum());
        if let Some(hook) = &self.after_sync {
            files.iter().for_each(|staged| hook(&staged.file));
        }
        Ok(())
    }

    /// Makes names durable in all directories that got some.
    fn sync_names(&mut self, touched: &BTreeSet<TreePath>) -> Result<(), TransferError> {
        if touched.len() > SYNC_EACH {
            return syncfs(self.staging.dir()).map_err(fatal);
        }
        for path in touched {
            let dir = self.root.directory(path).map_err(fatal)?;
            fsync(&dir).map_err(fatal)?;
        }
        Ok(())
    }

    fn say(&self, message: &ToSender) -> Result<(), TransferError> {
        let deadline = self.clock.now().after(self.patience);
        Ok(self.channel.send(&rpc::encode(message)?, &[], deadline)?)
    }
}

pub(super) fn fatal(errno: Errno) -> TransferError {
    match fault(errno) {
        Fault::NoSpace => TransferError::failed(FailureKind::Full, "the destination is full"),
        _ => TransferError::failed(
            FailureKind::Medium,
            format!("the destination failed: {}", words(errno)),
        ),
    }
}

/// What the tree that is there does not allow concerns one object; all else ends the transfer.
fn refused(placed: &mut Placed, path: &TreePath, errno: Errno) -> Result<(), TransferError> {
    let what = match errno {
        Errno::ISDIR => "a directory is in its place".to_owned(),
        Errno::NOTDIR | Errno::LOOP => "something that is no directory is in its way".to_owned(),
        Errno::XDEV => "its place is on another file system than the destination's root".to_owned(),
        Errno::NOENT => "what it needs is not in place".to_owned(),
        _ => match fault(errno) {
            Fault::Caller => format!("it cannot be made: {}", words(errno)),
            _ => return Err(fatal(errno)),
        },
    };
    missing(placed, path, what);
    Ok(())
}

fn missing(placed: &mut Placed, path: &TreePath, what: String) {
    problem(placed, path, what, true);
}

fn kept_less(placed: &mut Placed, path: &TreePath, lost: carry::Lost) {
    for what in lost {
        problem(placed, path, what, false);
    }
}

pub(super) fn problem(placed: &mut Placed, path: &TreePath, what: String, missing: bool) {
    // All together has to fit into one message.
    let room = path.as_bytes().len() <= 512;
    if placed.problems.len() < PROBLEMS_MAX && room {
        let path = path.clone();
        placed.problems.push(Problem {
            path,
            what,
            missing,
        });
    } else {
        placed.problems_more += 1;
    }
}
