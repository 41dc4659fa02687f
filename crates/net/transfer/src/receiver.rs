//! The side that writes the destination.

use crate::chunks::DELTA_MIN;
use crate::content::sums_of;
use crate::entry::{Entry, Source, Time, TreePath, What};
use crate::error::TransferError;
use crate::filter::Filter;
use crate::level::Level;
use crate::manifest::Signer;
use crate::message::{
    BATCHES_AHEAD, FailureKind, Index, OFFER_ENTRIES, OFFERS_AHEAD, PAGE_BYTES, Piece, Placed,
    ToReceiver, ToSender, VERSION, Want,
};
use crate::root_sum::{RootSum, Summing};
use crate::walk::{source_of, words};
use env::Clock;
use env::errno::{Errno, Fault, fault};
use rpc::{Channel, Connection};
use rustix::fs::{FileType, fstat};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::time::Duration;

mod batch;
mod carry;
mod comparison;
mod dry;
mod held;
mod incoming;
mod lister;
mod parts;
mod place;
mod plant;
mod proof;
mod root;
mod staging;
mod sweep;
mod waiting;

pub use batch::AfterSync;
pub use plant::Plant;
pub use staging::{NOTE_VERSION, Note, held_notes};

use batch::{Action, Patch, Worker, Written};
use dry::Dry;
use held::{Looking, held_to};
use lister::Wanted;
pub(crate) use proof::drop_cache;
use proof::{Prover, Range, probe};
pub(crate) use root::Root;
use staging::{Held, Notes, Staged, Staging};
use sweep::{Act, Sweep};
use waiting::Evidence;

/// Parts of a file are proved in multiples of this many bytes, so that no page, and no large folio
/// of the page cache, is proved and written at the same time.
const PART_BYTES: u64 = 4 << 20;

/// Entries that are offered and have not ended.
const ENTRIES_MAX: usize = OFFER_ENTRIES * OFFERS_AHEAD;

/// Ranges of one batch that wait for their proof.
const RANGES_MAX: usize = 20_000;

/// Pages that came again and were not written yet.
const PATCHES_MAX: usize = 300;

/// The code of the reset behind a [`ToSender::Failed`].
const FAILED: u32 = 1;

/// How a receiver works.
#[derive(Clone)]
pub struct Settings {
    /// How long the sender may be silent.
    pub patience: Duration,
    /// Who signs manifests; without one they are not signed.
    pub signer: Option<Arc<Signer>>,
    /// For tests: called with each file that was synced, before it is read back.
    pub after_sync: Option<Arc<AfterSync>>,
    /// For tests: what is wrong with this receiver.
    #[cfg(feature = "plant")]
    pub plant: Option<Plant>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            patience: Duration::from_secs(600),
            signer: None,
            after_sync: None,
            #[cfg(feature = "plant")]
            plant: None,
        }
    }
}

/// Where a tree is received.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// Into this directory, which is made where it is missing.
    At(&'a Path),
    /// Into the one that the sender names, below this one: no sender gets out of it. Its last name
    /// is made where it is missing.
    Below(&'a Path),
}

/// Receives one tree, and returns when the sender has ended.
///
/// # Errors
/// The destination cannot be used, or fails, or the sender or the connection is lost. What is in
/// place is whole; the next transfer goes on where this one ended.
pub fn receive(
    destination: Destination<'_>,
    connection: &Connection,
    clock: &dyn Clock,
    settings: &Settings,
) -> Result<(), TransferError> {
    let channel = connection.accept(clock.now().after(settings.patience))?;
    let outcome = begin(destination, &channel, clock, settings);
    if let Err(error) = &outcome {
        let (kind, what) = error.to_failure();
        let failed = rpc::encode(&ToSender::Failed { kind, what })?;
        // Where the connection is lost the sender knows that something is wrong.
        let _lost = channel.send(&failed, &[], clock.now().after(Duration::from_secs(10)));
        channel.reset(FAILED);
    }
    outcome
}

fn begin(
    destination: Destination<'_>,
    channel: &Channel,
    clock: &dyn Clock,
    settings: &Settings,
) -> Result<(), TransferError> {
    let deadline = clock.now().after(settings.patience);
    let first = channel.receive(deadline)?;
    let first = first.ok_or(TransferError::Violation("an early end"))?;
    let other = |version: &dyn std::fmt::Display| {
        let what = format!("the receiver speaks version {VERSION}, the sender {version}");
        TransferError::failed(FailureKind::Version, what)
    };
    // Another version may have other fields.
    let first = rpc::decode(&first.body).map_err(|_| other(&"another"))?;
    let ToReceiver::Begin {
        version,
        level,
        below,
        manifest,
        write_cache,
        delete,
        dry,
    } = first
    else {
        return Err(TransferError::Violation("another first message"));
    };
    if version != VERSION {
        return Err(other(&version));
    }
    if (level == Level::Medium) != write_cache.is_some() {
        let what = "level medium needs the size of the device's write cache, which only a person \
                    can know";
        return Err(TransferError::failed(FailureKind::Level, what));
    }
    let filter = delete.map(|texts| Filter::from_texts(&texts)).transpose();
    let filter = filter.map_err(|_| TransferError::Violation("rules that are none"))?;
    let sweep = filter.map(Sweep::new);
    if dry {
        return Dry::new(channel, clock, settings, (destination, &below), sweep)?.run();
    }
    let root = place::open(destination, &below)?;
    let (staging, notes) = Staging::open(&root)?;
    let root = Arc::new(root);
    probe(&staging, level)?;
    say(channel, clock, settings, &ToSender::Ready)?;
    let sums_wanted = manifest || level == Level::Medium;
    let words = manifest.then(|| notes_of(level, write_cache));
    let evidence = Evidence::begin(&root, &staging, write_cache, words.as_deref());
    let evidence = evidence.map_err(unwritten)?;
    // What `medium` needs beyond `device` comes once a file is in place.
    let level = level.before_place();
    let done = AtomicU64::new(0);
    let left = std::thread::scope(|scope| {
        // Its length is bounded where batches come in.
        let (batches_in, batches) = mpsc::channel();
        let (patches_in, patches) = mpsc::sync_channel(PATCHES_MAX);
        // So is that of lists.
        let (lists_in, lists) = mpsc::channel::<Wanted>();
        scope.spawn(move || {
            let mut all = lists.into_iter();
            // Where the sender is lost the other threads say so.
            let _lost = all.try_for_each(|wanted| {
                let index = wanted.index;
                wanted.list(|chunks, last| {
                    let chunks = ToSender::Chunks {
                        index,
                        chunks,
                        last,
                    };
                    say(channel, clock, settings, &chunks)
                })
            });
        });
        let mut worker = Worker {
            channel,
            clock,
            settings,
            patience: settings.patience,
            staging: &staging,
            root: Root::new(root.clone()),
            prover: Prover::new(level),
            patches,
            after_sync: settings.after_sync.clone(),
            open: HashMap::new(),
            done: &done,
            level,
            evidence,
            mends: false,
            signer: settings.signer.clone(),
        };
        let working = scope.spawn(move || {
            let mut all = batches.into_iter();
            let worked: Result<(), TransferError> = all.try_for_each(|job| match job {
                Job::Batch(number, actions, held) => {
                    worker.run(number, actions)?;
                    worker.staging.remove_held(held);
                    Ok(())
                }
                Job::Settle { scratch } => worker.settle_waiting(scratch),
                Job::Close { settle } => worker.close(settle),
            });
            if let Err(TransferError::Failed { kind, what }) = &worked {
                // The sender may wait for this batch, and the other thread for the sender.
                let (kind, what) = (*kind, what.clone());
                say(channel, clock, settings, &ToSender::Failed { kind, what })?;
            }
            worked
        });
        let held = staging.begin_held()?;
        let mut main = Main {
            channel,
            clock,
            settings,
            staging: &staging,
            root: Root::new(root.clone()),
            level,
            sums_wanted,
            sweep,
            closed: false,
            notes,
            entries: BTreeMap::new(),
            next_offered: 0,
            next_ended: 0,
            current: None,
            comparing: None,
            kept: HashMap::new(),
            held,
            looking: None,
            there: HashMap::new(),
            olds: HashMap::new(),
            lists: lists_in,
            actions: Vec::new(),
            ranges: 0,
            batches: batches_in,
            patches: patches_in,
            batch: 0,
            done: &done,
        };
        let outcome = main.run();
        let notes = std::mem::take(&mut main.notes);
        drop(main);
        let worked: Result<(), TransferError> = working
            .join()
            .unwrap_or(Err(TransferError::Violation("a thread panicked")));
        match (worked, outcome) {
            // The other error follows from it.
            (Err(why @ TransferError::Failed { .. }), _) => Err(why),
            (worked, outcome) => outcome.and(worked).map(|()| notes),
        }
    })?;
    staging.finish(&root, left.into_values().map(|(number, _)| number));
    Ok(())
}

fn say(
    channel: &Channel,
    clock: &dyn Clock,
    settings: &Settings,
    message: &ToSender,
) -> Result<(), TransferError> {
    let deadline = clock.now().after(settings.patience);
    Ok(channel.send(&rpc::encode(message)?, &[], deadline)?)
}

/// What the worker does, in order.
enum Job {
    /// With the number of the notes of its files.
    Batch(u64, Vec<Action>, u64),
    Settle {
        scratch: bool,
    },
    Close {
        settle: bool,
    },
}

/// What a manifest says of itself.
fn notes_of(level: Level, write_cache: Option<u64>) -> Vec<String> {
    let mut notes = vec![format!("level {level}: {}", level.claim())];
    if let Some(bytes) = write_cache {
        notes.push(format!("the write cache was stated to hold {bytes} bytes"));
    }
    let software = env!("CARGO_PKG_VERSION");
    notes.push(format!("made by holdfast {software}"));
    notes
}

/// The file that is being written.
struct Current {
    index: Index,
    staged: Arc<Staged>,
    path: TreePath,
    source: Source,
    /// Where the next range may begin.
    at: u64,
    /// What was written and is in no batch yet.
    ranges: Vec<Range>,
    /// What an earlier transfer has written behind that.
    there: VecDeque<Range>,
    /// The sum of what was written; none where nobody asks for it.
    summing: Option<Summing>,
}

/// The file that is being compared.
struct Comparing {
    index: Index,
    file: OwnedFd,
    same: bool,
    at: u64,
    bytes: u64,
    summing: Summing,
}

struct Main<'a> {
    channel: &'a Channel,
    clock: &'a dyn Clock,
    settings: &'a Settings,
    staging: &'a Staging,
    root: Root,
    level: Level,
    /// Whether the sum of each file's content is asked for.
    sums_wanted: bool,
    /// What the source does not have, where it is to go.
    sweep: Option<Sweep>,
    /// Whether the sender has said that nothing follows.
    closed: bool,
    notes: Notes,
    entries: BTreeMap<Index, (Entry, Want)>,
    next_offered: Index,
    next_ended: Index,
    current: Option<Current>,
    comparing: Option<Comparing>,
    kept: HashMap<Index, (OwnedFd, u64, RootSum)>,
    /// The notes of what is under way.
    held: Held,
    looking: Option<Looking>,
    /// What an earlier transfer has left of files that have not begun yet, in order.
    there: HashMap<Index, VecDeque<Range>>,
    /// Old files, and their lengths, of which parts may be used.
    olds: HashMap<Index, (Arc<OwnedFd>, u64)>,
    lists: Sender<Wanted>,
    actions: Vec<Action>,
    ranges: usize,
    batches: Sender<Job>,
    patches: SyncSender<Patch>,
    batch: u64,
    /// How many batches the worker is done with.
    done: &'a AtomicU64,
}

impl Main<'_> {
    fn run(&mut self) -> Result<(), TransferError> {
        loop {
            let deadline = self.clock.now().after(self.settings.patience);
            let Some(message) = self.channel.receive(deadline)? else {
                break;
            };
            self.heard(rpc::decode(&message.body)?, message.bulk)?;
        }
        if !self.entries.is_empty() || !self.actions.is_empty() {
            return Err(TransferError::Violation("an end before the last batch"));
        }
        Ok(())
    }

    fn heard(&mut self, message: ToReceiver, bulk: Vec<u8>) -> Result<(), TransferError> {
        let has_bulk = match &message {
            ToReceiver::Data { .. } | ToReceiver::Patch { .. } => true,
            ToReceiver::Mixed { pieces, .. } => {
                pieces.iter().any(|piece| matches!(piece, Piece::Sent(_)))
            }
            _ => false,
        };
        if has_bulk == bulk.is_empty() {
            return Err(TransferError::Violation("bulk bytes where none belong"));
        }
        match message {
            ToReceiver::Begin { .. } => Err(TransferError::Violation("a second begin")),
            ToReceiver::Offer { first, entries } => self.offered(first, entries),
            ToReceiver::Data {
                index,
                offset,
                sums,
            } => {
                check_sums(&bulk, &sums)?;
                self.data(index, offset, sums, &bulk, Vec::new())
            }
            ToReceiver::List { index, average } => self.list(index, average),
            ToReceiver::Mixed {
                index,
                offset,
                sums,
                pieces,
            } => {
                let (bytes, unlike) = self.mixed(index, offset, &sums, &pieces, &bulk)?;
                self.data(index, offset, sums, &bytes, unlike)
            }
            ToReceiver::Compare {
                index,
                offset,
                bytes,
                sums,
            } => match self.is_held(index) {
                true => self.look(index, offset, bytes, &sums),
                false => self.compare(index, offset, bytes, &sums),
            },
            ToReceiver::Compared { index } => match self.is_held(index) {
                true => self.looked(index),
                false => self.compared(index),
            },
            ToReceiver::Restart { index, entry } => self.restart(index, entry),
            ToReceiver::End { index, failed } => self.end(index, failed.is_some()),
            ToReceiver::Batch { number } => self.close_batch(number),
            ToReceiver::Sweep { max } => self.sweep(max),
            ToReceiver::Settle { scratch } => {
                self.need_all_done()?;
                let sent = self.batches.send(Job::Settle { scratch });
                sent.map_err(|_| TransferError::Violation("the worker has ended"))
            }
            ToReceiver::Close { settle } => self.close(settle),
            ToReceiver::Patch {
                index,
                offset,
                sums,
            } => {
                check_sums(&bulk, &sums)?;
                if bulk.len() > PAGE_BYTES {
                    return Err(TransferError::Violation("a page that is too long"));
                }
                self.patch(Patch::Page {
                    index,
                    offset,
                    sums,
                    bytes: bulk,
                })
            }
            ToReceiver::Patched { index, failed } => self.patch(Patch::End { index, failed }),
        }
    }

    fn need_all_done(&self) -> Result<(), TransferError> {
        let open = !self.entries.is_empty() || !self.actions.is_empty();
        if open || self.closed || self.done.load(Ordering::Acquire) < self.batch {
            return Err(TransferError::Violation("an end before the last batch"));
        }
        Ok(())
    }

    /// Deletes what the source does not have.
    fn sweep(&mut self, max: Option<u64>) -> Result<(), TransferError> {
        self.need_all_done()?;
        let sweep = self.sweep.take();
        let sweep = sweep.ok_or(TransferError::Violation("a deletion that nobody spoke of"))?;
        let mut placed = Placed::default();
        let (mut found, mut deleted, mut refused) = (0, 0, None);
        match sweep.count(&mut self.root) {
            Ok(count) => found = count,
            Err(why) => refused = Some(why.to_owned()),
        }
        if refused.is_none() && max.is_none_or(|max| found <= max) {
            deleted = sweep.act(&mut self.root, &mut Act::Delete(&mut placed))?;
        }
        let swept = ToSender::Swept {
            found,
            deleted,
            refused,
            placed,
        };
        say(self.channel, self.clock, self.settings, &swept)
    }

    fn close(&mut self, settle: bool) -> Result<(), TransferError> {
        self.need_all_done()?;
        self.closed = true;
        let sent = self.batches.send(Job::Close { settle });
        sent.map_err(|_| TransferError::Violation("the worker has ended"))
    }

    fn patch(&self, patch: Patch) -> Result<(), TransferError> {
        let sent = self.patches.try_send(patch);
        sent.map_err(|_| TransferError::Violation("pages that nobody asked for"))
    }

    fn offered(&mut self, first: Index, entries: Vec<Entry>) -> Result<(), TransferError> {
        let most =
            entries.len() > OFFER_ENTRIES || self.entries.len() + entries.len() > ENTRIES_MAX;
        if first != self.next_offered || entries.is_empty() || most || self.closed {
            return Err(TransferError::Violation(
                "an offer out of order, or too long",
            ));
        }
        let mut wants = Vec::with_capacity(entries.len());
        for entry in entries {
            check_entry(&entry)?;
            if let Some(sweep) = &mut self.sweep {
                sweep.take(&entry, &mut self.root);
                if entry.what == What::Leave && self.settings.plants(Plant::EarlyDeletion) {
                    let mut placed = Placed::default();
                    sweep.act(&mut self.root, &mut Act::Delete(&mut placed))?;
                }
                self.root.forget();
            }
            let want = match &entry.what {
                What::File(source) => self.want(&entry, source)?,
                _ => Want::Nothing,
            };
            wants.push(want);
            self.entries.insert(self.next_offered, (entry, want));
            self.next_offered += 1;
        }
        say(
            self.channel,
            self.clock,
            self.settings,
            &ToSender::Wants { first, wants },
        )
    }

    /// What is wanted of a file.
    fn want(&mut self, entry: &Entry, source: &Source) -> Result<Want, TransferError> {
        let (mut from, mut held) = (0, 0);
        let note = self.notes.get(&entry.path);
        if let Some((number, note)) = note.filter(|(_, note)| note.source == *source) {
            let fits = note.proved_bytes <= source.bytes
                && note.proved_bytes.is_multiple_of(PAGE_BYTES as u64);
            if fits && note.level >= self.level {
                from = note.proved_bytes;
            }
            held = held_to(from, self.staging.part_bytes(*number), source.bytes);
        }
        // Where there is none, or none that can be used, all content is wanted.
        let there = self.root.file(&entry.path).ok();
        // The directories that are open here may be renamed while batches are put in place.
        self.root.forget();
        let there = there.and_then(|file| plain(&file));
        Ok(match there {
            Some(there) if held == 0 && there == (source.bytes, source.modified) => Want::Compare,
            Some((old, _)) if old >= DELTA_MIN => Want::Content { from, held, old },
            _ => Want::Content { from, held, old: 0 },
        })
    }

    /// The file that `index` is, and what is wanted of it.
    fn wanted(&self, index: Index) -> Result<(&Entry, Source, Want), TransferError> {
        let found = self.entries.get(&index);
        let (entry, want) = found.ok_or(TransferError::Violation("an entry nobody offered"))?;
        match entry.what {
            What::File(source) => Ok((entry, source, *want)),
            _ => Err(TransferError::Violation("content of what is no file")),
        }
    }

    fn close_batch(&mut self, number: u64) -> Result<(), TransferError> {
        if number != self.batch {
            return Err(TransferError::Violation("the number of a batch"));
        }
        if number - self.done.load(Ordering::Acquire) > BATCHES_AHEAD as u64 {
            return Err(TransferError::Violation("too many batches at once"));
        }
        self.batch += 1;
        if let Some(current) = &mut self.current {
            let proved_bytes = current.at / PART_BYTES * PART_BYTES;
            let covered = |range: &Range| range.offset + range.bytes as u64 <= proved_bytes;
            let (ranges, rest) = std::mem::take(&mut current.ranges)
                .into_iter()
                .partition(covered);
            current.ranges = rest;
            let file = Written {
                index: current.index,
                staged: current.staged.clone(),
                source: current.source,
                sum: None,
                ranges,
            };
            let path = current.path.clone();
            self.actions
                .push(Action::Progress(file, path, proved_bytes));
        }
        self.ranges = self.current.as_ref().map_or(0, |c| c.ranges.len());
        let actions = std::mem::take(&mut self.actions);
        let held = std::mem::replace(&mut self.held, self.staging.begin_held()?);
        if let Some(current) = &self.current {
            let (number, path, source) = (current.staged.number, &current.path, current.source);
            self.held.add(number, path, source)?;
        }
        let sent = self.batches.send(Job::Batch(number, actions, held.number));
        // The worker's own error says more.
        sent.map_err(|_| TransferError::Violation("the worker has ended"))
    }
}

/// Length and time of a file, where it is a plain one.
fn plain(file: &OwnedFd) -> Option<(u64, Time)> {
    let stat = fstat(file).ok()?;
    let is_plain = FileType::from_raw_mode(stat.st_mode).is_file();
    let there = source_of(file).ok()?;
    is_plain.then_some((there.bytes, there.modified))
}

fn check_entry(entry: &Entry) -> Result<(), TransferError> {
    let allowed = match &entry.what {
        What::SameAs(path) => path.is_allowed() && !path.is_root(),
        What::Directory | What::Leave => true,
        _ => !entry.path.is_root(),
    };
    if allowed && entry.path.is_allowed() {
        return Ok(());
    }
    Err(TransferError::Violation("a path that leads elsewhere"))
}

/// Level `wire`: the bytes have the checksums that the sender made of them.
fn check_sums(bytes: &[u8], sums: &[u32]) -> Result<(), TransferError> {
    if sums_of(bytes) == sums {
        return Ok(());
    }
    Err(TransferError::Violation("content with other checksums"))
}

fn unwritten(errno: Errno) -> TransferError {
    match fault(errno) {
        Fault::NoSpace => TransferError::failed(FailureKind::Full, "the destination is full"),
        _ => TransferError::failed(
            FailureKind::Medium,
            format!("the destination cannot be written: {}", words(errno)),
        ),
    }
}
