//! Compares all copies without changing anything.
//!
//! Compared are names, ids, types, modes, owners, lengths, link targets, device numbers, extended
//! attributes and every byte of content. Not compared are times: each copy gets its own from its
//! file system until the file is closed or synced.

use crate::encoded::{Extents, Index};
use crate::journal::dirty::CHUNK_BYTES;
use crate::label::{Label, StoreIndex, StoreMask};
use crate::status::Progress;
use crate::store::{Found, Node, Store, StoreFile};
use env::errno::Errno;
use mount::{Kind, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Differences that a report describes; all are counted.
pub const SHOWN_MAX: usize = 100;

/// Objects between two reports of progress.
const PROGRESS_OBJECTS: u64 = 256;

/// One difference between copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The object, from the root of the tree.
    pub path: PathBuf,
    /// Stores whose copies differ from the one that decides.
    pub stores: Vec<StoreIndex>,
    /// What differs.
    pub detail: String,
}

/// What a comparison found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Objects compared.
    pub objects: u64,
    /// Bytes read, each copy counted.
    pub bytes: u64,
    /// Objects in the tree that are not of this set: nobody sees them through the mount.
    pub foreign: u64,
    /// Encoded chunks whose copies were given up and that were not compared: the set does not run.
    pub encoded_chunks: u64,
    /// Damaged pages of encoded chunks that a scrub has made right again.
    pub mended: u64,
    /// Objects that a scrub had done before it was interrupted; their damage is counted here too.
    pub before: u64,
    /// Encoded chunks that cannot be read, or could not and are given up: too little of their
    /// stripes is left. They are counted as differences, too.
    pub lost_chunks: u64,
    /// Differences in all.
    pub differences: u64,
    /// The first of them, at most [`SHOWN_MAX`].
    pub shown: Vec<Difference>,
    /// Stores that lack a copy which they should hold.
    pub lacking: StoreMask,
    /// Whether nothing but missing copies was found: what is there is equal.
    pub only_missing: bool,
    /// The store that was taken out for what it lacks, and is being brought up to date.
    pub healing: Option<StoreIndex>,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

/// Compares the copies on some stores.
pub(crate) struct Checker<'a> {
    pub(crate) set: u64,
    pub(crate) stores: Vec<(StoreIndex, Arc<dyn Store>)>,
    pub(crate) on_progress: &'a mut dyn FnMut(&Progress) -> bool,
    pub(crate) report: CheckReport,
    /// Differences that are missing copies.
    pub(crate) missing: u64,
    /// What copies have given up where the stores do not show it.
    given_up: Index,
}

type Copies = Vec<(StoreIndex, Found, Label)>;
type Dirs = Vec<(StoreIndex, Node)>;

impl Checker<'_> {
    pub(crate) fn new(
        set: u64,
        stores: Vec<(StoreIndex, Arc<dyn Store>)>,
        on_progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Checker<'_> {
        Checker {
            set,
            stores,
            on_progress,
            report: CheckReport::default(),
            missing: 0,
            given_up: Index::default(),
        }
    }

    /// Copies lack these ranges: they are not compared.
    pub(crate) fn without(mut self, given_up: Index) -> Self {
        self.report.encoded_chunks = given_up.len() as u64;
        self.given_up = given_up;
        self
    }

    /// Compares everything.
    pub(crate) fn run(mut self) -> Result<CheckReport> {
        let mut roots = Dirs::new();
        for (index, store) in &self.stores {
            roots.push((*index, store.root()?));
        }
        let mut queue = vec![(PathBuf::from("/"), roots)];
        while let Some((path, dirs)) = queue.pop() {
            for (name, copies) in self.entries(&dirs)? {
                if !self.step() {
                    self.report.stopped = true;
                    return Ok(self.report);
                }
                let path = path.join(&name);
                if let Some(below) = self.object(&path, &copies)? {
                    queue.push((path, below));
                }
            }
        }
        self.report.only_missing = self.report.differences == self.missing;
        Ok(self.report)
    }

    fn step(&mut self) -> bool {
        self.report.objects += 1;
        if !self.report.objects.is_multiple_of(PROGRESS_OBJECTS) {
            return true;
        }
        let progress = Progress {
            phase: "comparing".into(),
            objects_done: self.report.objects,
            bytes_done: self.report.bytes,
            ..Progress::default()
        };
        (self.on_progress)(&progress)
    }

    fn store(&self, index: StoreIndex) -> Result<&Arc<dyn Store>> {
        let found = self.stores.iter().find(|(s, _)| *s == index);
        found.map(|(_, s)| s).ok_or(Errno::NODEV)
    }

    /// What each store has under each name of a directory.
    fn entries(&mut self, dirs: &Dirs) -> Result<BTreeMap<OsString, Copies>> {
        let mut entries: BTreeMap<OsString, Copies> = BTreeMap::new();
        for (index, node) in dirs {
            let store = self.store(*index)?.clone();
            let mut names = Vec::new();
            match store.list(node, &mut |name, _| names.push(name.to_os_string())) {
                Err(Errno::STALE | Errno::NOENT) => continue,
                other => other?,
            }
            for name in names {
                let found = match store.lookup(node, &name) {
                    Err(Errno::STALE | Errno::NOENT) => continue,
                    other => other?,
                };
                match found.label.filter(|l| l.set == self.set) {
                    Some(label) => entries
                        .entry(name)
                        .or_default()
                        .push((*index, found, label)),
                    None => self.report.foreign += 1,
                }
            }
        }
        Ok(entries)
    }

    fn differ(&mut self, path: &Path, stores: Vec<StoreIndex>, detail: impl Into<String>) {
        self.report.differences += 1;
        if self.report.shown.len() < SHOWN_MAX {
            let detail = detail.into();
            self.report.shown.push(Difference {
                path: path.to_path_buf(),
                stores,
                detail,
            });
        }
    }

    /// Compares the copies of one object; returns where a directory goes on.
    fn object(&mut self, path: &Path, copies: &Copies) -> Result<Option<Dirs>> {
        let decides = |(index, found, label): &&(StoreIndex, Found, Label)| {
            found.attr.kind == Kind::Dir || label.home == *index
        };
        let Some(first) = copies.iter().find(decides).or(copies.first()) else {
            return Ok(None);
        };
        let (_, found, label) = first;
        let is_dir = found.attr.kind == Kind::Dir;
        let others: Vec<_> = copies
            .iter()
            .filter(|c| c.2.id != label.id)
            .map(|c| c.0)
            .collect();
        if !others.is_empty() {
            self.differ(path, others, "another object stands here");
        }
        let same: Copies = copies
            .iter()
            .filter(|c| c.2.id == label.id)
            .cloned()
            .collect();
        let expected = |s: StoreIndex| is_dir || label.copies.has(s);
        let missing: Vec<_> = self
            .stores
            .iter()
            .map(|(s, _)| *s)
            .filter(|s| expected(*s) && !same.iter().any(|c| c.0 == *s))
            .collect();
        if !missing.is_empty() {
            for store in &missing {
                self.report.lacking = self.report.lacking.with(*store);
            }
            self.missing += 1;
            self.differ(path, missing, "missing");
        }
        let stray: Vec<_> = same.iter().map(|c| c.0).filter(|s| !expected(*s)).collect();
        if !stray.is_empty() {
            self.differ(path, stray, "a copy that should not be there");
        }
        for copy in same.iter().filter(|c| c.0 != first.0) {
            if let Some(detail) = self.compare(first, copy)? {
                self.differ(path, vec![copy.0], detail);
            }
        }
        let below = same
            .into_iter()
            .map(|(s, found, _)| (s, found.node))
            .collect();
        Ok(is_dir.then_some(below))
    }

    fn compare(
        &mut self,
        first: &(StoreIndex, Found, Label),
        copy: &(StoreIndex, Found, Label),
    ) -> Result<Option<String>> {
        let (a, b) = (&first.1.attr, &copy.1.attr);
        if first.2 != copy.2 {
            return Ok(Some("label".into()));
        }
        if a.kind != b.kind {
            return Ok(Some("type".into()));
        }
        if a.perm != b.perm {
            return Ok(Some(format!("mode {:o}, not {:o}", b.perm, a.perm)));
        }
        if (a.uid, a.gid) != (b.uid, b.gid) {
            return Ok(Some(format!(
                "owner {}:{}, not {}:{}",
                b.uid, b.gid, a.uid, a.gid
            )));
        }
        if a.rdev != b.rdev {
            return Ok(Some("device number".into()));
        }
        if a.kind == Kind::File && a.size != b.size {
            return Ok(Some(format!("length {}, not {}", b.size, a.size)));
        }
        let (source, target) = (self.store(first.0)?.clone(), self.store(copy.0)?.clone());
        let (from, to) = (&first.1.node, &copy.1.node);
        let gone = |errno: Errno| match errno {
            Errno::STALE | Errno::NOENT => Ok(None),
            errno => Err(errno),
        };
        match attributes(&*source, from, &*target, to, a.kind) {
            Ok(None) => {}
            Ok(detail) => return Ok(detail),
            Err(errno) => return gone(errno),
        }
        if a.kind != Kind::File {
            return Ok(None);
        }
        let opened = source
            .open(from, false)
            .and_then(|x| Ok((x, target.open(to, false)?)));
        match opened {
            Ok((x, y)) => {
                let lacks = |at: &(StoreIndex, Found, Label)| {
                    let extents = self.given_up.extents(at.0, &at.1.node);
                    extents.unwrap_or_default()
                };
                let lacking = [lacks(first), lacks(copy)];
                self.content(&*x, &*y, a.size, &lacking)
            }
            Err(errno) => gone(errno),
        }
    }

    fn content(
        &mut self,
        a: &dyn StoreFile,
        b: &dyn StoreFile,
        size: u64,
        lacking: &[Arc<Extents>; 2],
    ) -> Result<Option<String>> {
        let mut left = vec![0; CHUNK_BYTES as usize];
        let mut right = vec![0; CHUNK_BYTES as usize];
        let mut at = 0;
        while at < size {
            // Where neither holds data both read as zeros.
            let data = |f: &dyn StoreFile| match f.seek(at, false) {
                Err(Errno::NXIO) => Ok(size),
                other => other,
            };
            at = data(a)?.min(data(b)?);
            let given_up = lacking.iter().filter_map(|extents| extents.from(at).next());
            let given_up = given_up.min_by_key(|chunk| chunk.offset);
            if let Some(chunk) = given_up.filter(|chunk| chunk.offset <= at) {
                at = chunk.end();
                continue;
            }
            if at >= size {
                break;
            }
            let end = given_up.map_or(size, |chunk| chunk.offset.min(size));
            let length = (end - at).min(CHUNK_BYTES) as usize;
            let got = a.read_at(at, &mut left[..length])?;
            let also = b.read_at(at, &mut right[..length])?;
            self.report.bytes += (got + also) as u64;
            let same = got.min(also);
            let first = left[..same]
                .iter()
                .zip(&right[..same])
                .position(|(x, y)| x != y);
            if let Some(first) = first.or((got != also).then_some(same)) {
                return Ok(Some(format!("content at byte {}", at + first as u64)));
            }
            at += length as u64;
        }
        Ok(None)
    }
}

fn attributes(
    source: &dyn Store,
    from: &Node,
    target: &dyn Store,
    to: &Node,
    kind: Kind,
) -> Result<Option<String>> {
    if kind == Kind::Symlink && source.read_link(from)? != target.read_link(to)? {
        return Ok(Some("link target".into()));
    }
    let split = |list: Vec<u8>| -> Vec<Vec<u8>> {
        let mut names: Vec<_> = list
            .split(|b| *b == 0)
            .filter(|n| !n.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        names.sort();
        names
    };
    let names = split(source.list_xattr(from)?);
    if names != split(target.list_xattr(to)?) {
        return Ok(Some("names of extended attributes".into()));
    }
    for name in names {
        let name = std::os::unix::ffi::OsStringExt::from_vec(name);
        let name: OsString = name;
        if source.xattr(from, &name)? != target.xattr(to, &name)? {
            return Ok(Some(format!("extended attribute {}", name.display())));
        }
    }
    Ok(None)
}
