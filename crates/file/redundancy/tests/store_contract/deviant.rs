//! A store with one planted bug, so that the contract suite shows that it can fail.

use holdfast_redundancy::label::Label;
use holdfast_redundancy::store::{Found, Make, Node, Store, StoreFile};
use mount::{AllocateFlags, Attr, Errno, Kind, NewObject, RenameFlags, Result, SetAttr, Space};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// What the store does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// Applies the umask twice.
    Umask,
    /// Answers ENOENT for a node without names.
    NoentForStale,
    /// Ignores NOREPLACE.
    NoReplaceIgnored,
    /// Leaves the last entry out of a listing.
    ShortListing,
    /// Shows the label among the extended attributes.
    ShowsLabel,
    /// Treats a punched hole as done without doing it.
    PunchIgnored,
    /// Brings back what a cut has removed.
    CutForgets,
    /// Says that a directory's parent is the root.
    ParentIsRoot,
}

/// All of them.
pub(crate) const BUGS: &[Bug] = &[
    Bug::Umask,
    Bug::NoentForStale,
    Bug::NoReplaceIgnored,
    Bug::ShortListing,
    Bug::ShowsLabel,
    Bug::PunchIgnored,
    Bug::CutForgets,
    Bug::ParentIsRoot,
];

pub(crate) struct Deviant {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) bug: Bug,
}

struct DeviantFile {
    inner: Arc<dyn StoreFile>,
    bug: Bug,
}

impl Store for Deviant {
    fn is_local(&self) -> bool {
        self.inner.is_local()
    }
    fn system(&self) -> Arc<dyn env::Dir> {
        self.inner.system()
    }
    fn part(&self, name: &str) -> Result<Arc<dyn env::Dir>> {
        self.inner.part(name)
    }
    fn has_part(&self, name: &str) -> Result<bool> {
        self.inner.has_part(name)
    }
    fn files(&self) -> Result<Arc<dyn env::Files>> {
        self.inner.files()
    }
    fn root(&self) -> Result<Node> {
        self.inner.root()
    }
    fn aside(&self) -> Result<Node> {
        self.inner.aside()
    }
    fn lookup(&self, dir: &Node, name: &OsStr) -> Result<Found> {
        self.inner.lookup(dir, name)
    }
    fn inspect(&self, node: &Node) -> Result<Found> {
        self.inner
            .inspect(node)
            .map_err(|errno| match (self.bug, errno) {
                (Bug::NoentForStale, Errno::STALE) => Errno::NOENT,
                _ => errno,
            })
    }
    fn attr(&self, node: &Node) -> Result<Attr> {
        self.inner.attr(node)
    }
    fn set_label(&self, node: &Node, label: &Label) -> Result<()> {
        self.inner.set_label(node, label)
    }
    fn set_attr(&self, node: &Node, change: &SetAttr) -> Result<()> {
        self.inner.set_attr(node, change)
    }
    fn make(&self, dir: &Node, name: &OsStr, make: &Make<'_>) -> Result<Found> {
        let mut make = *make;
        if self.bug == Bug::Umask && matches!(make.object, NewObject::File) {
            make.umask |= 0o777;
        }
        self.inner.make(dir, name, &make)
    }
    fn link(&self, node: &Node, dir: &Node, name: &OsStr) -> Result<()> {
        self.inner.link(node, dir, name)
    }
    fn unlink(&self, dir: &Node, name: &OsStr) -> Result<()> {
        self.inner.unlink(dir, name)
    }
    fn remove_dir(&self, dir: &Node, name: &OsStr) -> Result<()> {
        self.inner.remove_dir(dir, name)
    }
    fn rename(
        &self,
        dir: &Node,
        name: &OsStr,
        new_dir: &Node,
        new_name: &OsStr,
        mut flags: RenameFlags,
    ) -> Result<()> {
        if self.bug == Bug::NoReplaceIgnored {
            flags.remove(RenameFlags::NOREPLACE);
        }
        self.inner.rename(dir, name, new_dir, new_name, flags)
    }
    fn read_link(&self, node: &Node) -> Result<OsString> {
        self.inner.read_link(node)
    }
    fn list(&self, dir: &Node, each: &mut dyn FnMut(&OsStr, Kind)) -> Result<()> {
        let mut entries = Vec::new();
        self.inner
            .list(dir, &mut |name, kind| entries.push((name.to_owned(), kind)))?;
        if self.bug == Bug::ShortListing {
            entries.pop();
        }
        entries.iter().for_each(|(name, kind)| each(name, *kind));
        Ok(())
    }
    fn parent(&self, dir: &Node) -> Result<Node> {
        if self.bug == Bug::ParentIsRoot {
            self.inner.root()
        } else {
            self.inner.parent(dir)
        }
    }
    fn xattr(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        self.inner.xattr(node, name)
    }
    fn set_xattr(&self, node: &Node, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.inner.set_xattr(node, name, value, flags)
    }
    fn list_xattr(&self, node: &Node) -> Result<Vec<u8>> {
        let mut names = self.inner.list_xattr(node)?;
        if self.bug == Bug::ShowsLabel {
            names.extend_from_slice(b"trusted.holdfast\0");
        }
        Ok(names)
    }
    fn remove_xattr(&self, node: &Node, name: &OsStr) -> Result<()> {
        self.inner.remove_xattr(node, name)
    }
    fn open(&self, node: &Node, write: bool) -> Result<Arc<dyn StoreFile>> {
        let inner = self.inner.open(node, write)?;
        Ok(Arc::new(DeviantFile {
            inner,
            bug: self.bug,
        }))
    }
    fn sync_dir(&self, dir: &Node) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn sync_all(&self) -> Result<()> {
        self.inner.sync_all()
    }
    fn probe(&self) -> Result<()> {
        self.inner.probe()
    }
    fn space(&self) -> Result<Space> {
        self.inner.space()
    }
    fn device(&self) -> u64 {
        self.inner.device()
    }
}

impl StoreFile for DeviantFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.inner.write_at(offset, data)
    }
    fn no_read_ahead(&self) {
        self.inner.no_read_ahead();
    }

    fn start_sync(&self) {
        self.inner.start_sync();
    }
    fn sync(&self, data_only: bool) -> Result<()> {
        self.inner.sync(data_only)
    }
    fn set_len(&self, length: u64) -> Result<()> {
        let size = self.inner.attr()?.size;
        if self.bug == Bug::CutForgets && length < size {
            return Ok(());
        }
        self.inner.set_len(length)
    }
    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.inner.set_attr(change)
    }
    fn attr(&self) -> Result<Attr> {
        self.inner.attr()
    }
    fn allocate(&self, offset: u64, length: u64, flags: AllocateFlags) -> Result<()> {
        if self.bug == Bug::PunchIgnored && flags.contains(AllocateFlags::PUNCH_HOLE) {
            return Ok(());
        }
        self.inner.allocate(offset, length, flags)
    }
    fn seek(&self, offset: u64, hole: bool) -> Result<u64> {
        self.inner.seek(offset, hole)
    }
    fn forget_cache(&self, offset: u64, length: u64) {
        self.inner.forget_cache(offset, length);
    }
}
