//! The engine: one namespace over several stores.
//!
//! # Invariants
//! - Every change holds the gate for reading; what needs the copies to stand still (a new epoch, a
//!   store that joins) holds it for writing.
//! - The store that decides for a file is its home while that is a member, else the lowest member
//!   among its copies; for a directory it is the lowest member.
//! - A change is acknowledged only after every member that holds a copy has done it; a member that
//!   could not is fenced first, durably, on the members that are left.

mod attributes;
mod check;
mod checkpoint;
mod content;
mod crawl;
mod differential;
mod encode;
mod find;
mod give_up;
mod held;
mod keeper;
mod layer;
mod lost;
mod membership;
mod nameless;
mod names;
mod open;
mod placement;
pub(crate) mod rebuild;
mod rename;
mod report;
mod scrub;

pub use crawl::Round;
pub use keeper::{Attach, AttachError};
pub use open::{Candidate, OpenError};

use crate::encoded::Encoded;
use crate::fanout::fanout_by;
use crate::inode::{Inode, InodeTable};
use crate::journal::dirty::{DirtySet, Entry, Place};
use crate::journal::{DirtyLog, Failed, Journal};
use crate::label::{Label, ObjectId, StoreIndex, StoreMask};
use crate::resync::pace::Pace;
use crate::set::{Header, SetId};
use crate::status::{LastRebuild, ScrubStatus};
use crate::store::Store;
use env::errno::{Errno, Fault, fault};
use mount::{Result, Space};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Stores in a short list.
pub(crate) type Stores = SmallVec<[StoreIndex; 4]>;

/// What an engine may be told.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Copies of each file where the set is new.
    pub copies: u8,
    /// Places of members that the operator says will never come back.
    pub gone: StoreMask,
    /// Whether threads of its own run (checkpoints, watching stores, rebuild); else the caller
    /// drives them.
    pub background: bool,
    /// Milliseconds between checkpoints.
    pub checkpoint_ms: u32,
    /// Most that a rebuild reads and writes; 0 for no limit.
    pub rebuild_bytes_per_s: u64,
    /// Most that a scrub reads; 0 for no limit.
    pub scrub_bytes_per_s: u64,
    /// Seconds between two scrubs that begin by themselves; 0 for none.
    pub scrub_interval_s: u64,
    /// Free bytes below which a store gets no new files.
    pub reserve_bytes: u64,
    /// How cold chunks are encoded; `None` where they are not, and what is encoded gets its copies
    /// back.
    pub encoding: Option<crate::encoding::Parameters>,
    /// Seed of the ids of sets, stores and tenures; `None` takes the kernel's randomness.
    pub seed: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            copies: 2,
            gone: StoreMask::default(),
            background: true,
            checkpoint_ms: 5000,
            rebuild_bytes_per_s: 0,
            scrub_bytes_per_s: 0,
            scrub_interval_s: 0,
            reserve_bytes: 64 << 20,
            encoding: None,
            seed: None,
        }
    }
}

/// One store's slot.
pub(crate) struct Slot {
    pub(crate) path: Mutex<String>,
    pub(crate) store: RwLock<Option<Arc<dyn Store>>>,
    pub(crate) space: Mutex<Space>,
    pub(crate) errors: AtomicU64,
    pub(crate) detail: Mutex<String>,
    pub(crate) progress: Mutex<Option<Arc<Pace>>>,
    pub(crate) last_rebuild: Mutex<Option<LastRebuild>>,
    /// Earliest next try to bring the store back, and how often it failed.
    pub(crate) retry: Mutex<(Instant, u32)>,
    /// A store that is offered and not yet up to date.
    pub(crate) pending: Mutex<Option<Arc<dyn Store>>>,
    /// What it has missed could not all be found: the next try to bring it back compares all. What
    /// it has is not in doubt for that.
    pub(crate) compare_all: AtomicBool,
    /// Refused until the operator says otherwise.
    pub(crate) refused: AtomicBool,
    /// Ends the pass that brings the store up to date.
    pub(crate) cancel: Arc<AtomicBool>,
}

pub(crate) struct Membership {
    pub(crate) header: Header,
    /// What each store that is not a member has not seen, without what is active now.
    pub(crate) dirty: BTreeMap<StoreIndex, DirtySet>,
    pub(crate) dirty_logs: BTreeMap<StoreIndex, DirtyLog>,
    /// The store that is being brought up to date and what has changed since its pass began.
    pub(crate) catching_up: Option<(StoreIndex, DirtySet)>,
}

#[derive(Default)]
pub(crate) struct DirOps {
    /// Directories whose sub-directories changed since every member was synced.
    list: Vec<Arc<Inode>>,
    overflow: bool,
}

/// The engine.
pub struct Engine {
    pub(crate) set: SetId,
    pub(crate) options: EngineOptions,
    pub(crate) copy_count: u8,
    pub(crate) slots: Vec<Slot>,
    pub(crate) membership: Mutex<Membership>,
    members: AtomicU64,
    generation: AtomicU64,
    pub(crate) gate: RwLock<()>,
    pub(crate) journal: Journal,
    pub(crate) encoded: Arc<Encoded>,
    /// Requests by chunk, where the set encodes.
    pub(crate) counters: Option<crawl::Counters>,
    pub(crate) last_round: Mutex<Option<crawl::LastRound>>,
    pub(crate) inodes: InodeTable,
    pub(crate) root: Arc<Inode>,
    ids: AtomicU64,
    rotation: AtomicU64,
    read_only: Mutex<Option<String>>,
    is_read_only: AtomicBool,
    pub(crate) dir_ops: Mutex<DirOps>,
    /// Whether files without a name may be held for the stripes that need them.
    pub(crate) holds: AtomicBool,
    /// Inodes that the kernel has let go of and whose files are still to be closed.
    pub(crate) closing: Mutex<Vec<Arc<Inode>>>,
    pub(crate) open_queue: Mutex<std::collections::VecDeque<std::sync::Weak<Inode>>>,
    entropy: Mutex<env::Rng>,
    pub(crate) keeper: keeper::Keeper,
    started: Instant,
    pub(crate) mounted_at: Mutex<String>,
    pub(crate) last_scrub: Mutex<Option<ScrubStatus>>,
    pub(crate) scrubbing: scrub::Scrubbing,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The stores that hold every copy that they should.
    pub fn members(&self) -> StoreMask {
        StoreMask(self.members.load(Ordering::Acquire))
    }

    /// Membership generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a change.
    pub(crate) fn begin(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let guard = self.gate.read();
        if self.is_read_only.load(Ordering::Acquire) {
            return Err(Errno::ROFS);
        }
        Ok(guard)
    }

    pub(crate) fn set_read_only(&self, why: String) {
        tracing::error!(reason = why, "the set takes no more writes");
        *self.read_only.lock() = Some(why);
        self.is_read_only.store(true, Ordering::Release);
    }

    pub(crate) fn store(&self, index: StoreIndex) -> Result<Arc<dyn Store>> {
        let slot = self.slots.get(usize::from(index.0)).ok_or(Errno::NODEV)?;
        slot.store.read().clone().ok_or(Errno::NODEV)
    }

    pub(crate) fn member_stores(&self) -> Vec<(StoreIndex, Arc<dyn Store>)> {
        self.members()
            .iter()
            .filter_map(|s| Some((s, self.store(s).ok()?)))
            .collect()
    }

    /// The member copies of what carries `label`, the one that decides first.
    pub(crate) fn copies(&self, label: &Label, is_dir: bool) -> Stores {
        let members = self.members();
        if is_dir {
            return members.iter().collect();
        }
        let held = label.copies.and(members);
        let mut stores = Stores::new();
        if held.has(label.home) {
            stores.push(label.home);
        }
        stores.extend(held.iter().filter(|s| *s != label.home));
        stores
    }

    pub(crate) fn copies_of(&self, inode: &Inode) -> Stores {
        self.copies(&inode.label(), inode.is_dir())
    }

    pub(crate) fn next_id(&self) -> ObjectId {
        ObjectId(self.ids.fetch_add(1, Ordering::AcqRel))
    }

    pub(crate) fn peek_id(&self) -> ObjectId {
        ObjectId(self.ids.load(Ordering::Acquire))
    }

    pub(crate) fn random(&self) -> u64 {
        self.entropy.lock().next_u64()
    }

    /// Judges the answers of copies, the deciding one first: fences the stores that failed where
    /// another did it, and returns what the caller gets. Where every copy failed nobody is fenced.
    pub(crate) fn settle<R>(&self, answers: Vec<(StoreIndex, Result<R>)>) -> Result<R> {
        let decides = |answer: &Result<R>| match answer {
            Ok(_) => true,
            Err(errno) => fault(*errno) == Fault::Caller,
        };
        let Some(first) = answers.iter().position(|(_, a)| decides(a)) else {
            let errnos = || {
                answers
                    .iter()
                    .filter_map(|(_, a)| a.as_ref().err().copied())
            };
            for (store, answer) in &answers {
                if let Err(errno) = answer {
                    self.count_error(*store, *errno);
                }
            }
            let full = errnos().any(|e| fault(e) == Fault::NoSpace);
            let answer = if full {
                Errno::NOSPC
            } else {
                errnos().next().unwrap_or(Errno::IO)
            };
            return Err(answer);
        };
        let done = answers[first].1.is_ok();
        let mut result = None;
        for (at, (store, answer)) in answers.into_iter().enumerate() {
            if at == first {
                result = Some(answer);
                continue;
            }
            match (done, answer) {
                (true, Err(errno)) => self.fence_for(store, errno)?,
                (false, Ok(_)) => self.fence_for(store, Errno::UCLEAN)?,
                (false, Err(errno)) if fault(errno) != Fault::Caller => {
                    self.fence_for(store, errno)?;
                }
                _ => {}
            }
        }
        result.unwrap_or(Err(Errno::IO))
    }

    /// Does `act` on each store in turn, the deciding one first, and settles. A first answer that
    /// is the caller's fault ends it before any other copy changes.
    pub(crate) fn on_each<R>(
        &self,
        stores: &Stores,
        mut act: impl FnMut(StoreIndex, &dyn Store) -> Result<R>,
    ) -> Result<R> {
        let mut answers = Vec::with_capacity(stores.len());
        let mut done = false;
        for index in stores {
            let answer = self.store(*index).and_then(|store| act(*index, &*store));
            let caller = matches!(&answer, Err(e) if fault(*e) == Fault::Caller);
            if caller && !done {
                if let (Err(errno), false) = (&answer, answers.is_empty()) {
                    tracing::debug!(store = index.0, %errno, "refused by the next copy");
                }
                answers.push((*index, answer));
                break;
            }
            done |= answer.is_ok();
            answers.push((*index, answer));
        }
        if answers.is_empty() {
            return Err(Errno::IO);
        }
        self.settle(answers)
    }

    /// Does what waits for the medium on each store at once and settles.
    pub(crate) fn on_all<T: Sync>(
        &self,
        items: &[(StoreIndex, T)],
        act: impl Fn(StoreIndex, &T) -> Result<()> + Sync,
    ) -> Result<()> {
        if items.is_empty() {
            return Err(Errno::IO);
        }
        let parallel = self.options.background;
        self.settle(fanout_by(items, parallel, |store| self.lane(store), act))
    }

    /// The same number for stores whose syncs share a medium.
    fn lane(&self, index: StoreIndex) -> u64 {
        match self.store(index) {
            Ok(store) if store.is_local() => store.device(),
            // Above every device number: those have 32 bits.
            _ => u64::MAX - u64::from(index.0),
        }
    }

    /// Writes down that `entry` of `inode` is about to change.
    pub(crate) fn touch(&self, inode: &Inode, entry: Entry, mask: u8) -> Result<()> {
        if self.journal.implicit(inode.id) {
            return Ok(());
        }
        for _ in 0..=self.slots.len() {
            match self.journal.touch(entry, mask, || self.place_of(inode)) {
                Ok(()) => return Ok(()),
                Err(Failed(stores)) => {
                    for (store, error) in stores {
                        self.fence(store, &format!("its journal cannot be written: {error}"))?;
                    }
                }
            }
        }
        Err(Errno::IO)
    }

    /// Where `inode` is, as far as it is known.
    pub(crate) fn place_of(&self, inode: &Inode) -> Place {
        let (parent, name) = match inode.hint() {
            Some((parent, name)) => {
                for store in self.copies_of(inode) {
                    // Without its own reference on a store an object that loses this name could
                    // not be found there any more. What cannot be found now is left to the names.
                    let _ = self.node_on(&parent, store);
                    let _ = self.node_on(inode, store);
                }
                (
                    parent.nodes(),
                    std::os::unix::ffi::OsStringExt::into_vec(name),
                )
            }
            None => (Vec::new(), Vec::new()),
        };
        Place {
            nodes: inode.nodes(),
            parent,
            name,
        }
    }
}

#[cfg(test)]
mod tests;
