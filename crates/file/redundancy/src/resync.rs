//! Makes copies equal: after a crash, when a store comes back, and onto an empty one.
//!
//! The voters are the stores that hold the truth; the target is brought to what they say. After a
//! crash every member is voter and target at once: for a file its home decides, for a directory
//! the lowest member that has it (a directory that any voter has stays), for a name that two
//! objects claim the younger object, unless the journal names the rename that was under way.
//!
//! # Invariants
//! - An object leaves the target's tree only into its aside directory, and is deleted from there
//!   only after the whole pass has ended well.
//! - What bears no label of this set and is not an empty leftover is never removed.
//! - Bytes written <= bytes that differ, rounded up to pages of 4 KiB.

pub(crate) mod apply;
pub(crate) mod content;
pub(crate) mod locate;
pub(crate) mod pace;
pub(crate) mod wanted;

use crate::engine::Engine;
use crate::engine::rebuild::Rebuild;
use crate::journal::dirty::{DirtySet, Entry, Place};
use crate::label::{Label, ObjectId, StoreIndex};
use crate::store::{Node, Store};
use content::Failed;
use env::errno::{Errno, Fault, fault};
use locate::Located;
use mount::{Kind, Result};
use pace::Pace;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;

/// Stores of a pass.
pub(crate) type Voters = Vec<(StoreIndex, Arc<dyn Store>)>;

/// What a directory is to hold under a name.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) label: Label,
    pub(crate) kind: Kind,
    /// Names that it has there.
    pub(crate) links: u32,
    /// The voter whose copy is to be followed, and the object there.
    pub(crate) source: (StoreIndex, Node),
}

/// Names and what they are to be.
pub(crate) type Names = BTreeMap<OsString, Wanted>;

/// What recovery has decided.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    pub(crate) names: BTreeMap<ObjectId, Names>,
    /// Objects that lost their name to a younger one: they are kept aside.
    pub(crate) losers: BTreeSet<ObjectId>,
}

/// One target being brought to what the voters say.
pub(crate) struct Pass<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) voters: &'a Voters,
    pub(crate) target: (StoreIndex, Arc<dyn Store>),
    pub(crate) dirty: &'a DirtySet,
    pub(crate) pace: &'a Pace,
    /// What recovery has decided for each directory; where nothing is decided the voters agree
    /// and the lowest is asked.
    pub(crate) decided: Option<&'a Decided>,
    /// Where the target gets its part of the stripes after this: encoded chunks are left out.
    pub(crate) rebuild: Option<&'a Rebuild>,
    /// Objects met on the target, by id.
    pub(crate) met: BTreeMap<ObjectId, Node>,
    /// Files to compare: label, source, target and whether in whole.
    pub(crate) files: BTreeMap<ObjectId, FileTask>,
    /// Directories and special objects whose attributes are to be made equal, children first.
    pub(crate) attributes: Vec<AttributeTask>,
    pub(crate) cleared_dirs: BTreeSet<ObjectId>,
    pub(crate) done_dirs: BTreeSet<ObjectId>,
    /// Names of objects with several, whose other names may not be in place yet.
    pub(crate) late_links: Vec<LateLink>,
    /// What could not be found on the target by its place: for the next pass.
    pub(crate) left: DirtySet,
}

/// A file to compare.
#[derive(Clone, Debug)]
pub(crate) struct FileTask {
    pub(crate) source: (StoreIndex, Node),
    pub(crate) target: Node,
    pub(crate) whole: bool,
}

/// A name that waits until another name of its object is in place.
#[derive(Clone, Debug)]
pub(crate) struct LateLink {
    /// The directory: its id, where it is known to be, and the target's.
    pub(crate) dir: (ObjectId, Place, Node),
    pub(crate) name: OsString,
    pub(crate) wanted: Wanted,
}

/// Attributes to make equal.
#[derive(Clone, Debug)]
pub(crate) struct AttributeTask {
    pub(crate) source: (StoreIndex, Node),
    pub(crate) target: Node,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        voters: &'a Voters,
        target: (StoreIndex, Arc<dyn Store>),
        dirty: &'a DirtySet,
        pace: &'a Pace,
    ) -> Pass<'a> {
        Pass {
            engine,
            voters,
            target,
            dirty,
            pace,
            decided: None,
            rebuild: None,
            met: BTreeMap::new(),
            files: BTreeMap::new(),
            attributes: Vec::new(),
            cleared_dirs: BTreeSet::new(),
            done_dirs: BTreeSet::new(),
            late_links: Vec::new(),
            left: DirtySet::since(ObjectId(u64::MAX)),
        }
    }

    /// Whether every object of this id is to be compared in whole.
    pub(crate) fn is_new(&self, id: ObjectId) -> bool {
        id >= self.dirty.mark
    }

    pub(crate) fn voter(&self, index: StoreIndex) -> Result<&Arc<dyn Store>> {
        let found = self.voters.iter().find(|(s, _)| *s == index);
        found.map(|(_, store)| store).ok_or(Errno::NODEV)
    }

    /// The voter that decides for what carries `label`.
    pub(crate) fn decider(&self, label: &Label, is_dir: bool) -> Option<StoreIndex> {
        decider(self.voters, label, is_dir)
    }

    /// Runs the pass: names first, then content, then attributes; ends with everything durable
    /// on the target. Returns what could not be found there.
    pub(crate) fn run(mut self) -> Result<DirtySet> {
        self.names()?;
        self.entries()?;
        for (_, task) in std::mem::take(&mut self.files) {
            self.pace.check()?;
            self.file(&task)?;
        }
        for task in std::mem::take(&mut self.attributes) {
            let source = self.voter(task.source.0)?.clone();
            match content::copy_attributes(
                (&*source, &task.source.1),
                (&*self.target.1, &task.target),
            ) {
                // Gone meanwhile; the change that removed it is in the next dirty set.
                Err(Errno::STALE | Errno::NOENT) => {}
                other => other?,
            }
        }
        self.target.1.sync_all()?;
        if self.pace.has_unreadable() {
            return Err(Errno::IO);
        }
        let put_off = |entry: &Entry| matches!(entry, Entry::Names(_));
        if self.left.entries.keys().any(put_off) {
            // What is new in such a directory has no entry of its own.
            self.left.mark = self.dirty.mark;
            // A further name of what is on the target by now must lead to it, not to a second one.
            let dirty = self.dirty;
            for (id, node) in self.met.iter().filter(|(id, _)| **id >= dirty.mark) {
                let known = || dirty.places.get(id).cloned().unwrap_or_default();
                let place = self.left.places.entry(*id).or_insert_with(known);
                place.forget(self.target.0);
                place.nodes.push((self.target.0, node.clone()));
            }
        }
        if self.left.is_empty() {
            self.empty_aside()?;
            self.target.1.sync_all()?;
        }
        Ok(self.left)
    }

    /// Files and attributes that entries name.
    fn entries(&mut self) -> Result<()> {
        let mut last = None;
        for entry in self.dirty.entries.keys() {
            let id = entry.object();
            if matches!(entry, Entry::Names(_)) || last == Some(id) || self.is_new(id) {
                continue;
            }
            last = Some(id);
            self.pace.check()?;
            self.entry(id)?;
        }
        Ok(())
    }

    fn entry(&mut self, id: ObjectId) -> Result<()> {
        if self.files.contains_key(&id) {
            return Ok(());
        }
        let (source, found, label) = match self.locate_source(id)? {
            Located::At(source, found, label) => (source, found, label),
            Located::Gone => return Ok(()),
            Located::Unknown => {
                self.put_off(id);
                return Ok(());
            }
        };
        let is_dir = found.attr.kind == Kind::Dir;
        if source == self.target.0 || !(is_dir || label.copies.has(self.target.0)) {
            return Ok(());
        }
        let Some(target) = self.locate_target(id, source)? else {
            self.put_off(id);
            return Ok(());
        };
        let source = (source, found.node);
        if found.attr.kind == Kind::File {
            self.files.insert(
                id,
                FileTask {
                    source,
                    target,
                    whole: false,
                },
            );
        } else {
            self.attributes.push(AttributeTask { source, target });
        }
        Ok(())
    }

    /// Makes one file equal. One that a voter cannot read is counted and left out, so that the
    /// others still get their copies; the pass fails at its end.
    fn file(&self, task: &FileTask) -> Result<()> {
        let copied = self.copy(task);
        self.pace.object();
        match copied {
            // Gone meanwhile; the change that removed it is in the next dirty set.
            Err(failed) if matches!(failed.errno(), Errno::STALE | Errno::NOENT) => Ok(()),
            Err(Failed::Source(errno)) if fault(errno) == Fault::Medium => {
                let (index, node) = &task.source;
                let found = self.voter(*index)?.inspect(node);
                let id = found.ok().and_then(|f| Some(self.engine.label_of(&f)?.id));
                tracing::warn!(
                    store = index.0,
                    inode = id.map_or(0, |id| id.0),
                    %errno,
                    "a file cannot be read from the store that is copied from; \
                     `find MOUNT -inum` names it"
                );
                self.pace.unreadable(*index);
                Ok(())
            }
            other => other.map_err(Failed::errno),
        }
    }

    fn copy(&self, task: &FileTask) -> std::result::Result<(), Failed> {
        let source = self.voter(task.source.0)?;
        let from = source.open(&task.source.1, false).map_err(Failed::Source)?;
        let to = self.target.1.open(&task.target, true)?;
        // What a sync could not bring to the medium may still be in the cache, and looks clean:
        // compared is what the medium has.
        to.forget_cache(0, 0);
        if self.decided.is_some() {
            from.forget_cache(0, 0);
        }
        let length = from.attr().map_err(Failed::Source)?.size;
        let id = || {
            let found = source.inspect(&task.source.1).map_err(Failed::Source)?;
            Ok::<_, Failed>(self.engine.label_of(&found).map(|l| l.id))
        };
        let mut ranges = if task.whole {
            vec![(0, length)]
        } else {
            id()?.map_or_else(Vec::new, |id| self.dirty.ranges(id, length))
        };
        if let Some(rebuild) = self.rebuild
            && let Some(id) = id()?
        {
            rebuild.note(id, &task.target);
            let plain = |(start, end)| self.engine.plain_parts(id, start, end);
            ranges = ranges.into_iter().flat_map(plain).collect();
        }
        if to.attr()?.size != length {
            to.set_len(length)?;
        }
        for (start, end) in ranges {
            let end = end.min(length);
            if start < end {
                content::equal_range(&*from, &*to, start, end - start, self.pace)?;
            }
        }
        content::copy_attributes((&**source, &task.source.1), (&*self.target.1, &task.target))?;
        Ok(())
    }
}

/// The store among `voters` that decides for what carries `label`.
pub(crate) fn decider(voters: &Voters, label: &Label, is_dir: bool) -> Option<StoreIndex> {
    let mut held = voters
        .iter()
        .map(|(s, _)| *s)
        .filter(|s| is_dir || label.copies.has(*s));
    if !is_dir && voters.iter().any(|(s, _)| *s == label.home) && label.copies.has(label.home) {
        return Some(label.home);
    }
    held.next()
}

/// Makes all members equal in what was active when the set last stopped without a checkpoint.
/// Where a place was not where the journal had it, everything is compared.
pub(crate) fn recover(engine: &Engine, active: &DirtySet) -> Result<()> {
    let voters = engine.member_stores();
    if recover_in(engine, &voters, active)? {
        return Ok(());
    }
    tracing::warn!("an object was not where the journal had it; everything is compared");
    let mut everything = DirtySet::everything();
    everything.renames.clone_from(&active.renames);
    recover_in(engine, &voters, &everything)?;
    Ok(())
}

/// One recovery: what is to be is decided once, and then every member follows it. `false` where
/// something could not be found.
fn recover_in(engine: &Engine, voters: &Voters, dirty: &DirtySet) -> Result<bool> {
    let pace = Pace::unlimited(engine.keeper.stop_flag());
    let decided = wanted::decide(engine, voters, dirty)?;
    let mut found = true;
    for target in voters {
        let mut pass = Pass::new(engine, voters, target.clone(), dirty, &pace);
        pass.decided = Some(&decided);
        found &= pass.run()?.is_empty();
    }
    Ok(found)
}

/// Bytes of the files that `index` is to hold, by what the voters say.
pub(crate) fn count_bytes(
    engine: &Engine,
    voters: &Voters,
    index: StoreIndex,
    pace: &Pace,
) -> Result<u64> {
    let mut bytes = 0;
    let mut roots = Vec::new();
    for (store, voter) in voters {
        roots.push((*store, voter.root()?));
    }
    let mut queue = vec![roots];
    while let Some(nodes) = queue.pop() {
        pace.check()?;
        let mut below: BTreeMap<ObjectId, Vec<(StoreIndex, Node)>> = BTreeMap::new();
        for (store, node) in nodes {
            let Some((_, voter)) = voters.iter().find(|(s, _)| *s == store) else {
                continue;
            };
            let entries = match wanted::labelled(engine, &**voter, &node) {
                Err(Errno::STALE | Errno::NOENT) => continue,
                other => other?,
            };
            for (_, found, label) in entries {
                if found.attr.kind == Kind::Dir {
                    below.entry(label.id).or_default().push((store, found.node));
                } else if label.copies.has(index) && decider(voters, &label, false) == Some(store) {
                    bytes += found.attr.size.min(found.attr.blocks * 512);
                }
            }
        }
        queue.extend(below.into_values());
    }
    Ok(bytes)
}
