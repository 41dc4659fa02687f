//! A store in memory that keeps the promises of an ordered-journal file system to the letter
//! and no more, and that fails on order.
//!
//! Names and attributes are journaled: a crash keeps a prefix of the changes, at least up to the
//! last sync of anything. Content that was not synced may be lost, each 4 KiB page by itself,
//! and now and then torn at 512 bytes; a size may come before or after the bytes. A sync of a
//! file makes its content durable and all names up to now. Holdfast's own files
//! ([`Store::system`]) live under the same rules.
//!
//! A [`SimStore`] is a connection to such a store. [`SimStore::kill`] and [`SimStore::crash`] end
//! all connections; [`SimStore::reopen`] makes a new one. All randomness comes from the seed.

use super::{Found, Make, Node, Store, StoreFile};
use crate::label::{Label, XATTR_NAME};
use mount::{Attr, Errno, Kind, NewObject, RenameFlags, Result, SetAttr, Space};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use state::State;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use tree::{ASIDE, Change, Inode, ROOT};

mod acl;
mod content;
mod faults;
mod file;
mod names;
mod rng;
mod state;
mod system;
mod tree;

pub use env::Rng;
pub use faults::{Fault, Power};
pub use rng::Choose;

/// A connection to a simulated store.
#[derive(Debug)]
pub struct SimStore {
    shared: Arc<Shared>,
    epoch: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    power: Power,
    tag: u64,
}

impl SimStore {
    /// An empty store. Stores of one test should have seeds of their own and one `power`.
    pub fn new(seed: u64, power: &Power) -> Arc<SimStore> {
        let state = State::new(seed);
        let tag = state.tag;
        let shared = Shared {
            state: Mutex::new(state),
            power: power.clone(),
            tag,
        };
        Arc::new(SimStore {
            shared: Arc::new(shared),
            epoch: 0,
        })
    }

    /// Another connection to the same store, alive even where this one is dead.
    pub fn reopen(&self) -> Arc<SimStore> {
        let epoch = self.shared.state.lock().epoch;
        Arc::new(SimStore {
            shared: Arc::clone(&self.shared),
            epoch,
        })
    }

    /// Loses power: what was not synced is there in part. All connections are dead.
    pub fn crash(&self) {
        self.shared.state.lock().crash();
    }

    /// Ends all connections and loses nothing, as when the process is killed or the way to the
    /// store breaks: every call on them answers ENODEV.
    pub fn kill(&self) {
        self.shared.state.lock().disconnect();
    }

    /// Strikes the given share of calls with a fault; 0 ends it.
    pub fn set_fault(&self, fault: Fault, per_million: u32) {
        self.shared.state.lock().plan.set_rate(fault, per_million);
    }

    /// Strikes one call with a fault after `calls` that could have suffered it.
    pub fn fail_after(&self, fault: Fault, calls: u64) {
        self.shared.state.lock().plan.set_countdown(fault, calls);
    }

    /// Ends every fault that was switched on.
    pub fn heal(&self) {
        self.shared.state.lock().plan = faults::Plan::new();
    }

    /// Refuses all changes with EROFS, or takes them again.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.state.lock().plan.read_only = read_only;
    }

    /// Bytes of content that still fit before ENOSPC, counted in whole pages; `None` for no
    /// limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        let mut state = self.shared.state.lock();
        state.plan.capacity = None;
        let used = (1 << 40) - state.room();
        state.plan.capacity = bytes.map(|bytes| used + bytes);
    }

    /// Flips a bit of a file's content, in the cache and on the medium; false where the byte is
    /// in a hole or past the end.
    ///
    /// # Errors
    /// ESTALE where the node is not of this store.
    pub fn flip_bit(&self, node: &Node, offset: u64, bit: u8) -> Result<bool> {
        let ino = self.ino(node)?;
        let mut state = self.shared.state.lock();
        Ok(state
            .content_mut(ino)
            .is_some_and(|content| content.flip_bit(offset, bit)))
    }

    /// State for a call that changes nothing.
    fn look(&self) -> Result<MutexGuard<'_, State>> {
        self.shared.power.check()?;
        let state = self.shared.state.lock();
        if state.epoch == self.epoch {
            Ok(state)
        } else {
            Err(Errno::NODEV)
        }
    }

    /// State for a call that syncs.
    fn step(&self) -> Result<MutexGuard<'_, State>> {
        self.shared.power.step()?;
        let state = self.shared.state.lock();
        if state.epoch == self.epoch {
            Ok(state)
        } else {
            Err(Errno::NODEV)
        }
    }

    /// State for a call that changes something.
    fn change(&self) -> Result<MutexGuard<'_, State>> {
        let mut guard = self.step()?;
        let state = &mut *guard;
        if state.plan.read_only {
            return Err(Errno::ROFS);
        }
        if state.plan.strikes(Fault::WriteError, &mut state.rng) {
            return Err(Errno::IO);
        }
        Ok(guard)
    }

    fn node(&self, ino: u64) -> Node {
        let mut bytes = SmallVec::new();
        bytes.extend_from_slice(&self.shared.tag.to_le_bytes());
        bytes.extend_from_slice(&ino.to_le_bytes());
        Node(bytes)
    }

    fn ino(&self, node: &Node) -> Result<u64> {
        let (tag, ino) = node.0.split_first_chunk::<8>().ok_or(Errno::STALE)?;
        let ino = <[u8; 8]>::try_from(ino).map_err(|_| Errno::STALE)?;
        if u64::from_le_bytes(*tag) == self.shared.tag {
            Ok(u64::from_le_bytes(ino))
        } else {
            Err(Errno::STALE)
        }
    }

    fn found(&self, state: &State, ino: u64) -> Result<Found> {
        Ok(Found {
            node: self.node(ino),
            attr: state.attr(ino)?,
            label: state.named(ino)?.label,
        })
    }

    /// Puts a changed inode back as one transaction of its own.
    fn put(state: &mut State, ino: u64, mut inode: Inode) {
        inode.ctime = state.now();
        state.journal.run(vec![Change::Inode(ino, Arc::new(inode))]);
    }
}

impl Store for SimStore {
    fn is_local(&self) -> bool {
        true
    }

    fn system(&self) -> Arc<dyn env::Dir> {
        Arc::new(system::SystemDir::new(self))
    }

    fn part(&self, name: &str) -> Result<Arc<dyn env::Dir>> {
        Ok(Arc::new(system::SystemDir::part(self, name)))
    }

    fn has_part(&self, name: &str) -> Result<bool> {
        Ok(!self.part(name)?.list()?.is_empty())
    }

    fn files(&self) -> Result<Arc<dyn env::Files>> {
        Ok(Arc::new(system::SimFiles::new(self)))
    }

    fn root(&self) -> Result<Node> {
        self.look().map(|_| self.node(ROOT))
    }

    fn aside(&self) -> Result<Node> {
        self.look().map(|_| self.node(ASIDE))
    }

    fn lookup(&self, dir: &Node, name: &OsStr) -> Result<Found> {
        let state = self.look()?;
        let ino = state.find(self.ino(dir)?, name)?;
        self.found(&state, ino)
    }

    fn inspect(&self, node: &Node) -> Result<Found> {
        let state = self.look()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        self.found(&state, ino)
    }

    fn attr(&self, node: &Node) -> Result<Attr> {
        let state = self.look()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        state.attr(ino)
    }

    fn set_label(&self, node: &Node, label: &Label) -> Result<()> {
        let mut state = self.change()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        let inode = Inode {
            label: Some(*label),
            ..state.draft(ino)?
        };
        Self::put(&mut state, ino, inode);
        Ok(())
    }

    fn set_attr(&self, node: &Node, change: &SetAttr) -> Result<()> {
        let mut state = self.change()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        state.set_attr(ino, change)
    }

    fn make(&self, dir: &Node, name: &OsStr, make: &Make<'_>) -> Result<Found> {
        let dir = self.ino(dir)?;
        let ino = names::make(&mut *self.change()?, dir, name, make)?;
        // A step of its own: a crash may leave the object without its label.
        let mut state = self.change()?;
        let inode = Inode {
            label: Some(make.label),
            ..state.draft(ino)?
        };
        state.journal.run(vec![Change::Inode(ino, Arc::new(inode))]);
        self.found(&state, ino)
    }

    fn make_open(
        &self,
        dir: &Node,
        name: &OsStr,
        make: &Make<'_>,
    ) -> Result<(Found, Option<Arc<dyn StoreFile>>)> {
        let found = self.make(dir, name, make)?;
        let file = match make.object {
            NewObject::File => self.open(&found.node, true).ok(),
            _ => None,
        };
        Ok((found, file))
    }

    fn link(&self, node: &Node, dir: &Node, name: &OsStr) -> Result<()> {
        let (ino, dir) = (self.ino(node)?, self.ino(dir)?);
        names::link(&mut *self.change()?, ino, dir, name)
    }

    fn unlink(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let dir = self.ino(dir)?;
        names::unlink(&mut *self.change()?, dir, name)
    }

    fn remove_dir(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let dir = self.ino(dir)?;
        names::remove_dir(&mut *self.change()?, dir, name)
    }

    fn rename(
        &self,
        dir: &Node,
        name: &OsStr,
        new_dir: &Node,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = ((self.ino(dir)?, name), (self.ino(new_dir)?, new_name));
        names::rename(&mut *self.change()?, from, to, flags)
    }

    fn read_link(&self, node: &Node) -> Result<OsString> {
        let state = self.look()?;
        let inode = state.named(self.ino(node)?)?;
        if inode.kind == Kind::Symlink {
            Ok(inode.target.clone())
        } else {
            Err(Errno::INVAL)
        }
    }

    fn list(&self, dir: &Node, each: &mut dyn FnMut(&OsStr, Kind)) -> Result<()> {
        let mut entries = {
            let state = self.look()?;
            let dir = self.ino(dir)?;
            state.directory(dir)?;
            let mut entries = Vec::new();
            for (name, ino) in state.journal.now.list(dir) {
                entries.push((name.to_owned(), state.inode(ino)?.kind));
            }
            entries
        };
        // An order of the store's own, as a hashed directory has.
        entries.sort_by_cached_key(|(name, _)| {
            let hash = u64::from(codec::crc32c(name.as_bytes()));
            Rng::new(hash ^ self.shared.tag).next_u64()
        });
        for (name, kind) in &entries {
            each(name, *kind);
        }
        Ok(())
    }

    fn parent(&self, dir: &Node) -> Result<Node> {
        let state = self.look()?;
        let inode = state.directory(self.ino(dir)?)?;
        Ok(self.node(inode.parent))
    }

    fn xattr(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        let state = self.look()?;
        let inode = state.named(self.ino(node)?)?;
        acl::check_xattr(inode.kind, name, false)?;
        inode.xattrs.get(name).cloned().ok_or(Errno::NODATA)
    }

    fn set_xattr(&self, node: &Node, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        let mut state = self.change()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        let mut inode = state.draft(ino)?;
        acl::check_xattr(inode.kind, name, true)?;
        if value.len() > 65_536 {
            return Err(Errno::TOOBIG);
        }
        let there = inode.xattrs.contains_key(name);
        match flags {
            1 if there => return Err(Errno::EXIST),
            2 if !there => return Err(Errno::NODATA),
            0..=2 => {}
            _ => return Err(Errno::INVAL),
        }
        inode.xattrs.insert(name.to_owned(), value.to_vec());
        Self::put(&mut state, ino, inode);
        Ok(())
    }

    fn list_xattr(&self, node: &Node) -> Result<Vec<u8>> {
        let state = self.look()?;
        let inode = state.named(self.ino(node)?)?;
        let mut names = Vec::new();
        for name in inode.xattrs.keys() {
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        Ok(names)
    }

    fn remove_xattr(&self, node: &Node, name: &OsStr) -> Result<()> {
        let mut state = self.change()?;
        let ino = self.ino(node)?;
        state.named(ino)?;
        let mut inode = state.draft(ino)?;
        acl::check_xattr(inode.kind, name, true)?;
        inode.xattrs.remove(name).ok_or(Errno::NODATA)?;
        Self::put(&mut state, ino, inode);
        Ok(())
    }

    fn open(&self, node: &Node, write: bool) -> Result<Arc<dyn StoreFile>> {
        let mut state = self.look()?;
        let ino = self.ino(node)?;
        match state.named(ino)?.kind {
            Kind::File => {}
            Kind::Dir => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        if write && state.plan.read_only {
            return Err(Errno::ROFS);
        }
        state.open(ino);
        let connection = SimStore {
            shared: Arc::clone(&self.shared),
            epoch: self.epoch,
        };
        Ok(Arc::new(file::SimFile::new(connection, ino, write)))
    }

    fn sync_dir(&self, dir: &Node) -> Result<()> {
        let mut guard = self.step()?;
        let state = &mut *guard;
        state.directory(self.ino(dir)?)?;
        if state.plan.strikes(Fault::SyncError, &mut state.rng) {
            return Err(Errno::IO);
        }
        state.commit();
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        let mut guard = self.step()?;
        let state = &mut *guard;
        if state.plan.strikes(Fault::SyncError, &mut state.rng) {
            state.fail_sync(None);
            return Err(Errno::IO);
        }
        state.sync_all();
        Ok(())
    }

    fn probe(&self) -> Result<()> {
        self.look().map(|_| ())
    }

    fn space(&self) -> Result<Space> {
        let state = self.look()?;
        let free = state.room();
        let total = state.plan.capacity.unwrap_or(1 << 40);
        Ok(Space {
            total_bytes: total,
            free_bytes: free,
            available_bytes: free,
            files: 1 << 32,
            files_free: (1 << 32) - state.journal.now.inodes.len() as u64,
            name_max: 255,
            block_bytes: content::PAGE as u32,
        })
    }

    fn device(&self) -> u64 {
        self.shared.tag
    }
}

/// The target of a new symbolic link, and whether it is one that a file system takes.
fn check_target(target: &OsStr) -> Result<OsString> {
    let bytes = target.as_bytes();
    match bytes.len() {
        0 => Err(Errno::NOENT),
        1..=4095 if !bytes.contains(&0) => Ok(OsString::from_vec(bytes.to_vec())),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// Type and device number of what is to be made.
fn kind_of(object: &NewObject<'_>) -> (Kind, u32) {
    match object {
        NewObject::File => (Kind::File, 0),
        NewObject::Dir => (Kind::Dir, 0),
        NewObject::Symlink(_) => (Kind::Symlink, 0),
        NewObject::Special(kind, rdev) => (*kind, *rdev),
    }
}

/// Whether Holdfast keeps this attribute to itself.
fn is_label(name: &OsStr) -> bool {
    name == OsStr::new(XATTR_NAME)
}
