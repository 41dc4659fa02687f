//! A store whose copies look whole.

use super::Encoded;
use super::file::WholeFile;
use crate::label::{Label, StoreIndex};
use crate::store::{Found, Make, Node, Store, StoreFile};
use mount::{Attr, Kind, RenameFlags, Result, SetAttr, Space};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// A store; what its copies have given up is decoded.
pub(super) struct WholeStore {
    index: StoreIndex,
    bare: Arc<dyn Store>,
    encoded: Arc<Encoded>,
}

impl WholeStore {
    pub(super) fn new(
        index: StoreIndex,
        bare: Arc<dyn Store>,
        encoded: Arc<Encoded>,
    ) -> WholeStore {
        WholeStore {
            index,
            bare,
            encoded,
        }
    }

    fn whole(&self, node: &Node, bare: Arc<dyn StoreFile>) -> Arc<dyn StoreFile> {
        let encoded = self.encoded.clone();
        Arc::new(WholeFile::new(bare, self.index, node.clone(), encoded))
    }
}

impl Store for WholeStore {
    fn open(&self, node: &Node, write: bool) -> Result<Arc<dyn StoreFile>> {
        Ok(self.whole(node, self.bare.open(node, write)?))
    }
    fn make_open(
        &self,
        dir: &Node,
        name: &OsStr,
        make: &Make<'_>,
    ) -> Result<(Found, Option<Arc<dyn StoreFile>>)> {
        let (found, file) = self.bare.make_open(dir, name, make)?;
        let file = file.map(|file| self.whole(&found.node, file));
        Ok((found, file))
    }

    fn is_local(&self) -> bool {
        self.bare.is_local()
    }
    fn system(&self) -> Arc<dyn env::Dir> {
        self.bare.system()
    }
    fn part(&self, name: &str) -> Result<Arc<dyn env::Dir>> {
        self.bare.part(name)
    }
    fn has_part(&self, name: &str) -> Result<bool> {
        self.bare.has_part(name)
    }
    fn files(&self) -> Result<Arc<dyn env::Files>> {
        self.bare.files()
    }
    fn root(&self) -> Result<Node> {
        self.bare.root()
    }
    fn aside(&self) -> Result<Node> {
        self.bare.aside()
    }
    fn lookup(&self, dir: &Node, name: &OsStr) -> Result<Found> {
        self.bare.lookup(dir, name)
    }
    fn inspect(&self, node: &Node) -> Result<Found> {
        self.bare.inspect(node)
    }
    fn attr(&self, node: &Node) -> Result<Attr> {
        self.bare.attr(node)
    }
    fn set_label(&self, node: &Node, label: &Label) -> Result<()> {
        self.bare.set_label(node, label)
    }
    fn set_attr(&self, node: &Node, change: &SetAttr) -> Result<()> {
        self.bare.set_attr(node, change)
    }
    fn make(&self, dir: &Node, name: &OsStr, make: &Make<'_>) -> Result<Found> {
        self.bare.make(dir, name, make)
    }
    fn link(&self, node: &Node, dir: &Node, name: &OsStr) -> Result<()> {
        self.bare.link(node, dir, name)
    }
    fn unlink(&self, dir: &Node, name: &OsStr) -> Result<()> {
        self.bare.unlink(dir, name)
    }
    fn remove_dir(&self, dir: &Node, name: &OsStr) -> Result<()> {
        self.bare.remove_dir(dir, name)
    }
    fn rename(
        &self,
        dir: &Node,
        name: &OsStr,
        new_dir: &Node,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        self.bare.rename(dir, name, new_dir, new_name, flags)
    }
    fn read_link(&self, node: &Node) -> Result<OsString> {
        self.bare.read_link(node)
    }
    fn list(&self, dir: &Node, each: &mut dyn FnMut(&OsStr, Kind)) -> Result<()> {
        self.bare.list(dir, each)
    }
    fn parent(&self, dir: &Node) -> Result<Node> {
        self.bare.parent(dir)
    }
    fn xattr(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        self.bare.xattr(node, name)
    }
    fn set_xattr(&self, node: &Node, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.bare.set_xattr(node, name, value, flags)
    }
    fn list_xattr(&self, node: &Node) -> Result<Vec<u8>> {
        self.bare.list_xattr(node)
    }
    fn remove_xattr(&self, node: &Node, name: &OsStr) -> Result<()> {
        self.bare.remove_xattr(node, name)
    }
    fn sync_dir(&self, dir: &Node) -> Result<()> {
        self.bare.sync_dir(dir)
    }
    fn sync_all(&self) -> Result<()> {
        self.bare.sync_all()
    }
    fn probe(&self) -> Result<()> {
        self.bare.probe()
    }
    fn space(&self) -> Result<Space> {
        self.bare.space()
    }
    fn device(&self) -> u64 {
        self.bare.device()
    }
}
