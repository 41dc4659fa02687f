//! The files that a store writes: objects and attributes.

use crate::action::Action;
use crate::block::{BLOCK_BYTES, Block, file_at};
use crate::key::{ObjectKey, StoreId};
use env::errno::Errno;
use env::{Dir, Disk, Files};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// Most object files that are kept open.
const OPENED_MAX: usize = 256;

/// Blocks of zeros that are written at a time.
const FILL_BLOCKS: u64 = 256;

/// What was tried, and how it failed.
pub(crate) type Failure = (&'static str, Errno);

/// The files of one store.
pub(crate) struct Medium {
    pub(crate) store: StoreId,
    pub(crate) attribute: CString,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) objects: Arc<dyn Dir>,
    opened: HashMap<ObjectKey, Arc<dyn Disk>>,
}

impl Medium {
    pub(crate) fn new(
        store: StoreId,
        attribute: CString,
        files: Arc<dyn Files>,
        objects: Arc<dyn Dir>,
    ) -> Medium {
        Medium {
            store,
            attribute,
            files,
            objects,
            opened: HashMap::new(),
        }
    }

    /// The file of an object; `None` where there is none.
    pub(crate) fn disk(&mut self, key: &ObjectKey) -> env::Result<Option<Arc<dyn Disk>>> {
        if let Some(disk) = self.opened.get(key) {
            return Ok(Some(disk.clone()));
        }
        match self.objects.open(&key.file_name(), env::Open::Write) {
            Ok(disk) => Ok(Some(self.keep(key, disk))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The file of an object, made where there is none; and whether it was made.
    pub(crate) fn disk_or_make(&mut self, key: &ObjectKey) -> env::Result<(Arc<dyn Disk>, bool)> {
        if let Some(disk) = self.disk(key)? {
            return Ok((disk, false));
        }
        let disk = self.objects.make(&key.file_name())?;
        Ok((self.keep(key, disk), true))
    }

    fn keep(&mut self, key: &ObjectKey, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        if self.opened.len() >= OPENED_MAX {
            self.opened.clear();
        }
        self.opened.insert(key.clone(), disk.clone());
        disk
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> env::Result<()> {
        self.opened.remove(key);
        match self.objects.remove(&key.file_name()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Does what an action says; doing it again changes nothing. `false` where its owner is gone,
    /// so that there is nothing to do it to.
    pub(crate) fn apply(&mut self, action: &Action) -> Result<bool, Failure> {
        match action {
            Action::Write {
                object,
                offset,
                bytes,
            } => {
                let doing = "writing metadata";
                let written = self
                    .disk_or_make(object)
                    .and_then(|(disk, _)| disk.write_at(*offset, bytes));
                written.map_err(|errno| (doing, errno))?;
            }
            Action::Fill {
                object,
                generation,
                first,
                end,
            } => self
                .fill(object, *generation, *first, *end)
                .map_err(|errno| ("filling metadata with zeros", errno))?,
            Action::Remove { object } => {
                let removed = self.remove(object);
                removed.map_err(|errno| ("removing metadata", errno))?;
            }
            Action::Discard {
                object,
                offset,
                length,
            } => {
                let discarded = self
                    .disk(object)
                    .and_then(|disk| disk.map_or(Ok(()), |disk| disk.discard(*offset, *length)));
                discarded.map_err(|errno| ("freeing metadata", errno))?;
            }
            Action::Attribute { owner, value } => {
                match self.files.set_attribute(owner, &self.attribute, value) {
                    Ok(()) => {}
                    Err(Errno::STALE) => return Ok(false),
                    Err(errno) => return Err(("setting the attribute of a file", errno)),
                }
            }
            Action::Clear { owner } => match self.files.remove_attribute(owner, &self.attribute) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(Errno::STALE) => return Ok(false),
                Err(errno) => return Err(("removing the attribute of a file", errno)),
            },
            Action::Note { .. } => {}
        }
        Ok(true)
    }

    fn fill(&mut self, key: &ObjectKey, generation: u64, first: u64, end: u64) -> env::Result<()> {
        let identity = key.identity(self.store, generation);
        let (disk, _) = self.disk_or_make(key)?;
        let mut at = first;
        while at < end {
            let count = (end - at).min(FILL_BLOCKS);
            let mut bytes = Vec::with_capacity(count as usize * BLOCK_BYTES);
            for index in at..at + count {
                bytes.extend_from_slice(Block::zeros(&identity, index).bytes());
            }
            // The header area of the first block is another action's.
            let skip = if at == 0 {
                crate::block::content_at(0)
            } else {
                0
            };
            disk.write_at(file_at(at) + skip as u64, &bytes[skip..])?;
            at += count;
        }
        Ok(())
    }
}
