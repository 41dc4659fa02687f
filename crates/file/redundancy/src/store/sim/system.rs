//! Holdfast's own files on a simulated store: a directory that no name leads to, under the same
//! rules of crash and fault as the user's tree.

use super::content::Edit;
use super::faults::Fault;
use super::state::{State, check_name};
use super::tree::{Change, Inode, SYSTEM};
use super::{SimStore, names};
use crate::store::{Node, Store};
use env::handle::Handle;
use env::{Disk, Open, Result};
use mount::{Errno, Kind, RenameFlags};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

pub(super) struct SystemDir {
    store: SimStore,
    /// What the names of a part begin with; empty for what belongs to no part.
    prefix: String,
}

/// Ends the name of a part. No file of Holdfast's own has it in its name.
const PART: char = ':';

impl SystemDir {
    pub(super) fn new(store: &SimStore) -> SystemDir {
        SystemDir {
            store: another(store),
            prefix: String::new(),
        }
    }

    /// A directory of its own, as a part of the names.
    pub(super) fn part(store: &SimStore, name: &str) -> SystemDir {
        SystemDir {
            store: another(store),
            prefix: format!("{name}{PART}"),
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn disk(&self, ino: u64, write: bool, durable: bool) -> Arc<dyn Disk> {
        Arc::new(SystemFile {
            store: another(&self.store),
            ino,
            write,
            durable,
        })
    }
}

fn another(store: &SimStore) -> SimStore {
    SimStore {
        shared: Arc::clone(&store.shared),
        epoch: store.epoch,
    }
}

/// A new empty file.
fn create(state: &mut State, name: &str) -> Result<u64> {
    let name = OsStr::new(name);
    check_name(name)?;
    let now = state.now();
    let parent = state.touched_directory(SYSTEM)?;
    if state.journal.now.get(SYSTEM, name).is_some() {
        return Err(Errno::EXIST);
    }
    let ino = state.new_ino();
    let inode = Inode {
        parent: SYSTEM,
        ..Inode::new(Kind::File, 0o600, now)
    };
    state.journal.run(vec![
        Change::Inode(ino, Arc::new(inode)),
        Change::Entry(SYSTEM, name.to_owned(), Some(ino)),
        Change::Inode(SYSTEM, Arc::new(parent)),
    ]);
    Ok(ino)
}

fn sync(state: &mut State, ino: Option<u64>) -> Result<()> {
    if state.plan.strikes(Fault::SyncError, &mut state.rng) {
        state.fail_sync(ino);
        return Err(Errno::IO);
    }
    match ino {
        Some(ino) => state.sync_file(ino, true),
        None => state.commit(),
    }
    Ok(())
}

fn read_all(state: &State, ino: u64) -> Vec<u8> {
    state.content(ino).map_or_else(Vec::new, |content| {
        let mut bytes = vec![0; content.now.size as usize];
        content.now.read(0, &mut bytes);
        bytes
    })
}

impl env::Dir for SystemDir {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        let name = self.name(name);
        let find = |state: &State| state.find(SYSTEM, OsStr::new(&name));
        match how {
            Open::Read => Ok(self.disk(find(&*self.store.look()?)?, false, false)),
            Open::Write | Open::WriteDurable => {
                let state = self.store.look()?;
                let ino = find(&state)?;
                if state.plan.read_only {
                    return Err(Errno::ROFS);
                }
                Ok(self.disk(ino, true, how == Open::WriteDurable))
            }
            Open::Create(length) | Open::Allocate(length) => {
                let mut state = self.store.change()?;
                if length > state.room() {
                    return Err(Errno::NOSPC);
                }
                let ino = create(&mut state, &name)?;
                state.change_content(
                    ino,
                    Edit::Reserve {
                        offset: 0,
                        length,
                        keep_size: false,
                    },
                )?;
                Ok(self.disk(ino, true, false))
            }
        }
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let name = self.name(name);
        let mut guard = self.store.look()?;
        let state = &mut *guard;
        let ino = state.find(SYSTEM, OsStr::new(&name))?;
        if state.plan.strikes(Fault::ReadError, &mut state.rng) {
            return Err(Errno::IO);
        }
        Ok(read_all(state, ino))
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        check_name(OsStr::new(name))?;
        let new = format!("{name}.new");
        let made = self.name(&new);
        let ino = {
            let mut state = self.store.change()?;
            if state.journal.now.get(SYSTEM, OsStr::new(&made)).is_some() {
                names::unlink(&mut state, SYSTEM, OsStr::new(&made))?;
            }
            let ino = create(&mut state, &made)?;
            super::file::write(&mut state, ino, 0, content)?;
            ino
        };
        sync(&mut *self.store.step()?, Some(ino))?;
        self.rename(&new, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.name(from), self.name(to));
        let (from, to) = ((SYSTEM, OsStr::new(&from)), (SYSTEM, OsStr::new(&to)));
        names::rename(&mut *self.store.change()?, from, to, RenameFlags::empty())?;
        sync(&mut *self.store.step()?, None)
    }

    fn rename_unsynced(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.name(from), self.name(to));
        let (from, to) = ((SYSTEM, OsStr::new(&from)), (SYSTEM, OsStr::new(&to)));
        names::rename(&mut *self.store.change()?, from, to, RenameFlags::empty())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let name = self.name(name);
        names::unlink(&mut *self.store.change()?, SYSTEM, OsStr::new(&name))
    }

    fn list(&self) -> Result<Vec<String>> {
        let state = self.store.look()?;
        let names = state.journal.now.list(SYSTEM);
        let names = names.map(|(name, _)| name.to_string_lossy().into_owned());
        let mine = names.filter_map(|name| {
            let rest = name.strip_prefix(&self.prefix)?;
            (!rest.contains(PART)).then(|| rest.to_owned())
        });
        Ok(mine.collect())
    }

    fn sync(&self) -> Result<()> {
        sync(&mut *self.store.step()?, None)
    }
}

struct SystemFile {
    store: SimStore,
    ino: u64,
    write: bool,
    durable: bool,
}

impl Disk for SystemFile {
    fn len(&self) -> Result<u64> {
        Ok(self.store.look()?.attr(self.ino)?.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut guard = self.store.look()?;
        let state = &mut *guard;
        if state.plan.strikes(Fault::ReadError, &mut state.rng) {
            return Err(Errno::IO);
        }
        let count = state
            .content(self.ino)
            .map_or(0, |c| c.now.read(offset, buffer));
        if count == buffer.len() {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if !self.write {
            return Err(Errno::BADF);
        }
        {
            let mut state = self.store.change()?;
            state.inode(self.ino)?;
            super::file::write(&mut state, self.ino, offset, data)?;
        }
        if self.durable { self.sync() } else { Ok(()) }
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.store.step()?;
        state.inode(self.ino)?;
        sync(&mut state, Some(self.ino))
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let mut state = self.store.change()?;
        let size = state.attr(self.ino)?.size;
        let length = length.min(size.saturating_sub(offset));
        state.change_content(self.ino, Edit::Zero { offset, length })
    }
}

/// The extended attributes of a simulated store's objects; a handle is a node.
pub(super) struct SimFiles(SimStore);

impl SimFiles {
    pub(super) fn new(store: &SimStore) -> SimFiles {
        SimFiles(another(store))
    }
}

fn node(file: &Handle) -> Node {
    Node(file.as_bytes().into())
}

fn plain(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

impl env::Files for SimFiles {
    fn attribute(&self, file: &Handle, name: &CStr) -> Result<Vec<u8>> {
        self.0.xattr(&node(file), plain(name))
    }

    fn set_attribute(&self, file: &Handle, name: &CStr, value: &[u8]) -> Result<()> {
        self.0.set_xattr(&node(file), plain(name), value, 0)
    }

    fn remove_attribute(&self, file: &Handle, name: &CStr) -> Result<()> {
        self.0.remove_xattr(&node(file), plain(name))
    }

    fn sync_all(&self) -> Result<()> {
        Store::sync_all(&self.0)
    }
}
