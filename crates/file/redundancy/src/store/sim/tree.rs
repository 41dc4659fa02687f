//! Names and attributes of a simulated file system, and the journal that carries them.

use crate::label::Label;
use mount::{Kind, Timestamp};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// The root of the user's tree.
pub(super) const ROOT: u64 = 2;
/// The directory for Holdfast's own files; no name leads to it.
pub(super) const SYSTEM: u64 = 3;
/// The directory for objects that are out of the user's tree; no name leads to it.
pub(super) const ASIDE: u64 = 4;

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) perm: u16,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u32,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) label: Option<Label>,
    pub(super) target: OsString,
    pub(super) xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The directory above, for directories.
    pub(super) parent: u64,
}

impl Inode {
    pub(super) fn new(kind: Kind, perm: u16, now: Timestamp) -> Inode {
        Inode {
            kind,
            perm,
            nlink: if kind == Kind::Dir { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            label: None,
            target: OsString::new(),
            xattrs: BTreeMap::new(),
            parent: ROOT,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Inode(u64, Arc<Inode>),
    Entry(u64, OsString, Option<u64>),
}

#[derive(Clone, Default, Debug)]
pub(super) struct Names {
    pub(super) inodes: BTreeMap<u64, Arc<Inode>>,
    entries: BTreeMap<(u64, OsString), u64>,
}

impl Names {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Inode(ino, inode) => {
                self.inodes.insert(*ino, Arc::clone(inode));
            }
            Change::Entry(dir, name, Some(ino)) => {
                self.entries.insert((*dir, name.clone()), *ino);
            }
            Change::Entry(dir, name, None) => {
                self.entries.remove(&(*dir, name.clone()));
            }
        }
    }

    pub(super) fn get(&self, dir: u64, name: &OsStr) -> Option<u64> {
        self.entries.get(&(dir, name.to_owned())).copied()
    }

    pub(super) fn list(&self, dir: u64) -> impl Iterator<Item = (&OsStr, u64)> {
        self.entries
            .range((dir, OsString::new())..(dir + 1, OsString::new()))
            .map(|((_, name), ino)| (name.as_os_str(), *ino))
    }

    pub(super) fn is_within(&self, mut dir: u64, ancestor: u64) -> bool {
        loop {
            if dir == ancestor {
                return true;
            }
            match self.inodes.get(&dir) {
                Some(inode) if inode.parent != dir => dir = inode.parent,
                _ => return false,
            }
        }
    }
}

/// Names and attributes now and on the medium, with the transactions between.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) now: Names,
    durable: Names,
    /// Transactions since the last commit, in order.
    pending: Vec<Vec<Change>>,
    /// Number of the first pending transaction.
    first: u64,
}

impl Journal {
    pub(super) fn new(names: Names) -> Journal {
        Journal {
            durable: names.clone(),
            now: names,
            pending: Vec::new(),
            first: 0,
        }
    }

    /// Applies changes as one transaction and returns its number.
    pub(super) fn run(&mut self, changes: Vec<Change>) -> u64 {
        for change in &changes {
            self.now.apply(change);
        }
        self.pending.push(changes);
        self.first + self.pending.len() as u64 - 1
    }

    /// Whether the medium knows `ino`.
    pub(super) fn knows(&self, ino: u64) -> bool {
        self.durable.inodes.contains_key(&ino)
    }

    /// Everything reaches the medium.
    pub(super) fn commit(&mut self) {
        for changes in std::mem::take(&mut self.pending) {
            self.first += 1;
            for change in &changes {
                self.durable.apply(change);
            }
        }
        self.durable.inodes.retain(|_, inode| inode.nlink > 0);
    }

    /// Number of pending transactions.
    pub(super) fn len(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Keeps the first `count` pending transactions and forgets the rest; returns the number of
    /// the first that is gone.
    pub(super) fn crash(&mut self, count: u64) -> u64 {
        let end = self.first + self.pending.len() as u64;
        self.pending.truncate(count as usize);
        let kept = self.first + self.pending.len() as u64;
        self.commit();
        self.first = end;
        self.now = self.durable.clone();
        kept
    }

    /// Forgets an inode that has no name and no user.
    pub(super) fn forget(&mut self, ino: u64) {
        self.now.inodes.remove(&ino);
    }
}
