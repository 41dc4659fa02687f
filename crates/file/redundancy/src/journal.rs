//! The write-intent journal: what may differ between copies, written down on every member before
//! it can differ. After a crash only that is compared. Layout: docs/formats/intent-journal.md.
//!
//! # Invariants
//! - A change of an object with id < mark happens only after a touch of it is durable on every
//!   member; objects with id >= mark need none.
//! - A checkpoint drops an entry only after every member has made everything durable that was
//!   changed under it, and the dirty log of every absent store holds it.
//! - Entries <= [`ENTRIES_MAX`]: past that a checkpoint is due at once.
//! - newest checkpoint of the members - checkpoint of a member <= 1: one begins only after the one
//!   before it is in the journal of every member

pub(crate) mod dirty;
mod records;
pub(crate) mod text;

use crate::fanout::fanout;
use crate::label::{ObjectId, StoreIndex, StoreMask};
use dirty::{DirtySet, Entry, Place, Rename};
use env::errno::Errno;
use log::{Log, LogError, LogId, Options, Sequence};
use parking_lot::Mutex;
pub(crate) use records::RecordError;
use records::{KIND, Record, Replay};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries that make a checkpoint due: at 4 MiB each, 16 GiB to compare after a crash at worst.
pub(crate) const ENTRIES_MAX: usize = 4096;

const NAME: &str = "intent";
const SEGMENT_BYTES: u64 = 1 << 20;

/// Records of a long dirty log between commits: a log keeps only so much in memory.
const COMMIT_RECORDS: usize = 64;

/// What can go wrong with one store's journal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// The log failed.
    #[error("{0}")]
    Log(#[from] LogError),
    /// Its directory failed.
    #[error("{0}")]
    Io(#[from] Errno),
    /// A record that is whole does not say anything known.
    #[error("{0}")]
    Record(#[from] RecordError),
}

impl JournalError {
    /// The error number that stands for it.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            JournalError::Log(LogError::Io { errno, .. } | LogError::Poisoned { errno, .. })
            | JournalError::Io(errno) => *errno,
            _ => Errno::UCLEAN,
        }
    }
}

/// Stores whose journal could not be written, with the error.
#[derive(Debug)]
pub(crate) struct Failed(pub Vec<(StoreIndex, JournalError)>);

struct Stamp {
    epoch: u64,
    mask: u8,
    batch: u64,
}

/// What a checkpoint is about to drop.
pub(crate) struct Sweep {
    /// Entries last touched before the epoch began.
    pub settled: DirtySet,
    epoch: u64,
    mark: ObjectId,
}

struct Active {
    epoch: u64,
    /// What the journal says; objects from here on are active after a crash.
    durable_mark: ObjectId,
    /// Objects from here on need no touch.
    implicit_mark: ObjectId,
    /// The newest that was written; it grows over the starts of a set.
    checkpoint: u64,
    entries: BTreeMap<Entry, Stamp>,
    places: BTreeMap<ObjectId, Place>,
    renames: Vec<(u64, Rename)>,
    logs: Vec<(StoreIndex, Arc<Log>)>,
    last: Vec<(StoreIndex, Sequence)>,
    batch: u64,
}

/// The journal of a running set.
pub(crate) struct Journal {
    active: Mutex<Active>,
    committed: AtomicU64,
    epoch: AtomicU64,
    implicit_mark: AtomicU64,
    parallel: bool,
}

/// Opens a store's journal: the log, and what it says was active.
pub(crate) fn open_log(
    dir: Arc<dyn env::Dir>,
    id: LogId,
) -> Result<(Arc<Log>, DirtySet), JournalError> {
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
    };
    let (log, records) = Log::open(dir, NAME, id, options)?;
    Ok((Arc::new(log), replay(records)?))
}

fn replay(records: Vec<log::Record>) -> Result<DirtySet, JournalError> {
    let mut replay = Replay::default();
    for record in records {
        replay.apply(Record::of_log(
            record.sequence.0,
            record.kind,
            &record.payload,
        )?);
    }
    Ok(replay.state)
}

impl Journal {
    /// Starts with the given members' logs and nothing active. `checkpoint` is one that the log
    /// of every member has.
    pub(crate) fn new(
        logs: Vec<(StoreIndex, Arc<Log>)>,
        mark: ObjectId,
        checkpoint: u64,
        parallel: bool,
    ) -> Journal {
        Journal {
            active: Mutex::new(Active {
                epoch: 1,
                durable_mark: mark,
                implicit_mark: mark,
                checkpoint,
                entries: BTreeMap::new(),
                places: BTreeMap::new(),
                renames: Vec::new(),
                logs,
                last: Vec::new(),
                batch: 0,
            }),
            committed: AtomicU64::new(0),
            epoch: AtomicU64::new(1),
            implicit_mark: AtomicU64::new(mark.0),
            parallel,
        }
    }

    /// Makes a fresh journal on a store, in place of an older one.
    pub(crate) fn create_log(dir: Arc<dyn env::Dir>, id: LogId) -> Result<Arc<Log>, JournalError> {
        remove_log(&*dir, NAME)?;
        let options = Options {
            segment_bytes: SEGMENT_BYTES,
        };
        Ok(Arc::new(Log::create(dir, NAME, id, options)?))
    }

    /// Makes a fresh journal in place of one that cannot be read. Until the next checkpoint it says
    /// that everything may differ: a crash before that must not find it empty.
    pub(crate) fn replace_log(dir: Arc<dyn env::Dir>, id: LogId) -> Result<Arc<Log>, JournalError> {
        let log = Journal::create_log(dir, id)?;
        let sequence = log.append(KIND, &Record::Mark(ObjectId(0)).encode())?;
        log.commit(sequence)?;
        Ok(log)
    }

    /// The present epoch; it grows with each checkpoint.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether objects of this id need no touch.
    pub(crate) fn implicit(&self, id: ObjectId) -> bool {
        id.0 >= self.implicit_mark.load(Ordering::Acquire)
    }

    /// What a store that leaves now has not seen, as far as no entry says: objects from the durable
    /// mark on. Its journal has the newest checkpoint or, where that is being written, the one
    /// before.
    pub(crate) fn departing(&self) -> DirtySet {
        let active = self.active.lock();
        let mut set = DirtySet::since(active.durable_mark);
        set.checkpoint = active.checkpoint.saturating_sub(1);
        set
    }

    /// Objects from here on may be dirty on a store that leaves now.
    pub(crate) fn durable_mark(&self) -> ObjectId {
        self.active.lock().durable_mark
    }

    /// Objects from here on need no touch.
    pub(crate) fn implicit_mark(&self) -> ObjectId {
        ObjectId(self.implicit_mark.load(Ordering::Acquire))
    }

    /// What is active now.
    pub(crate) fn active(&self) -> DirtySet {
        self.active.lock().dirty()
    }

    /// Whether anything of an object may have changed since the last checkpoint.
    pub(crate) fn is_active(&self, id: ObjectId) -> bool {
        self.active.lock().places.contains_key(&id)
    }

    /// Entries active now.
    pub(crate) fn len(&self) -> usize {
        self.active.lock().entries.len()
    }

    /// Writes down that `entry` is about to change; durable when this returns. `place` is asked
    /// for only where the journal does not know the object's place yet.
    pub(crate) fn touch(
        &self,
        entry: Entry,
        mask: u8,
        place: impl FnOnce() -> Place,
    ) -> Result<(), Failed> {
        let (batch, waiting) = {
            let mut active = self.active.lock();
            let epoch = active.epoch;
            match active.entries.get_mut(&entry) {
                Some(stamp) => {
                    stamp.epoch = epoch;
                    stamp.mask |= mask;
                    let batch = stamp.batch;
                    (batch, active.last.clone())
                }
                None => {
                    let known = active.places.contains_key(&entry.object());
                    let place = (!known).then(place);
                    active.batch += 1;
                    let batch = active.batch;
                    let record = Record::Touch(
                        vec![(entry, 0xff)],
                        match &place {
                            Some(p) => vec![(entry.object(), p.clone())],
                            None => Vec::new(),
                        },
                    );
                    active.append(&record)?;
                    if let Some(place) = place {
                        active.places.insert(entry.object(), place);
                    }
                    active.entries.insert(entry, Stamp { epoch, mask, batch });
                    (batch, active.last.clone())
                }
            }
        };
        self.commit(batch, &waiting)
    }

    /// Writes down a rename before it is done.
    pub(crate) fn rename(&self, rename: Rename) -> Result<(), Failed> {
        let (batch, waiting) = {
            let mut active = self.active.lock();
            active.batch += 1;
            active.append(&Record::Rename(rename.clone()))?;
            let epoch = active.epoch;
            active.renames.push((epoch, rename));
            (active.batch, active.last.clone())
        };
        self.commit(batch, &waiting)
    }

    /// Renames that move this object, written down and not settled.
    pub(crate) fn renames_of(&self, id: ObjectId) -> Vec<Rename> {
        let active = self.active.lock();
        let renames = active.renames.iter().map(|(_, rename)| rename);
        renames.filter(|r| r.moves(id)).cloned().collect()
    }

    /// The names of an object are about to change: a rename of it that is written down was done and
    /// is not to be completed any more. Durable when this returns.
    pub(crate) fn settle_renames(&self, id: ObjectId) -> Result<(), Failed> {
        let (batch, waiting) = {
            let mut active = self.active.lock();
            if !active.renames.iter().any(|(_, r)| r.moves(id)) {
                return Ok(());
            }
            active.batch += 1;
            active.append(&Record::Settled(id))?;
            active.renames.retain(|(_, r)| !r.moves(id));
            (active.batch, active.last.clone())
        };
        self.commit(batch, &waiting)
    }

    /// An object moved: later entries of it are found at the new place.
    pub(crate) fn moved(&self, id: ObjectId, place: Place) -> Result<(), Failed> {
        let mut active = self.active.lock();
        if active.places.contains_key(&id) {
            active.append(&Record::Touch(Vec::new(), vec![(id, place.clone())]))?;
            active.places.insert(id, place);
        }
        Ok(())
    }

    fn commit(&self, batch: u64, upto: &[(StoreIndex, Sequence)]) -> Result<(), Failed> {
        if self.committed.load(Ordering::Acquire) >= batch {
            return Ok(());
        }
        let logs: Vec<_> = {
            let active = self.active.lock();
            let sequence = |s: &StoreIndex| upto.iter().find(|(i, _)| i == s).map(|(_, q)| *q);
            active
                .logs
                .iter()
                .filter_map(|(s, log)| Some((*s, (log.clone(), sequence(s)?))))
                .collect()
        };
        let answers = fanout(&logs, self.parallel, |_, (log, sequence)| {
            log.commit(*sequence)
        });
        let failed: Vec<_> = answers
            .into_iter()
            .filter_map(|(s, r)| Some((s, r.err()?.into())))
            .collect();
        if !failed.is_empty() {
            return Err(Failed(failed));
        }
        self.committed.fetch_max(batch, Ordering::AcqRel);
        Ok(())
    }

    /// Leaves a store out from now on.
    pub(crate) fn leave(&self, store: StoreIndex) {
        let mut active = self.active.lock();
        active.logs.retain(|(s, _)| *s != store);
        active.last.retain(|(s, _)| *s != store);
    }

    /// Takes a store in: its log gets what is active, durable when this returns. No change may run
    /// meanwhile.
    pub(crate) fn join(&self, store: StoreIndex, log: Arc<Log>) -> Result<(), Failed> {
        let mut active = self.active.lock();
        for place in active.places.values_mut() {
            place.forget(store);
        }
        let mark = active.durable_mark;
        let base = active.base(mark, 0);
        let failed = |e: LogError| Failed(vec![(store, e.into())]);
        let mut last = None;
        for record in &base {
            last = Some(log.append(KIND, &record.encode()).map_err(failed)?);
        }
        if let Some(sequence) = last {
            log.commit(sequence).map_err(failed)?;
            active.last.push((store, sequence));
        }
        active.logs.push((store, log));
        Ok(())
    }

    /// Begins a checkpoint: no change may run during this call. `next` is the next id that will be
    /// given out.
    pub(crate) fn begin_sweep(&self, next: ObjectId) -> Sweep {
        let mut active = self.active.lock();
        let settled = active.dirty();
        active.epoch += 1;
        active.implicit_mark = next;
        self.epoch.store(active.epoch, Ordering::Release);
        self.implicit_mark.store(next.0, Ordering::Release);
        Sweep {
            settled,
            epoch: active.epoch,
            mark: next,
        }
    }

    /// Ends a checkpoint after every member has made everything durable: the journal starts anew
    /// with what was touched since.
    pub(crate) fn end_sweep(&self, sweep: &Sweep) -> Result<(), Failed> {
        let ended = self.write_base(sweep);
        if ended.is_err() {
            // A member may lack it: the next one takes its number, so that none falls two behind.
            self.active.lock().checkpoint -= 1;
        }
        ended
    }

    fn write_base(&self, sweep: &Sweep) -> Result<(), Failed> {
        let (logs, firsts) = {
            let mut active = self.active.lock();
            active.entries.retain(|_, stamp| stamp.epoch >= sweep.epoch);
            active.renames.retain(|(epoch, _)| *epoch >= sweep.epoch);
            let kept: BTreeSet<_> = active.entries.keys().map(|e| e.object()).collect();
            active.places.retain(|id, _| kept.contains(id));
            active.durable_mark = sweep.mark;
            active.checkpoint += 1;
            let base = active.base(sweep.mark, sweep.epoch);
            let firsts: Vec<_> = active
                .logs
                .iter()
                .map(|(s, l)| (*s, l.next_sequence()))
                .collect();
            for record in &base {
                active.append(record)?;
            }
            active.batch += 1;
            let logs: Vec<_> = active
                .logs
                .iter()
                .filter_map(|(s, l)| {
                    let last = active.last.iter().find(|(i, _)| i == s)?.1;
                    Some((*s, (l.clone(), last)))
                })
                .collect();
            (logs, firsts)
        };
        let answers = fanout(&logs, self.parallel, |store, (log, last)| {
            log.commit(*last)?;
            let first = firsts.iter().find(|(s, _)| *s == store).map(|(_, q)| *q);
            first.map_or(Ok(()), |q| log.truncate_before(q))
        });
        let failed: Vec<_> = answers
            .into_iter()
            .filter_map(|(s, r)| Some((s, r.err()?.into())))
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failed(failed))
        }
    }
}

impl Active {
    fn dirty(&self) -> DirtySet {
        let mut dirty = DirtySet::since(self.durable_mark);
        for (entry, stamp) in &self.entries {
            dirty.add(*entry, stamp.mask, self.places.get(&entry.object()));
        }
        dirty.renames = self.renames.iter().map(|(_, r)| r.clone()).collect();
        dirty
    }

    fn append(&mut self, record: &Record) -> Result<(), Failed> {
        let bytes = record.encode();
        let mut failed = Vec::new();
        self.last.clear();
        for (store, log) in &self.logs {
            match log.append(KIND, &bytes) {
                Ok(sequence) => self.last.push((*store, sequence)),
                Err(error) => failed.push((*store, error.into())),
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Failed(failed))
        }
    }

    fn base(&self, mark: ObjectId, since: u64) -> Vec<Record> {
        let mut records = vec![Record::Base(mark), Record::Checkpoint(self.checkpoint)];
        let entries: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, stamp)| stamp.epoch >= since)
            .map(|(e, _)| *e)
            .collect();
        for part in entries.chunks(64) {
            let places = part
                .iter()
                .filter_map(|e| Some((e.object(), self.places.get(&e.object())?.clone())))
                .collect();
            records.push(Record::Touch(
                part.iter().map(|e| (*e, 0xff)).collect(),
                places,
            ));
        }
        let renames = self.renames.iter().filter(|(epoch, _)| *epoch >= since);
        records.extend(renames.map(|(_, r)| Record::Rename(r.clone())));
        records.push(Record::BaseEnd);
        records
    }
}

/// Removes every segment of the log called `name`.
pub(crate) fn remove_log(dir: &dyn env::Dir, name: &str) -> Result<(), JournalError> {
    let prefix = format!("{name}.");
    for file in dir.list()? {
        if file.starts_with(&prefix) {
            dir.remove(&file)?;
        }
    }
    Ok(dir.sync()?)
}

/// The id of a store's log: it ties the log to its set, store and name.
pub(crate) fn log_id(set: u128, store: StoreIndex, salt: u64) -> LogId {
    LogId(set ^ (u128::from(salt) << 8) ^ u128::from(store.0))
}

/// A dirty log: what an absent store has not seen, kept on every member.
pub(crate) struct DirtyLog {
    name: String,
    logs: Vec<(StoreIndex, Arc<Log>)>,
}

/// The departure that a dirty log belongs to: the store that is away, and its last generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    pub(crate) set: u128,
    pub(crate) store: StoreIndex,
    pub(crate) generation: u64,
}

impl Away {
    fn prefix(self) -> String {
        format!("dirty-{}-{:x}-", self.store.0, self.generation)
    }

    fn id(self) -> LogId {
        log_id(self.set, self.store, 1 << 40 | self.generation)
    }

    /// Names of the logs of this departure in a directory.
    fn logs(self, dir: &dyn env::Dir) -> Result<BTreeSet<String>, JournalError> {
        let prefix = self.prefix();
        let files = dir.list()?;
        let names = files.iter().filter(|f| f.starts_with(&prefix));
        Ok(names
            .filter_map(|f| Some(f.split_once('.')?.0.to_string()))
            .collect())
    }
}

impl DirtyLog {
    /// Reads what one member keeps of a departure: one log, or two where starting the second was
    /// interrupted. `None` where there is none.
    pub(crate) fn read(
        dir: &Arc<dyn env::Dir>,
        away: Away,
    ) -> Result<Option<DirtySet>, JournalError> {
        let mut found: Option<DirtySet> = None;
        for name in away.logs(&**dir)? {
            let options = Options {
                segment_bytes: SEGMENT_BYTES,
            };
            let records = match Log::open(dir.clone(), &name, away.id(), options) {
                Ok((_, records)) => records,
                // Its making was interrupted; an earlier one is still there.
                Err(LogError::Missing { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let set = replay(records)?;
            match &mut found {
                Some(found) => found.merge(&set),
                None => found = Some(set),
            }
        }
        Ok(found)
    }

    /// Starts the dirty log of a departure anew on the members with what is known. An earlier one
    /// goes only after the new one is durable. `serial` tells it from every other.
    pub(crate) fn start(
        away: Away,
        serial: u64,
        members: Vec<(StoreIndex, Arc<dyn env::Dir>)>,
        known: &DirtySet,
    ) -> Result<DirtyLog, Failed> {
        let name = format!("{}{serial:x}", away.prefix());
        let mut logs = Vec::new();
        for (store, dir) in &members {
            let options = Options {
                segment_bytes: SEGMENT_BYTES,
            };
            match Log::create(dir.clone(), &name, away.id(), options) {
                Ok(log) => logs.push((*store, Arc::new(log))),
                Err(error) => return Err(Failed(vec![(*store, error.into())])),
            }
        }
        let log = DirtyLog { name, logs };
        log.append(known, StoreMask(u64::MAX))?;
        DirtyLog::remove_others(away.store, &members, Some(&log.name));
        Ok(log)
    }

    /// Adds to it on the stores that are among `members`, durable when this returns.
    pub(crate) fn append(&self, more: &DirtySet, members: StoreMask) -> Result<(), Failed> {
        let mut records = vec![Record::Mark(more.mark)];
        if more.checkpoint > 0 {
            records.push(Record::Checkpoint(more.checkpoint));
        }
        let entries: Vec<_> = more.entries.iter().map(|(e, m)| (*e, *m)).collect();
        for part in entries.chunks(64) {
            let places = part
                .iter()
                .filter_map(|(e, _)| Some((e.object(), more.places.get(&e.object())?.clone())))
                .collect();
            records.push(Record::Touch(part.to_vec(), places));
        }
        records.extend(more.renames.iter().cloned().map(Record::Rename));
        for (store, log) in self.logs.iter().filter(|(s, _)| members.has(*s)) {
            let write = || -> Result<(), JournalError> {
                let mut last = None;
                for (at, record) in records.iter().enumerate() {
                    let sequence = log.append(KIND, &record.encode())?;
                    if at % COMMIT_RECORDS == COMMIT_RECORDS - 1 {
                        log.commit(sequence)?;
                    }
                    last = Some(sequence);
                }
                match last {
                    Some(sequence) => Ok(log.commit(sequence)?),
                    None => Ok(()),
                }
            };
            write().map_err(|e| Failed(vec![(*store, e)]))?;
        }
        Ok(())
    }

    /// Whether every one of `members` keeps it.
    pub(crate) fn covers(&self, members: StoreMask) -> bool {
        members
            .iter()
            .all(|m| self.logs.iter().any(|(s, _)| *s == m))
    }

    /// Removes every dirty log of `absent` but `keep` from the given stores.
    pub(crate) fn remove_others(
        absent: StoreIndex,
        dirs: &[(StoreIndex, Arc<dyn env::Dir>)],
        keep: Option<&str>,
    ) {
        let prefix = format!("dirty-{}-", absent.0);
        for (store, dir) in dirs {
            let removed = dir.list().map_err(JournalError::from).and_then(|files| {
                let names: BTreeSet<_> = files
                    .iter()
                    .filter(|f| f.starts_with(&prefix))
                    .filter_map(|f| Some(f.split_once('.')?.0))
                    .filter(|name| Some(*name) != keep)
                    .collect();
                names
                    .into_iter()
                    .try_for_each(|name| remove_log(&**dir, name))
            });
            if let Err(error) = removed {
                tracing::warn!(store = store.0, %error, "an old dirty log could not be removed");
            }
        }
    }
}

impl std::fmt::Debug for DirtyLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirtyLog")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
