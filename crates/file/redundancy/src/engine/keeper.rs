//! What runs by itself: checkpoints, watching the stores, bringing stores back.

use super::Engine;
use super::nameless::Nameless;
use crate::journal::dirty::DirtySet;
use crate::journal::{ENTRIES_MAX, log_id, open_log};
use crate::label::StoreIndex;
use crate::resync::pace::Pace;
use crate::resync::{self, Pass};
use crate::set::assemble::judge_return;
use crate::set::header::FILE_NAME;
use crate::set::{Header, RefuseReason};
use crate::status::LastRebuild;
use crate::store::Store;
use crate::store::local::LocalStore;
use env::errno::{Errno, Fault, fault};
use mount::Result;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the stores are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Time between two looks at what is encoded in a set that does not encode any more.
const RETURNS_EVERY: Duration = Duration::from_secs(1);

/// Passes that a returning store gets before changes are held up for the last one.
const ROUNDS_MAX: usize = 8;

/// Entries few enough for the last pass, during which changes wait.
const LAST_ENTRIES: usize = 64;

/// Objects of the pass before the last one, which has about as much to do: an entry may stand for a
/// directory with any number of new files.
const LAST_OBJECTS: u64 = 1024;

/// Bytes compared in the pass before the last one: a tenth of a second from the cache.
const LAST_BYTES: u64 = 64 << 20;

/// Rest after removed files could not be let go of.
const RELEASE_RETRY: Duration = Duration::from_secs(10);

/// Longest time that a stop spends on merging.
const LAST_MERGE: Duration = Duration::from_secs(30);

/// The threads of an engine and what wakes them.
pub(crate) struct Keeper {
    stop: Arc<AtomicBool>,
    woken: Mutex<bool>,
    wake: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// One checkpoint at a time.
    pub(crate) checkpointing: Mutex<()>,
    /// One store comes back at a time.
    resyncing: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper {
            stop: Arc::default(),
            woken: Mutex::new(false),
            wake: Condvar::new(),
            threads: Mutex::default(),
            checkpointing: Mutex::new(()),
            resyncing: Mutex::new(()),
        }
    }

    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    pub(crate) fn wake(&self) {
        *self.woken.lock() = true;
        self.wake.notify_all();
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn wait(&self) {
        let mut woken = self.woken.lock();
        if !*woken && !self.stopped() {
            self.wake.wait_for(&mut woken, TICK);
        }
        *woken = false;
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine had panicked");
            }
        }
    }
}

/// Starts the threads. They hold the engine weakly, so that it ends when its owner lets go.
pub(crate) fn start(engine: &Arc<Engine>) {
    let spawn = |name: &str, work: fn(&Engine, &mut Instant)| {
        let weak = Arc::downgrade(engine);
        let body = move || {
            let mut last = Instant::now();
            while let Some(engine) = weak.upgrade() {
                if engine.keeper.stopped() {
                    return;
                }
                work(&engine, &mut last);
                if !engine.keeper.stopped() {
                    engine.keeper.wait();
                }
            }
        };
        match std::thread::Builder::new().name(name.into()).spawn(body) {
            Ok(thread) => engine.keeper.threads.lock().push(thread),
            Err(error) => tracing::error!(%error, name, "a thread of the engine cannot start"),
        }
    };
    spawn("checkpoint", Engine::keep_checkpoints);
    spawn("stores", |engine, _| engine.watch_stores());
    spawn("resync", |engine, _| engine.try_returns());
    if engine.encoded.stripes().is_some() {
        spawn("encode", Engine::keep_encoding);
        spawn("merge", Engine::keep_merging);
        spawn("scrub", |engine, _| engine.keep_scrubbing());
    }
}

/// What to tell of a store between tries.
fn not_brought_back(errno: Errno, pace: &Pace) -> String {
    if let Some((store, files)) = pace.unreadable_files() {
        return format!(
            "store {} cannot read {files} of the files to be copied, the others are copied; the log \
             names them: restore or remove them",
            store.0
        );
    }
    match errno {
        Errno::AGAIN => {
            "what it has missed could not all be found there; the next try compares everything"
                .into()
        }
        _ if fault(errno) == Fault::NoSpace => {
            "it is full; make room on its file system and it comes back".into()
        }
        _ => format!("bringing it up to date failed ({errno})"),
    }
}

/// What to do with a store that is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attach {
    /// Bring it up to date from what it has missed; refuse what is not this set's or is too old.
    Return,
    /// Take whatever is there as if it were empty: everything on it that is not this set's present
    /// content is replaced.
    Empty,
}

/// Why a store was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// Every place is taken by a member.
    #[error("every place of the set has a store in sync")]
    NoPlace,
    /// It is refused.
    #[error("{0}")]
    Refused(#[from] RefuseReason),
    /// It has no header, and was not offered as an empty one.
    #[error("it has no store header; to rebuild onto it, attach it as an empty store")]
    NoHeader,
    /// It failed.
    #[error("it failed: {0}")]
    Store(Errno),
}

impl Engine {
    fn keep_checkpoints(&self, last: &mut Instant) {
        self.close_forgotten();
        let due = last.elapsed() >= Duration::from_millis(u64::from(self.options.checkpoint_ms));
        let full = self.journal.len() >= ENTRIES_MAX;
        let idle = self.journal.len() == 0 && self.peek_id() == self.journal.implicit_mark();
        if !(full || due && !idle) {
            return;
        }
        if let Err(errno) = self.checkpoint() {
            tracing::warn!(%errno, "a checkpoint was not completed; it is tried again");
        }
        *last = Instant::now();
    }

    /// Encodes what is cold, once an interval. Counts begin with the start, so the first round is
    /// an interval after it.
    fn keep_encoding(&self, last: &mut Instant) {
        let Some(encoding) = &self.options.encoding else {
            if last.elapsed() >= RETURNS_EVERY {
                if let Err(errno) = self.return_all() {
                    tracing::warn!(%errno, "encoded data could not get its copies back; it is tried again");
                }
                *last = Instant::now();
            }
            return;
        };
        let whole = self.members().count() == self.slots.len();
        if last.elapsed() < encoding.interval || !whole {
            return;
        }
        match self.encode_round() {
            Ok(round) => tracing::info!(
                made = round.made,
                given_up = round.given_up,
                "a round of encoding has ended"
            ),
            Err(errno) => tracing::info!(%errno, "a round of encoding was left off"),
        }
        *last = Instant::now();
    }

    /// Lets go of removed files that stripes needed, and merges differential pages while there are
    /// more than may stay.
    fn keep_merging(&self, next: &mut Instant) {
        if *next <= Instant::now() {
            match self.release_held() {
                Ok(()) | Err(Errno::INTR) => {}
                Err(errno) => {
                    tracing::warn!(%errno, "the room of removed files is not free yet; it is tried again");
                    *next = Instant::now() + RELEASE_RETRY;
                }
            }
        }
        while !self.keeper.stopped() {
            match self.merge_some() {
                Ok(1..) => {}
                Ok(_) => return,
                Err(errno) => {
                    tracing::warn!(%errno, "differential pages could not be merged; it is tried again");
                    return;
                }
            }
        }
    }

    /// Looks whether the members are still where they were, and how full.
    fn watch_stores(&self) {
        for (index, store) in self.member_stores() {
            if let Err(errno) = store.probe() {
                let _ = self.fence_for(index, errno);
            }
        }
        self.refresh_space();
        self.close_stale();
    }

    /// Tries to bring back each store that is away and may come back.
    fn try_returns(&self) {
        let away = crate::label::StoreMask::first(self.slots.len()).minus(self.members());
        for index in away.iter() {
            let slot = &self.slots[usize::from(index.0)];
            let due = Instant::now() >= slot.retry.lock().0;
            if !due || slot.refused.load(Ordering::Acquire) || self.keeper.stopped() {
                continue;
            }
            let offered = match slot.pending.lock().take() {
                Some(store) => Some(store),
                None => self.reopen(index),
            };
            let Some(store) = offered else { continue };
            if let Err(errno) = self.bring_back(index, &store) {
                if errno == Errno::INTR {
                    // The set stops, or the store was detached.
                    continue;
                }
                tracing::warn!(store = index.0, %errno, "the store could not be brought up to date");
                self.retry_later(index);
                if errno == Errno::AGAIN {
                    // The store is well; the next try compares everything.
                    *slot.pending.lock() = Some(store);
                }
            }
        }
    }

    /// Opens the local store of a slot again where its header says that it may come back.
    fn reopen(&self, index: StoreIndex) -> Option<Arc<dyn Store>> {
        let slot = &self.slots[usize::from(index.0)];
        if slot.path.lock().is_empty() {
            return None;
        }
        let path = slot.path.lock().clone();
        let store: Arc<dyn Store> = match LocalStore::open_exclusive(Path::new(&path)) {
            Ok(store) => Arc::new(store),
            Err(error) => {
                *slot.detail.lock() = error.to_string();
                return None;
            }
        };
        match self.judge(&*store) {
            Ok(place) if place == index => Some(store),
            Ok(place) => {
                *slot.detail.lock() = format!("the store there belongs to place {}", place.0);
                None
            }
            Err(AttachError::NoHeader) => {
                *slot.detail.lock() = format!(
                    "an empty directory is in its place; to rebuild onto it: `holdfast attach {path}`"
                );
                None
            }
            Err(error) => {
                *slot.detail.lock() =
                    format!("refused: {error}; to use its place anew attach an empty directory");
                None
            }
        }
    }

    fn judge(&self, store: &dyn Store) -> std::result::Result<StoreIndex, AttachError> {
        let bytes = match store.system().read(FILE_NAME) {
            Ok(bytes) => bytes,
            Err(Errno::NOENT) => return Err(AttachError::NoHeader),
            Err(errno) => return Err(AttachError::Store(errno)),
        };
        let header = Header::decode(&bytes).map_err(|_| AttachError::NoHeader)?;
        let newest = self.membership.lock().header.clone();
        Ok(judge_return(&header, &newest)?)
    }

    /// Whether a store has never been part of any set.
    pub fn is_new_store(&self, store: &dyn Store) -> bool {
        store.system().read(FILE_NAME) == Err(Errno::NOENT)
    }

    /// Takes a store that the operator offers, for the place that its header names or, as an empty
    /// one, for the place without a store that had its path, or the first without one. It is
    /// brought up to date in the background.
    pub fn attach(
        &self,
        path: &str,
        store: Arc<dyn Store>,
        how: Attach,
    ) -> std::result::Result<StoreIndex, AttachError> {
        let index = match how {
            Attach::Return => self.judge(&*store)?,
            Attach::Empty => {
                let away = crate::label::StoreMask::first(self.slots.len()).minus(self.members());
                let had = |s: &StoreIndex| *self.slots[usize::from(s.0)].path.lock() == path;
                away.iter()
                    .find(had)
                    .or(away.iter().next())
                    .ok_or(AttachError::NoPlace)?
            }
        };
        if self.members().has(index) {
            return Err(AttachError::NoPlace);
        }
        let slot = &self.slots[usize::from(index.0)];
        if how == Attach::Empty {
            let mut membership = self.membership.lock();
            let id = u128::from(self.random()) << 64 | u128::from(self.random());
            let entry = &mut membership.header.stores[usize::from(index.0)];
            *entry = (
                crate::set::StoreId(id),
                crate::set::header::Departure::default(),
            );
            membership.dirty.insert(index, DirtySet::everything());
            membership.dirty_logs.remove(&index);
            let header = membership.header.clone();
            drop(membership);
            for (failed, errno) in self.write_headers(&header, self.members()) {
                self.fence_for(failed, errno).map_err(AttachError::Store)?;
            }
            // With a header of its own it is known after a restart, and the rebuild goes on.
            let bytes = header.for_store(index).encode();
            store
                .system()
                .replace(FILE_NAME, &bytes)
                .map_err(AttachError::Store)?;
        }
        *slot.path.lock() = path.to_string();
        *slot.pending.lock() = Some(store);
        *slot.retry.lock() = (Instant::now(), 0);
        slot.cancel.store(false, Ordering::Release);
        slot.refused.store(false, Ordering::Release);
        self.keeper.wake();
        Ok(index)
    }

    /// Brings back, on the calling thread, every store that is offered or can be opened again.
    pub fn resync_now(&self) {
        for slot in &self.slots {
            slot.retry.lock().0 = Instant::now();
        }
        self.try_returns();
    }

    /// Brings one store up to date and takes it in.
    fn bring_back(&self, index: StoreIndex, store: &Arc<dyn Store>) -> Result<()> {
        let _one = self.keeper.resyncing.lock();
        let slot = &self.slots[usize::from(index.0)];
        let started = Instant::now();
        let pace = Arc::new(Pace::new(
            slot.cancel.clone(),
            self.options.rebuild_bytes_per_s,
        ));
        *slot.progress.lock() = Some(pace.clone());
        slot.detail.lock().clear();
        let done = self.catch_up(index, store, &pace);
        match done {
            Ok(()) => {
                let totals = pace.progress();
                *slot.last_rebuild.lock() = Some(LastRebuild {
                    finished_s: env::wall_time().seconds,
                    seconds: started.elapsed().as_secs(),
                    objects: totals.objects_done,
                    bytes: totals.bytes_done,
                    bytes_written: totals.bytes_written,
                });
            }
            // Before the progress goes: a store that is away always says why.
            Err(errno) => {
                *slot.detail.lock() = not_brought_back(errno, &pace);
                if !self.members().has(index) {
                    self.encoded.forget(index);
                }
            }
        }
        *slot.progress.lock() = None;
        let mut membership = self.membership.lock();
        if let Some((_, since)) = membership.catching_up.take()
            && done.is_err()
            && let Some(dirty) = membership.dirty.get_mut(&index)
        {
            dirty.merge(&since);
        }
        done
    }

    fn catch_up(&self, index: StoreIndex, bare: &Arc<dyn Store>, pace: &Pace) -> Result<()> {
        let store = &self.encoded.wrap(index, bare.clone());
        store.set_label(&store.root()?, &self.root.label())?;
        self.checkpoint()?;
        let older = self.is_older(index, store);
        let compare_all = &self.slots[usize::from(index.0)].compare_all;
        let mut todo = {
            let mut membership = self.membership.lock();
            if older {
                membership.dirty.insert(index, DirtySet::everything());
            }
            let since = DirtySet::since(self.journal.durable_mark());
            membership.catching_up = Some((index, since));
            membership
                .dirty
                .get(&index)
                .cloned()
                .unwrap_or_else(DirtySet::everything)
        };
        let mut rebuild = None;
        if todo.is_everything() {
            rebuild = self.begin_rebuild(index, bare)?;
        } else {
            self.join_stripes(index, bare)?;
        }
        self.let_go_of_named(&**bare)?;
        if compare_all.load(Ordering::Acquire) {
            todo = DirtySet::everything();
        }
        if todo.is_everything() {
            pace.set_phase("counting");
            pace.set_total(self.count_bytes(index, pace)?);
        }
        let target = (index, store.clone());
        let mut nameless = Nameless::default();
        for _ in 0..ROUNDS_MAX {
            let voters = self.member_stores();
            let before = pace.progress();
            pace.set_phase("copying");
            let left = match rebuild.take() {
                Some(rebuild) => {
                    let mut pass = Pass::new(self, &voters, (index, bare.clone()), &todo, pace);
                    pass.rebuild = Some(&rebuild);
                    let left = pass.run()?;
                    self.end_rebuild(index, bare, &rebuild, pace)?;
                    left
                }
                None => Pass::new(self, &voters, target.clone(), &todo, pace).run()?,
            };
            nameless.catch_up(self, &target, &todo, pace)?;
            self.checkpoint()?;
            todo = self.take_since(index);
            todo.merge(&left);
            let after = pace.progress();
            if left.is_empty()
                && todo.len() <= LAST_ENTRIES
                && after.objects_done - before.objects_done <= LAST_OBJECTS
                && after.bytes_done - before.bytes_done <= LAST_BYTES
            {
                break;
            }
        }
        pace.set_phase("joining");
        pace.lift();
        let _still = self.gate.write();
        todo.merge(&self.journal.active());
        todo.merge(&self.take_since(index));
        let voters = self.member_stores();
        let left = Pass::new(self, &voters, target.clone(), &todo, pace).run()?;
        nameless.catch_up(self, &target, &todo, pace)?;
        pace.check()?;
        if !left.is_empty() {
            compare_all.store(true, Ordering::Release);
            return Err(Errno::AGAIN);
        }
        {
            // No merge fails it meanwhile.
            let _one = self.encoded.changing.lock();
            if !self.takes_part(index) {
                return Err(Errno::IO);
            }
            self.join(index, store)?;
        }
        compare_all.store(false, Ordering::Release);
        nameless.adopt(index);
        self.audit_stripes()
    }

    /// Whether the store is, by its journal, an image from before it left: what it has not seen is
    /// then more than what is known.
    fn is_older(&self, index: StoreIndex, store: &Arc<dyn Store>) -> bool {
        let known = self
            .membership
            .lock()
            .dirty
            .get(&index)
            .map(|d| d.checkpoint);
        let at_least = match known {
            Some(checkpoint) if checkpoint > 0 => checkpoint,
            _ => return false,
        };
        match open_log(store.system(), log_id(self.set.0, index, 0)) {
            Ok((_, set)) if set.checkpoint == 0 || set.checkpoint >= at_least => false,
            Ok((_, set)) => {
                tracing::warn!(
                    store = index.0,
                    checkpoint = set.checkpoint,
                    at_least,
                    "it is an older image of the store; everything on it is compared"
                );
                true
            }
            Err(error) => {
                tracing::warn!(store = index.0, %error, "its journal cannot be read; everything is compared");
                true
            }
        }
    }

    /// What has changed since the last call, and a fresh set for what changes from now on.
    fn take_since(&self, index: StoreIndex) -> DirtySet {
        let mut membership = self.membership.lock();
        let fresh = DirtySet::since(self.journal.durable_mark());
        match membership.catching_up.replace((index, fresh)) {
            Some((_, since)) => since,
            None => DirtySet::everything(),
        }
    }

    /// Bytes of the files that the store is to hold.
    fn count_bytes(&self, index: StoreIndex, pace: &Pace) -> Result<u64> {
        let voters = self.member_stores();
        resync::count_bytes(self, &voters, index, pace)
    }

    /// Takes a store out of use until it is attached again: a member leaves, and a store that is
    /// being brought up to date is let go of.
    ///
    /// EINVAL where there is no such place; EBUSY, with nothing changed, where some files would be
    /// left without a copy, or the set without enough members to take writes.
    pub fn detach(&self, index: StoreIndex) -> Result<()> {
        const WHY: &str = "it was detached; attach it to bring it back";
        let slot = self.slots.get(usize::from(index.0)).ok_or(Errno::INVAL)?;
        if self.let_go(index, WHY)? {
            return Ok(());
        }
        // Not a member: whatever brings it back ends.
        slot.refused.store(true, Ordering::Release);
        slot.cancel.store(true, Ordering::Release);
        let runs = slot.progress.lock().is_some();
        if runs {
            drop(self.keeper.resyncing.lock());
        }
        slot.pending.lock().take();
        WHY.clone_into(&mut slot.detail.lock());
        // It may have joined just before it was told to end.
        self.let_go(index, WHY).map(|_| ())
    }

    /// Stops: everything is durable and the journal empty when this returns without an error.
    pub fn shutdown(&self) -> Result<()> {
        for slot in &self.slots {
            slot.cancel.store(true, Ordering::Release);
        }
        self.keeper.stop();
        self.close_forgotten();
        for inode in self.inodes.all() {
            self.close_files(&inode);
        }
        self.checkpoint()?;
        // So that each file is whole where its home is, also for who reads it without Holdfast.
        if let Err(errno) = self.merge_all(LAST_MERGE) {
            tracing::warn!(%errno, "differential pages could not be merged; they stay");
        }
        if let Some(delayed) = self.encoded.delayed()
            && let Err(error) = delayed.close()
        {
            self.fence_of(&error)?;
        }
        // A copy of a store that was made while the set ran ends, with this one, two checkpoints
        // before the others: it cannot be taken for the store (`open::journals`).
        self.checkpoint()
    }
}
