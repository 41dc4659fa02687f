//! A layer over one local store that adds nothing: for tests of the mount and the store together.

use holdfast_redundancy::label::{Label, ObjectId, StoreIndex, StoreMask};
use holdfast_redundancy::store::local::LocalStore;
use holdfast_redundancy::store::{Found, Make, Node, Store, StoreFile};
use mount::{
    AllocateFlags, Attr, Caller, Errno, Ino, Kind, Layer, Listing, NewObject, RenameFlags, Result,
    SetAttr, Space,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Files held open at most, without those that have lost their last name.
const OPEN_FILES_MAX: usize = 512;

/// What is known of an inode.
#[derive(Clone)]
struct State {
    node: Node,
    name: Option<(Ino, OsString)>,
    file: Option<Arc<dyn StoreFile>>,
    /// Last attributes of what has no name any more and is not a regular file.
    orphan: Option<Attr>,
}

/// Calls by name of the method, for tests that count what the kernel asks.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<&'static str, u64>>);

impl Counts {
    fn count(&self, call: &'static str) {
        *self.0.lock().expect("no panic").entry(call).or_default() += 1;
    }
    /// All counts since the last call, sorted by name.
    pub(crate) fn take(&self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<_> = self.0.lock().expect("no panic").drain().collect();
        counts.sort_unstable();
        counts
    }
}

/// The layer.
pub(crate) struct Passthrough {
    store: LocalStore,
    states: Mutex<HashMap<Ino, State>>,
    next: AtomicU64,
    pub(crate) counts: Counts,
}

impl Passthrough {
    pub(crate) fn new(store: LocalStore) -> Result<Passthrough> {
        let root = store.root()?;
        let seconds = std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_secs());
        let state = State {
            node: root,
            name: None,
            file: None,
            orphan: None,
        };
        Ok(Passthrough {
            store,
            states: Mutex::new(HashMap::from([(Ino::ROOT, state)])),
            next: AtomicU64::new(seconds << 24),
            counts: Counts::default(),
        })
    }

    /// Inodes that the edge has not forgotten, with the root.
    pub(crate) fn known(&self) -> usize {
        self.states().len()
    }

    fn states(&self) -> MutexGuard<'_, HashMap<Ino, State>> {
        self.states.lock().expect("no panic holds the lock")
    }

    fn state(&self, ino: Ino) -> Result<State> {
        self.states().get(&ino).cloned().ok_or(Errno::STALE)
    }

    fn node(&self, ino: Ino) -> Result<Node> {
        Ok(self.state(ino)?.node)
    }

    fn file(&self, ino: Ino) -> Result<Arc<dyn StoreFile>> {
        let state = self.state(ino)?;
        if let Some(file) = state.file {
            return Ok(file);
        }
        let file = self.store.open(&state.node, true)?;
        let mut states = self.states();
        if states.values().filter(|state| state.file.is_some()).count() > OPEN_FILES_MAX {
            for state in states.values_mut().filter(|state| state.name.is_some()) {
                state.file = None;
            }
        }
        if let Some(state) = states.get_mut(&ino) {
            state.file = Some(Arc::clone(&file));
        }
        Ok(file)
    }

    fn enter(&self, dir: Ino, name: &OsStr, found: &Found) -> Result<Ino> {
        let ino = Ino(found.label.ok_or(Errno::IO)?.id.0);
        let mut states = self.states();
        let state = states.entry(ino).or_insert_with(|| State {
            node: found.node.clone(),
            name: None,
            file: None,
            orphan: None,
        });
        state.name = Some((dir, name.to_os_string()));
        Ok(ino)
    }

    /// Before a name goes: keeps what must outlive it.
    fn keep(&self, dir: Ino, name: &OsStr) -> Result<Option<(Ino, Attr)>> {
        let found = match self.store.lookup(&self.node(dir)?, name) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let ino = Ino(found.label.ok_or(Errno::IO)?.id.0);
        if found.attr.kind == Kind::File && self.states().contains_key(&ino) {
            self.file(ino)?;
        }
        Ok(Some((ino, found.attr)))
    }

    fn gone(&self, kept: Option<(Ino, Attr)>) {
        let Some((ino, mut attr)) = kept else { return };
        if let Some(state) = self.states().get_mut(&ino) {
            state.name = None;
            let last = attr.nlink <= 1 || attr.kind == Kind::Dir;
            if last && attr.kind != Kind::File {
                attr.nlink = 0;
                state.orphan = Some(attr);
            } else if !last {
                state.file = None;
            }
        }
    }
}

impl Layer for Passthrough {
    fn lookup(&self, dir: Ino, name: &OsStr) -> Result<(Ino, Attr)> {
        self.counts.count("lookup");
        let found = self.store.lookup(&self.node(dir)?, name)?;
        Ok((self.enter(dir, name, &found)?, found.attr))
    }

    fn forget(&self, ino: Ino) {
        self.counts.count("forget");
        self.states().remove(&ino);
    }

    fn name_of(&self, ino: Ino) -> Option<(Ino, OsString)> {
        self.states().get(&ino)?.name.clone()
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.counts.count("attr");
        let state = self.state(ino)?;
        match (state.file, state.orphan) {
            (Some(file), _) => file.attr(),
            (None, Some(attr)) => Ok(attr),
            (None, None) => self.store.attr(&state.node),
        }
    }

    fn set_attr(&self, _: &Caller, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.counts.count("set_attr");
        let state = self.state(ino)?;
        match state.file {
            Some(file) => {
                file.set_attr(change)?;
                file.attr()
            }
            None => {
                self.store.set_attr(&state.node, change)?;
                self.store.attr(&state.node)
            }
        }
    }

    fn read_link(&self, ino: Ino) -> Result<OsString> {
        self.counts.count("read_link");
        self.store.read_link(&self.node(ino)?)
    }

    fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> Result<(Ino, Attr)> {
        self.counts.count("make");
        let make = Make {
            object,
            mode,
            umask: caller.umask,
            uid: caller.uid,
            gid: caller.gid,
            label: Label {
                id: ObjectId(self.next.fetch_add(1, Ordering::Relaxed)),
                home: StoreIndex(0),
                copies: StoreMask(1),
                set: 1,
            },
        };
        let found = self.store.make(&self.node(dir)?, name, &make)?;
        Ok((self.enter(dir, name, &found)?, found.attr))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &OsStr) -> Result<Attr> {
        self.counts.count("link");
        let node = self.node(ino)?;
        self.store.link(&node, &self.node(dir)?, name)?;
        self.store.attr(&node)
    }

    fn unlink(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.counts.count("unlink");
        let kept = self.keep(dir, name)?;
        self.store.unlink(&self.node(dir)?, name)?;
        self.gone(kept);
        Ok(())
    }

    fn remove_dir(&self, dir: Ino, name: &OsStr) -> Result<()> {
        self.counts.count("remove_dir");
        let kept = self.keep(dir, name)?;
        self.store.remove_dir(&self.node(dir)?, name)?;
        self.gone(kept);
        Ok(())
    }

    fn rename(
        &self,
        dir: Ino,
        name: &OsStr,
        new_dir: Ino,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        self.counts.count("rename");
        if flags.contains(RenameFlags::WHITEOUT) {
            // The whiteout would have no label.
            return Err(Errno::INVAL);
        }
        let (from, to) = (self.node(dir)?, self.node(new_dir)?);
        let moved = self.keep(dir, name)?;
        let target = self.keep(new_dir, new_name)?;
        self.store.rename(&from, name, &to, new_name, flags)?;
        let same = moved.map(|(ino, _)| ino) == target.map(|(ino, _)| ino);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.renamed(target, dir, name);
        } else if !same {
            self.gone(target);
        }
        self.renamed(moved, new_dir, new_name);
        Ok(())
    }

    fn list(&self, dir: Ino) -> Result<Listing> {
        self.counts.count("list");
        let mut listing = Listing::default();
        self.store.list(&self.node(dir)?, &mut |name, kind| {
            listing.push(name, kind, Ino(0));
        })?;
        Ok(listing)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.counts.count("read");
        self.file(ino)?.read_at(offset, buffer)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<()> {
        self.counts.count("write");
        self.file(ino)?.write_at(offset, data)
    }

    fn sync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.counts.count("sync");
        match self.attr(ino)?.kind {
            Kind::Dir => self.store.sync_dir(&self.node(ino)?),
            _ => self.file(ino)?.sync(data_only),
        }
    }

    fn allocate(&self, ino: Ino, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        self.counts.count("allocate");
        self.file(ino)?.allocate(offset, length, flags)
    }

    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> Result<u64> {
        self.counts.count("seek");
        self.file(ino)?.seek(offset, hole)
    }

    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.counts.count("copy_range");
        let (from, to) = (self.file(from)?, self.file(to)?);
        let mut buffer = vec![0; 1 << 20];
        let mut done = 0;
        while done < length {
            let step = usize::try_from(length - done).map_or(1 << 20, |rest| rest.min(1 << 20));
            let read = from.read_at(from_offset + done, &mut buffer[..step])?;
            to.write_at(to_offset + done, &buffer[..read])?;
            done += read as u64;
            if read < step {
                break;
            }
        }
        Ok(done)
    }

    fn space(&self) -> Result<Space> {
        self.store.space()
    }

    fn xattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.counts.count("xattr");
        self.store.xattr(&self.node(ino)?, name)
    }

    fn set_xattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.counts.count("set_xattr");
        self.store.set_xattr(&self.node(ino)?, name, value, flags)
    }

    fn list_xattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.counts.count("list_xattr");
        self.store.list_xattr(&self.node(ino)?)
    }

    fn remove_xattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        self.counts.count("remove_xattr");
        self.store.remove_xattr(&self.node(ino)?, name)
    }
}

impl Passthrough {
    fn renamed(&self, moved: Option<(Ino, Attr)>, dir: Ino, name: &OsStr) {
        if let Some(state) = moved.and_then(|(ino, _)| self.states().get_mut(&ino).cloned()) {
            let state = State {
                name: Some((dir, name.to_os_string())),
                ..state
            };
            if let Some((ino, _)) = moved {
                self.states().insert(ino, state);
            }
        }
    }
}
