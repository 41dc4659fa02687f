//! What is in memory of the table of inodes and of directories.

use super::folder::Folder;
use super::inode::{self, Inode, Inodes};
use super::{TABLE, errno};
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::engine::Ticket;
use crate::id::{BlockIndex, ObjectId};
use crate::{Volume, VolumeError};
use mount::{Errno, Ino, Result};
use std::collections::HashMap;

/// How much is kept in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Pages of the table (about 3 KiB each), besides those that wait to be written.
    pub(super) table_pages: usize,
    /// Names (about 100 bytes each), besides those that one call reads.
    pub(super) names: usize,
}

const LIMITS: Limits = Limits {
    table_pages: 16_384,
    names: 1 << 20,
};

/// A page of the table.
#[derive(Clone, Debug)]
pub(super) struct TablePage {
    pub(super) inodes: Inodes,
    /// Times changed that no group has.
    pub(super) dirty: bool,
}

/// Everything that a lock of the tree keeps. It says what the log says once all groups in its
/// queue are applied.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) table: HashMap<u32, TablePage>,
    pub(super) folders: HashMap<ObjectId, Folder>,
    /// The next inode number.
    pub(super) next: u64,
    /// The last group of the tree: what is read from the log waits for it.
    pub(super) last: Option<Ticket>,
    /// How many pages are dirty.
    pub(super) dirty: usize,
    pub(super) limits: Limits,
}

impl Catalogue {
    /// Of a tree that is there.
    pub(super) fn of(volume: &Volume) -> Catalogue {
        // Numbers of the last page may have been given out: go on behind it.
        let pages = volume.size(TABLE).unwrap_or(0).div_ceil(BLOCK_BYTES as u64);
        Catalogue {
            table: HashMap::new(),
            folders: HashMap::new(),
            next: pages * inode::INODES_PER_PAGE + 1,
            last: None,
            dirty: 0,
            limits: LIMITS,
        }
    }

    /// An inode that is in memory; `None` where its page is not.
    pub(super) fn cached(&self, ino: Ino) -> Option<Result<Inode>> {
        let (page, index) = inode::locate(ino)?;
        let page = self.table.get(&page)?;
        let inode = page.inodes.get(index).copied().flatten();
        Some(inode.ok_or(Errno::STALE))
    }

    /// An inode; its page is read where it is not in memory.
    pub(super) fn inode(&mut self, volume: &Volume, ino: Ino) -> Result<Inode> {
        let (number, index) = inode::locate(ino).ok_or(Errno::STALE)?;
        let page = self.page(volume, number)?;
        page.inodes
            .get(index)
            .copied()
            .flatten()
            .ok_or(Errno::STALE)
    }

    /// The page of the table with this number.
    pub(super) fn page(&mut self, volume: &Volume, number: u32) -> Result<&mut TablePage> {
        if !self.table.contains_key(&number) {
            self.wait(volume);
            let inodes = read_page(volume, number).map_err(|error| {
                tracing::error!(%error, page = number, "inodes cannot be read");
                errno(&error)
            })?;
            let page = TablePage {
                inodes,
                dirty: false,
            };
            self.table.insert(number, page);
        }
        self.table.get_mut(&number).ok_or(Errno::IO)
    }

    /// A directory; it is read where it is not in memory.
    pub(super) fn folder(&mut self, volume: &Volume, object: ObjectId) -> Result<&mut Folder> {
        if !self.folders.contains_key(&object) {
            self.wait(volume);
            let mut complain = |page, complaint: String| {
                tracing::error!(%object, page, complaint, "a directory cannot be read whole");
            };
            let folder =
                Folder::load(volume, object, &mut complain).map_err(|error| errno(&error))?;
            self.folders.insert(object, folder);
        }
        self.folders.get_mut(&object).ok_or(Errno::IO)
    }

    /// Takes a number that no inode has had.
    pub(super) fn allocate(&mut self) -> Result<Ino> {
        let ino = Ino(self.next);
        let (page, index) = inode::locate(ino).ok_or(Errno::NOSPC)?;
        if index == 0 {
            let page_of_none = TablePage {
                inodes: [None; inode::INODES_PER_PAGE as usize],
                dirty: false,
            };
            self.table.insert(page, page_of_none);
        }
        self.next += 1;
        Ok(ino)
    }

    /// Lets go of what there is too much of. Not while a change is worked out: what it has changed
    /// stands here alone.
    pub(super) fn trim(&mut self) {
        if self.table.len() > self.limits.table_pages + self.dirty {
            self.table.retain(|_, page| page.dirty);
        }
        if self.folders.len() > 1 || self.limits.names == 0 {
            let names: usize = self.folders.values().map(|folder| folder.len() + 1).sum();
            if names > self.limits.names {
                self.folders.clear();
            }
        }
    }

    /// Changes an inode in memory alone: a later group, or a sync, writes it.
    pub(super) fn touch(&mut self, volume: &Volume, ino: Ino, change: impl FnOnce(&mut Inode)) {
        let Some((number, index)) = inode::locate(ino) else {
            return;
        };
        let Ok(page) = self.page(volume, number) else {
            return;
        };
        if let Some(Some(inode)) = page.inodes.get_mut(index) {
            change(inode);
            if !std::mem::replace(&mut page.dirty, true) {
                self.dirty += 1;
            }
        }
    }

    /// Waits for the last group of the tree, so that what is read is what memory would say. Where
    /// it failed the log has not got it, and is read as it is.
    fn wait(&self, volume: &Volume) {
        if let Some(ticket) = self.last
            && let Err(error) = volume.wait(ticket)
        {
            tracing::debug!(%error, "the log is read as it was left");
        }
    }

    /// Forgets everything, so that it is read again.
    pub(super) fn fall_back(&mut self) {
        self.table.clear();
        self.folders.clear();
        self.last = None;
        self.dirty = 0;
    }
}

/// Reads a page of the table.
pub(super) fn read_page(volume: &Volume, number: u32) -> crate::Result<Inodes> {
    let mut block = Block::zeros(1);
    volume.read_blocks(TABLE, BlockIndex(number), &mut block)?;
    inode::decode(bytes(&block), volume.id(), number).map_err(|corruption| VolumeError::Tree {
        object: TABLE,
        offset: u64::from(number) * BLOCK_BYTES as u64,
        corruption,
    })
}
