//! The simplest layer that keeps its promises: every call goes to every store, and after a crash
//! the first store's tree is copied over the others. It proves the harness, with a bug planted
//! and without.

use crate::system::{Running, System};
use anyhow::{Context, Result, ensure};
use holdfast_redundancy::label::{Label, ObjectId, StoreIndex, StoreMask};
use holdfast_redundancy::store::sim::SimStore;
use holdfast_redundancy::store::{Make, Node, Store, StoreFile};
use mount::{
    AllocateFlags, Attr, Caller, Errno, Ino, Kind, Layer, Listing, NewObject, RenameFlags, SetAttr,
    Space,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the layer does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    Nothing,
    /// Acknowledges every fourth fsync of a file without doing it.
    ForgetsSync,
    /// Every fourth rename leaves the old name.
    HalfRename,
    /// Every eighth write reaches the first store only.
    OneCopy,
}

pub(crate) struct Mirror {
    pub(crate) stores: usize,
    pub(crate) plant: Plant,
}

struct Object {
    nodes: Vec<Node>,
    files: Vec<Arc<dyn StoreFile>>,
    lookups: u64,
}

struct State {
    objects: BTreeMap<u64, Object>,
    next: u64,
    calls: u64,
}

struct MirrorLayer {
    stores: Vec<Arc<SimStore>>,
    plant: Plant,
    state: Mutex<State>,
}

impl System for Mirror {
    fn stores(&self) -> usize {
        self.stores
    }
    fn copies(&self) -> usize {
        self.stores
    }
    fn tolerates_loss(&self) -> bool {
        false
    }
    fn checkpoint_syncs(&self) -> bool {
        true
    }
    fn open(&self, stores: &[Option<Arc<SimStore>>]) -> Result<Box<dyn Running>> {
        let stores: Option<Vec<_>> = stores.iter().cloned().collect();
        let stores = stores.context("a mirror needs all its stores")?;
        let first = stores.first().context("a mirror needs a store")?;
        let mounts = match first.system().read("mounts") {
            Ok(bytes) => u64::from_le_bytes(bytes.as_slice().try_into()?),
            Err(Errno::NOENT) => 0,
            Err(errno) => return Err(errno.into()),
        };
        first
            .system()
            .replace("mounts", &(mounts + 1).to_le_bytes())?;
        remove_unlabelled(first.as_ref(), &first.root()?)?;
        for store in &stores[1..] {
            empty(store.as_ref(), &store.root()?)?;
            let mut known = BTreeMap::new();
            copy(
                first.as_ref(),
                &first.root()?,
                store.as_ref(),
                &store.root()?,
                &mut known,
            )?;
            store.sync_all()?;
        }
        let nodes = stores
            .iter()
            .map(|s| s.root())
            .collect::<mount::Result<_>>()?;
        let root = Object {
            nodes,
            files: Vec::new(),
            lookups: 1,
        };
        let state = State {
            objects: BTreeMap::from([(1, root)]),
            next: (mounts + 1) << 40,
            calls: 0,
        };
        Ok(Box::new(MirrorLayer {
            stores,
            plant: self.plant,
            state: Mutex::new(state),
        }))
    }
}

fn entries(store: &dyn Store, dir: &Node) -> mount::Result<Vec<OsString>> {
    let mut entries = Vec::new();
    store.list(dir, &mut |name, _| entries.push(name.to_owned()))?;
    Ok(entries)
}

fn remove(store: &dyn Store, dir: &Node, name: &OsStr) -> mount::Result<()> {
    let found = store.lookup(dir, name)?;
    if found.attr.kind == Kind::Dir {
        empty(store, &found.node)?;
        store.remove_dir(dir, name)
    } else {
        store.unlink(dir, name)
    }
}

fn empty(store: &dyn Store, dir: &Node) -> mount::Result<()> {
    entries(store, dir)?
        .iter()
        .try_for_each(|name| remove(store, dir, name))
}

fn remove_unlabelled(store: &dyn Store, dir: &Node) -> mount::Result<()> {
    for name in entries(store, dir)? {
        let found = store.lookup(dir, &name)?;
        match (found.label, found.attr.kind) {
            (None, _) => remove(store, dir, &name)?,
            (Some(_), Kind::Dir) => remove_unlabelled(store, &found.node)?,
            _ => {}
        }
    }
    Ok(())
}

fn copy(
    from: &dyn Store,
    from_dir: &Node,
    to: &dyn Store,
    to_dir: &Node,
    known: &mut BTreeMap<ObjectId, Node>,
) -> Result<()> {
    copy_attributes(from, from_dir, to, to_dir)?;
    for name in entries(from, from_dir)? {
        let found = from.lookup(from_dir, &name)?;
        let label = found.label.context("a label")?;
        if let Some(node) = known.get(&label.id) {
            to.link(node, to_dir, &name)?;
            continue;
        }
        let target = match found.attr.kind {
            Kind::Symlink => from.read_link(&found.node)?,
            _ => OsString::new(),
        };
        let object = match found.attr.kind {
            Kind::File => NewObject::File,
            Kind::Dir => NewObject::Dir,
            Kind::Symlink => NewObject::Symlink(&target),
            kind => NewObject::Special(kind, found.attr.rdev),
        };
        let (uid, gid) = (found.attr.uid, found.attr.gid);
        let mode = found.attr.perm.into();
        let make = Make {
            object,
            mode,
            umask: 0,
            uid,
            gid,
            label,
        };
        let made = to.make(to_dir, &name, &make)?.node;
        if found.attr.kind == Kind::Dir {
            copy(from, &found.node, to, &made, known)?;
            continue;
        }
        known.insert(label.id, made.clone());
        copy_attributes(from, &found.node, to, &made)?;
        if found.attr.kind == Kind::File {
            let mut content = vec![0; found.attr.size as usize];
            from.open(&found.node, false)?.read_at(0, &mut content)?;
            to.open(&made, true)?.write_at(0, &content)?;
        }
    }
    Ok(())
}

fn copy_attributes(from: &dyn Store, source: &Node, to: &dyn Store, target: &Node) -> Result<()> {
    let attr = from.attr(source)?;
    let mode = (attr.kind != Kind::Symlink).then_some(attr.perm.into());
    let change = SetAttr {
        mode,
        uid: Some(attr.uid),
        gid: Some(attr.gid),
        ..SetAttr::default()
    };
    to.set_attr(target, &change)?;
    if attr.kind != Kind::Symlink {
        for name in to
            .list_xattr(target)?
            .split(|b| *b == 0)
            .filter(|n| !n.is_empty())
        {
            use std::os::unix::ffi::OsStrExt;
            to.remove_xattr(target, OsStr::from_bytes(name))?;
        }
        for name in from
            .list_xattr(source)?
            .split(|b| *b == 0)
            .filter(|n| !n.is_empty())
        {
            use std::os::unix::ffi::OsStrExt;
            let name = OsStr::from_bytes(name);
            to.set_xattr(target, name, &from.xattr(source, name)?, 0)?;
        }
    }
    Ok(())
}

impl Running for MirrorLayer {
    fn layer(&self) -> &dyn Layer {
        self
    }
    fn checkpoint(&self) -> Result<()> {
        self.stores.iter().try_for_each(|store| store.sync_all())?;
        Ok(())
    }
    fn shutdown(self: Box<Self>) -> Result<()> {
        self.checkpoint()
    }
    fn in_sync(&self) -> bool {
        true
    }
    fn health(&self) -> String {
        String::new()
    }
    fn resync(&self) -> Result<()> {
        Ok(())
    }
    fn attach(&self, _index: usize, _store: Arc<SimStore>) -> Result<()> {
        ensure!(false, "a mirror takes no store");
        Ok(())
    }
}

impl MirrorLayer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether this call, out of `of`, suffers from `plant`.
    fn strikes(&self, plant: Plant, of: u64) -> bool {
        let mut state = self.state();
        if self.plant == plant {
            state.calls += 1;
        }
        self.plant == plant && state.calls.is_multiple_of(of)
    }

    fn nodes(&self, ino: Ino) -> mount::Result<Vec<Node>> {
        self.state()
            .objects
            .get(&ino.0)
            .map(|o| o.nodes.clone())
            .ok_or(Errno::STALE)
    }

    fn files(&self, ino: Ino) -> mount::Result<Vec<Arc<dyn StoreFile>>> {
        self.state()
            .objects
            .get(&ino.0)
            .map(|o| o.files.clone())
            .ok_or(Errno::STALE)
    }

    fn each(
        &self,
        ino: Ino,
        call: impl Fn(&SimStore, &Node) -> mount::Result<()>,
    ) -> mount::Result<()> {
        let nodes = self.nodes(ino)?;
        self.stores
            .iter()
            .zip(&nodes)
            .try_for_each(|(store, node)| call(store, node))
    }

    fn remember(&self, id: u64, kind: Kind, nodes: Vec<Node>) -> mount::Result<Attr> {
        let attr = self.stores[0].attr(&nodes[0])?;
        let mut state = self.state();
        if let Some(object) = state.objects.get_mut(&id) {
            object.lookups += 1;
            return Ok(attr);
        }
        let mut files = Vec::new();
        if kind == Kind::File {
            for (store, node) in self.stores.iter().zip(&nodes) {
                files.push(store.open(node, true)?);
            }
        }
        state.objects.insert(
            id,
            Object {
                nodes,
                files,
                lookups: 1,
            },
        );
        Ok(attr)
    }
}

impl Layer for MirrorLayer {
    fn lookup(&self, dir: Ino, name: &OsStr) -> mount::Result<(Ino, Attr)> {
        let dirs = self.nodes(dir)?;
        let mut nodes = Vec::new();
        let mut label = None;
        let mut kind = Kind::File;
        for (store, dir) in self.stores.iter().zip(&dirs) {
            let found = store.lookup(dir, name)?;
            nodes.push(found.node);
            kind = found.attr.kind;
            label = label.or(found.label);
        }
        let id = label.ok_or(Errno::IO)?.id.0;
        Ok((Ino(id), self.remember(id, kind, nodes)?))
    }
    fn forget(&self, ino: Ino) {
        self.state().objects.remove(&ino.0);
    }
    fn name_of(&self, _ino: Ino) -> Option<(Ino, OsString)> {
        None
    }
    fn attr(&self, ino: Ino) -> mount::Result<Attr> {
        match self.files(ino)?.first() {
            Some(file) => file.attr(),
            None => self.stores[0].attr(&self.nodes(ino)?[0]),
        }
    }
    fn set_attr(&self, _caller: &Caller, ino: Ino, change: &SetAttr) -> mount::Result<Attr> {
        let files = self.files(ino)?;
        if files.is_empty() {
            self.each(ino, |store, node| store.set_attr(node, change))?;
        }
        files.iter().try_for_each(|file| file.set_attr(change))?;
        self.attr(ino)
    }
    fn read_link(&self, ino: Ino) -> mount::Result<OsString> {
        self.stores[0].read_link(&self.nodes(ino)?[0])
    }
    fn make(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &OsStr,
        object: NewObject<'_>,
        mode: u32,
    ) -> mount::Result<(Ino, Attr)> {
        let dirs = self.nodes(dir)?;
        let id = {
            let mut state = self.state();
            state.next += 1;
            state.next
        };
        let label = Label {
            id: ObjectId(id),
            home: StoreIndex(0),
            copies: StoreMask::first(self.stores.len()),
            set: 1,
        };
        let (umask, uid, gid) = (caller.umask, caller.uid, caller.gid);
        let make = Make {
            object,
            mode,
            umask,
            uid,
            gid,
            label,
        };
        let mut nodes = Vec::new();
        let mut kind = Kind::File;
        for (store, dir) in self.stores.iter().zip(&dirs) {
            let found = store.make(dir, name, &make)?;
            kind = found.attr.kind;
            nodes.push(found.node);
        }
        Ok((Ino(id), self.remember(id, kind, nodes)?))
    }
    fn link(&self, ino: Ino, dir: Ino, name: &OsStr) -> mount::Result<Attr> {
        let dirs = self.nodes(dir)?;
        let nodes = self.nodes(ino)?;
        for ((store, node), dir) in self.stores.iter().zip(&nodes).zip(&dirs) {
            store.link(node, dir, name)?;
        }
        self.attr(ino)
    }
    fn unlink(&self, dir: Ino, name: &OsStr) -> mount::Result<()> {
        self.each(dir, |store, dir| store.unlink(dir, name))
    }
    fn remove_dir(&self, dir: Ino, name: &OsStr) -> mount::Result<()> {
        self.each(dir, |store, dir| store.remove_dir(dir, name))
    }
    fn rename(
        &self,
        dir: Ino,
        name: &OsStr,
        new_dir: Ino,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> mount::Result<()> {
        let (from, to) = (self.nodes(dir)?, self.nodes(new_dir)?);
        let half = self.strikes(Plant::HalfRename, 4);
        for ((store, from), to) in self.stores.iter().zip(&from).zip(&to) {
            let found = store.lookup(from, name)?;
            let target = store.lookup(to, new_name);
            if half && found.attr.kind != Kind::Dir && target.is_err() {
                store.link(&found.node, to, new_name)?;
            } else {
                store.rename(from, name, to, new_name, flags)?;
            }
        }
        Ok(())
    }
    fn list(&self, dir: Ino) -> mount::Result<Listing> {
        let mut listing = Listing::default();
        self.stores[0].list(&self.nodes(dir)?[0], &mut |name, kind| {
            listing.push(name, kind, Ino(0));
        })?;
        Ok(listing)
    }
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> mount::Result<usize> {
        self.files(ino)?
            .first()
            .ok_or(Errno::INVAL)?
            .read_at(offset, buffer)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> mount::Result<()> {
        let files = self.files(ino)?;
        let count = if self.strikes(Plant::OneCopy, 8) {
            1
        } else {
            files.len()
        };
        files
            .iter()
            .take(count)
            .try_for_each(|file| file.write_at(offset, data))
    }
    fn sync(&self, ino: Ino, data_only: bool) -> mount::Result<()> {
        let files = self.files(ino)?;
        if files.is_empty() {
            return self.each(ino, |store, node| store.sync_dir(node));
        }
        if self.strikes(Plant::ForgetsSync, 4) {
            return Ok(());
        }
        files.iter().try_for_each(|file| file.sync(data_only))
    }
    fn allocate(
        &self,
        ino: Ino,
        offset: u64,
        length: u64,
        flags: AllocateFlags,
    ) -> mount::Result<()> {
        let files = self.files(ino)?;
        files
            .iter()
            .try_for_each(|file| file.allocate(offset, length, flags))
    }
    fn seek(&self, ino: Ino, offset: u64, hole: bool) -> mount::Result<u64> {
        self.files(ino)?
            .first()
            .ok_or(Errno::INVAL)?
            .seek(offset, hole)
    }
    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        length: u64,
    ) -> mount::Result<u64> {
        let mut data = vec![0; length as usize];
        let count = self.read(from, from_offset, &mut data)?;
        self.write(to, to_offset, &data[..count])?;
        Ok(count as u64)
    }
    fn space(&self) -> mount::Result<Space> {
        self.stores[0].space()
    }
    fn xattr(&self, ino: Ino, name: &OsStr) -> mount::Result<Vec<u8>> {
        self.stores[0].xattr(&self.nodes(ino)?[0], name)
    }
    fn set_xattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: u32) -> mount::Result<()> {
        self.each(ino, |store, node| store.set_xattr(node, name, value, flags))
    }
    fn list_xattr(&self, ino: Ino) -> mount::Result<Vec<u8>> {
        self.stores[0].list_xattr(&self.nodes(ino)?[0])
    }
    fn remove_xattr(&self, ino: Ino, name: &OsStr) -> mount::Result<()> {
        self.each(ino, |store, node| store.remove_xattr(node, name))
    }
}
