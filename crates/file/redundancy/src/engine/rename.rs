//! Renaming, where the objects concerned may have copies on different stores.

use super::{Engine, Stores};
use crate::inode::Inode;
use crate::journal::Failed;
use crate::journal::dirty::{Manner, Rename};
use crate::label::StoreMask;
use env::errno::{Errno, Fault, fault};
use mount::{Attr, RenameFlags, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// One end of a rename.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) dir: &'a Arc<Inode>,
    pub(crate) name: &'a OsStr,
}

impl Engine {
    /// Renames `from` to `to`.
    pub(crate) fn rename_name(&self, from: End<'_>, to: End<'_>, flags: RenameFlags) -> Result<()> {
        if flags.contains(RenameFlags::WHITEOUT)
            || flags.contains(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE)
        {
            return Err(Errno::INVAL);
        }
        let _gate = self.begin()?;
        let (moving, moving_attr) = self.find(from.dir, from.name)?;
        if moving_attr.nlink > 1 && !moving.is_dir() {
            moving.set_several_names();
        }
        let target = match self.find(to.dir, to.name) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        if flags.contains(RenameFlags::NOREPLACE) && target.is_some() {
            return Err(Errno::EXIST);
        }
        if flags.contains(RenameFlags::EXCHANGE) && target.is_none() {
            return Err(Errno::NOENT);
        }
        if target.as_ref().is_some_and(|(t, _)| t.id == moving.id) {
            return Ok(());
        }
        self.touch_names(from.dir)?;
        self.touch_names(to.dir)?;
        self.settle_renames(&moving)?;
        if let Some((target, _)) = &target {
            self.settle_renames(target)?;
        }
        let done = match target {
            Some((target, _)) if flags.contains(RenameFlags::EXCHANGE) => {
                self.exchange(from, to, &moving, &target)
            }
            Some((target, attr)) => {
                let replaced = self.replace(from, to, &moving, &target, &attr);
                if replaced.is_err() && !target.is_dir() {
                    self.let_go_of(&target);
                }
                replaced
            }
            None => self.move_only(from, to, &moving),
        };
        if let Err(errno) = done {
            if fault(errno) == Fault::Caller {
                // Refused, and so not to be completed after a crash either.
                self.strike_renames(&moving)?;
            }
            return Err(errno);
        }
        let changed = self.copies_of(&moving);
        self.dir_changed(from.dir, &changed)?;
        self.dir_changed(to.dir, &changed)?;
        // The object may have been entered in the journal under its old place.
        let place = self.place_of(&moving);
        self.moved_in_dirty(moving.id, &place);
        if self.journal.moved(moving.id, place).is_err() {
            tracing::debug!(
                id = moving.id.0,
                "the new place reaches the journal with the next touch"
            );
        }
        debug_assert!(moving_attr.kind == moving.kind);
        Ok(())
    }

    fn all_copies(&self, inode: &Inode) -> StoreMask {
        self.copies_of(inode)
            .iter()
            .fold(StoreMask::default(), |m, s| m.with(*s))
    }

    fn move_only(&self, from: End<'_>, to: End<'_>, moving: &Arc<Inode>) -> Result<()> {
        let _renaming = moving.renaming();
        self.on_each(&self.copies_of(moving), |index, store| {
            let source = self.node_on(from.dir, index)?;
            let target = self.node_on(to.dir, index)?;
            store.rename(&source, from.name, &target, to.name, RenameFlags::empty())
        })?;
        self.moved(from, to, moving);
        Ok(())
    }

    fn moved(&self, from: End<'_>, to: End<'_>, moving: &Arc<Inode>) {
        moving.set_hint(to.dir, to.name);
        moving.set_renamed(self.journal.epoch());
        if moving.is_dir() {
            self.note_dir_op(from.dir);
            self.note_dir_op(to.dir);
        }
    }

    fn replace(
        &self,
        from: End<'_>,
        to: End<'_>,
        moving: &Arc<Inode>,
        target: &Arc<Inode>,
        target_attr: &Attr,
    ) -> Result<()> {
        if moving.is_dir() != target.is_dir() {
            return Err(if target.is_dir() {
                Errno::ISDIR
            } else {
                Errno::NOTDIR
            });
        }
        if target.is_dir() && !self.is_empty_dir(target)? {
            return Err(Errno::NOTEMPTY);
        }
        self.pin(target, target_attr)?;
        let (mine, theirs) = (moving.label(), target.label());
        let alike = mine.copies == theirs.copies && mine.home == theirs.home;
        let gone = self.all_copies(target);
        let left = gone.minus(self.all_copies(moving));
        // That the old object went must not outlive a power cut that the new one does not: where no
        // store has both, and where the new one has other names that a store may lose with this.
        let durable_first = left == gone || (moving.has_several_names() && !left.is_empty());
        if !moving.is_dir() && !alike {
            let both = if durable_first {
                StoreMask::default()
            } else {
                gone.minus(left)
            };
            self.write_down(from, to, moving, target, Manner::Replace { both })?;
        }
        let _renaming = (moving.renaming(), target.renaming());
        self.on_each(&self.copies_of(moving), |index, store| {
            let source = self.node_on(from.dir, index)?;
            let dir = self.node_on(to.dir, index)?;
            store.rename(&source, from.name, &dir, to.name, RenameFlags::empty())
        })?;
        if durable_first {
            let mut holders = self.member_stores();
            holders.retain(|(index, _)| self.all_copies(moving).has(*index));
            self.on_all(&holders, |index, store| {
                store.sync_dir(&self.node_on(to.dir, index)?)
            })?;
        }
        // The rename is done: a store that cannot take the replaced name away is behind it.
        for index in left.iter() {
            let removed = self
                .store(index)
                .and_then(|store| store.unlink(&self.node_on(to.dir, index)?, to.name));
            if let Err(errno) = removed {
                self.fence_for(index, errno)?;
            }
        }
        self.lost_name(target, target_attr, to.dir, to.name);
        self.moved(from, to, moving);
        Ok(())
    }

    fn exchange(
        &self,
        from: End<'_>,
        to: End<'_>,
        moving: &Arc<Inode>,
        target: &Arc<Inode>,
    ) -> Result<()> {
        self.write_down(from, to, moving, target, Manner::Exchange)?;
        let (mine, theirs) = (self.all_copies(moving), self.all_copies(target));
        let stores: Stores = mine.iter().chain(theirs.minus(mine).iter()).collect();
        let _renaming = (moving.renaming(), target.renaming());
        self.on_each(&stores, |index, store| {
            let source = self.node_on(from.dir, index)?;
            let dir = self.node_on(to.dir, index)?;
            match (mine.has(index), theirs.has(index)) {
                (true, true) => {
                    store.rename(&source, from.name, &dir, to.name, RenameFlags::EXCHANGE)
                }
                (true, false) => {
                    store.rename(&source, from.name, &dir, to.name, RenameFlags::NOREPLACE)
                }
                _ => store.rename(&dir, to.name, &source, from.name, RenameFlags::NOREPLACE),
            }
        })?;
        self.moved(from, to, moving);
        self.moved(to, from, target);
        Ok(())
    }

    /// Before the names of an object change again: a rename of it that is written down becomes
    /// durable on every member first, so that it need not be completed after a crash any more.
    pub(crate) fn settle_renames(&self, inode: &Inode) -> Result<()> {
        let pending = self.journal.renames_of(inode.id);
        if pending.is_empty() {
            return Ok(());
        }
        let dirs: Option<Vec<_>> = pending
            .iter()
            .flat_map(|rename| [rename.from, rename.to])
            .map(|id| self.inodes.get(id))
            .collect();
        self.on_all(&self.member_stores(), |index, store| {
            let Some(dirs) = &dirs else {
                return store.sync_all();
            };
            dirs.iter().try_for_each(|dir| {
                match self
                    .node_on(dir, index)
                    .and_then(|node| store.sync_dir(&node))
                {
                    // Removed since: its own removal is what counts.
                    Err(Errno::STALE | Errno::NOENT) => Ok(()),
                    other => other,
                }
            })
        })?;
        self.strike_renames(inode)
    }

    /// Takes the renames of an object out of the journal, durably.
    fn strike_renames(&self, inode: &Inode) -> Result<()> {
        for _ in 0..=self.slots.len() {
            match self.journal.settle_renames(inode.id) {
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

    /// Before a rename is written down, which a crash completes with all the names that the objects
    /// have where it was done: earlier changes of these become durable, so that no store brings an
    /// object back under a name from before them as well, and none that has such a name to offer
    /// is left out. Names reach the medium in order, so syncing any directory does.
    fn settle_moves(&self, from: End<'_>, moving: &Inode, target: &Inode) -> Result<()> {
        let epoch = self.journal.epoch();
        for inode in [moving, target] {
            if inode.is_dir() || !inode.was_just_renamed(epoch) {
                continue;
            }
            let mut holders = self.member_stores();
            holders.retain(|(index, _)| self.all_copies(inode).has(*index));
            self.on_all(&holders, |index, store| {
                store.sync_dir(&self.node_on(from.dir, index)?)
            })?;
        }
        Ok(())
    }

    fn write_down(
        &self,
        from: End<'_>,
        to: End<'_>,
        moving: &Inode,
        target: &Inode,
        manner: Manner,
    ) -> Result<()> {
        self.settle_moves(from, moving, target)?;
        // Both directories must be in the journal, so that recovery looks at them: new ones are
        // found through their parents.
        let rename = Rename {
            moving: moving.id,
            target: target.id,
            from: from.dir.id,
            from_name: from.name.as_bytes().to_vec(),
            to: to.dir.id,
            to_name: to.name.as_bytes().to_vec(),
            manner,
        };
        for _ in 0..=self.slots.len() {
            match self.journal.rename(rename.clone()) {
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
}
