//! The whole state of a simulated file system, and its operations on inode numbers.

use super::content::{Content, Edit, Fate, PAGE, SECTOR};
use super::faults::{Fault, Plan};
use super::rng::Choose;
use super::tree::{ASIDE, Change, Inode, Journal, Names, ROOT, SYSTEM};
use env::Rng;
use mount::{Attr, Errno, Kind, Result, SetAttr, SetTime, Timestamp};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct State {
    /// Tells this store's nodes from those of another.
    pub(super) tag: u64,
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    /// Connections of an earlier epoch are dead.
    pub(super) epoch: u64,
    pub(super) journal: Journal,
    contents: BTreeMap<u64, Content>,
    open: BTreeMap<u64, u32>,
    next_ino: u64,
    clock: u64,
    /// Pages of all files, as the page cache has them.
    used_pages: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        let mut rng = Rng::new(seed);
        let tag = rng.next_u64();
        let mut names = Names::default();
        let start = Timestamp {
            sec: 1_700_000_000,
            nsec: 0,
        };
        for ino in [ROOT, SYSTEM, ASIDE] {
            let inode = Inode {
                parent: ino,
                ..Inode::new(Kind::Dir, 0o755, start)
            };
            names.inodes.insert(ino, Arc::new(inode));
        }
        State {
            tag,
            plan: Plan::new(),
            epoch: 0,
            journal: Journal::new(names),
            contents: BTreeMap::new(),
            open: BTreeMap::new(),
            next_ino: ASIDE,
            // Each store's clock is a little off the others'.
            clock: rng.below(1000),
            used_pages: 0,
            rng,
        }
    }

    pub(super) fn now(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp {
            sec: 1_700_000_000 + (self.clock / 1_000_000) as i64,
            nsec: (self.clock % 1_000_000) as u32 * 1000,
        }
    }

    pub(super) fn new_ino(&mut self) -> u64 {
        self.next_ino += 1;
        self.next_ino
    }

    /// The inode behind a node that still has a name.
    pub(super) fn named(&self, ino: u64) -> Result<&Arc<Inode>> {
        self.inode(ino).and_then(|inode| {
            if inode.nlink > 0 {
                Ok(inode)
            } else {
                Err(Errno::STALE)
            }
        })
    }

    /// The inode, with or without a name.
    pub(super) fn inode(&self, ino: u64) -> Result<&Arc<Inode>> {
        self.journal.now.inodes.get(&ino).ok_or(Errno::STALE)
    }

    pub(super) fn directory(&self, ino: u64) -> Result<&Arc<Inode>> {
        let inode = self.named(ino)?;
        if inode.kind == Kind::Dir {
            Ok(inode)
        } else {
            Err(Errno::NOTDIR)
        }
    }

    /// An inode as it is now, to change and to put back in a transaction.
    pub(super) fn draft(&self, ino: u64) -> Result<Inode> {
        self.inode(ino).map(|inode| Inode::clone(inode))
    }

    /// A directory whose entries change now.
    pub(super) fn touched_directory(&mut self, ino: u64) -> Result<Inode> {
        let now = self.now();
        self.directory(ino)?;
        let mut inode = self.draft(ino)?;
        inode.mtime = now;
        inode.ctime = now;
        Ok(inode)
    }

    pub(super) fn find(&self, dir: u64, name: &OsStr) -> Result<u64> {
        check_name(name)?;
        self.directory(dir)?;
        self.journal.now.get(dir, name).ok_or(Errno::NOENT)
    }

    pub(super) fn attr(&self, ino: u64) -> Result<Attr> {
        let inode = self.inode(ino)?;
        let (size, blocks) = match inode.kind {
            Kind::File => self.contents.get(&ino).map_or((0, 0), |content| {
                let image = &content.now;
                (image.size, image.pages.len() as u64 * (PAGE / SECTOR))
            }),
            Kind::Dir => (PAGE, PAGE / SECTOR),
            Kind::Symlink => (inode.target.as_bytes().len() as u64, 0),
            _ => (0, 0),
        };
        Ok(Attr {
            kind: inode.kind,
            perm: inode.perm,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size,
            blocks,
            blksize: PAGE as u32,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
        })
    }

    /// Changes attributes as one transaction.
    pub(super) fn set_attr(&mut self, ino: u64, change: &SetAttr) -> Result<()> {
        let now = self.now();
        let mut inode = self.draft(ino)?;
        let sized = change.size;
        if sized.is_some() && inode.kind != Kind::File {
            return Err(if inode.kind == Kind::Dir {
                Errno::ISDIR
            } else {
                Errno::INVAL
            });
        }
        if change.uid.is_some() || change.gid.is_some() {
            inode.uid = change.uid.unwrap_or(inode.uid);
            inode.gid = change.gid.unwrap_or(inode.gid);
            if inode.kind != Kind::Dir {
                // chown(2): set-id bits go, the group's only where it means execution.
                let group_too = inode.perm & 0o010 != 0;
                inode.perm &= if group_too { !0o6000 } else { !0o4000 };
            }
        }
        if let Some(mode) = change.mode {
            if inode.kind == Kind::Symlink {
                return Err(Errno::OPNOTSUPP);
            }
            inode.perm = (mode & 0o7777) as u16;
        }
        let at = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        if sized.is_some() {
            inode.mtime = now;
        }
        inode.atime = change.atime.map_or(inode.atime, at);
        inode.mtime = change.mtime.map_or(inode.mtime, at);
        inode.ctime = now;
        let transaction = self.journal.run(vec![Change::Inode(ino, Arc::new(inode))]);
        if let Some(length) = sized {
            self.edit(ino, Edit::Truncate(length), Some(transaction), Fate::Whole)?;
        }
        Ok(())
    }

    /// Content of a file for reading.
    pub(super) fn content(&self, ino: u64) -> Option<&Content> {
        self.contents.get(&ino)
    }

    /// Content of a file, to damage or to drop from the cache.
    pub(super) fn content_mut(&mut self, ino: u64) -> Option<&mut Content> {
        self.contents.get_mut(&ino)
    }

    /// An edit of content, with the times that go with it.
    pub(super) fn change_content(&mut self, ino: u64, edit: Edit) -> Result<()> {
        let now = self.now();
        let mut inode = self.draft(ino)?;
        inode.mtime = now;
        inode.ctime = now;
        let fate = match edit {
            Edit::Write { .. } => self.fate(),
            _ => Fate::Whole,
        };
        let journaled = !matches!(edit, Edit::Write { .. });
        let transaction = self.journal.run(vec![Change::Inode(ino, Arc::new(inode))]);
        self.edit(ino, edit, journaled.then_some(transaction), fate)
    }

    fn fate(&mut self) -> Fate {
        if self.plan.strikes(Fault::LostWrite, &mut self.rng) {
            Fate::Lost
        } else if self.plan.strikes(Fault::TornWrite, &mut self.rng) {
            Fate::Torn(self.rng.below(8))
        } else {
            Fate::Whole
        }
    }

    fn edit(&mut self, ino: u64, edit: Edit, transaction: Option<u64>, fate: Fate) -> Result<()> {
        let content = self.contents.entry(ino).or_default();
        let before = content.now.pages.len() as u64;
        content.edit(edit, transaction, fate);
        let after = content.now.pages.len() as u64;
        self.used_pages = (self.used_pages + after).saturating_sub(before);
        Ok(())
    }

    /// Bytes of content that still fit.
    pub(super) fn room(&self) -> u64 {
        let capacity = self.plan.capacity.unwrap_or(1 << 40);
        capacity.saturating_sub(self.used_pages * PAGE)
    }

    /// Makes a file's content durable, and all names and attributes up to now.
    pub(super) fn sync_file(&mut self, ino: u64, data_only: bool) {
        let journal_too = !data_only
            || !self.journal.knows(ino)
            || self.contents.get(&ino).is_some_and(Content::needs_journal);
        if let Some(content) = self.contents.get_mut(&ino) {
            content.sync();
        }
        if journal_too {
            self.commit();
        }
    }

    /// Makes names and attributes durable, journaled edits of content among them (a crash keeps
    /// every edit whose transaction is older than the journal's first pending one).
    pub(super) fn commit(&mut self) {
        self.journal.commit();
        let Self {
            contents, journal, ..
        } = self;
        contents.retain(|ino, _| journal.now.inodes.contains_key(ino) || journal.knows(*ino));
    }

    /// Makes everything durable.
    pub(super) fn sync_all(&mut self) {
        for content in self.contents.values_mut() {
            content.sync();
        }
        self.commit();
    }

    /// A failed sync of a file, or of the whole store where `ino` is `None`.
    pub(super) fn fail_sync(&mut self, ino: Option<u64>) {
        for (at, content) in &mut self.contents {
            if ino.is_none_or(|ino| ino == *at) {
                content.lose_unsynced();
            }
        }
    }

    /// Loses power: what was not synced is there in part.
    pub(super) fn crash(&mut self) {
        let count = self.rng.between(0, self.journal.len());
        let kept = self.journal.crash(count);
        for content in self.contents.values_mut() {
            content.crash(kept, &mut self.rng);
        }
        self.disconnect();
    }

    /// Ends all connections: open files without a name are gone.
    pub(super) fn disconnect(&mut self) {
        self.epoch += 1;
        self.open.clear();
        let orphans: Vec<u64> = self
            .journal
            .now
            .inodes
            .iter()
            .filter(|(_, inode)| inode.nlink == 0)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in orphans {
            self.journal.forget(ino);
        }
        let Self {
            contents, journal, ..
        } = self;
        contents.retain(|ino, _| journal.now.inodes.contains_key(ino) || journal.knows(*ino));
        self.used_pages = self
            .contents
            .values()
            .map(|c| c.now.pages.len() as u64)
            .sum();
    }

    pub(super) fn open(&mut self, ino: u64) {
        *self.open.entry(ino).or_default() += 1;
    }

    pub(super) fn close(&mut self, ino: u64) {
        let Some(count) = self.open.get_mut(&ino) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.open.remove(&ino);
            self.forget_if_unused(ino);
        }
    }

    /// Lets go of an inode without names and users.
    pub(super) fn forget_if_unused(&mut self, ino: u64) {
        let nameless = self.inode(ino).is_ok_and(|inode| inode.nlink == 0);
        if nameless && !self.open.contains_key(&ino) {
            self.journal.forget(ino);
            let pages = self
                .contents
                .get(&ino)
                .map_or(0, |c| c.now.pages.len() as u64);
            self.used_pages = self.used_pages.saturating_sub(pages);
            if !self.journal.knows(ino) {
                self.contents.remove(&ino);
            }
        }
    }
}

/// Refuses names that no file system takes.
pub(super) fn check_name(name: &OsStr) -> Result<()> {
    let bytes = name.as_bytes();
    match bytes {
        b"" => Err(Errno::NOENT),
        b"." | b".." => Err(Errno::INVAL),
        _ if bytes.len() > 255 => Err(Errno::NAMETOOLONG),
        _ if bytes.iter().any(|b| *b == b'/' || *b == 0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}
