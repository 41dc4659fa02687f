//! Stores leave and join.

use super::{Engine, Membership};
use crate::fanout::fanout;
use crate::journal::dirty::{DirtySet, Place};
use crate::journal::{Away, DirtyLog, Failed, Journal, log_id};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::set::Header;
use crate::set::header::{Departure, FILE_NAME};
use crate::store::Store;
use env::errno::{Errno, Fault, fault};
use mount::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// First wait before a failed store is tried again; it doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Whether more may be wrong on the store than what it has not seen: then everything is compared
/// when it comes back.
fn is_doubtful(errno: Errno) -> bool {
    matches!(errno, Errno::STALE | Errno::UCLEAN)
}

fn reason(errno: Errno) -> String {
    match errno {
        Errno::STALE | Errno::UCLEAN => {
            "its content is not what it should be; it is compared when it comes back".into()
        }
        Errno::ROFS => "it is read-only; mount it writable again".into(),
        Errno::NODEV => "it is missing; bring it back, or attach an empty one in its place".into(),
        _ if fault(errno) == Fault::NoSpace => {
            "it is full; make room on its file system and it comes back".into()
        }
        _ => format!("it failed ({errno}); look at the kernel's log for its disk"),
    }
}

impl Engine {
    pub(crate) fn count_error(&self, store: StoreIndex, errno: Errno) {
        if fault(errno) != Fault::Caller {
            self.slots[usize::from(store.0)]
                .errors
                .fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Fences a store for an error that it gave.
    pub(crate) fn fence_for(&self, store: StoreIndex, errno: Errno) -> Result<()> {
        self.count_error(store, errno);
        tracing::debug!(store = store.0, %errno, "a store gave an error");
        self.leave(
            &mut self.membership.lock(),
            store,
            &reason(errno),
            is_doubtful(errno),
        )
    }

    /// Leaves a store out from now on, durably on the members that are left. An error where fewer
    /// than half would be left: then the set takes no more writes.
    pub(crate) fn fence(&self, store: StoreIndex, why: &str) -> Result<()> {
        self.leave(&mut self.membership.lock(), store, why, false)
    }

    /// Leaves a member out because the operator says so, and does not take it in again by itself;
    /// `false` where it is none. EBUSY, with nothing changed, where some files would be left
    /// without a copy or fewer than half of the members would be left.
    pub(crate) fn let_go(&self, store: StoreIndex, why: &str) -> Result<bool> {
        let mut membership = self.membership.lock();
        let members = self.members();
        if !members.has(store) {
            return Ok(false);
        }
        let left = members.without(store).count();
        let away = self.slots.len() - left;
        if away >= usize::from(self.copy_count) || 2 * left < membership.header.members.count() {
            return Err(Errno::BUSY);
        }
        self.slots[usize::from(store.0)]
            .refused
            .store(true, Ordering::Release);
        self.leave(&mut membership, store, why, false)
            .map(|()| true)
    }

    /// Leaves a member out that is an older image of itself: everything on it is compared.
    pub(crate) fn leave_older(&self, store: StoreIndex) -> Result<()> {
        let why = "it is an older image of the store; everything on it is compared";
        self.leave(&mut self.membership.lock(), store, why, true)
    }

    fn leave(
        &self,
        membership: &mut Membership,
        store: StoreIndex,
        why: &str,
        doubtful: bool,
    ) -> Result<()> {
        let mut leaving = vec![(store, why.to_string(), doubtful)];
        // Where several fail at once the half is that of the last membership that all had taken up.
        let before = membership.header.members.count();
        while let Some((store, why, doubtful)) = leaving.pop() {
            let members = self.members();
            if !members.has(store) {
                continue;
            }
            let left = members.without(store);
            if left.is_empty() || 2 * left.count() < before {
                self.set_read_only(format!(
                    "store {} failed ({why}) and fewer than half of the members would be left",
                    store.0
                ));
                return Err(Errno::ROFS);
            }
            tracing::warn!(
                store = store.0,
                reason = why,
                "a store is fenced; the set goes on"
            );
            let slot = &self.slots[usize::from(store.0)];
            *slot.detail.lock() = why;
            // Let go of, so that its disk can be taken out and its lock is free when it returns.
            *slot.store.write() = None;
            self.encoded.forget(store);
            let unseen = if doubtful {
                DirtySet::everything()
            } else {
                self.journal.departing()
            };
            let header = &mut membership.header;
            let departure = Departure {
                generation: header.tenure().generation,
                mount_count: header.mount_count,
                mark: unseen.mark.0,
            };
            header.stores[usize::from(store.0)].1 = departure;
            header.advance(left, self.random());
            membership.dirty.insert(store, unseen);
            membership.dirty_logs.remove(&store);
            self.journal.leave(store);
            self.members.store(left.0, Ordering::Release);
            let failed = self.write_headers(&membership.header, left);
            self.generation
                .store(membership.header.tenure().generation, Ordering::Release);
            leaving.extend(
                failed
                    .into_iter()
                    .map(|(s, e)| (s, reason(e), is_doubtful(e))),
            );
            self.retry_later(store);
        }
        Ok(())
    }

    pub(crate) fn retry_later(&self, store: StoreIndex) {
        let mut retry = self.slots[usize::from(store.0)].retry.lock();
        let wait = RETRY_FIRST
            .saturating_mul(1 << retry.1.min(8))
            .min(RETRY_MAX);
        *retry = (Instant::now() + wait, retry.1 + 1);
        self.keeper.wake();
    }

    /// Writes the header to the given stores; returns those that failed.
    pub(crate) fn write_headers(&self, header: &Header, to: StoreMask) -> Vec<(StoreIndex, Errno)> {
        let items: Vec<_> = to.iter().map(|s| (s, self.store(s))).collect();
        let answers = fanout(&items, self.options.background, |index, store| {
            let store = store.as_ref().map_err(|e| *e)?;
            store
                .system()
                .replace(FILE_NAME, &header.for_store(index).encode())
        });
        answers
            .into_iter()
            .filter_map(|(s, a)| Some((s, a.err()?)))
            .collect()
    }

    /// Takes a store in that has caught up. The caller holds the gate for writing.
    pub(crate) fn join(&self, index: StoreIndex, store: &Arc<dyn Store>) -> Result<()> {
        let mut membership = self.membership.lock();
        let with = self.members().with(index);
        let dir = store.system();
        let log = Journal::create_log(dir.clone(), log_id(self.set.0, index, 0))
            .map_err(|_| Errno::IO)?;
        let mut header = membership.header.clone();
        header.advance(with, self.random());
        header.stores[usize::from(index.0)].1 = Departure::default();
        // Its own copy of what the others have not seen comes first, then its journal; the header
        // that makes it a member comes last.
        self.copy_dirty_logs(&mut membership, index, &dir)?;
        self.journal.join(index, log).map_err(|_| Errno::IO)?;
        *self.slots[usize::from(index.0)].store.write() = Some(store.clone());
        let failed = self.write_headers(&header, with);
        if failed.iter().any(|(s, _)| *s == index) {
            self.journal.leave(index);
            return Err(Errno::IO);
        }
        membership.header = header;
        membership.dirty.remove(&index);
        membership.dirty_logs.remove(&index);
        for inode in self.inodes.all() {
            inode.drop_store(index);
        }
        self.root.drop_store(index);
        self.members.store(with.0, Ordering::Release);
        self.generation
            .store(membership.header.tenure().generation, Ordering::Release);
        let slot = &self.slots[usize::from(index.0)];
        slot.detail.lock().clear();
        *slot.retry.lock() = (Instant::now(), 0);
        let dirs: Vec<_> = self
            .member_stores()
            .into_iter()
            .map(|(s, store)| (s, store.system()))
            .collect();
        DirtyLog::remove_others(index, &dirs, None);
        drop(membership);
        for (store, errno) in failed {
            self.fence_for(store, errno)?;
        }
        tracing::info!(store = index.0, "the store is in sync again");
        Ok(())
    }

    /// An object moved: what absent stores have not seen of it is found at its new place. Only in
    /// memory; after a restart a place that leads nowhere makes everything be compared.
    pub(crate) fn moved_in_dirty(&self, id: ObjectId, place: &Place) {
        if self.members().count() == self.slots.len() {
            return;
        }
        let mut membership = self.membership.lock();
        let Membership {
            dirty, catching_up, ..
        } = &mut *membership;
        let since = catching_up.as_mut().map(|(_, since)| since);
        for dirty in dirty.values_mut().chain(since) {
            if let Some(known) = dirty.places.get_mut(&id) {
                known.clone_from(place);
            }
        }
    }

    fn copy_dirty_logs(
        &self,
        membership: &mut Membership,
        index: StoreIndex,
        dir: &Arc<dyn env::Dir>,
    ) -> Result<()> {
        let absent: Vec<_> = membership
            .dirty
            .keys()
            .copied()
            .filter(|s| *s != index)
            .collect();
        for dirty in membership.dirty.values_mut() {
            for place in dirty.places.values_mut() {
                place.forget(index);
            }
        }
        for other in absent {
            membership.dirty_logs.remove(&other);
            let known = membership.dirty[&other].clone();
            let away = self.away(&membership.header, other);
            let mut dirs: Vec<_> = self
                .member_stores()
                .into_iter()
                .map(|(s, store)| (s, store.system()))
                .collect();
            dirs.push((index, dir.clone()));
            let log = DirtyLog::start(away, self.random(), dirs, &known).map_err(|_| Errno::IO)?;
            membership.dirty_logs.insert(other, log);
        }
        Ok(())
    }

    fn away(&self, header: &Header, store: StoreIndex) -> Away {
        let generation = header.stores[usize::from(store.0)].1.generation;
        Away {
            set: self.set.0,
            store,
            generation,
        }
    }

    /// Adds what a checkpoint is about to drop to what every absent store has not seen, durably.
    pub(crate) fn record_dirty(&self, settled: &DirtySet) -> Result<()> {
        let mut membership = self.membership.lock();
        let absent: Vec<_> = membership.dirty.keys().copied().collect();
        for store in absent {
            if let Some(dirty) = membership.dirty.get_mut(&store) {
                dirty.merge(settled);
                // Only a recovery asks for them.
                dirty.renames.clear();
            }
            if let Some((index, since)) = &mut membership.catching_up
                && *index == store
            {
                since.merge(settled);
            }
            let members = self.members();
            let kept = membership
                .dirty_logs
                .get(&store)
                .is_some_and(|l| l.covers(members));
            let written = if kept {
                match membership.dirty_logs.get(&store) {
                    Some(log) => log.append(settled, members),
                    None => Ok(()),
                }
            } else {
                let away = self.away(&membership.header, store);
                let dirs: Vec<_> = self
                    .member_stores()
                    .into_iter()
                    .map(|(s, store)| (s, store.system()))
                    .collect();
                let known = membership.dirty[&store].clone();
                DirtyLog::start(away, self.random(), dirs, &known).map(|log| {
                    membership.dirty_logs.insert(store, log);
                })
            };
            if let Err(Failed(stores)) = written {
                membership.dirty_logs.remove(&store);
                drop(membership);
                for (failed, error) in stores {
                    self.fence(failed, &format!("its dirty log cannot be written: {error}"))?;
                }
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    }
}
