//! Everything that the simulated machine stores, as a fold over its events.

use super::file::{Fate, File};
use crate::Rng;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// A file's identity, which renames do not change.
pub(super) type Inode = u64;

/// One thing that happened to the storage.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A directory is there, durably.
    Mount {
        dir: String,
    },
    /// A disk is there, durably, full of zeros.
    Attach {
        disk: String,
        inode: Inode,
        bytes: usize,
    },
    /// A name for a new, empty file.
    Make {
        dir: String,
        name: String,
        inode: Inode,
    },
    /// A name for a new file whose content is on the medium.
    Put {
        dir: String,
        name: String,
        inode: Inode,
        content: Arc<Vec<u8>>,
    },
    Rename {
        dir: String,
        from: String,
        to: String,
    },
    Remove {
        dir: String,
        name: String,
    },
    SyncDir {
        dir: String,
    },
    Length {
        inode: Inode,
        bytes: usize,
    },
    Write {
        inode: Inode,
        write: u64,
        offset: usize,
        data: Arc<Vec<u8>>,
    },
    /// A durable write returned.
    Flush {
        inode: Inode,
        offset: usize,
        bytes: usize,
    },
    Sync {
        inode: Inode,
    },
    /// A sync failed; the seed decides what reached the medium.
    FailSync {
        inode: Inode,
        seed: u64,
    },
    Rot {
        inode: Inode,
        offset: usize,
        bit: u8,
    },
    /// An attribute got a value, or lost it.
    Attribute {
        inode: Inode,
        name: CString,
        value: Option<Arc<Vec<u8>>>,
    },
    /// Everything that was done is on the medium.
    SyncAll,
}

/// The extended attributes of one file.
#[derive(Clone, Default)]
struct Attributes {
    current: BTreeMap<CString, Arc<Vec<u8>>>,
    durable: BTreeMap<CString, Arc<Vec<u8>>>,
    pending: Vec<(CString, Option<Arc<Vec<u8>>>)>,
}

fn set(
    attributes: &mut BTreeMap<CString, Arc<Vec<u8>>>,
    name: &CString,
    value: &Option<Arc<Vec<u8>>>,
) {
    match value {
        Some(value) => attributes.insert(name.clone(), value.clone()),
        None => attributes.remove(name),
    };
}

impl Attributes {
    fn change(&mut self, name: &CString, value: &Option<Arc<Vec<u8>>>) {
        set(&mut self.current, name, value);
        self.pending.push((name.clone(), value.clone()));
    }

    fn sync(&mut self) {
        self.durable = self.current.clone();
        self.pending.clear();
    }

    /// Each change by itself: a file system keeps them in order, so this is harder than it is.
    fn after_crash(&self, fate: &mut Fate<'_>) -> Attributes {
        let mut left = self.durable.clone();
        for (name, value) in &self.pending {
            let kept = match fate {
                Fate::Lost => false,
                Fate::Kept => true,
                Fate::Mixed(rng) => rng.chance(1, 2),
            };
            if kept {
                set(&mut left, name, value);
            }
        }
        Attributes {
            current: left.clone(),
            durable: left,
            pending: Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Link { name: String, inode: Inode },
    Unlink { name: String },
    Rename { from: String, to: String },
}

#[derive(Clone, Default)]
struct Names {
    current: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
    pending: Vec<Change>,
}

/// All directories, disks and files.
#[derive(Clone, Default)]
pub(super) struct Image {
    dirs: BTreeMap<String, Names>,
    disks: BTreeMap<String, Inode>,
    files: BTreeMap<Inode, File>,
    attributes: BTreeMap<Inode, Attributes>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, Inode>) {
        match self {
            Change::Link { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Change::Unlink { name } => {
                names.remove(name);
            }
            Change::Rename { from, to } => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl Names {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        self.durable = self.current.clone();
        self.pending.clear();
    }

    fn after_crash(&self, fate: &mut Fate<'_>) -> BTreeMap<String, Inode> {
        let mut names = self.durable.clone();
        for change in &self.pending {
            let kept = match fate {
                Fate::Lost => false,
                Fate::Kept => true,
                Fate::Mixed(rng) => rng.chance(1, 2),
            };
            if kept {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Image {
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Mount { dir } => {
                self.dirs.entry(dir.clone()).or_default();
            }
            Event::Attach { disk, inode, bytes } => {
                self.disks.insert(disk.clone(), *inode);
                self.files.insert(*inode, File::settled(vec![0; *bytes]));
            }
            Event::Make { dir, name, inode } => {
                self.files.insert(*inode, File::default());
                self.link(dir, name, *inode);
            }
            Event::Put {
                dir,
                name,
                inode,
                content,
            } => {
                self.files.insert(*inode, File::settled(content.to_vec()));
                self.link(dir, name, *inode);
            }
            Event::Rename { dir, from, to } => self.names(dir).change(Change::Rename {
                from: from.clone(),
                to: to.clone(),
            }),
            Event::Remove { dir, name } => {
                self.names(dir)
                    .change(Change::Unlink { name: name.clone() });
            }
            Event::SyncDir { dir } => self.names(dir).sync(),
            Event::Length { inode, bytes } => self.file(*inode).set_length(*bytes),
            Event::Write {
                inode,
                write,
                offset,
                data,
            } => {
                self.file(*inode).write(*write, *offset, data);
            }
            Event::Flush {
                inode,
                offset,
                bytes,
            } => self.file(*inode).flush(*offset, *bytes),
            Event::Sync { inode } => self.file(*inode).sync(),
            Event::FailSync { inode, seed } => self.file(*inode).fail_sync(&mut Rng::new(*seed)),
            Event::Rot { inode, offset, bit } => self.file(*inode).rot(*offset, *bit),
            Event::Attribute { inode, name, value } => {
                let attributes = self.attributes.entry(*inode).or_default();
                attributes.change(name, value);
            }
            Event::SyncAll => {
                self.dirs.values_mut().for_each(Names::sync);
                self.files.values_mut().for_each(File::sync);
                self.attributes.values_mut().for_each(Attributes::sync);
            }
        }
    }

    fn names(&mut self, dir: &str) -> &mut Names {
        self.dirs.entry(dir.to_owned()).or_default()
    }

    fn file(&mut self, inode: Inode) -> &mut File {
        self.files.entry(inode).or_default()
    }

    fn link(&mut self, dir: &str, name: &str, inode: Inode) {
        self.names(dir).change(Change::Link {
            name: name.to_owned(),
            inode,
        });
    }

    pub(super) fn lookup(&self, dir: &str, name: &str) -> Option<Inode> {
        self.dirs.get(dir)?.current.get(name).copied()
    }

    /// Whether a file has a name, which makes its handle good.
    pub(super) fn has_name(&self, inode: Inode) -> bool {
        let mut all = self.dirs.values().flat_map(|names| names.current.values());
        all.any(|named| *named == inode)
    }

    pub(super) fn attribute(&self, inode: Inode, name: &CStr) -> Option<&Arc<Vec<u8>>> {
        self.attributes.get(&inode)?.current.get(name)
    }

    /// Bytes of all attributes of a file, their names included.
    pub(super) fn attribute_bytes(&self, inode: Inode) -> usize {
        let values = self.attributes.get(&inode);
        let values = values.into_iter().flat_map(|all| &all.current);
        values
            .map(|(name, value)| name.count_bytes() + value.len())
            .sum()
    }

    pub(super) fn disk(&self, disk: &str) -> Option<Inode> {
        self.disks.get(disk).copied()
    }

    pub(super) fn list(&self, dir: &str) -> Vec<String> {
        let names = self.dirs.get(dir).map(|names| names.current.keys());
        names.into_iter().flatten().cloned().collect()
    }

    pub(super) fn content(&self, inode: Inode) -> Option<&Vec<u8>> {
        self.files.get(&inode).map(|file| &*file.current)
    }

    /// Every file that has a name: directory, name, inode.
    pub(super) fn named_files(&self) -> impl Iterator<Item = (&str, &str, Inode)> {
        self.dirs.iter().flat_map(|(dir, names)| {
            let entries = names.current.iter();
            entries.map(move |(name, inode)| (dir.as_str(), name.as_str(), *inode))
        })
    }

    /// The largest inode number in use.
    pub(super) fn inode_max(&self) -> Inode {
        self.files.keys().next_back().copied().unwrap_or(0)
    }

    /// Bytes of all files that have a name.
    pub(super) fn used_bytes(&self) -> usize {
        let contents = self
            .named_files()
            .filter_map(|(.., inode)| self.content(inode));
        contents.map(Vec::len).sum()
    }

    /// Whether a crash would leave exactly what programs see.
    pub(super) fn is_settled(&self) -> bool {
        self.dirs.values().all(|names| names.pending.is_empty())
            && self.files.values().all(File::is_settled)
            && self
                .attributes
                .values()
                .all(|attributes| attributes.pending.is_empty())
    }

    /// What is there after a crash, all of it durable.
    pub(super) fn after_crash(&self, mut fate: Fate<'_>) -> Image {
        let mut image = Image {
            disks: self.disks.clone(),
            ..Image::default()
        };
        for (dir, names) in &self.dirs {
            let left = names.after_crash(&mut fate);
            let names = Names {
                current: left.clone(),
                durable: left,
                pending: Vec::new(),
            };
            image.dirs.insert(dir.clone(), names);
        }
        let named = image.dirs.values().flat_map(|names| names.current.values());
        let inodes: Vec<_> = named.chain(image.disks.values()).copied().collect();
        for inode in inodes {
            if let Some(file) = self.files.get(&inode) {
                let content = file.after_crash(&mut fate).to_vec();
                image.files.insert(inode, File::settled(content));
            }
            if let Some(attributes) = self.attributes.get(&inode) {
                let left = attributes.after_crash(&mut fate);
                image.attributes.insert(inode, left);
            }
        }
        image
    }
}
