//! Attributes and extended attributes.

use super::Engine;
use crate::inode::Inode;
use crate::journal::dirty::{Entry, REGION_BYTES};
use env::errno::{Errno, Fault, fault};
use mount::{Attr, Kind, Result, SetAttr, SetTime, Timestamp};
use std::ffi::OsStr;
use std::sync::Arc;

/// The attribute that holds a file's capabilities.
const CAPABILITY: &str = "security.capability";

fn at_present(time: Option<SetTime>, now: Timestamp) -> Option<SetTime> {
    time.map(|t| match t {
        SetTime::Now => SetTime::To(now),
        SetTime::To(given) => SetTime::To(given),
    })
}

impl Engine {
    /// Changes attributes on every copy; "now" is the same moment on all.
    pub(crate) fn change_attr(&self, inode: &Arc<Inode>, change: &SetAttr) -> Result<Attr> {
        if let Some(size) = change.size.filter(|_| inode.kind == Kind::File) {
            self.give_up_range(inode.id, size, u64::MAX)?;
        }
        let _gate = self.begin()?;
        let now = super::differential::now();
        if change.mtime == Some(SetTime::Now) {
            inode.tell_time(now);
        }
        let change = SetAttr {
            atime: at_present(change.atime, now),
            mtime: at_present(change.mtime, now),
            ..*change
        };
        self.set_late_time(inode);
        if change.mtime.is_some() {
            inode.take_late_time();
        }
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        if let Some(size) = change.size {
            if inode.kind != Kind::File {
                return Err(if inode.is_dir() {
                    Errno::ISDIR
                } else {
                    Errno::INVAL
                });
            }
            if size < self.attr_of(inode)?.size {
                self.before_change(inode.id, size, u64::MAX)?;
                let region = size / REGION_BYTES;
                self.touch(inode, Entry::Tail(inode.id, region as u32), 0xff)?;
            }
        }
        let through_files = inode.kind == Kind::File
            && (change.size.is_some() || inode.open_files().is_some_and(|o| o.write));
        if through_files {
            let open = self.open_copies(inode, true)?;
            let _range = change.size.map(|_| inode.write_range(0, u64::MAX));
            if change.size.is_none() && change.mtime.is_none() {
                self.equal_times(inode, &open);
            }
            let copies_set_time =
                change.size.is_none() || change.mtime.is_some() || inode.copies_set_time(|| now);
            let answers = open
                .files
                .iter()
                .map(|(s, f)| (*s, f.set_attr(&change)))
                .collect();
            self.settle(answers)?;
            if change.mtime.is_some() {
                inode.take_stale_times();
            }
            if !copies_set_time {
                self.wrote_elsewhere(inode)?;
            }
        } else {
            if inode.is_nameless() {
                return Err(Errno::STALE);
            }
            self.on_each(&self.copies_of(inode), |index, store| {
                store.set_attr(&self.node_on(inode, index)?, &change)
            })?;
        }
        self.attr_of(inode)
    }

    /// Value of an extended attribute, from the deciding copy.
    pub(crate) fn get_xattr(&self, inode: &Arc<Inode>, name: &OsStr) -> Result<Vec<u8>> {
        // The kernel asks for this one before the first write to a file.
        if name == CAPABILITY && inode.has_no_capability() {
            return Err(Errno::NODATA);
        }
        self.on_decider(inode, |store, node| store.xattr(node, name))
    }

    /// Names of extended attributes, from the deciding copy.
    pub(crate) fn names_of_xattrs(&self, inode: &Arc<Inode>) -> Result<Vec<u8>> {
        self.on_decider(inode, |store, node| store.list_xattr(node))
    }

    /// Reads from the deciding copy, or the next one where that fails.
    pub(crate) fn on_decider<R>(
        &self,
        inode: &Arc<Inode>,
        act: impl Fn(&dyn crate::store::Store, &crate::store::Node) -> Result<R>,
    ) -> Result<R> {
        for _ in 0..=self.slots.len() {
            let index = *self.copies_of(inode).first().ok_or(Errno::IO)?;
            let before = inode.names_as_of();
            let answer = self
                .node_on(inode, index)
                .and_then(|node| act(&*self.store(index)?, &node));
            match answer {
                // Its last name goes meanwhile.
                Err(Errno::STALE) if inode.names_moved_since(before) => {}
                Err(errno) if fault(errno) == Fault::Medium && !inode.is_nameless() => {
                    self.fence_for(index, errno)?;
                }
                other => return other,
            }
        }
        Err(Errno::IO)
    }

    /// Sets an extended attribute on every copy.
    pub(crate) fn put_xattr(
        &self,
        inode: &Arc<Inode>,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let _gate = self.begin()?;
        if name == CAPABILITY {
            inode.may_have_capability();
        }
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        self.on_each(&self.copies_of(inode), |index, store| {
            store.set_xattr(&self.node_on(inode, index)?, name, value, flags)
        })
    }

    /// Removes an extended attribute from every copy.
    pub(crate) fn drop_xattr(&self, inode: &Arc<Inode>, name: &OsStr) -> Result<()> {
        let _gate = self.begin()?;
        self.touch(inode, Entry::Attributes(inode.id), 0xff)?;
        self.on_each(&self.copies_of(inode), |index, store| {
            store.remove_xattr(&self.node_on(inode, index)?, name)
        })
    }
}
