//! The inodes that the kernel knows, with the references that it holds.

use crate::{Attr, Ino, Kind, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const SHARDS: usize = 16;

/// One inode that the kernel knows.
struct Known {
    /// References that the kernel holds: answers that named it, less what it has forgotten.
    count: u64,
    /// A regular file with set-user-id or set-group-id bit: a write has to take them away.
    set_id: bool,
    directory: bool,
    /// Asked for since the trimmer came by (second chance).
    used: bool,
    /// The layer has answered with it while it was counted here, or with no forget in between.
    sure: bool,
}

#[derive(Default)]
struct Shard {
    known: HashMap<u64, Known>,
    /// The clock: inodes in the order in which the trimmer comes by. Forgotten ones stay until
    /// then, but never more than half.
    clock: VecDeque<u64>,
}

/// The table. One shard's lock covers one inode's count together with the layer's forget, so an
/// inode is never forgotten while somebody takes a reference.
pub(crate) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    length: AtomicUsize,
    forgotten: AtomicU64,
    hand: AtomicUsize,
    limit: usize,
    pressure: Mutex<()>,
    changed: Condvar,
}

/// What [`Table::add`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// The reference is good.
    Done,
    /// An inode was forgotten since `since`, and nobody knows better than that it may have been
    /// this very one. The reference is held; look up again.
    Again,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Table {
        let table = Table {
            shards: Default::default(),
            length: AtomicUsize::new(0),
            forgotten: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
            limit,
            pressure: Mutex::new(()),
            changed: Condvar::new(),
        };
        // The kernel holds the root from the start and never forgets it.
        table.shard(Ino::ROOT).known.insert(
            Ino::ROOT.0,
            Known {
                count: 1,
                set_id: false,
                directory: true,
                used: true,
                sure: true,
            },
        );
        table
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        // The low bits count objects one by one, so they spread.
        let index = (ino.0 % SHARDS as u64) as usize;
        self.shards.get(index).unwrap_or(&self.shards[0]).lock()
    }

    /// A mark for [`Table::add`]; to be taken before the layer is asked.
    pub(crate) fn mark(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Counts one more reference to `ino`, of which the layer said `attr`.
    pub(crate) fn add(&self, ino: Ino, attr: &Attr, since: u64) -> Added {
        let mut shard = self.shard(ino);
        let unchanged = self.forgotten.load(Ordering::SeqCst) == since;
        let added = |sure| if sure { Added::Done } else { Added::Again };
        if let Some(known) = shard.known.get_mut(&ino.0) {
            known.count += 1;
            known.used = true;
            known.set_id = has_set_id(attr);
            known.sure |= unchanged;
            return added(known.sure);
        }
        let known = Known {
            count: 1,
            set_id: has_set_id(attr),
            directory: attr.kind == Kind::Dir,
            used: false,
            sure: unchanged,
        };
        shard.known.insert(ino.0, known);
        shard.clock.push_back(ino.0);
        if shard.clock.len() > 2 * shard.known.len() + 64 {
            let Shard { known, clock } = &mut *shard;
            clock.retain(|ino| known.contains_key(ino));
        }
        let length = self.length.fetch_add(1, Ordering::Relaxed);
        drop(shard);
        if length == self.limit {
            self.changed.notify_all();
        }
        added(unchanged)
    }

    /// The layer has answered with `ino` while a reference was counted.
    fn confirm(&self, ino: Ino) {
        if let Some(known) = self.shard(ino).known.get_mut(&ino.0) {
            known.sure = true;
        }
    }

    /// Asks with `look` and counts one reference to the answer. A layer may be told to forget an
    /// inode between its answer and the counting; then it is asked again, with the inode held.
    pub(crate) fn hold(
        &self,
        look: impl Fn() -> Result<(Ino, Attr)>,
        forget: impl Fn(Ino),
    ) -> Result<(Ino, Attr)> {
        let mut held: Option<Ino> = None;
        loop {
            let mark = self.mark();
            let found = look();
            if let Some(held) = held.take() {
                match found {
                    // Held since before this look: the answer stands.
                    Ok((ino, attr)) if ino == held => {
                        self.confirm(ino);
                        return Ok((ino, attr));
                    }
                    _ => self.remove(held, 1, || forget(held)),
                }
            }
            let (ino, attr) = found?;
            match self.add(ino, &attr, mark) {
                Added::Done => return Ok((ino, attr)),
                Added::Again => held = Some(ino),
            }
        }
    }

    /// Takes `count` references away; calls `forget` when none is left.
    pub(crate) fn remove(&self, ino: Ino, count: u64, forget: impl FnOnce()) {
        if ino == Ino::ROOT {
            return;
        }
        let mut shard = self.shard(ino);
        let Some(known) = shard.known.get_mut(&ino.0) else {
            return;
        };
        known.count = known.count.saturating_sub(count);
        if known.count > 0 {
            return;
        }
        shard.known.remove(&ino.0);
        self.length.fetch_sub(1, Ordering::Relaxed);
        forget();
        // Only now: who takes a mark from here on asks the layer after it has forgotten.
        self.forgotten.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes what the layer says of an inode after a change of its mode.
    pub(crate) fn note(&self, ino: Ino, attr: &Attr) {
        if let Some(known) = self.shard(ino).known.get_mut(&ino.0) {
            known.set_id = has_set_id(attr);
            known.used = true;
        }
    }

    /// Whether `ino` is a regular file with a set-id bit.
    pub(crate) fn has_set_id(&self, ino: Ino) -> bool {
        self.shard(ino)
            .known
            .get(&ino.0)
            .is_some_and(|known| known.set_id)
    }

    /// Number of inodes that the kernel knows, without the root.
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Waits until there are more inodes than the limit, somebody calls [`Table::wake`], or the
    /// time is over.
    pub(crate) fn wait(&self, limit: usize, time: Duration) {
        let mut pressure = self.pressure.lock();
        if self.len() <= limit {
            self.changed.wait_for(&mut pressure, time);
        }
    }

    /// Waits until there are at most `length` inodes; whether that came true in `time`.
    pub(crate) fn wait_below(&self, length: usize, time: Duration) -> bool {
        let deadline = std::time::Instant::now() + time;
        let mut pressure = self.pressure.lock();
        while self.len() > length {
            let step = deadline.min(std::time::Instant::now() + Duration::from_millis(1));
            self.changed.wait_until(&mut pressure, step);
            if std::time::Instant::now() >= deadline {
                return self.len() <= length;
            }
        }
        true
    }

    /// Waits for `time` or until [`Table::wake`] after `stop` is set.
    pub(crate) fn pause(&self, stop: &std::sync::atomic::AtomicBool, time: Duration) {
        let mut pressure = self.pressure.lock();
        let deadline = std::time::Instant::now() + time;
        while !stop.load(Ordering::Relaxed) && std::time::Instant::now() < deadline {
            self.changed.wait_until(&mut pressure, deadline);
        }
    }

    /// Ends every [`Table::wait`].
    pub(crate) fn wake(&self) {
        let _pressure = self.pressure.lock();
        self.changed.notify_all();
    }

    /// Moves the clock's hand over up to `steps` inodes and returns up to `wanted` that nobody
    /// has asked for since it last came by, each with whether it is a directory.
    pub(crate) fn unused(&self, steps: usize, wanted: usize) -> Vec<(Ino, bool)> {
        let mut found = Vec::new();
        let mut left = steps;
        for _ in 0..SHARDS {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = self.shards.get(hand % SHARDS) else {
                continue;
            };
            let mut shard = shard.lock();
            let share = left.min(steps.div_ceil(SHARDS)).min(shard.clock.len());
            left -= share;
            for _ in 0..share {
                if found.len() >= wanted {
                    return found;
                }
                let Some(ino) = shard.clock.pop_front() else {
                    break;
                };
                let Some(known) = shard.known.get_mut(&ino) else {
                    continue;
                };
                if std::mem::take(&mut known.used) {
                    shard.clock.push_back(ino);
                    continue;
                }
                found.push((Ino(ino), known.directory));
                shard.clock.push_back(ino);
            }
        }
        found
    }
}

fn has_set_id(attr: &Attr) -> bool {
    attr.kind == Kind::File && attr.perm & 0o6000 != 0
}

#[cfg(test)]
mod tests;
