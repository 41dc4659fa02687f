//! A tree as it would be with memory that never fails, and operations for both.

use crate::directory::Tree;
use crate::directory::batch::command;
use crate::{Options, Volume, VolumeId};
use env::sim::World;
use env::{Disk, Rng};
use mount::opens::{Handle, Opens};
use mount::{
    AllocateFlags, Caller, Errno, Ino, Kind, Layer, NewObject, RenameFlags, Result, SetAttr,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

pub(super) const ID: VolumeId = VolumeId(0xab);

/// Small, so that a short run fills segments and needs the cleaner.
pub(super) const OPTIONS: Options = Options {
    segment_blocks: 16,
    sums_bytes_max: 0,
    packs: true,
};

pub(super) const ME: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 0,
    umask: 0,
};

pub(super) fn disks(world: &World, bytes: u64) -> Vec<Arc<dyn Disk>> {
    vec![world.disk("disk", bytes)]
}

pub(super) fn create(world: &World, bytes: u64) -> Tree {
    create_with(world, bytes, OPTIONS)
}

pub(super) fn create_with(world: &World, bytes: u64, options: Options) -> Tree {
    Tree::create(Volume::create(disks(world, bytes), ID, options).unwrap()).unwrap()
}

pub(super) fn open(world: &World, bytes: u64) -> crate::Result<Tree> {
    Tree::open(Volume::open(disks(world, bytes), OPTIONS)?)
}

/// A path of short names.
pub(super) type Path = Vec<u8>;

/// What somebody does. Each is one group, or none where it fails.
#[derive(Clone, Debug)]
pub(super) enum Step {
    MakeFile(Path),
    MakeDir(Path),
    Symlink(Path, Vec<u8>),
    Link(Path, Path),
    Unlink(Path),
    RemoveDir(Path),
    Rename(Path, Path, RenameFlags),
    Write(Path, u64, Vec<u8>),
    Truncate(Path, u64),
    Punch(Path, u64, u64),
    Chmod(Path, u32),
    SetAttribute(Path, Vec<u8>),
    DropAttribute(Path),
    /// Opens a file, and keeps it open.
    Hold(Path),
    /// Closes the file that was opened first.
    LetGo,
    /// Several writes between start and commit, or abort.
    Batch(Path, Vec<(u64, Vec<u8>)>, bool),
    /// The same, in place of all that the file has.
    Replace(Path, Vec<(u64, Vec<u8>)>, bool),
}

pub(super) const ATTRIBUTE: &str = "user.test";

#[derive(Clone, PartialEq, Eq, Debug)]
enum Body {
    File(Vec<u8>),
    Dir(BTreeMap<u8, usize>),
    Symlink(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Node {
    body: Body,
    perm: u16,
    attribute: Option<Vec<u8>>,
}

/// The tree in memory; node 0 is the root. Nodes without names stay, and are not shown.
#[derive(Clone, Debug)]
pub(super) struct Model {
    nodes: Vec<Node>,
}

/// What stands at a path: type, permissions, links, content or target, attribute, and the first
/// path of the same inode.
pub(super) type Shown = (Kind, u16, u32, Vec<u8>, Option<Vec<u8>>, Path);

/// Everything that can be seen, by path.
pub(super) type Picture = BTreeMap<Path, Shown>;

impl Model {
    pub(super) fn new() -> Model {
        Model {
            nodes: vec![Node {
                body: Body::Dir(BTreeMap::new()),
                perm: 0o755,
                attribute: None,
            }],
        }
    }

    fn dir(&mut self, at: usize) -> Result<&mut BTreeMap<u8, usize>> {
        match &mut self.nodes[at].body {
            Body::Dir(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn walk(&mut self, path: &[u8]) -> Result<usize> {
        let mut at = 0;
        for name in path {
            at = *self.dir(at)?.get(name).ok_or(Errno::NOENT)?;
        }
        Ok(at)
    }

    /// The directory of a path, and its last name.
    fn end(&mut self, path: &[u8]) -> Result<(usize, u8)> {
        let (name, dir) = path.split_last().unwrap();
        let dir = self.walk(dir)?;
        self.dir(dir)?;
        Ok((dir, *name))
    }

    fn add(&mut self, path: &[u8], body: Body, perm: u16) -> Result<()> {
        let (dir, name) = self.end(path)?;
        if self.dir(dir)?.contains_key(&name) {
            return Err(Errno::EXIST);
        }
        self.nodes.push(Node {
            body,
            perm,
            attribute: None,
        });
        let number = self.nodes.len() - 1;
        self.dir(dir)?.insert(name, number);
        Ok(())
    }

    fn file(&mut self, path: &[u8]) -> Result<&mut Vec<u8>> {
        let at = self.walk(path)?;
        match &mut self.nodes[at].body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::ISDIR),
            Body::Symlink(_) => Err(Errno::INVAL),
        }
    }

    fn is_dir(&self, at: usize) -> bool {
        matches!(self.nodes[at].body, Body::Dir(_))
    }

    fn is_empty(&self, at: usize) -> bool {
        !matches!(&self.nodes[at].body, Body::Dir(names) if !names.is_empty())
    }

    fn is_below(&self, at: usize, top: usize) -> bool {
        at == top
            || match &self.nodes[top].body {
                Body::Dir(names) => names.values().any(|child| self.is_below(at, *child)),
                _ => false,
            }
    }

    /// Does a step, or says why it cannot be done.
    pub(super) fn apply(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::MakeFile(path) => self.add(path, Body::File(Vec::new()), 0o644),
            Step::MakeDir(path) => self.add(path, Body::Dir(BTreeMap::new()), 0o755),
            Step::Symlink(path, target) => self.add(path, Body::Symlink(target.clone()), 0o777),
            Step::Link(from, to) => {
                let node = self.walk(from)?;
                let (dir, name) = self.end(to)?;
                if self.is_dir(node) {
                    return Err(Errno::PERM);
                }
                if self.dir(dir)?.contains_key(&name) {
                    return Err(Errno::EXIST);
                }
                self.dir(dir)?.insert(name, node);
                Ok(())
            }
            Step::Unlink(path) => {
                let (dir, name) = self.end(path)?;
                let node = *self.dir(dir)?.get(&name).ok_or(Errno::NOENT)?;
                if self.is_dir(node) {
                    return Err(Errno::ISDIR);
                }
                self.dir(dir)?.remove(&name);
                Ok(())
            }
            Step::RemoveDir(path) => {
                let (dir, name) = self.end(path)?;
                let node = *self.dir(dir)?.get(&name).ok_or(Errno::NOENT)?;
                match (self.is_dir(node), self.is_empty(node)) {
                    (false, _) => return Err(Errno::NOTDIR),
                    (_, false) => return Err(Errno::NOTEMPTY),
                    _ => {}
                }
                self.dir(dir)?.remove(&name);
                Ok(())
            }
            Step::Rename(from, to, flags) => self.rename(from, to, *flags),
            Step::Write(path, offset, bytes) => {
                put(self.file(path)?, *offset, bytes);
                Ok(())
            }
            Step::Truncate(path, size) => {
                self.file(path)?.resize(*size as usize, 0);
                Ok(())
            }
            Step::Punch(path, offset, length) => {
                let content = self.file(path)?;
                let end = ((offset + length) as usize).min(content.len());
                content[(*offset as usize).min(end)..end].fill(0);
                Ok(())
            }
            Step::Chmod(path, mode) => {
                let at = self.walk(path)?;
                self.nodes[at].perm = *mode as u16;
                Ok(())
            }
            Step::SetAttribute(path, value) => {
                let at = self.walk(path)?;
                if matches!(self.nodes[at].body, Body::Symlink(_)) {
                    return Err(Errno::PERM);
                }
                self.nodes[at].attribute = Some(value.clone());
                Ok(())
            }
            Step::DropAttribute(path) => {
                let at = self.walk(path)?;
                if matches!(self.nodes[at].body, Body::Symlink(_)) {
                    return Err(Errno::PERM);
                }
                self.nodes[at]
                    .attribute
                    .take()
                    .map(drop)
                    .ok_or(Errno::NODATA)
            }
            Step::Hold(path) => self.file(path).map(drop),
            Step::LetGo => Ok(()),
            Step::Batch(path, writes, commit) | Step::Replace(path, writes, commit) => {
                let content = self.file(path)?;
                if *commit && matches!(step, Step::Replace(..)) {
                    content.clear();
                }
                for (offset, bytes) in writes.iter().filter(|_| *commit) {
                    put(content, *offset, bytes);
                }
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let (old_dir, old) = self.end(from)?;
        let (new_dir, new) = self.end(to)?;
        let moved = *self.dir(old_dir)?.get(&old).ok_or(Errno::NOENT)?;
        let target = self.dir(new_dir)?.get(&new).copied();
        if flags == RenameFlags::EXCHANGE {
            let target = target.ok_or(Errno::NOENT)?;
            if moved != target && (self.is_below(new_dir, moved) || self.is_below(old_dir, target))
            {
                return Err(Errno::INVAL);
            }
            self.dir(old_dir)?.insert(old, target);
            self.dir(new_dir)?.insert(new, moved);
            return Ok(());
        }
        if target.is_some() && flags == RenameFlags::NOREPLACE {
            return Err(Errno::EXIST);
        }
        if target == Some(moved) {
            return Ok(());
        }
        if self.is_dir(moved) && self.is_below(new_dir, moved) {
            return Err(Errno::INVAL);
        }
        if let Some(target) = target {
            match (self.is_dir(moved), self.is_dir(target)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.is_empty(target) => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        self.dir(old_dir)?.remove(&old);
        self.dir(new_dir)?.insert(new, moved);
        Ok(())
    }

    pub(super) fn picture(&self) -> Picture {
        let mut places: BTreeMap<usize, Vec<Path>> = BTreeMap::new();
        let mut open: Vec<(Path, usize)> = vec![(Vec::new(), 0)];
        while let Some((path, at)) = open.pop() {
            if let Body::Dir(names) = &self.nodes[at].body {
                for (name, child) in names {
                    open.push(([&path[..], &[*name]].concat(), *child));
                }
            }
            places.entry(at).or_default().push(path);
        }
        let mut picture = Picture::new();
        for (at, paths) in places {
            let node = &self.nodes[at];
            let first = paths.iter().min().unwrap().clone();
            let (kind, links, content) = match &node.body {
                Body::File(content) => (Kind::File, paths.len(), content.clone()),
                Body::Symlink(target) => (Kind::Symlink, paths.len(), target.clone()),
                Body::Dir(names) => {
                    let inside = names.values().filter(|child| self.is_dir(**child));
                    (Kind::Dir, 2 + inside.count(), Vec::new())
                }
            };
            for path in paths {
                let shown = (
                    kind,
                    node.perm,
                    links as u32,
                    content.clone(),
                    node.attribute.clone(),
                    first.clone(),
                );
                picture.insert(path, shown);
            }
        }
        picture
    }
}

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if content.len() < end && !bytes.is_empty() {
        content.resize(end, 0);
    }
    content[offset as usize..end].copy_from_slice(bytes);
}

fn name(byte: &u8) -> &OsStr {
    OsStr::from_bytes(std::slice::from_ref(byte))
}

/// Somebody who uses a tree.
pub(super) struct User<'a> {
    pub(super) tree: &'a Tree,
    held: std::collections::VecDeque<(Ino, Handle)>,
    last: u64,
}

impl<'a> User<'a> {
    pub(super) fn new(tree: &'a Tree) -> User<'a> {
        User {
            tree,
            held: std::collections::VecDeque::new(),
            last: 0,
        }
    }

    fn walk(&self, path: &[u8]) -> Result<Ino> {
        let mut at = Ino::ROOT;
        for each in path {
            at = self.tree.lookup(at, name(each))?.0;
        }
        Ok(at)
    }

    fn end<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p OsStr)> {
        let (last, dir) = path.split_last().unwrap();
        let dir = self.walk(dir)?;
        match self.tree.attr(dir)?.kind {
            Kind::Dir => Ok((dir, name(last))),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn make(&self, path: &[u8], object: NewObject<'_>, mode: u32) -> Result<()> {
        let (dir, name) = self.end(path)?;
        self.tree.make(&ME, dir, name, object, mode).map(drop)
    }

    fn change(&self, path: &[u8], change: SetAttr) -> Result<()> {
        let ino = self.walk(path)?;
        self.tree.set_attr(&ME, ino, &change).map(drop)
    }

    fn handle(&mut self, ino: Ino) -> Result<Handle> {
        self.last += 1;
        let handle = Handle(self.last);
        match self.tree.attr(ino)?.kind {
            Kind::File => self.tree.open(ino, handle, true)?,
            Kind::Dir => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        Ok(handle)
    }

    pub(super) fn perform(&mut self, step: &Step) -> Result<()> {
        let tree = self.tree;
        match step {
            Step::MakeFile(path) => self.make(path, NewObject::File, 0o644),
            Step::MakeDir(path) => self.make(path, NewObject::Dir, 0o755),
            Step::Symlink(path, target) => {
                self.make(path, NewObject::Symlink(OsStr::from_bytes(target)), 0o777)
            }
            Step::Link(from, to) => {
                let ino = self.walk(from)?;
                let (dir, name) = self.end(to)?;
                tree.link(ino, dir, name).map(drop)
            }
            Step::Unlink(path) => {
                let (dir, name) = self.end(path)?;
                tree.unlink(dir, name)
            }
            Step::RemoveDir(path) => {
                let (dir, name) = self.end(path)?;
                tree.remove_dir(dir, name)
            }
            Step::Rename(from, to, flags) => {
                let (dir, name) = self.end(from)?;
                let (new_dir, new_name) = self.end(to)?;
                tree.rename(dir, name, new_dir, new_name, *flags)
            }
            Step::Write(path, offset, bytes) => {
                let ino = self.walk(path)?;
                tree.write(ino, *offset, bytes)?;
                // No rest of it is on its way; `pieces.rs` is about those.
                tree.complete(ino)
            }
            Step::Truncate(path, size) => self.change(
                path,
                SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                },
            ),
            Step::Punch(path, offset, length) => {
                let flags = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
                tree.allocate(self.walk(path)?, *offset, *length, flags)
            }
            Step::Chmod(path, mode) => self.change(
                path,
                SetAttr {
                    mode: Some(*mode),
                    ..SetAttr::default()
                },
            ),
            Step::SetAttribute(path, value) => {
                tree.set_xattr(self.walk(path)?, ATTRIBUTE.as_ref(), value, 0)
            }
            Step::DropAttribute(path) => tree.remove_xattr(self.walk(path)?, ATTRIBUTE.as_ref()),
            Step::Hold(path) => {
                let ino = self.walk(path)?;
                let handle = self.handle(ino)?;
                self.held.push_back((ino, handle));
                Ok(())
            }
            Step::LetGo => {
                if let Some((ino, handle)) = self.held.pop_front() {
                    tree.release(ino, handle);
                }
                Ok(())
            }
            Step::Batch(path, writes, commit) | Step::Replace(path, writes, commit) => {
                let ino = self.walk(path)?;
                let handle = self.handle(ino)?;
                let say = |number| tree.command(&ME, ino, handle, number, &[], 0).result;
                say(match step {
                    Step::Replace(..) => command::REPLACE,
                    _ => command::START,
                })?;
                for (offset, bytes) in writes {
                    tree.write(ino, *offset, bytes)?;
                }
                let ended = match commit {
                    true => say(command::COMMIT),
                    false => say(command::ABORT),
                };
                tree.release(ino, handle);
                ended.map(drop)
            }
        }
    }
}

/// What can be seen in a tree.
pub(super) fn look(tree: &Tree) -> Result<Picture> {
    let mut places: BTreeMap<Ino, Vec<Path>> = BTreeMap::new();
    let mut open: Vec<(Path, Ino)> = vec![(Vec::new(), Ino::ROOT)];
    while let Some((path, ino)) = open.pop() {
        if tree.attr(ino)?.kind == Kind::Dir {
            let listing = tree.list(ino)?;
            for index in 0..listing.len() {
                let (name, kind, child) = listing.get(index).unwrap();
                let (found, attr) = tree.lookup(ino, name)?;
                assert_eq!((found, attr.kind), (child, kind));
                open.push(([&path[..], name.as_bytes()].concat(), child));
            }
        }
        places.entry(ino).or_default().push(path);
    }
    let mut picture = Picture::new();
    for (ino, paths) in places {
        let attr = tree.attr(ino)?;
        let first = paths.iter().min().unwrap().clone();
        let content = match attr.kind {
            Kind::File => {
                let mut content = vec![0; attr.size as usize];
                assert_eq!(tree.read(ino, 0, &mut content)?, content.len());
                content
            }
            Kind::Symlink => tree.read_link(ino)?.as_bytes().to_vec(),
            _ => Vec::new(),
        };
        let attribute = match tree.xattr(ino, ATTRIBUTE.as_ref()) {
            Ok(value) => Some(value),
            Err(Errno::NODATA) => None,
            Err(error) => return Err(error),
        };
        for path in paths {
            let shown = (
                attr.kind,
                attr.perm,
                attr.nlink,
                content.clone(),
                attribute.clone(),
                first.clone(),
            );
            picture.insert(path, shown);
        }
    }
    Ok(picture)
}

/// Where two pictures differ, in a few words.
pub(super) fn difference(found: &Picture, expected: &Picture) -> Option<String> {
    let path = |path: &Path| String::from_utf8_lossy(path).into_owned();
    for (at, expected) in expected {
        match found.get(at) {
            None => return Some(format!("{} is missing", path(at))),
            Some(found) if found != expected => {
                let brief = |shown: &Shown| {
                    let sum = codec::crc32c(&shown.3);
                    format!(
                        "{:?}",
                        (shown.0, shown.1, shown.2, shown.3.len(), sum, &shown.5)
                    )
                };
                let (found, expected) = (brief(found), brief(expected));
                return Some(format!("{} is {found}, not {expected}", path(at)));
            }
            Some(_) => {}
        }
    }
    let more = found.keys().find(|at| !expected.contains_key(*at))?;
    Some(format!("{} is there", path(more)))
}

/// A random step over few names, so that most meet something.
pub(super) fn step(rng: &mut Rng) -> Step {
    let path = |rng: &mut Rng| -> Path {
        let depth = 1 + rng.below(3);
        (0..depth).map(|_| b'a' + rng.below(4) as u8).collect()
    };
    let bytes = |rng: &mut Rng, most: u64| {
        let mut bytes = vec![0; 1 + rng.below(most) as usize];
        rng.fill(&mut bytes);
        bytes
    };
    let offset = |rng: &mut Rng| match rng.below(2) {
        0 => rng.below(4) * 4096,
        _ => rng.below(20_000),
    };
    match rng.below(30) {
        0..=4 => Step::MakeFile(path(rng)),
        5..=7 => Step::MakeDir(path(rng)),
        8 => Step::Symlink(path(rng), bytes(rng, 40).iter().map(|b| b | 1).collect()),
        9 | 10 => Step::Link(path(rng), path(rng)),
        11 | 12 => Step::Unlink(path(rng)),
        13 => Step::RemoveDir(path(rng)),
        14..=16 => {
            let flags = match rng.below(4) {
                0 => RenameFlags::EXCHANGE,
                1 => RenameFlags::NOREPLACE,
                _ => RenameFlags::empty(),
            };
            Step::Rename(path(rng), path(rng), flags)
        }
        17..=20 => Step::Write(path(rng), offset(rng), bytes(rng, 10_000)),
        21 => Step::Truncate(path(rng), rng.below(20_000)),
        22 => Step::Punch(path(rng), offset(rng), 1 + rng.below(9000)),
        23 => Step::Chmod(path(rng), rng.below(0o1000) as u32),
        24 => Step::SetAttribute(path(rng), bytes(rng, 300)),
        25 => Step::DropAttribute(path(rng)),
        26 => Step::Hold(path(rng)),
        27 => Step::LetGo,
        _ => {
            let writes = (0..1 + rng.below(4)).map(|_| (offset(rng), bytes(rng, 9000)));
            let writes: Vec<_> = writes.collect();
            let commit = rng.chance(2, 3);
            match rng.chance(1, 4) {
                true => Step::Replace(path(rng), writes, commit),
                false => Step::Batch(path(rng), writes, commit),
            }
        }
    }
}
