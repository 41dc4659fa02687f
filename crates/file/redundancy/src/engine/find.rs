//! Finding objects on stores.

use super::Engine;
use crate::inode::Inode;
use crate::label::{Label, ObjectId, StoreIndex};
use crate::store::{Found, Node, Store};
use env::errno::{Errno, Fault, fault};
use mount::{Attr, Ino, Kind, Result};
use std::ffi::OsStr;
use std::sync::Arc;

impl Engine {
    /// The inode of a number that the kernel gave.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.inodes.get(ObjectId(ino.0)).ok_or(Errno::STALE)
    }

    /// The label of an object where it is one of this set's.
    pub(crate) fn label_of(&self, found: &Found) -> Option<Label> {
        found.label.filter(|l| l.set == self.set.short())
    }

    /// `inode` on `store`, looked up through its directory where it is not known yet.
    /// ESTALE where the store does not have it there: its copy is not what it should be.
    pub(crate) fn node_on(&self, inode: &Inode, store: StoreIndex) -> Result<Node> {
        if let Some(node) = inode.node(store) {
            return Ok(node);
        }
        let target = self.store(store)?;
        if inode.id == ObjectId::ROOT {
            let node = target.root()?;
            inode.set_node(store, node.clone());
            return Ok(node);
        }
        loop {
            let before = inode.names_as_of();
            match self.look_where_last_seen(inode, store, &*target) {
                Err(Errno::STALE) if inode.names_moved_since(before) => {}
                other => return other,
            }
        }
    }

    fn look_where_last_seen(
        &self,
        inode: &Inode,
        store: StoreIndex,
        target: &dyn Store,
    ) -> Result<Node> {
        let (parent, name) = inode.hint().ok_or(Errno::STALE)?;
        let dir = self.node_on(&parent, store)?;
        let found = match target.lookup(&dir, &name) {
            Err(errno) if fault(errno) == Fault::Caller => return Err(Errno::STALE),
            other => other?,
        };
        match self.label_of(&found) {
            Some(label) if label.id == inode.id => {
                inode.set_node(store, found.node.clone());
                Ok(found.node)
            }
            _ => Err(Errno::STALE),
        }
    }

    /// Finds `name` in `dir`: the inode, and its attributes on the store that decides.
    pub(crate) fn find(&self, dir: &Arc<Inode>, name: &OsStr) -> Result<(Arc<Inode>, Attr)> {
        'again: for _ in 0..=self.slots.len() {
            for store in self.members().iter() {
                match self.find_on(dir, name, store) {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => {}
                    Err(errno) if fault(errno) == Fault::Caller => return Err(errno),
                    Err(errno) => {
                        self.fence_for(store, errno)?;
                        continue 'again;
                    }
                }
            }
            return Err(Errno::NOENT);
        }
        Err(Errno::IO)
    }

    fn find_on(
        &self,
        dir: &Arc<Inode>,
        name: &OsStr,
        index: StoreIndex,
    ) -> Result<Option<(Arc<Inode>, Attr)>> {
        let store = self.store(index)?;
        let Some((found, label)) = self.look(&*store, &self.node_on(dir, index)?, name)? else {
            return Ok(None);
        };
        let is_dir = found.attr.kind == Kind::Dir;
        let copies = self.copies(&label, is_dir);
        if !copies.contains(&index) {
            return Ok(None);
        }
        let decider = *copies.first().ok_or(Errno::IO)?;
        let inode = self.inodes.obtain(label, found.attr.kind);
        inode.set_hint(dir, name);
        inode.see_times();
        inode.set_node(index, found.node);
        if self.set_late_time(&inode) {
            return self.attr_elsewhere(inode);
        }
        if decider == index {
            return Ok(Some((inode, found.attr)));
        }
        let Ok(home) = self.store(decider) else {
            // It has left since it was chosen: that is nothing against the store that was asked.
            return self.attr_elsewhere(inode);
        };
        let node = self.node_on(dir, decider);
        let first = node.and_then(|node| self.look(&*home, &node, name));
        match first {
            Ok(Some((found, first))) if first.id == label.id => {
                inode.set_node(decider, found.node);
                Ok(Some((inode, found.attr)))
            }
            // Another object has the name there: the copy here is the one that is wrong.
            Ok(Some(_)) => Err(Errno::UCLEAN),
            // The store that decides has lost it behind our back: what is left is kept, and the
            // store is compared with it.
            lost => {
                self.fence_for(decider, lost.err().unwrap_or(Errno::UCLEAN))?;
                self.attr_elsewhere(inode)
            }
        }
    }

    /// An inode with the attributes that it has on whichever store has it. The stores that fail are
    /// fenced for it; none is in the way of the one that was asked first.
    fn attr_elsewhere(&self, inode: Arc<Inode>) -> Result<Option<(Arc<Inode>, Attr)>> {
        let attr = self.attr_of(&inode)?;
        Ok(Some((inode, attr)))
    }

    /// Looks a name up on one store: what is there with a label of this set.
    pub(crate) fn look(
        &self,
        store: &dyn Store,
        dir: &Node,
        name: &OsStr,
    ) -> Result<Option<(Found, Label)>> {
        match store.lookup(dir, name) {
            Ok(found) => Ok(self.label_of(&found).map(|label| (found, label))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Attributes of `inode` from the store that decides, or the next one where that fails.
    pub(crate) fn attr_of(&self, inode: &Arc<Inode>) -> Result<Attr> {
        self.set_late_time(inode);
        let mut attr = self.attr_on_store(inode)?;
        if let Some(late) = inode.late_time() {
            // It could not be set just now: the kernel would keep the old one for long.
            attr.mtime = attr.mtime.max(late);
            attr.ctime = attr.ctime.max(late);
        }
        Ok(attr)
    }

    fn attr_on_store(&self, inode: &Arc<Inode>) -> Result<Attr> {
        for _ in 0..=self.slots.len() {
            let copies = self.copies_of(inode);
            let index = *copies.first().ok_or(Errno::IO)?;
            inode.see_times();
            let before = inode.names_as_of();
            if inode.is_nameless() && inode.kind == Kind::File {
                // One name may be left, outside the tree.
                let attr = self.on_first_file(inode, |file| file.attr())?;
                return Ok(Attr { nlink: 0, ..attr });
            }
            let open = inode
                .open_files()
                .filter(|o| o.generation == self.generation());
            let answer = match open.as_ref().and_then(|o| o.files.first()) {
                Some((store, file)) if *store == index => file.attr(),
                _ if inode.is_nameless() => return Err(Errno::STALE),
                _ => self
                    .node_on(inode, index)
                    .and_then(|node| self.store(index)?.attr(&node)),
            };
            match answer {
                // Its last name goes meanwhile.
                Err(Errno::STALE) if inode.names_moved_since(before) => {}
                Err(errno) if fault(errno) != Fault::Caller => self.fence_for(index, errno)?,
                other => return other,
            }
        }
        Err(Errno::IO)
    }
}
