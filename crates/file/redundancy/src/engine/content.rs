//! Reading and writing content.

use super::Engine;
use crate::inode::{Files, Inode, OpenFiles};
use crate::journal::dirty::{CHUNK_BYTES, Entry, REGION_BYTES, regions};
use crate::label::StoreIndex;
use crate::store::StoreFile;
use env::errno::{Errno, Fault, fault};
use mount::{AllocateFlags, Kind, Result, SetAttr, SetTime};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files kept open between requests.
const OPEN_MAX: usize = 1024;

/// Regions that one change enters one by one; more become a tail.
const REGIONS_MAX: u64 = 32;

type Copies = Vec<(StoreIndex, Arc<dyn StoreFile>)>;

impl Engine {
    /// The open copies of a file: all for writing, or the deciding one for reading.
    pub(crate) fn open_copies(&self, inode: &Arc<Inode>, write: bool) -> Result<Arc<OpenFiles>> {
        if inode.kind != Kind::File {
            return Err(if inode.is_dir() {
                Errno::ISDIR
            } else {
                Errno::INVAL
            });
        }
        inode.used.store(true, Ordering::Relaxed);
        for _ in 0..=self.slots.len() {
            let generation = self.generation();
            let before = inode.open_files();
            if let Some(open) = &before
                && open.generation == generation
                && (open.write || !write)
            {
                return Ok(open.clone());
            }
            // What is open for writing stays so: without a name it could not be opened again.
            let write = write || before.as_ref().is_some_and(|o| o.write);
            let mut copies = self.copies_of(inode);
            if inode.is_nameless() {
                // Without a name it is on no store that has joined since.
                let has = |s: &StoreIndex| {
                    before
                        .as_ref()
                        .is_some_and(|o| o.files.iter().any(|(i, _)| i == s))
                };
                copies.retain(|s| has(s));
            }
            if copies.is_empty() {
                return Err(Errno::IO);
            }
            let mut files = Files::new();
            let wanted = if write { copies.len() } else { 1 };
            let mut failed = None;
            for index in copies.iter().take(wanted) {
                match self.open_on(inode, *index, write, before.as_deref()) {
                    Ok(file) => files.push((*index, file)),
                    Err(errno) => {
                        failed = Some((*index, errno));
                        break;
                    }
                }
            }
            match failed {
                Some((_, errno)) if fault(errno) == Fault::Transient => return Err(errno),
                Some((index, errno)) => self.fence_for(index, errno)?,
                None => {
                    let open = Arc::new(OpenFiles::new(generation, write, files));
                    inode.set_open_files(Some(open.clone()));
                    self.queue_open(inode, before.is_none());
                    return Ok(open);
                }
            }
        }
        Err(Errno::IO)
    }

    /// Keeps the copies of a file that has just been made open, where they all are: they were made
    /// at or after this membership generation.
    pub(crate) fn keep_open(&self, inode: &Arc<Inode>, generation: u64, files: Files) {
        if files.is_empty() || files.len() != self.copies_of(inode).len() {
            return;
        }
        inode.set_open_files(Some(Arc::new(OpenFiles::new(generation, true, files))));
        self.queue_open(inode, true);
    }

    fn open_on(
        &self,
        inode: &Inode,
        index: StoreIndex,
        write: bool,
        before: Option<&OpenFiles>,
    ) -> Result<Arc<dyn StoreFile>> {
        let kept = before.filter(|o| o.write || !write).and_then(|open| {
            open.files
                .iter()
                .find(|(s, _)| *s == index)
                .map(|(_, f)| f.clone())
        });
        match kept {
            Some(file) => Ok(file),
            None => self.store(index)?.open(&self.node_on(inode, index)?, write),
        }
    }

    /// Keeps the number of open files bounded: the longest unused are closed.
    fn queue_open(&self, inode: &Arc<Inode>, new: bool) {
        if !new {
            return;
        }
        let mut close = Vec::new();
        {
            let mut queue = self.open_queue.lock();
            queue.push_back(Arc::downgrade(inode));
            let mut looked = 0;
            while queue.len() > OPEN_MAX && looked < 64 {
                looked += 1;
                let Some(oldest) = queue.pop_front().and_then(|w| w.upgrade()) else {
                    continue;
                };
                if oldest.used.swap(false, Ordering::Relaxed) || oldest.is_nameless() {
                    queue.push_back(Arc::downgrade(&oldest));
                } else {
                    close.push(oldest);
                }
            }
        }
        for inode in close {
            self.close_files(&inode);
        }
    }

    /// Closes copies that were opened under an earlier membership, so that the disk of a store that
    /// has left is not held. What has no name any more is kept: it cannot be opened again.
    pub(crate) fn close_stale(&self) {
        let generation = self.generation();
        let queue: Vec<_> = self
            .open_queue
            .lock()
            .iter()
            .filter_map(|w| w.upgrade())
            .collect();
        for inode in queue {
            let stale = inode
                .open_files()
                .is_some_and(|o| o.generation != generation);
            if stale && !inode.is_nameless() {
                inode.set_open_files(None);
            }
        }
    }

    /// Closes a file's copies; their times are made equal first.
    pub(crate) fn close_files(&self, inode: &Arc<Inode>) {
        self.set_late_time(inode);
        if let Some(open) = inode.open_files() {
            self.equal_times(inode, &open);
            inode.set_open_files(None);
        }
    }

    /// Gives every copy the modification time of the deciding one: each got its own from its
    /// file system at the write.
    pub(crate) fn equal_times(&self, inode: &Inode, open: &OpenFiles) {
        if !open.write || open.files.len() < 2 || !inode.take_stale_times() {
            return;
        }
        let Some(((_, first), others)) = open.files.split_first() else {
            return;
        };
        let Ok(attr) = first.attr() else { return };
        let change = SetAttr {
            mtime: Some(SetTime::To(attr.mtime)),
            ..SetAttr::default()
        };
        for (store, file) in others {
            if let Err(errno) = file.set_attr(&change) {
                tracing::debug!(store = store.0, %errno, "a copy's time could not be set");
            }
        }
    }

    /// Writes down that a byte range is about to change.
    pub(crate) fn touch_range(&self, inode: &Inode, offset: u64, length: u64) -> Result<()> {
        if self.journal.implicit(inode.id) || length == 0 {
            return Ok(());
        }
        let last = offset.saturating_add(length - 1) / REGION_BYTES;
        let first = offset / REGION_BYTES;
        if last > u64::from(u32::MAX) {
            return Err(Errno::FBIG);
        }
        if last - first >= REGIONS_MAX {
            return self.touch(inode, Entry::Tail(inode.id, first as u32), 0xff);
        }
        let epoch = self.journal.epoch();
        for (region, mask) in regions(offset, length) {
            if inode.recently_touched(epoch, region, mask) {
                continue;
            }
            self.touch(inode, Entry::Region(inode.id, region), mask)?;
            inode.set_touched(epoch, region, mask);
        }
        Ok(())
    }

    /// Reads from the deciding copy, or the next one where that fails.
    pub(crate) fn read_content(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        if let Some(counters) = &self.counters {
            counters.read(inode.id, offset, buffer.len() as u64);
        }
        self.on_first_file(inode, |file| file.read_at(offset, &mut *buffer))
    }

    /// Asks the deciding copy, or the next one where that fails.
    pub(crate) fn on_first_file<R>(
        &self,
        inode: &Arc<Inode>,
        mut ask: impl FnMut(&dyn StoreFile) -> Result<R>,
    ) -> Result<R> {
        for _ in 0..=self.slots.len() {
            let open = self.open_copies(inode, false)?;
            let (index, file) = open.reader().ok_or(Errno::IO)?;
            match ask(&**file) {
                Err(errno) if fault(errno) == Fault::Medium => self.fence_for(*index, errno)?,
                // An encoded range of which too little is left to decode it.
                Err(Errno::NODATA) => return Err(Errno::IO),
                other => return other,
            }
        }
        Err(Errno::IO)
    }

    /// Writes every copy, and what is encoded to differentials.
    pub(crate) fn write_content(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<()> {
        if let Some(counters) = &self.counters {
            counters.wrote(inode.id, offset, data.len() as u64);
        }
        let _gate = self.begin()?;
        let end = offset.saturating_add(data.len() as u64);
        let mut at = offset;
        let part = |from: u64, to: u64| {
            let range = (from - offset) as usize..(to - offset) as usize;
            data.get(range).ok_or(Errno::INVAL)
        };
        while at < end {
            let Some(chunk) = self.encoded_for_write(inode.id, at, end - at) else {
                return self.write_copies(inode, at, part(at, end)?);
            };
            if chunk.offset > at {
                self.write_copies(inode, at, part(at, chunk.offset)?)?;
                at = chunk.offset;
            }
            let stop = chunk.end().min(end);
            at = self.write_encoded(inode, chunk, at, part(at, stop)?)?;
        }
        Ok(())
    }

    fn write_copies(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<()> {
        self.touch_range(inode, offset, data.len() as u64)?;
        let open = self.open_copies(inode, true)?;
        let _range = inode.write_range(offset, data.len() as u64);
        self.change_copies(inode, &open, offset, data.len() as u64, |file| {
            file.write_at(offset, data)
        })
    }

    /// Changes content, and with it the time of modification, on every open copy. Where all fail
    /// for want of room the copies are made equal again, so that none keeps a part that another
    /// lacks.
    fn change_copies(
        &self,
        inode: &Arc<Inode>,
        open: &OpenFiles,
        offset: u64,
        length: u64,
        act: impl Fn(&dyn StoreFile) -> Result<()> + Sync,
    ) -> Result<()> {
        let remote = open
            .files
            .iter()
            .any(|(s, _)| self.store(*s).is_ok_and(|s| !s.is_local()));
        let copies_set_time = inode.copies_set_time(super::differential::now);
        let answers = if remote {
            crate::fanout::fanout(&open.files, self.options.background, |_, f| act(&**f))
        } else {
            open.files.iter().map(|(s, f)| (*s, act(&**f))).collect()
        };
        let full = answers
            .iter()
            .all(|(_, a)| a.is_err_and(|e| fault(e) == Fault::NoSpace));
        let result = self.settle(answers);
        if full {
            self.make_equal(inode, open, offset, length)?;
        }
        result?;
        if !copies_set_time {
            self.wrote_elsewhere(inode)?;
        }
        Ok(())
    }

    fn make_equal(&self, inode: &Inode, open: &OpenFiles, offset: u64, length: u64) -> Result<()> {
        let Some(((_, first), others)) = open.files.split_first() else {
            return Ok(());
        };
        let size = first.attr()?.size;
        inode.mark_stale_times();
        for (index, file) in others {
            let equal = file.set_len(size).and_then(|()| {
                crate::resync::content::copy_range(&**first, &**file, offset, length)
            });
            if let Err(errno) = equal {
                self.fence_for(*index, errno)?;
            }
        }
        Ok(())
    }

    /// Makes a file durable on every copy, and with it the directories above it on every member.
    /// The copies get equal times only where somebody has seen them since the last write: asking
    /// the file system below for a time makes it give the next write a new one, which costs each
    /// sync a write of the inode. What nobody has seen is made equal by the next checkpoint.
    pub(crate) fn sync_content(&self, inode: &Arc<Inode>, data_only: bool) -> Result<()> {
        let _gate = self.begin()?;
        if inode.is_dir() {
            return self.sync_directory(inode);
        }
        if inode.kind != Kind::File {
            return Ok(());
        }
        if !data_only {
            self.set_late_time(inode);
        } else if inode.is_durable() {
            // Only what is encoded was written since.
            self.sync_dir_ops()?;
            return self.sync_differentials(inode);
        }
        let changes = inode.changes();
        let open = self.open_copies(inode, true)?;
        if !data_only && inode.has_seen_times() {
            self.equal_times(inode, &open);
        }
        let copies: Copies = open.files.to_vec();
        // The copies that wait for their turn are on their way meanwhile.
        for (_, file) in copies.iter().skip(1) {
            file.start_sync();
        }
        self.sync_dir_ops()?;
        self.sync_differentials(inode)?;
        self.on_all(&copies, |_, file| file.sync(data_only))?;
        inode.set_durable(changes);
        Ok(())
    }

    fn sync_directory(&self, inode: &Arc<Inode>) -> Result<()> {
        self.sync_dir_ops()?;
        let stores = self.member_stores();
        self.on_all(&stores, |index, store| {
            let before = inode.names_as_of();
            let synced = self
                .node_on(inode, index)
                .and_then(|node| store.sync_dir(&node));
            match synced {
                // Removed meanwhile: its own removal is what counts.
                Err(Errno::STALE | Errno::NOENT)
                    if inode.names_moved_since(before) || inode.is_nameless() =>
                {
                    Ok(())
                }
                other => other,
            }
        })
    }

    /// Makes earlier changes of directories durable on every member: a member that holds no copy
    /// of the file being synced has a part in the path to it all the same.
    fn sync_dir_ops(&self) -> Result<()> {
        let (list, overflow) = {
            let ops = self.dir_ops.lock();
            (ops.list.clone(), ops.overflow)
        };
        if list.is_empty() {
            return Ok(());
        }
        self.on_all(&self.member_stores(), |index, store| {
            if overflow {
                return store.sync_all();
            }
            list.iter().try_for_each(|dir| {
                let synced = self
                    .node_on(dir, index)
                    .and_then(|node| store.sync_dir(&node));
                match synced {
                    // Removed since: the directory that held it is in the list.
                    Err(Errno::STALE | Errno::NOENT) => Ok(()),
                    other => other,
                }
            })
        })?;
        self.synced_dir_ops(&list);
        Ok(())
    }

    /// Takes directories off the list that every member has synced.
    pub(crate) fn synced_dir_ops(&self, synced: &[Arc<Inode>]) {
        let mut ops = self.dir_ops.lock();
        ops.list
            .retain(|dir| !synced.iter().any(|s| Arc::ptr_eq(s, dir)));
        if ops.list.is_empty() {
            ops.overflow = false;
        }
    }

    /// `fallocate(2)` on every copy.
    pub(crate) fn allocate_content(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        length: u64,
        flags: AllocateFlags,
    ) -> Result<()> {
        let shifts = AllocateFlags::COLLAPSE_RANGE | AllocateFlags::INSERT_RANGE;
        let reach = if flags.intersects(shifts) {
            u64::MAX - offset
        } else {
            length
        };
        self.give_up_range(inode.id, offset, reach)?;
        let _gate = self.begin()?;
        self.before_change(inode.id, offset, reach)?;
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        self.touch_range(inode, offset, reach.min(u64::from(u32::MAX) * CHUNK_BYTES))?;
        let open = self.open_copies(inode, true)?;
        let _range = inode.write_range(offset, reach);
        self.change_copies(inode, &open, offset, length, |file| {
            file.allocate(offset, length, flags)
        })
    }

    /// Next data or hole, as the deciding copy has it.
    pub(crate) fn seek_content(&self, inode: &Arc<Inode>, offset: u64, hole: bool) -> Result<u64> {
        self.on_first_file(inode, |file| file.seek(offset, hole))
    }

    /// Copies between files in pieces.
    pub(crate) fn copy_content(
        &self,
        from: (&Arc<Inode>, u64),
        to: (&Arc<Inode>, u64),
        length: u64,
    ) -> Result<u64> {
        let mut buffer = vec![0; length.min(1 << 20) as usize];
        let mut done = 0;
        while done < length {
            let want = (length - done).min(buffer.len() as u64) as usize;
            let got = self.read_content(from.0, from.1 + done, &mut buffer[..want])?;
            if got == 0 {
                break;
            }
            match self.write_content(to.0, to.1 + done, &buffer[..got]) {
                Ok(()) => done += got as u64,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }
}
