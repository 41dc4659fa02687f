//! Files without a name whose bytes chunks of other files are computed from.
//!
//! To give their stripes up takes as long as to copy these chunks, and who removes a file is not to
//! wait for that. So before its last name goes, an encoded file gets one more on each store, outside
//! the tree, and loses that when no stripe needs it any more and nobody has it open.

use super::Engine;
use crate::inode::Inode;
use crate::label::{ObjectId, StoreIndex};
use crate::store::{Node, Store};
use env::errno::{Errno, Fault, fault};
use mount::Result;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Prefix of the names in the aside directory.
const HELD: &str = "held-";

fn held_name(id: ObjectId) -> OsString {
    OsString::from(format!("{HELD}{:016x}", id.0))
}

fn parse(name: &OsStr) -> Option<ObjectId> {
    let digits = name.to_str()?.strip_prefix(HELD)?;
    let id = ObjectId(u64::from_str_radix(digits, 16).ok()?);
    (held_name(id) == name).then_some(id)
}

/// What a store holds.
fn held_on(store: &dyn Store) -> Result<Vec<ObjectId>> {
    let mut held = Vec::new();
    store.list(&store.aside()?, &mut |name, _| held.extend(parse(name)))?;
    Ok(held)
}

/// Takes the held name of an object that has others; whether it has none besides.
fn let_go_named(store: &dyn Store, id: ObjectId) -> Result<bool> {
    let (aside, name) = (store.aside()?, held_name(id));
    match store.lookup(&aside, &name) {
        Ok(found) if found.attr.nlink > 1 => store.unlink(&aside, &name).map(|()| false),
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

impl Engine {
    /// The last name of a file is about to go: what of it is encoded stays where it is. The caller
    /// holds the gate for reading.
    pub(crate) fn hold(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.encoded.is_idle() {
            return Ok(());
        }
        self.encoded.watch().change(inode.id, 0, u64::MAX);
        if self.encoded.first_in(inode.id, 0, u64::MAX).is_none() {
            return Ok(());
        }
        let name = held_name(inode.id);
        let held = self.on_each(&self.copies_of(inode), |index, store| {
            let (node, aside) = (self.node_on(inode, index)?, store.aside()?);
            match store.link(&node, &aside, &name) {
                // Of the same copy, or of one that a recovery made again under the old number.
                Err(Errno::EXIST) if store.lookup(&aside, &name)?.node == node => Ok(()),
                other => other,
            }
        });
        self.holds.store(true, Ordering::Release);
        if let Err(errno) = held {
            tracing::debug!(%errno, "a file cannot be held; its stripes are given up");
            self.let_go_of(inode);
            self.before_change(inode.id, 0, u64::MAX)?;
        }
        Ok(())
    }

    /// The last name of a file did not go.
    pub(crate) fn let_go_of(&self, inode: &Inode) {
        for (index, store) in self.member_stores() {
            if let Err(errno) = let_go_named(&*store, inode.id) {
                tracing::debug!(store = index.0, %errno, "a held name stays until the next start");
            }
        }
    }

    /// Takes the held names of what has others: a crash came before the last one went.
    pub(crate) fn let_go_of_named(&self, store: &dyn Store) -> Result<()> {
        for id in held_on(store)? {
            if let_go_named(store, id)? {
                self.holds.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Whether a copy is held and nothing else: nobody reads it any more.
    pub(crate) fn is_only_held(
        &self,
        object: ObjectId,
        (index, node): (StoreIndex, &Node),
    ) -> Result<bool> {
        if !self.holds.load(Ordering::Acquire) || self.inodes.get(object).is_some() {
            return Ok(false);
        }
        let store = self.store(index)?;
        match store.lookup(&store.aside()?, &held_name(object)) {
            Ok(found) => Ok(found.node == *node && found.attr.nlink == 1),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Lets go of what is held and not open any more: its stripes are given up first.
    ///
    /// # Errors
    /// A store failed, or the set stops; what is held stays so.
    pub fn release_held(&self) -> Result<()> {
        if !self.holds.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut all = BTreeSet::new();
        for (index, store) in self.member_stores() {
            match held_on(&*store) {
                Ok(held) => all.extend(held),
                Err(errno) => self.fence_for(index, errno)?,
            }
        }
        let (mut left, mut failed) = (false, Ok(()));
        for id in all {
            match self.release(id) {
                Ok(released) => left |= !released,
                // Others may have room.
                Err(errno @ (Errno::IO | Errno::NOSPC)) => failed = Err(errno),
                Err(errno) => {
                    failed = Err(errno);
                    break;
                }
            }
        }
        if left || failed.is_err() {
            self.holds.store(true, Ordering::Release);
        }
        failed
    }

    /// Lets go of one object; `false` where it is open.
    fn release(&self, id: ObjectId) -> Result<bool> {
        if self.inodes.get(id).is_some() {
            return Ok(false);
        }
        self.give_up_range(id, 0, u64::MAX)?;
        let _gate = self.begin()?;
        for (index, store) in self.member_stores() {
            let gone = store
                .aside()
                .and_then(|aside| store.unlink(&aside, &held_name(id)));
            match gone {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) if fault(errno) == Fault::Caller => return Err(Errno::IO),
                Err(errno) => self.fence_for(index, errno)?,
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = ObjectId(0x1234_5678_9abc);
        assert_eq!(parse(&held_name(id)), Some(id));
        for other in ["held-12", "held-", "conflict-0000123456789abc", "x"] {
            assert_eq!(parse(OsStr::from_bytes(other.as_bytes())), None, "{other}");
        }
    }
}
