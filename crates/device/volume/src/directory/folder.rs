//! A directory in memory: its names, and which page each is on.

use super::page::{self, ENTRY_BYTES_MAX, Entry, NAME_MAX, entry_bytes};
use crate::Volume;
use crate::block::{BLOCK_BYTES, Block, bytes};
use crate::error::{Result, VolumeError};
use crate::id::{BlockIndex, ObjectId, VolumeId};
use mount::{Ino, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pages that are read at once.
const PAGES_AT_ONCE: u32 = 256;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Named {
    pub(super) ino: Ino,
    pub(super) kind: Kind,
    page: u32,
}

#[derive(Debug, Default)]
struct PageUse {
    names: Vec<Arc<[u8]>>,
    used_bytes: usize,
}

/// All of a directory.
#[derive(Debug, Default)]
pub(super) struct Folder {
    names: BTreeMap<Arc<[u8]>, Named>,
    pages: Vec<PageUse>,
    /// Pages that have room for any name.
    roomy: BTreeSet<u32>,
    /// Pages that could not be read: what they named is not known.
    pub(super) damaged: Vec<u32>,
}

impl Folder {
    /// Reads a directory. What is wrong with pages that cannot be read is told to `complain`.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn load(
        volume: &Volume,
        object: ObjectId,
        complain: &mut dyn FnMut(u32, String),
    ) -> Result<Folder> {
        let mut folder = Folder::default();
        let size = volume.size(object).unwrap_or(0);
        let count = u32::try_from(size.div_ceil(BLOCK_BYTES as u64)).unwrap_or(u32::MAX);
        folder.pages.resize_with(count as usize, PageUse::default);
        let mut next = 0;
        while next < count {
            let length = PAGES_AT_ONCE.min(count - next);
            let mut blocks = Block::zeros(length as usize);
            let whole = volume.read_blocks(object, BlockIndex(next), &mut blocks);
            for (index, number) in (next..next + length).enumerate() {
                let mut single = Block::zeros(1);
                let block = match (&whole, blocks.get(index)) {
                    (Ok(()), Some(block)) => std::slice::from_ref(block),
                    _ => match volume.read_blocks(object, BlockIndex(number), &mut single) {
                        Ok(()) => single.as_slice(),
                        Err(error @ (VolumeError::Corrupt { .. } | VolumeError::Lost { .. })) => {
                            folder.damaged.push(number);
                            complain(number, error.to_string());
                            continue;
                        }
                        Err(error) => return Err(error),
                    },
                };
                match page::decode(bytes(block), volume.id(), object, number) {
                    Ok(entries) => folder.take_in(number, &entries, complain),
                    Err(corruption) => {
                        folder.damaged.push(number);
                        complain(number, corruption.to_string());
                    }
                }
            }
            next += length;
        }
        for number in 0..count {
            folder.note_room(number);
        }
        Ok(folder)
    }

    fn take_in(
        &mut self,
        number: u32,
        entries: &[Entry<'_>],
        complain: &mut dyn FnMut(u32, String),
    ) {
        for entry in entries {
            if self.names.contains_key(entry.name) {
                let name = String::from_utf8_lossy(entry.name);
                complain(number, format!("the name {name} is there twice"));
                continue;
            }
            self.put(number, entry.name, entry.ino, entry.kind);
        }
    }

    fn put(&mut self, number: u32, name: &[u8], ino: Ino, kind: Kind) {
        let name: Arc<[u8]> = name.into();
        if let Some(page) = self.pages.get_mut(number as usize) {
            page.used_bytes += entry_bytes(name.len());
            page.names.push(name.clone());
        }
        let page = number;
        self.names.insert(name, Named { ino, kind, page });
    }

    fn note_room(&mut self, number: u32) {
        let used = (self.pages.get(number as usize)).map_or(ENTRY_BYTES_MAX, |p| p.used_bytes);
        let fits = used + entry_bytes(NAME_MAX) <= ENTRY_BYTES_MAX;
        if fits && !self.damaged.contains(&number) {
            self.roomy.insert(number);
        } else {
            self.roomy.remove(&number);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Named> {
        self.names.get(name).copied()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&[u8], Named)> {
        self.names.iter().map(|(name, named)| (&**name, *named))
    }

    /// Adds a name that is not there; the page that changes.
    pub(super) fn insert(&mut self, name: &[u8], ino: Ino, kind: Kind) -> u32 {
        let number = match self.roomy.first() {
            Some(number) => *number,
            None => {
                self.pages.push(PageUse::default());
                (self.pages.len() - 1) as u32
            }
        };
        self.put(number, name, ino, kind);
        self.note_room(number);
        number
    }

    /// Takes a name away; the page that changes.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<u32> {
        let named = self.names.remove(name)?;
        if let Some(page) = self.pages.get_mut(named.page as usize) {
            page.names.retain(|each| &**each != name);
            page.used_bytes -= entry_bytes(name.len());
        }
        self.note_room(named.page);
        Some(named.page)
    }

    /// Lets a name stand for something else; the page that changes.
    pub(super) fn replace(&mut self, name: &[u8], ino: Ino, kind: Kind) -> Option<u32> {
        let named = self.names.get_mut(name)?;
        (named.ino, named.kind) = (ino, kind);
        Some(named.page)
    }

    /// A page as it is to be written; `None` where it has no names.
    pub(super) fn encode(
        &self,
        volume: VolumeId,
        object: ObjectId,
        number: u32,
    ) -> Option<Vec<u8>> {
        let page = self.pages.get(number as usize)?;
        if page.names.is_empty() {
            return None;
        }
        let entries = page.names.iter().filter_map(|name| {
            self.names.get(name).map(|named| Entry {
                ino: named.ino,
                kind: named.kind,
                name,
            })
        });
        Some(page::encode(volume, object, number, entries))
    }
}
