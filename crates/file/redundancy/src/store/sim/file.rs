//! An open file of a simulated store.

use super::SimStore;
use super::content::{Edit, PAGE};
use super::faults::Fault;
use super::state::State;
use crate::store::StoreFile;
use mount::{AllocateFlags, Attr, Errno, Result, SetAttr};

pub(super) struct SimFile {
    store: SimStore,
    ino: u64,
    write: bool,
}

impl SimFile {
    /// Wraps an inode that the caller has marked open.
    pub(super) fn new(store: SimStore, ino: u64, write: bool) -> SimFile {
        SimFile { store, ino, write }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.store.shared.state.lock();
        if state.epoch == self.store.epoch {
            state.close(self.ino);
        }
    }
}

/// Writes as far as there is room and no fault strikes.
pub(super) fn write(state: &mut State, ino: u64, offset: u64, data: &[u8]) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let room_pages = state.room() / PAGE;
    let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
    if end > 1 << 50 {
        return Err(Errno::FBIG);
    }
    let there = |page: u64| {
        state
            .content(ino)
            .is_some_and(|content| content.now.pages.contains_key(&page))
    };
    let mut new_pages = 0;
    let mut fits = data.len();
    for page in offset / PAGE..end.div_ceil(PAGE) {
        if !there(page) {
            new_pages += 1;
            if new_pages > room_pages {
                fits = (page * PAGE).saturating_sub(offset) as usize;
                break;
            }
        }
    }
    if fits > 0 {
        let edit = Edit::Write {
            offset,
            data: data[..fits].into(),
        };
        state.change_content(ino, edit)?;
    }
    if fits < data.len() {
        Err(Errno::NOSPC)
    } else {
        Ok(())
    }
}

/// fallocate(2).
fn allocate(
    state: &mut State,
    ino: u64,
    offset: u64,
    length: u64,
    flags: AllocateFlags,
) -> Result<()> {
    let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
    if length == 0 {
        return Err(Errno::INVAL);
    }
    if end > 1 << 50 {
        return Err(Errno::FBIG);
    }
    let keep_size = flags.contains(AllocateFlags::KEEP_SIZE);
    let size = state.attr(ino)?.size;
    let aligned = offset.is_multiple_of(PAGE) && length.is_multiple_of(PAGE);
    let mode = flags.difference(AllocateFlags::KEEP_SIZE);
    if mode == AllocateFlags::PUNCH_HOLE {
        if !keep_size {
            return Err(Errno::OPNOTSUPP);
        }
        return state.change_content(ino, Edit::Zero { offset, length });
    }
    if mode == AllocateFlags::COLLAPSE_RANGE && !keep_size {
        if !aligned || end >= size {
            return Err(Errno::INVAL);
        }
        return state.change_content(ino, Edit::Collapse { offset, length });
    }
    if mode == AllocateFlags::INSERT_RANGE && !keep_size {
        if !aligned || offset >= size {
            return Err(Errno::INVAL);
        }
        return state.change_content(ino, Edit::Insert { offset, length });
    }
    if !mode.is_empty() && mode != AllocateFlags::ZERO_RANGE {
        return Err(Errno::OPNOTSUPP);
    }
    let pages = offset / PAGE..end.div_ceil(PAGE);
    let there = state.content(ino).map_or(0, |content| {
        content.now.pages.range(pages.clone()).count() as u64
    });
    if (pages.end - pages.start).saturating_sub(there) > state.room() / PAGE {
        return Err(Errno::NOSPC);
    }
    if mode == AllocateFlags::ZERO_RANGE {
        state.change_content(ino, Edit::Zero { offset, length })?;
    }
    state.change_content(
        ino,
        Edit::Reserve {
            offset,
            length,
            keep_size,
        },
    )
}

impl StoreFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut guard = self.store.look()?;
        let state = &mut *guard;
        state.inode(self.ino)?;
        if state.plan.strikes(Fault::ReadError, &mut state.rng) {
            return Err(Errno::IO);
        }
        Ok(state
            .content(self.ino)
            .map_or(0, |content| content.now.read(offset, buffer)))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if !self.write {
            return Err(Errno::BADF);
        }
        let mut guard = self.store.step()?;
        let state = &mut *guard;
        state.inode(self.ino)?;
        if state.plan.read_only {
            return Err(Errno::ROFS);
        }
        if state.plan.strikes(Fault::WriteError, &mut state.rng) {
            // Page by page, as a write through the page cache goes.
            let reached = offset + state.rng.below(data.len() as u64);
            let end = reached - reached % super::content::PAGE;
            let prefix = end.saturating_sub(offset) as usize;
            write(state, self.ino, offset, &data[..prefix])?;
            return Err(Errno::IO);
        }
        write(state, self.ino, offset, data)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let mut guard = self.store.step()?;
        let state = &mut *guard;
        state.inode(self.ino)?;
        if state.plan.strikes(Fault::SyncError, &mut state.rng) {
            state.fail_sync(Some(self.ino));
            return Err(Errno::IO);
        }
        state.sync_file(self.ino, data_only);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.set_attr(&SetAttr {
            size: Some(length),
            ..SetAttr::default()
        })
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        if change.size.is_some() && !self.write {
            return Err(Errno::INVAL);
        }
        self.store.change()?.set_attr(self.ino, change)
    }

    fn attr(&self) -> Result<Attr> {
        self.store.look()?.attr(self.ino)
    }

    fn allocate(&self, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        if !self.write {
            return Err(Errno::BADF);
        }
        let mut state = self.store.change()?;
        state.inode(self.ino)?;
        allocate(&mut state, self.ino, offset, length, flags)
    }

    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        let state = self.store.look()?;
        state.inode(self.ino)?;
        state
            .content(self.ino)
            .and_then(|content| content.now.seek(offset, hole))
            .ok_or(Errno::NXIO)
    }

    fn forget_cache(&self, _offset: u64, _length: u64) {
        if let Ok(mut state) = self.store.look()
            && let Some(content) = state.content_mut(self.ino)
        {
            content.drop_cache();
        }
    }
}
