//! Names and objects with their versions.

use super::{Certain, Difference, FileHistory, History, Moment, Seen, Snapshot, links};
use mount::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// All names of one object: directory and name.
pub type Names = BTreeSet<(u64, OsString)>;

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Nothing.
    Empty,
    /// An object.
    Object(u64),
    /// An object that an interrupted call may have made; its inode number was not learnt.
    Unborn(Box<NewNode>),
}

/// Attributes that only their own call changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Permission bits (12 bits).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What an object is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNode {
    /// Type.
    pub kind: Kind,
    /// Attributes.
    pub meta: Meta,
    /// Device number.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: OsString,
}

/// An object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// What it was made with.
    pub made: NewNode,
    /// Its names.
    pub names: History<Names>,
    /// Its attributes.
    pub meta: History<Meta>,
    /// Its extended attributes; `None` where one is not set.
    pub xattrs: BTreeMap<OsString, History<Option<Vec<u8>>>>,
    /// Its bytes, where it is a regular file.
    pub content: FileHistory,
}

/// The whole model.
#[derive(Clone, Debug)]
pub struct Tree {
    objects: BTreeMap<u64, Object>,
    slots: BTreeMap<(u64, OsString), History<Slot>>,
    at: Moment,
}

impl Object {
    fn new(made: NewNode, names: History<Names>) -> Object {
        Object {
            names,
            meta: History::new(made.meta),
            xattrs: BTreeMap::new(),
            content: FileHistory::default(),
            made,
        }
    }

    /// Whether it has a name now.
    pub fn is_named(&self) -> bool {
        !self.names.now().is_empty()
    }
}

impl Tree {
    /// A tree with a root directory and nothing in it.
    pub fn new(root: u64, meta: Meta) -> Tree {
        let made = NewNode {
            kind: Kind::Dir,
            meta,
            rdev: 0,
            target: OsString::new(),
        };
        // The root's own entry stands for the name that it does not have.
        let names = Names::from([(root, OsString::new())]);
        let object = Object::new(made, History::new(names));
        Tree {
            objects: BTreeMap::from([(root, object)]),
            slots: BTreeMap::new(),
            at: Moment(1),
        }
    }

    /// The moment of the last operation.
    pub fn moment(&self) -> Moment {
        self.at
    }

    /// An object, with a name or held without one.
    pub fn object(&self, ino: u64) -> Option<&Object> {
        self.objects.get(&ino)
    }

    /// All objects that have a name now.
    pub fn named(&self) -> impl Iterator<Item = (u64, &Object)> {
        self.objects
            .iter()
            .filter(|(_, o)| o.is_named())
            .map(|(ino, o)| (*ino, o))
    }

    /// What `name` leads to now.
    pub fn find(&self, dir: u64, name: &OsStr) -> Option<u64> {
        match self.slots.get(&(dir, name.to_owned()))?.now() {
            Slot::Object(ino) => Some(*ino),
            Slot::Empty | Slot::Unborn(_) => None,
        }
    }

    /// Entries of a directory now.
    pub fn entries(&self, dir: u64) -> impl Iterator<Item = (&OsStr, u64)> {
        self.slots
            .range((dir, OsString::new())..(dir + 1, OsString::new()))
            .filter_map(|((_, name), slot)| match slot.now() {
                Slot::Object(ino) => Some((name.as_os_str(), *ino)),
                Slot::Empty | Slot::Unborn(_) => None,
            })
    }

    /// Whether directory `dir` is `ancestor` or below it.
    pub fn is_within(&self, mut dir: u64, ancestor: u64) -> bool {
        loop {
            if dir == ancestor {
                return true;
            }
            let above = self
                .objects
                .get(&dir)
                .and_then(|o| o.names.now().first())
                .map(|(above, _)| *above);
            match above {
                Some(above) if above != dir => dir = above,
                _ => return false,
            }
        }
    }

    fn tick(&mut self) -> Moment {
        self.at.0 += 1;
        self.at
    }

    fn put_slot(&mut self, dir: u64, name: &OsStr, slot: Slot) {
        let at = self.at;
        self.slots
            .entry((dir, name.to_owned()))
            .or_insert_with(|| History::new(Slot::Empty))
            .push(at, slot);
    }

    fn change_names(&mut self, ino: u64, change: impl FnOnce(&mut Names)) {
        let at = self.at;
        if let Some(object) = self.objects.get_mut(&ino) {
            let mut names = object.names.now().clone();
            change(&mut names);
            object.names.push(at, names);
        }
    }

    /// A new object.
    pub fn make(&mut self, dir: u64, name: &OsStr, ino: u64, made: NewNode) {
        self.tick();
        self.objects
            .insert(ino, Object::new(made, History::new(Names::new())));
        self.put_slot(dir, name, Slot::Object(ino));
        self.change_names(ino, |names| {
            names.insert((dir, name.to_owned()));
        });
    }

    /// A call that may have made a new object, and did not say.
    pub fn make_perhaps(&mut self, dir: u64, name: &OsStr, made: NewNode) {
        self.tick();
        self.put_slot(dir, name, Slot::Unborn(Box::new(made)));
    }

    /// Another name.
    pub fn link(&mut self, ino: u64, dir: u64, name: &OsStr) {
        self.tick();
        self.put_slot(dir, name, Slot::Object(ino));
        self.change_names(ino, |names| {
            names.insert((dir, name.to_owned()));
        });
    }

    /// Takes away a name, also a directory's.
    pub fn unlink(&mut self, dir: u64, name: &OsStr) {
        self.tick();
        self.take(dir, name);
    }

    fn take(&mut self, dir: u64, name: &OsStr) {
        if let Some(ino) = self.find(dir, name) {
            self.put_slot(dir, name, Slot::Empty);
            self.change_names(ino, |names| {
                names.remove(&(dir, name.to_owned()));
            });
        }
    }

    /// Renames; a target is replaced.
    pub fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) {
        self.tick();
        let Some(ino) = self.find(from.0, from.1) else {
            return;
        };
        if self.find(to.0, to.1) == Some(ino) {
            return;
        }
        if let Some(target) = self.find(to.0, to.1) {
            self.change_names(target, |names| {
                names.remove(&(to.0, to.1.to_owned()));
            });
        }
        self.put_slot(from.0, from.1, Slot::Empty);
        self.put_slot(to.0, to.1, Slot::Object(ino));
        self.change_names(ino, |names| {
            names.remove(&(from.0, from.1.to_owned()));
            names.insert((to.0, to.1.to_owned()));
        });
    }

    /// Swaps two names.
    pub fn exchange(&mut self, a: (u64, &OsStr), b: (u64, &OsStr)) {
        self.tick();
        let (Some(at_a), Some(at_b)) = (self.find(a.0, a.1), self.find(b.0, b.1)) else {
            return;
        };
        if at_a == at_b {
            return;
        }
        self.put_slot(a.0, a.1, Slot::Object(at_b));
        self.put_slot(b.0, b.1, Slot::Object(at_a));
        for (ino, from, to) in [(at_a, a, b), (at_b, b, a)] {
            self.change_names(ino, |names| {
                names.remove(&(from.0, from.1.to_owned()));
                names.insert((to.0, to.1.to_owned()));
            });
        }
    }

    /// Changes content.
    pub fn change_content(&mut self, ino: u64, change: impl FnOnce(&mut FileHistory, Moment)) {
        let at = self.tick();
        if let Some(object) = self.objects.get_mut(&ino) {
            change(&mut object.content, at);
        }
    }

    /// Changes attributes.
    pub fn set_meta(&mut self, ino: u64, meta: Meta) {
        let at = self.tick();
        if let Some(object) = self.objects.get_mut(&ino) {
            object.meta.push(at, meta);
        }
    }

    /// Sets an extended attribute, or removes it.
    pub fn set_xattr(&mut self, ino: u64, name: &OsStr, value: Option<Vec<u8>>) {
        let at = self.tick();
        if let Some(object) = self.objects.get_mut(&ino) {
            object
                .xattrs
                .entry(name.to_owned())
                .or_insert_with(|| History::new(None))
                .push(at, value);
        }
    }

    /// An object has been synced: its content is certain and, unless `data_only`, so are its
    /// attributes, its names, where it is a directory its entries, and the names of the
    /// directories above.
    pub fn sync(&mut self, ino: u64, data_only: bool) {
        self.tick();
        let Some(object) = self.objects.get_mut(&ino) else {
            return;
        };
        object.content.sync();
        if data_only {
            return;
        }
        object.names.settle();
        object.meta.settle();
        object.xattrs.values_mut().for_each(History::settle);
        if object.made.kind == Kind::Dir {
            for (_, slot) in self
                .slots
                .range_mut((ino, OsString::new())..(ino + 1, OsString::new()))
            {
                slot.settle();
            }
        }
        let mut above: Vec<u64> = object.names.now().iter().map(|(dir, _)| *dir).collect();
        let mut done = BTreeSet::new();
        while let Some(dir) = above.pop() {
            if done.insert(dir)
                && let Some(object) = self.objects.get_mut(&dir)
            {
                object.names.settle();
                above.extend(object.names.now().iter().map(|(dir, _)| *dir));
            }
        }
        self.settle();
    }

    /// Everything is durable.
    pub fn sync_all(&mut self) {
        self.tick();
        for object in self.objects.values_mut() {
            object.content.sync();
            object.names.settle();
            object.meta.settle();
            object.xattrs.values_mut().for_each(History::settle);
        }
        self.slots.values_mut().for_each(History::settle);
        self.settle();
    }

    /// Draws the consequences: a certain name rules out what contradicts it, and so on.
    fn settle(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for (at, slot) in &self.slots {
                if !slot.is_settled() {
                    continue;
                }
                // That the name is the owner's does not make it certain that who had it before has
                // lost it: once the owner has lost it, too, that one may be back.
                if let Slot::Object(ino) = slot.now()
                    && let Some(object) = self.objects.get_mut(ino)
                {
                    changed |= object.names.forget(|names| !names.contains(at));
                }
            }
            for (ino, object) in &self.objects {
                if !object.names.is_settled() {
                    continue;
                }
                let gone = object.names.now().is_empty();
                for (at, slot) in &mut self.slots {
                    let is_ours = object.names.now().contains(at);
                    changed |= slot.forget(|s| (*s == Slot::Object(*ino)) != is_ours);
                    if gone && at.0 == *ino {
                        changed |= slot.forget(|s| *s != Slot::Empty);
                    }
                }
            }
        }
        self.slots
            .retain(|_, slot| !(slot.is_settled() && *slot.now() == Slot::Empty));
    }

    /// Forgets an object that has no name, is held by nobody and cannot come back.
    pub fn forget_gone(&mut self, is_held: impl Fn(u64) -> bool) {
        self.objects
            .retain(|ino, o| !o.names.is_settled() || o.is_named() || is_held(*ino));
    }

    /// Whether a name that may be free by now has an object again whose own loss of it was not
    /// synced: names come back file by file (docs/failure-model.md).
    fn is_back(
        &self,
        at: &(u64, OsString),
        slot: &History<Slot>,
        seen: Option<u64>,
        certain: Certain,
    ) -> bool {
        let free = || slot.allowed(certain).any(|allowed| *allowed == Slot::Empty);
        let object = seen.and_then(|ino| self.objects.get(&ino));
        let had = |object: &Object| {
            let mut names = object.names.allowed(certain);
            names.any(|names| names.contains(at))
        };
        certain == Certain::Synced && free() && object.is_some_and(had)
    }

    /// Compares with what was found.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn check(&self, found: &Snapshot, certain: Certain) -> Result<(), Difference> {
        for (at, slot) in &self.slots {
            if !found.objects.contains_key(&at.0) {
                continue;
            }
            let seen = found.entries.get(at).copied();
            let matches = slot.allowed(certain).any(|allowed| match (allowed, seen) {
                (Slot::Empty, None) => true,
                (Slot::Object(ino), Some(seen)) => *ino == seen,
                (Slot::Unborn(_), None) => false,
                (Slot::Unborn(made), Some(seen)) => {
                    !self.objects.contains_key(&seen)
                        && found
                            .objects
                            .get(&seen)
                            .is_some_and(|s| s.kind == made.kind)
                }
                _ => false,
            });
            if !matches && !self.is_back(at, slot, seen, certain) {
                return Err(Difference::Name {
                    dir: at.0,
                    name: at.1.clone(),
                    found: seen,
                    allowed: slot.allowed(certain).cloned().collect(),
                });
            }
        }
        for (at, ino) in &found.entries {
            if !self.slots.contains_key(at) {
                return Err(Difference::Name {
                    dir: at.0,
                    name: at.1.clone(),
                    found: Some(*ino),
                    allowed: vec![Slot::Empty],
                });
            }
        }
        let mut names: BTreeMap<u64, Names> = BTreeMap::new();
        for (at, ino) in &found.entries {
            names.entry(*ino).or_default().insert(at.clone());
        }
        for (ino, object) in &self.objects {
            let mut seen = names.remove(ino).unwrap_or_default();
            if object.names.now().iter().any(|(_, name)| name.is_empty()) {
                seen = object.names.now().clone();
            }
            // After a power cut each file is as one of its stores has it: a name of this one may have
            // gone to a file that came there later, though what else was done is undone, or with its
            // directory.
            let is_taken = |at: &(u64, OsString)| {
                let taken = found.entries.get(at).is_some_and(|o| o != ino);
                taken || !found.objects.contains_key(&at.0)
            };
            let allowed: Vec<&Names> = object.names.allowed(certain).collect();
            let fits = match certain {
                Certain::Synced => links::reachable(&allowed, &seen, is_taken),
                Certain::Now | Certain::UpTo(_) => allowed.contains(&&seen),
            };
            if !fits {
                return Err(Difference::Names {
                    ino: *ino,
                    found: seen,
                    allowed: allowed.into_iter().cloned().collect(),
                });
            }
            if let Some(found_object) = found.objects.get(ino) {
                object.check(*ino, found_object, certain)?;
                let subdirs = found
                    .entries
                    .iter()
                    .filter(|((dir, _), child)| {
                        dir == ino
                            && found
                                .objects
                                .get(child)
                                .is_some_and(|c| c.kind == Kind::Dir)
                    })
                    .count();
                let links = match object.made.kind {
                    Kind::Dir => 2 + subdirs,
                    _ => seen.len(),
                };
                if found_object.nlink as usize != links {
                    return Err(attribute(*ino, "link count", &found_object.nlink, &links));
                }
            }
        }
        Ok(())
    }

    /// Takes what was found for the present. To be called after a successful [`Tree::check`].
    pub fn adopt(&mut self, found: &Snapshot) {
        let at = self.tick();
        let mut names: BTreeMap<u64, Names> = BTreeMap::new();
        for (place, ino) in &found.entries {
            names.entry(*ino).or_default().insert(place.clone());
        }
        let places: Vec<(u64, OsString)> = self.slots.keys().cloned().collect();
        for place in places {
            let seen = found.entries.get(&place).copied();
            if let Some(ino) = seen
                && !self.objects.contains_key(&ino)
                && let Some(Slot::Unborn(made)) = self.slots.get(&place).map(History::now)
            {
                let object = Object::new(NewNode::clone(made), History::new(Names::new()));
                self.objects.insert(ino, object);
            }
            if let Some(slot) = self.slots.get_mut(&place) {
                slot.push(at, seen.map_or(Slot::Empty, Slot::Object));
                slot.forget(|s| matches!(s, Slot::Unborn(_)));
            }
        }
        for (ino, object) in &mut self.objects {
            if object.names.now().iter().any(|(_, name)| name.is_empty()) {
                // The root.
            } else {
                object.names.push(at, names.remove(ino).unwrap_or_default());
            }
            if let Some(seen) = found.objects.get(ino) {
                object.adopt(at, seen);
            }
        }
        self.settle();
    }
}

impl Object {
    /// Compares everything but the names.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn check(&self, ino: u64, found: &Seen, certain: Certain) -> Result<(), Difference> {
        if found.kind != self.made.kind {
            return Err(attribute(ino, "type", &found.kind, &self.made.kind));
        }
        if found.rdev != self.made.rdev {
            return Err(attribute(
                ino,
                "device number",
                &found.rdev,
                &self.made.rdev,
            ));
        }
        if found.target != self.made.target {
            return Err(attribute(ino, "target", &found.target, &self.made.target));
        }
        let meta = Meta {
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
        };
        if !self.meta.allowed(certain).any(|allowed| *allowed == meta) {
            let allowed: Vec<_> = self.meta.allowed(certain).collect();
            return Err(attribute(ino, "mode and owner", &meta, &allowed));
        }
        let known = self.xattrs.keys().chain(found.xattrs.keys());
        for name in known.collect::<BTreeSet<_>>() {
            let seen = found.xattrs.get(name).cloned();
            let allowed: Vec<Option<Vec<u8>>> = match self.xattrs.get(name) {
                Some(history) => history.allowed(certain).cloned().collect(),
                None => vec![None],
            };
            if !allowed.contains(&seen) {
                return Err(attribute(
                    ino,
                    "extended attribute",
                    &(name, seen),
                    &allowed,
                ));
            }
        }
        if self.made.kind == Kind::File {
            self.content
                .check(&found.content, certain)
                .map_err(|difference| Difference::In {
                    ino,
                    difference: Box::new(difference),
                })?;
        }
        Ok(())
    }

    fn adopt(&mut self, at: Moment, found: &Seen) {
        let meta = Meta {
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
        };
        self.meta.push(at, meta);
        for (name, history) in &mut self.xattrs {
            history.push(at, found.xattrs.get(name).cloned());
        }
        if self.made.kind == Kind::File {
            self.content.adopt(at, &found.content);
        }
    }
}

fn attribute(
    ino: u64,
    what: &'static str,
    found: &dyn std::fmt::Debug,
    allowed: &dyn std::fmt::Debug,
) -> Difference {
    Difference::Attribute {
        ino,
        what,
        found: format!("{found:?}"),
        allowed: format!("{allowed:?}"),
    }
}
