//! Finding an object of a dirty set on a store.

use super::Pass;
use crate::engine::Engine;
use crate::journal::dirty::Place;
use crate::label::{Label, ObjectId, StoreIndex};
use crate::store::{Found, Node, Store};
use env::errno::Errno;
use mount::Result;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Deepest directory that a search up the tree goes.
const DEPTH_MAX: usize = 4096;

/// The object with this id on a store, by its own reference or by name in its directory.
pub(crate) fn by_place(
    engine: &Engine,
    index: StoreIndex,
    store: &dyn Store,
    id: ObjectId,
    place: &Place,
) -> Result<Option<(Found, Label)>> {
    let is_it = |found: Found| {
        engine
            .label_of(&found)
            .filter(|l| l.id == id)
            .map(|label| (found, label))
    };
    if let Some(node) = place.node(index) {
        match store.inspect(node) {
            Ok(found) => {
                if let Some(answer) = is_it(found) {
                    return Ok(Some(answer));
                }
            }
            Err(Errno::STALE | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    let Some((_, parent)) = place.parent.iter().find(|(s, _)| *s == index) else {
        return Ok(None);
    };
    match store.lookup(parent, OsStr::from_bytes(&place.name)) {
        Ok(found) => Ok(is_it(found)),
        Err(Errno::STALE | Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Ids and names from the root down to directory `dir` of a store.
pub(crate) fn path_of(
    engine: &Engine,
    store: &dyn Store,
    dir: &Node,
) -> Result<Vec<(OsString, ObjectId)>> {
    let mut path = Vec::new();
    let mut at = dir.clone();
    for _ in 0..DEPTH_MAX {
        let label = engine.label_of(&store.inspect(&at)?).ok_or(Errno::STALE)?;
        if label.id == ObjectId::ROOT {
            path.reverse();
            return Ok(path);
        }
        let parent = store.parent(&at)?;
        let mut names = Vec::new();
        store.list(&parent, &mut |name, kind| {
            if kind == mount::Kind::Dir {
                names.push(name.to_os_string());
            }
        })?;
        let mut here = None;
        for name in names {
            if store
                .lookup(&parent, &name)
                .is_ok_and(|found| found.node == at)
            {
                here = Some(name);
                break;
            }
        }
        path.push((here.ok_or(Errno::STALE)?, label.id));
        at = parent;
    }
    Err(Errno::LOOP)
}

/// Walks a path down on a store; `None` where an object on the way is another one.
pub(crate) fn descend(
    engine: &Engine,
    store: &dyn Store,
    path: &[(OsString, ObjectId)],
) -> Result<Option<Node>> {
    let mut at = store.root()?;
    for (name, id) in path {
        match engine.look(store, &at, name) {
            Ok(Some((found, label))) if label.id == *id => at = found.node,
            Ok(_) | Err(Errno::STALE) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Some(at))
}

/// Where an object of a dirty set is.
pub(crate) enum Located {
    /// On this voter, which decides for it.
    At(StoreIndex, Found, Label),
    /// Nowhere any more: every reference to it is dead.
    Gone,
    /// It may still be somewhere: nothing that is known of it leads to it.
    Unknown,
}

impl Pass<'_> {
    /// The object on the voter that decides for it.
    pub(crate) fn locate_source(&self, id: ObjectId) -> Result<Located> {
        if id == ObjectId::ROOT {
            let (index, store) = self.voters.first().ok_or(Errno::IO)?;
            let found = store.inspect(&store.root()?)?;
            let label = self.engine.label_of(&found).ok_or(Errno::STALE)?;
            return Ok(Located::At(*index, found, label));
        }
        let Some(place) = self.dirty.places.get(&id) else {
            return Ok(Located::Unknown);
        };
        let mut seen = None;
        let mut referred = false;
        for (index, store) in self.voters {
            referred |= place.node(*index).is_some();
            let Some((found, label)) = by_place(self.engine, *index, &**store, id, place)? else {
                continue;
            };
            let is_dir = found.attr.kind == mount::Kind::Dir;
            if self.decider(&label, is_dir) == Some(*index) {
                return Ok(Located::At(*index, found, label));
            }
            seen = seen.or(Some((*index, found, label)));
        }
        // The decider's reference is not known: it is found along the path that another has.
        let Some((index, found, label)) = seen else {
            return Ok(if referred {
                Located::Gone
            } else {
                Located::Unknown
            });
        };
        let is_dir = found.attr.kind == mount::Kind::Dir;
        let Some(decider) = self.decider(&label, is_dir) else {
            return Ok(Located::Unknown);
        };
        let store = self.voter(decider)?;
        let node = self.along_path(id, index, decider, &**store)?;
        match node.map(|n| store.inspect(&n)).transpose() {
            Ok(Some(found)) => Ok(Located::At(decider, found, label)),
            Ok(None) | Err(Errno::STALE) => Ok(Located::Unknown),
            Err(errno) => Err(errno),
        }
    }

    /// Puts off what entries say of an object that could not be found to the next pass.
    pub(crate) fn put_off(&mut self, id: ObjectId) {
        tracing::debug!(
            id = id.0,
            store = self.target.0.0,
            place = ?self.dirty.places.get(&id),
            "an object is not found by its place"
        );
        for (entry, mask) in self.dirty.entries.iter().filter(|(e, _)| e.object() == id) {
            self.left.add(*entry, *mask, self.dirty.places.get(&id));
        }
    }

    /// The object on the target; `None` where it is not where the voters have it.
    pub(crate) fn locate_target(&self, id: ObjectId, source: StoreIndex) -> Result<Option<Node>> {
        let (index, store) = &self.target;
        if id == ObjectId::ROOT {
            return Ok(Some(store.root()?));
        }
        if let Some(node) = self.met.get(&id) {
            return Ok(Some(node.clone()));
        }
        let Some(place) = self.dirty.places.get(&id) else {
            return Ok(None);
        };
        if let Some((found, _)) = by_place(self.engine, *index, &**store, id, place)? {
            return Ok(Some(found.node));
        }
        self.along_path(id, source, *index, &**store)
    }

    /// Follows on `store` the path that the object has on voter `known`.
    fn along_path(
        &self,
        id: ObjectId,
        known: StoreIndex,
        index: StoreIndex,
        store: &dyn Store,
    ) -> Result<Option<Node>> {
        let Some(place) = self.dirty.places.get(&id) else {
            return Ok(None);
        };
        // Where it was written down while a store was away nothing is known of it there, though by
        // now that store may be the one that decides: any voter that has it shows the path.
        let others = self.voters.iter().map(|(voter, _)| *voter);
        let guides = std::iter::once(known).chain(others.filter(|voter| *voter != known));
        let mut guide = None;
        for voter in guides {
            let store = self.voter(voter)?;
            if let Some((found, _)) = by_place(self.engine, voter, &**store, id, place)? {
                guide = Some((voter, store, found));
                break;
            }
        }
        let Some((known, guide, found)) = guide else {
            return Ok(None);
        };
        let walk = |node: &Node| match path_of(self.engine, &**guide, node) {
            Ok(path) => descend(self.engine, store, &path),
            Err(Errno::STALE | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        };
        if found.attr.kind == mount::Kind::Dir {
            return walk(&found.node);
        }
        let Some((_, parent)) = place.parent.iter().find(|(s, _)| *s == known) else {
            return Ok(None);
        };
        let Some(dir) = walk(parent)? else {
            return Ok(None);
        };
        let by_name = Place {
            nodes: Vec::new(),
            parent: vec![(index, dir)],
            name: place.name.clone(),
        };
        Ok(by_place(self.engine, index, store, id, &by_name)?.map(|(found, _)| found.node))
    }
}
