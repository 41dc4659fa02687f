//! Brings the names of the target to what is wanted.

use super::locate::Located;
use super::wanted::{agreed, labelled};
use super::{AttributeTask, FileTask, LateLink, Names, Pass, Wanted};
use crate::journal::dirty::{Entry, Place};
use crate::label::{Label, ObjectId};
use crate::store::{Found, Make, Node, Store};
use env::errno::Errno;
use mount::{Kind, NewObject, RenameFlags, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Prefix in the aside directory of what lost its name to a younger object.
pub(crate) const CONFLICT: &str = "conflict-";

/// Prefix of [`fresh_name`].
const FRESH: &str = "fresh-";

/// Files on the list before they are compared.
const FILES_MAX: usize = 1024;

/// Name in the aside directory of an object that may come back in this pass.
pub(crate) fn aside_name(id: ObjectId) -> OsString {
    OsString::from(format!("{:016x}", id.0))
}

/// Name in the aside directory of a file whose content is not whole yet.
pub(crate) fn fresh_name(id: ObjectId) -> OsString {
    OsString::from(format!("{FRESH}{:016x}", id.0))
}

fn conflict_name(id: ObjectId) -> OsString {
    OsString::from(format!("{CONFLICT}{:016x}", id.0))
}

/// A directory of the pass: its id, where a voter has it, and the target's.
struct Dir {
    id: ObjectId,
    wanted: Names,
    source: Option<(crate::label::StoreIndex, Node)>,
    target: Option<Node>,
}

impl Pass<'_> {
    /// Makes the names of every dirty directory equal: first what is wrong goes aside everywhere,
    /// then what is missing comes, from aside where it was only moved.
    pub(crate) fn names(&mut self) -> Result<()> {
        self.place_names()?;
        // Every directory is in its place now: another name of the object can be found there, or
        // the object is new on the target.
        for link in std::mem::take(&mut self.late_links) {
            let LateLink {
                dir: (id, place, dir),
                name,
                wanted: want,
            } = link;
            let store = self.target.1.clone();
            let (node, fresh) = match self.engine.look(&*store, &dir, &name)? {
                Some((found, label)) if label.id == want.label.id => (found.node, false),
                _ => match self.bring(&dir, &name, &want, true) {
                    Err(Errno::STALE | Errno::NOENT) if self.is_gone(&want) => continue,
                    Ok(Some(brought)) => brought,
                    Ok(None) => {
                        // The name is still to come, too, once the object is found.
                        self.left.add(Entry::Names(id), 0xff, Some(&place));
                        continue;
                    }
                    Err(errno) => return Err(errno),
                },
            };
            if (fresh || self.is_new(want.label.id)) && want.source.0 != self.target.0 {
                self.compare(&want, node)?;
            }
        }
        self.flush_files()
    }

    fn place_names(&mut self) -> Result<()> {
        let mut dirs = self.dirty_dirs()?;
        // It may be below one that goes, and is then moved with what it holds by now.
        for dir in dirs.iter().filter(|dir| dir.id != ObjectId::ROOT) {
            if let Some(target) = &dir.target {
                self.met.insert(dir.id, target.clone());
            }
        }
        for dir in &dirs {
            self.pace.check()?;
            if let Some(target) = &dir.target {
                self.clear(dir.id, target, &dir.wanted)?;
            }
        }
        // One that was not at its place may have been met meanwhile, under its old name.
        loop {
            let mut found = false;
            for dir in dirs.iter_mut().filter(|d| d.target.is_none()) {
                if let Some(target) = self.met.get(&dir.id).cloned() {
                    self.clear(dir.id, &target, &dir.wanted)?;
                    dir.target = Some(target);
                    found = true;
                }
            }
            if !found {
                break;
            }
        }
        // A directory may have to wait until another one has brought it.
        loop {
            let before = dirs.len();
            let mut waiting = Vec::new();
            for mut dir in dirs {
                if dir.target.is_none()
                    && !self.done_dirs.contains(&dir.id)
                    && let Some(target) = self.met.get(&dir.id).cloned()
                {
                    self.clear(dir.id, &target, &dir.wanted)?;
                    dir.target = Some(target);
                }
                match dir.target.clone() {
                    Some(target) => self.fill(dir.id, &target, &dir.wanted, dir.source.as_ref())?,
                    None => waiting.push(dir),
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if waiting.len() == before {
                // Brought below a directory that was new, or not to be found.
                for dir in waiting {
                    if !self.done_dirs.contains(&dir.id) {
                        self.put_off(dir.id);
                    }
                }
                return Ok(());
            }
            dirs = waiting;
        }
    }

    fn dirty_dirs(&mut self) -> Result<Vec<Dir>> {
        let mut ids: Vec<ObjectId> = match self.decided {
            Some(decided) => decided.names.keys().copied().collect(),
            None => self
                .dirty
                .entries
                .keys()
                .filter(|entry| matches!(entry, Entry::Names(_)))
                .map(|entry| entry.object())
                .filter(|id| !self.is_new(*id))
                .collect(),
        };
        if self.is_new(ObjectId::ROOT) && !ids.contains(&ObjectId::ROOT) {
            ids.insert(0, ObjectId::ROOT);
        }
        let mut dirs = Vec::new();
        for id in ids {
            let source = match self.locate_source(id)? {
                Located::At(index, found, _) => Some((index, found.node)),
                Located::Gone | Located::Unknown if self.decided.is_some() => None,
                // Removed by now; the directory that held it is dirty too.
                Located::Gone => continue,
                Located::Unknown => {
                    self.put_off(id);
                    continue;
                }
            };
            let wanted = match (self.decided, &source) {
                (None, Some((index, node))) => {
                    let nodes = self.dir_nodes(id, *index, node);
                    match nodes.and_then(|nodes| agreed(self.engine, self.voters, &nodes)) {
                        Ok(names) => names,
                        // It is being moved or removed at this moment.
                        Err(Errno::STALE | Errno::NOENT) => {
                            self.put_off(id);
                            continue;
                        }
                        Err(errno) => return Err(errno),
                    }
                }
                (decided, _) => decided
                    .and_then(|d| d.names.get(&id).cloned())
                    .unwrap_or_default(),
            };
            let target = match &source {
                Some((index, _)) => self.locate_target(id, *index)?,
                None => None,
            };
            dirs.push(Dir {
                id,
                wanted,
                source,
                target,
            });
        }
        Ok(dirs)
    }

    /// The directory on every voter, found along the path that the first has; ESTALE where a voter
    /// does not have it there, because it is being moved or removed.
    fn dir_nodes(
        &self,
        id: ObjectId,
        first: crate::label::StoreIndex,
        node: &Node,
    ) -> Result<Vec<(crate::label::StoreIndex, Node)>> {
        let mut nodes = vec![(first, node.clone())];
        for (index, store) in self.voters.iter().filter(|(s, _)| *s != first) {
            // A voter that is left out would seem to have nothing in the directory.
            let node = self.dir_on(id, first, node, *index, &**store)?;
            nodes.push((*index, node.ok_or(Errno::STALE)?));
        }
        Ok(nodes)
    }

    fn dir_on(
        &self,
        id: ObjectId,
        known: crate::label::StoreIndex,
        node: &Node,
        index: crate::label::StoreIndex,
        store: &dyn Store,
    ) -> Result<Option<Node>> {
        if id == ObjectId::ROOT {
            return store.root().map(Some);
        }
        if let Some(place) = self.dirty.places.get(&id)
            && let Some((found, _)) = super::locate::by_place(self.engine, index, store, id, place)?
        {
            return Ok(Some(found.node));
        }
        let guide = self.voter(known)?;
        let mut at = store.root()?;
        let path = match super::locate::path_of(self.engine, &**guide, node) {
            Err(Errno::STALE | Errno::NOENT) => return Ok(None),
            other => other?,
        };
        for (name, id) in path {
            match self.engine.look(store, &at, &name)? {
                Some((found, label)) if label.id == id => at = found.node,
                _ => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Puts aside what is in a directory of the target and is not wanted there.
    fn clear(&mut self, id: ObjectId, target: &Node, wanted: &Names) -> Result<()> {
        if !self.cleared_dirs.insert(id) {
            return Ok(());
        }
        let store = self.target.1.clone();
        let mut below = Vec::new();
        let mut names = Vec::new();
        match store.list(target, &mut |name, kind| {
            names.push((name.to_os_string(), kind))
        }) {
            Err(Errno::STALE | Errno::NOENT) => return Ok(()),
            other => other?,
        }
        for (name, _) in names {
            let found = match store.lookup(target, &name) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let Some(label) = self.engine.label_of(&found) else {
                self.clear_unfinished(target, &name, &found.attr)?;
                continue;
            };
            let linked = wanted.get(&name).is_some_and(|w| w.links > 1);
            self.meet(label.id, &found, linked);
            let stays = wanted.get(&name).filter(|w| {
                w.label.id == label.id && (w.kind == Kind::Dir || w.label.copies.has(self.target.0))
            });
            let is_dir = found.attr.kind == Kind::Dir;
            match stays {
                Some(want) if is_dir && self.is_new(label.id) => {
                    below.push((want.clone(), found.node));
                }
                Some(_) => {}
                None if !is_dir && self.is_orphan(&label) => {
                    if wanted.contains_key(&name) {
                        self.keep_orphan(target, &name, label.id)?;
                    }
                }
                None => {
                    self.put_aside(target, &name, label.id, is_dir)?;
                    if is_dir && self.is_new(label.id) {
                        self.meet_below(found.node)?;
                    }
                }
            }
        }
        for (want, node) in below {
            if let Some(wanted) = self.names_of(&want)? {
                self.clear(want.label.id, &node, &wanted)?;
            }
        }
        Ok(())
    }

    /// Whether none of the stores that are asked is to hold a copy of the object: that they do not
    /// have it says nothing about it. Its other copies are on stores that are away, too.
    fn is_orphan(&self, label: &Label) -> bool {
        self.decided.is_none() && !self.voters.iter().any(|(s, _)| label.copies.has(*s))
    }

    /// Another object has come to the name of an orphan: that one is kept aside.
    fn keep_orphan(&self, dir: &Node, name: &OsStr, id: ObjectId) -> Result<()> {
        let store = &self.target.1;
        let kept = conflict_name(id);
        tracing::warn!(
            store = self.target.0.0,
            name = %name.display(),
            kept = %kept.display(),
            "a file whose other copies are away lost its name and is kept in .holdfast/aside"
        );
        match store.rename(dir, name, &store.aside()?, &kept, RenameFlags::NOREPLACE) {
            // Another name of the same file went before.
            Err(Errno::EXIST) => store.unlink(dir, name),
            other => other,
        }
    }

    /// Whether an object is an orphan, or has one below it.
    fn holds_orphans(&self, found: &Found, label: &Label) -> Result<bool> {
        if found.attr.kind != Kind::Dir {
            return Ok(self.is_orphan(label));
        }
        for (_, found, label) in labelled(self.engine, &*self.target.1, &found.node)? {
            if self.holds_orphans(&found, &label)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Remembers what is below a directory that went aside: some of it may be wanted elsewhere.
    fn meet_below(&mut self, dir: Node) -> Result<()> {
        let store = self.target.1.clone();
        let mut queue = vec![dir];
        while let Some(dir) = queue.pop() {
            for (_, found, label) in labelled(self.engine, &*store, &dir)? {
                self.meet(label.id, &found, false);
                if found.attr.kind == Kind::Dir {
                    queue.push(found.node);
                }
            }
        }
        Ok(())
    }

    /// An object without a label was never acknowledged: it goes where it is empty. Else it is not
    /// ours to judge, and is kept aside so that it stands in nobody's way.
    fn clear_unfinished(&self, dir: &Node, name: &OsStr, attr: &mount::Attr) -> Result<()> {
        let store = &self.target.1;
        let removed = match attr.kind {
            Kind::Dir => store.remove_dir(dir, name),
            Kind::File if attr.size > 0 => Err(Errno::NOTEMPTY),
            _ => store.unlink(dir, name),
        };
        match removed {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.put_foreign_aside(dir, name),
            other => other,
        }
    }

    fn put_foreign_aside(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let store = &self.target.1;
        let kept = OsString::from(format!("foreign-{:016x}", self.engine.random()));
        tracing::warn!(
            store = self.target.0.0,
            name = %name.display(),
            kept = %kept.display(),
            "an object that is not Holdfast's is kept in .holdfast/aside"
        );
        store.rename(dir, name, &store.aside()?, &kept, RenameFlags::NOREPLACE)
    }

    fn put_aside(&self, dir: &Node, name: &OsStr, id: ObjectId, is_dir: bool) -> Result<()> {
        let store = &self.target.1;
        let aside = store.aside()?;
        let loser = self.decided.is_some_and(|d| d.losers.contains(&id));
        if loser && !is_dir && store.lookup(dir, name)?.attr.nlink > 1 {
            // It has other names, where nobody looked or that are still to come.
            return store.unlink(dir, name);
        }
        let kept = if loser {
            conflict_name(id)
        } else {
            aside_name(id)
        };
        match store.rename(dir, name, &aside, &kept, RenameFlags::NOREPLACE) {
            // Another name of the same file went before.
            Err(Errno::EXIST) if !is_dir => store.unlink(dir, name),
            Err(Errno::EXIST) => {
                store.rename(dir, name, &aside, &conflict_name(id), RenameFlags::empty())
            }
            other => other,
        }
    }

    /// Brings what is wanted in a directory of the target and is not there, and goes on below
    /// what is new.
    fn fill(
        &mut self,
        id: ObjectId,
        target: &Node,
        wanted: &Names,
        source: Option<&(crate::label::StoreIndex, Node)>,
    ) -> Result<()> {
        if !self.done_dirs.insert(id) {
            return Ok(());
        }
        let store = self.target.1.clone();
        let mut below = Vec::new();
        for (name, want) in wanted {
            self.pace.check()?;
            let is_dir = want.kind == Kind::Dir;
            if !is_dir && !want.label.copies.has(self.target.0) {
                continue;
            }
            let there = self.engine.look(&*store, target, name)?;
            let (node, fresh) = match there {
                Some((found, label)) if label.id == want.label.id => {
                    let first = self.met.get(&label.id).filter(|_| !is_dir).cloned();
                    match first.filter(|first| *first != found.node) {
                        // Another name came first and was given an object of its own.
                        Some(first) => {
                            store.unlink(target, name)?;
                            store.link(&first, target, name)?;
                            (first, false)
                        }
                        None => {
                            self.meet(label.id, &found, want.links > 1);
                            (found.node, false)
                        }
                    }
                }
                _ => match self.bring(target, name, want, false) {
                    Ok(Some(brought)) => brought,
                    Ok(None) => {
                        let known = self.dirty.places.get(&id).cloned();
                        let place = known.unwrap_or_else(|| Place {
                            nodes: source.cloned().into_iter().collect(),
                            ..Place::default()
                        });
                        self.late_links.push(LateLink {
                            dir: (id, place, target.clone()),
                            name: name.clone(),
                            wanted: want.clone(),
                        });
                        continue;
                    }
                    // Removed meanwhile; what removed it is in the next dirty set.
                    Err(Errno::STALE | Errno::NOENT) if self.is_gone(want) => continue,
                    Err(errno) => return Err(errno),
                },
            };
            let differs = fresh || self.is_new(want.label.id);
            self.pace.object();
            if is_dir {
                if differs {
                    below.push((want.clone(), node));
                }
            } else if differs && want.source.0 != self.target.0 {
                self.compare(want, node)?;
            }
        }
        for (want, node) in below {
            self.below(&want, &node)?;
        }
        if let Some(source) = source.filter(|(s, _)| *s != self.target.0) {
            let task = AttributeTask {
                source: source.clone(),
                target: target.clone(),
            };
            self.attributes.push(task);
        }
        Ok(())
    }

    /// Remembers an object of the target that may be wanted under another name.
    fn meet(&mut self, id: ObjectId, found: &Found, linked: bool) {
        if linked || found.attr.kind == Kind::Dir || found.attr.nlink > 1 {
            self.met.insert(id, found.node.clone());
        }
    }

    fn compare(&mut self, want: &Wanted, target: Node) -> Result<()> {
        let source = want.source.clone();
        if want.kind == Kind::File {
            let task = FileTask {
                source,
                target,
                whole: true,
            };
            self.files.insert(want.label.id, task);
        } else {
            self.attributes.push(AttributeTask { source, target });
        }
        if self.files.len() >= FILES_MAX {
            self.flush_files()
        } else {
            Ok(())
        }
    }

    /// Compares what is on the list, so that a long rebuild holds no list of everything.
    fn flush_files(&mut self) -> Result<()> {
        for (_, task) in std::mem::take(&mut self.files) {
            self.pace.check()?;
            self.file(&task)?;
        }
        Ok(())
    }

    /// A directory that is new on the target, with all below it.
    fn below(&mut self, want: &Wanted, target: &Node) -> Result<()> {
        if self.done_dirs.contains(&want.label.id) {
            return Ok(());
        }
        let Some(wanted) = self.names_of(want)? else {
            // Moved or removed at this moment: its content is for the next pass.
            let place = Place {
                nodes: vec![want.source.clone()],
                ..Place::default()
            };
            self.left
                .add(Entry::Names(want.label.id), 0xff, Some(&place));
            return Ok(());
        };
        self.clear(want.label.id, target, &wanted)?;
        self.fill(want.label.id, target, &wanted, Some(&want.source))?;
        self.flush_files()
    }

    /// What a directory that is new on the target is to hold; `None` where it is gone meanwhile.
    fn names_of(&self, want: &Wanted) -> Result<Option<Names>> {
        if let Some(names) = self.decided.and_then(|d| d.names.get(&want.label.id)) {
            return Ok(Some(names.clone()));
        }
        let (index, node) = &want.source;
        let nodes = self.dir_nodes(want.label.id, *index, node);
        match nodes.and_then(|nodes| agreed(self.engine, self.voters, &nodes)) {
            Ok(names) => Ok(Some(names)),
            Err(Errno::STALE | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Moves a directory from wherever the target has it now; `false` where that is not known.
    fn move_dir(&self, id: ObjectId, dir: &Node, name: &OsStr) -> Result<Option<Node>> {
        let store = &self.target.1;
        let Some(node) = self.met.get(&id).filter(|n| self.is_object(n, id)) else {
            return Ok(None);
        };
        let parent = store.parent(node)?;
        let here = labelled(self.engine, &**store, &parent)?
            .into_iter()
            .find(|(_, _, label)| label.id == id);
        let Some((old, _, _)) = here else {
            return Ok(None);
        };
        match store.rename(&parent, &old, dir, name, RenameFlags::NOREPLACE) {
            // Below itself, until what is above it has moved too: it goes by way of aside.
            Err(Errno::INVAL) => {
                let (aside, kept) = (store.aside()?, aside_name(id));
                store.rename(&parent, &old, &aside, &kept, RenameFlags::NOREPLACE)?;
                store.rename(&aside, &kept, dir, name, RenameFlags::NOREPLACE)?;
            }
            other => other?,
        }
        Ok(Some(node.clone()))
    }

    /// Brings one object: from aside, by a link to another name of it, or made anew (`true`).
    /// `None` where it has several names and none is known here yet: it is made only `late`.
    fn bring(
        &mut self,
        dir: &Node,
        name: &OsStr,
        want: &Wanted,
        late: bool,
    ) -> Result<Option<(Node, bool)>> {
        let store = self.target.1.clone();
        let is_dir = want.kind == Kind::Dir;
        let aside = store.aside()?;
        let kept = aside_name(want.label.id);
        self.make_room(dir, name)?;
        if let Some((found, label)) = self.engine.look(&*store, &aside, &kept)?
            && label.id == want.label.id
        {
            if is_dir {
                store.rename(&aside, &kept, dir, name, RenameFlags::NOREPLACE)?;
            } else {
                store.link(&found.node, dir, name)?;
            }
            return Ok(Some((found.node, false)));
        }
        if is_dir && let Some(node) = self.move_dir(want.label.id, dir, name)? {
            return Ok(Some((node, false)));
        }
        // Another name of it may be on the target, in a directory that has not changed.
        if !is_dir
            && want.links > 1
            && let Some(node) = self.locate_target(want.label.id, want.source.0)?
            && self.is_object(&node, want.label.id)
        {
            store.link(&node, dir, name)?;
            return Ok(Some((node, false)));
        }
        if !is_dir && want.links > 1 && !late {
            return Ok(None);
        }
        if !is_dir && want.links > 1 && !self.is_new(want.label.id) {
            // The target had it before, under a name that nothing leads to: a second object must
            // not take its place. A look at everything finds it.
            self.left.add(Entry::Attributes(want.label.id), 0xff, None);
            return Ok(None);
        }
        let source = self.voter(want.source.0)?.clone();
        let attr = source.attr(&want.source.1)?;
        if !is_dir
            && attr.nlink > 1
            && let Some(node) = self.locate_target(want.label.id, want.source.0)?
        {
            store.link(&node, dir, name)?;
            return Ok(Some((node, false)));
        }
        let link;
        let object = match want.kind {
            Kind::Dir => NewObject::Dir,
            Kind::File => NewObject::File,
            Kind::Symlink => {
                link = source.read_link(&want.source.1)?;
                NewObject::Symlink(&link)
            }
            other => NewObject::Special(other, attr.rdev),
        };
        let make = Make {
            object,
            mode: u32::from(attr.perm),
            umask: 0,
            uid: attr.uid,
            gid: attr.gid,
            label: want.label,
        };
        let is_file = want.kind == Kind::File;
        if self.decided.is_some() {
            let node = self.make_whole(dir, name, &make, want)?;
            if is_dir || want.links > 1 {
                self.met.insert(want.label.id, node.clone());
            }
            return Ok(Some((node, !is_file)));
        }
        let made = store.make(dir, name, &make)?;
        if is_dir || want.links > 1 {
            self.met.insert(want.label.id, made.node.clone());
        }
        Ok(Some((made.node, true)))
    }

    /// Makes an object of a member: it comes to its name only when its content is whole and durable
    /// and its attributes are right, whatever a directory lets inherit that is not equal yet. A
    /// recovery that is cut short would else leave a copy that seems to decide. One with several
    /// names stays aside too until it has all of them, for the same reason.
    fn make_whole(&self, dir: &Node, name: &OsStr, make: &Make<'_>, want: &Wanted) -> Result<Node> {
        let store = &self.target.1;
        let aside = store.aside()?;
        let fresh = fresh_name(want.label.id);
        let removed = match store.unlink(&aside, &fresh) {
            Err(Errno::ISDIR) => store.remove_dir(&aside, &fresh),
            other => other,
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let made = store.make(&aside, &fresh, make)?;
        if want.kind != Kind::File {
            let source = self.voter(want.source.0)?;
            super::content::copy_attributes((&**source, &want.source.1), (&**store, &made.node))?;
        }
        if want.kind == Kind::File {
            self.file(&FileTask {
                source: want.source.clone(),
                target: made.node.clone(),
                whole: true,
            })?;
            store.open(&made.node, true)?.sync(false)?;
        }
        if want.links > 1 && want.kind != Kind::Dir {
            let kept = aside_name(want.label.id);
            store.rename(&aside, &fresh, &aside, &kept, RenameFlags::NOREPLACE)?;
            store.link(&made.node, dir, name)?;
        } else {
            store.rename(&aside, &fresh, dir, name, RenameFlags::NOREPLACE)?;
        }
        Ok(made.node)
    }

    fn is_gone(&self, want: &Wanted) -> bool {
        let source = self.voter(want.source.0);
        source.is_ok_and(|s| s.inspect(&want.source.1).err() == Some(Errno::STALE))
    }

    fn is_object(&self, node: &Node, id: ObjectId) -> bool {
        let found = self.target.1.inspect(node);
        found.is_ok_and(|f| self.engine.label_of(&f).is_some_and(|l| l.id == id))
    }

    /// What stands at a name where something else is wanted goes aside.
    fn make_room(&self, dir: &Node, name: &OsStr) -> Result<()> {
        let store = &self.target.1;
        let found = match store.lookup(dir, name) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        if let Some(label) = self.engine.label_of(&found) {
            return self.put_aside(dir, name, label.id, found.attr.kind == Kind::Dir);
        }
        self.put_foreign_aside(dir, name)
    }

    /// Deletes what was put aside and has not come back. What lost a conflict and what is not
    /// Holdfast's stays.
    pub(crate) fn empty_aside(&self) -> Result<()> {
        let store = &self.target.1;
        let aside = store.aside()?;
        for (name, found, label) in labelled(self.engine, &**store, &aside)? {
            if name == aside_name(label.id) || name.as_bytes().starts_with(FRESH.as_bytes()) {
                if self.holds_orphans(&found, &label)? {
                    let kept = conflict_name(label.id);
                    tracing::warn!(
                        store = self.target.0.0,
                        kept = %kept.display(),
                        "what lost its place holds files whose other copies are away; it is kept \
                         in .holdfast/aside"
                    );
                    store.rename(&aside, &name, &aside, &kept, RenameFlags::NOREPLACE)?;
                    continue;
                }
                remove_tree(&**store, &aside, &name, found.attr.kind, &found.node)?;
            }
        }
        // After what goes has gone: a file that has a name left elsewhere is not kept for this one.
        for (name, found, _) in labelled(self.engine, &**store, &aside)? {
            if found.attr.kind == Kind::Dir && name.as_bytes().starts_with(CONFLICT.as_bytes()) {
                prune_links(&**store, &found.node)?;
            }
        }
        Ok(())
    }
}

/// Removes the names below a directory of files that have others.
fn prune_links(store: &dyn Store, dir: &Node) -> Result<()> {
    let mut names = Vec::new();
    store.list(dir, &mut |name, _| names.push(name.to_os_string()))?;
    for name in names {
        let found = store.lookup(dir, &name)?;
        if found.attr.kind == Kind::Dir {
            prune_links(store, &found.node)?;
        } else if found.attr.nlink > 1 {
            store.unlink(dir, &name)?;
        }
    }
    Ok(())
}

/// Removes an object and all below it.
fn remove_tree(store: &dyn Store, dir: &Node, name: &OsStr, kind: Kind, node: &Node) -> Result<()> {
    if kind != Kind::Dir {
        return store.unlink(dir, name);
    }
    let mut names = Vec::new();
    store.list(node, &mut |name, _| names.push(name.to_os_string()))?;
    for name in names {
        let found = store.lookup(node, &name)?;
        remove_tree(store, node, &name, found.attr.kind, &found.node)?;
    }
    store.remove_dir(dir, name)
}
