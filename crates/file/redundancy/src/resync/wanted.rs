//! What directories are to hold, decided from what the voters have.

use super::apply::aside_name;
use super::locate::{by_place, descend, path_of};
use super::{Decided, Names, Voters, Wanted, decider};
use crate::engine::Engine;
use crate::journal::dirty::{DirtySet, Entry, Manner, Rename};
use crate::label::{Label, ObjectId, StoreIndex, StoreMask};
use crate::store::{Found, Node, Store};
use env::errno::Errno;
use mount::{Kind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

type Nodes = Vec<(StoreIndex, Node)>;
type Spot = (ObjectId, OsString);

/// Everything with a label in one directory of one store.
pub(crate) fn labelled(
    engine: &Engine,
    store: &dyn Store,
    dir: &Node,
) -> Result<Vec<(OsString, Found, Label)>> {
    Ok(entries(engine, store, dir)?.0)
}

type Labelled = Vec<(OsString, Found, Label)>;

/// Everything in one directory of one store: what has a label, and the names of what has none.
fn entries(engine: &Engine, store: &dyn Store, dir: &Node) -> Result<(Labelled, Vec<OsString>)> {
    let mut names = Vec::new();
    store.list(dir, &mut |name, _| names.push(name.to_os_string()))?;
    let mut entries = Vec::with_capacity(names.len());
    let mut others = Vec::new();
    for name in names {
        match engine.look(store, dir, &name)? {
            Some((found, label)) => entries.push((name, found, label)),
            None => others.push(name),
        }
    }
    Ok((entries, others))
}

/// What the voters, who agree, have in one directory.
pub(crate) fn agreed(engine: &Engine, voters: &Voters, nodes: &Nodes) -> Result<Names> {
    let mut names = Names::new();
    for (index, node) in nodes {
        let Some((_, store)) = voters.iter().find(|(s, _)| s == index) else {
            continue;
        };
        for (name, found, label) in labelled(engine, &**store, node)? {
            let is_dir = found.attr.kind == Kind::Dir;
            if decider(voters, &label, is_dir) == Some(*index) {
                let wanted = Wanted {
                    label,
                    kind: found.attr.kind,
                    links: found.attr.nlink,
                    source: (*index, found.node),
                };
                names.insert(name, wanted);
            }
        }
    }
    Ok(names)
}

/// One object as one voter has it at one name.
struct Seen {
    spot: Spot,
    voter: StoreIndex,
    label: Label,
    kind: Kind,
    links: u32,
    node: Node,
}

struct Survey<'a> {
    engine: &'a Engine,
    voters: &'a Voters,
    dirty: &'a DirtySet,
    /// Directories and the voters on which they were looked at.
    scanned: BTreeMap<ObjectId, StoreMask>,
    seen: BTreeMap<ObjectId, Vec<Seen>>,
    /// Where a voter has something without a label of this set: it may have been an object whose
    /// label is damaged.
    unlabelled: BTreeSet<(Spot, StoreIndex)>,
    /// What an interrupted recovery has left aside: the voters that have it there do not know
    /// where it belongs, or not all of its names.
    aside: BTreeMap<ObjectId, Nodes>,
    /// The same as copies that can be followed, on the lowest voter that has them.
    aside_copies: BTreeMap<ObjectId, Wanted>,
}

impl Survey<'_> {
    fn look_aside(&mut self) -> Result<()> {
        for (index, store) in self.voters {
            for (name, found, label) in labelled(self.engine, &**store, &store.aside()?)? {
                if name == aside_name(label.id) {
                    let nodes = self.aside.entry(label.id).or_default();
                    nodes.push((*index, found.node.clone()));
                    self.aside_copies.entry(label.id).or_insert(Wanted {
                        label,
                        kind: found.attr.kind,
                        links: found.attr.nlink,
                        source: (*index, found.node),
                    });
                }
            }
        }
        Ok(())
    }

    fn is_aside(&self, id: ObjectId, voter: StoreIndex) -> bool {
        let nodes = self.aside.get(&id);
        nodes.is_some_and(|nodes| nodes.iter().any(|(s, _)| *s == voter))
    }

    /// Whether nothing is left of an object but what an interrupted recovery has put aside: it had
    /// begun to complete a rename.
    fn is_only_aside(&self, id: ObjectId) -> bool {
        self.aside.contains_key(&id) && self.seen(id).is_empty()
    }

    /// Scans a directory and, below it, what is new or was moved there.
    fn scan(&mut self, dir: ObjectId, nodes: Nodes) -> Result<()> {
        let mut queue = vec![(dir, nodes)];
        while let Some((dir, mut nodes)) = queue.pop() {
            nodes.extend(self.aside.get(&dir).cloned().unwrap_or_default());
            let mut below: BTreeMap<ObjectId, Nodes> = BTreeMap::new();
            let mut looked = 0;
            for (index, node) in nodes {
                let Some((_, store)) = self.voters.iter().find(|(s, _)| *s == index) else {
                    continue;
                };
                if self.scanned.get(&dir).is_some_and(|mask| mask.has(index)) {
                    continue;
                }
                let (entries, others) = match entries(self.engine, &**store, &node) {
                    Ok(entries) => entries,
                    Err(Errno::STALE | Errno::NOENT) => continue,
                    Err(errno) => return Err(errno),
                };
                let others = others.into_iter().map(|name| ((dir, name), index));
                self.unlabelled.extend(others);
                let mask = self.scanned.entry(dir).or_default();
                *mask = mask.with(index);
                looked += 1;
                for (name, found, label) in entries {
                    if found.attr.kind == Kind::Dir {
                        let nodes = below.entry(label.id).or_default();
                        nodes.push((index, found.node.clone()));
                    }
                    self.seen.entry(label.id).or_default().push(Seen {
                        spot: (dir, name),
                        voter: index,
                        label,
                        kind: found.attr.kind,
                        links: found.attr.nlink,
                        node: found.node,
                    });
                }
            }
            for (id, nodes) in below {
                // A directory that not every voter has here is about to be made or moved.
                if id >= self.dirty.mark || nodes.len() < looked || nodes.len() < self.voters.len()
                {
                    queue.push((id, nodes));
                }
            }
        }
        Ok(())
    }

    /// The directory on every voter that has it: by its place, or along the path that another
    /// voter has. What is not looked at cannot decide, so no voter is left out for want of a
    /// reference.
    fn nodes(&self, id: ObjectId) -> Result<Nodes> {
        let mut nodes = Nodes::new();
        let mut missing = Vec::new();
        for (index, store) in self.voters {
            if id == ObjectId::ROOT {
                nodes.push((*index, store.root()?));
                continue;
            }
            let found = match self.dirty.places.get(&id) {
                Some(place) => by_place(self.engine, *index, &**store, id, place)?,
                None => None,
            };
            match found {
                Some((found, _)) if found.attr.kind == Kind::Dir => {
                    nodes.push((*index, found.node));
                }
                _ => missing.push((*index, store)),
            }
        }
        let Some((guide, node)) = nodes.first().cloned() else {
            return Ok(nodes);
        };
        let Some((_, guide)) = self.voters.iter().find(|(s, _)| *s == guide) else {
            return Ok(nodes);
        };
        for (index, store) in missing {
            let path = match path_of(self.engine, &**guide, &node) {
                Err(Errno::STALE | Errno::NOENT) => break,
                other => other?,
            };
            if let Some(node) = descend(self.engine, &**store, &path)? {
                nodes.push((index, node));
            }
        }
        Ok(nodes)
    }

    fn seen(&self, id: ObjectId) -> &[Seen] {
        self.seen.get(&id).map_or(&[], Vec::as_slice)
    }

    fn has_on(&self, spot: &Spot, id: ObjectId, voter: StoreIndex) -> bool {
        let mut spots = self.seen(id).iter();
        spots.any(|s| s.voter == voter && s.spot == *spot)
    }

    /// The voter whose names of an object count.
    fn decider_of_id(&self, id: ObjectId) -> Option<StoreIndex> {
        let spots = self.seen(id);
        let first = spots.first()?;
        if first.kind == Kind::Dir {
            return spots.iter().map(|s| s.voter).min();
        }
        self.decider_of(&first.label, spots)
    }

    /// Whether every voter that is to have the object has it there: the state is as a sync or
    /// an undisturbed change leaves it.
    fn is_complete(&self, spot: &Spot, id: ObjectId) -> bool {
        let Some(first) = self.seen(id).first() else {
            return false;
        };
        let is_dir = first.kind == Kind::Dir;
        self.voters
            .iter()
            .map(|(s, _)| *s)
            .filter(|s| is_dir || first.label.copies.has(*s))
            .all(|voter| {
                self.seen(id)
                    .iter()
                    .any(|s| s.voter == voter && s.spot == *spot)
            })
    }

    /// The voter whose names of a file count: its decider, where that has it anywhere or was
    /// looked at in every directory where another has it; else the next one that has it. A decider
    /// that has something else without a label in its place has lost it, and does not count: what
    /// was removed at most, and not synced, is there again.
    fn decider_of(&self, label: &Label, spots: &[Seen]) -> Option<StoreIndex> {
        let decider = decider(self.voters, label, false)?;
        let mut others = spots.iter().map(|s| (s.spot.clone(), decider));
        let lost = others.any(|place| self.unlabelled.contains(&place));
        let others = spots.iter().map(|s| s.voter).filter(|v| *v != decider);
        let whole = |v: &StoreIndex| label.copies.has(*v) && !self.is_aside(label.id, *v);
        let other = others.filter(whole).min();
        // What is aside there: a recovery that was cut short had begun to give it the names that
        // another store has. Where none has any left, those count that it got so far.
        let has = spots.iter().any(|s| s.voter == decider);
        if self.is_aside(label.id, decider) || (lost && !has) {
            return other.or(has.then_some(decider));
        }
        let looked = |dir: &ObjectId| self.scanned.get(dir).is_some_and(|m| m.has(decider));
        if has || spots.iter().all(|s| looked(&s.spot.0)) {
            return Some(decider);
        }
        spots
            .iter()
            .map(|s| s.voter)
            .filter(|v| label.copies.has(*v))
            .min()
    }
}

/// Decides for every directory that may differ what it is to hold.
pub(crate) fn decide(engine: &Engine, voters: &Voters, dirty: &DirtySet) -> Result<Decided> {
    let mut survey = Survey {
        engine,
        voters,
        dirty,
        scanned: BTreeMap::new(),
        seen: BTreeMap::new(),
        unlabelled: BTreeSet::new(),
        aside: BTreeMap::new(),
        aside_copies: BTreeMap::new(),
    };
    survey.look_aside()?;
    let dirs: Vec<ObjectId> = dirty
        .entries
        .keys()
        .filter_map(|e| {
            if let Entry::Names(id) = e {
                Some(*id)
            } else {
                None
            }
        })
        .collect();
    if dirty.is_everything() {
        scan_everything(&mut survey)?;
    }
    for id in dirs {
        let nodes = survey.nodes(id)?;
        if !nodes.is_empty() {
            survey.scan(id, nodes)?;
        }
    }
    let mut claims = claims(&survey);
    for rename in &dirty.renames {
        roll_forward(&survey, &mut claims, rename);
    }
    Ok(names(&survey, claims))
}

fn scan_everything(survey: &mut Survey<'_>) -> Result<()> {
    let nodes = survey.nodes(ObjectId::ROOT)?;
    survey.scan(ObjectId::ROOT, nodes)
}

type Claims = BTreeMap<Spot, BTreeSet<ObjectId>>;

/// Where each object is to be: a file where its decider has it, a directory where the lowest voter
/// that has it anywhere does.
fn claims(survey: &Survey<'_>) -> Claims {
    let mut claims = Claims::new();
    for (id, spots) in &survey.seen {
        let decides = survey.decider_of_id(*id);
        for seen in spots.iter().filter(|s| Some(s.voter) == decides) {
            claims.entry(seen.spot.clone()).or_default().insert(*id);
        }
    }
    claims
}

/// Lets the names of an object on one voter stand for all of its names.
fn follow(survey: &Survey<'_>, claims: &mut Claims, id: ObjectId, voter: StoreIndex) {
    for seen in survey.seen(id) {
        if let Some(ids) = claims.get_mut(&seen.spot) {
            ids.remove(&id);
        }
    }
    for seen in survey.seen(id).iter().filter(|s| s.voter == voter) {
        claims.entry(seen.spot.clone()).or_default().insert(id);
    }
}

/// Completes a rename that was under way: where a voter has done it, as that voter has it; where
/// none has but the object at the target is gone already, by moving the mover. A rename whose
/// mover has moved on is not in the journal any more.
fn roll_forward(survey: &Survey<'_>, claims: &mut Claims, rename: &Rename) {
    let from: Spot = (
        rename.from,
        OsStr::from_bytes(&rename.from_name).to_os_string(),
    );
    let to: Spot = (rename.to, OsStr::from_bytes(&rename.to_name).to_os_string());
    let (moving, target) = (rename.moving, rename.target);
    let exchange = rename.manner == Manner::Exchange;
    let has = |id, spot: &Spot, voter| survey.has_on(spot, id, voter);
    let voters = || survey.voters.iter().map(|(voter, _)| *voter);
    let is_lost = |id| {
        let at_either = |v| has(id, &from, v) || has(id, &to, v);
        !voters().any(at_either) && !survey.aside.contains_key(&id)
    };
    // One of the two was never durable: that the other left its name for it was not either.
    let undone = match (is_lost(target), is_lost(moving)) {
        (true, false) => Some((moving, &from, &to)),
        (false, true) => Some((target, &to, &from)),
        _ => None,
    };
    // Only who has looked everywhere can say that something is nowhere.
    let looked = |dir| {
        let stores = survey.scanned.get(&dir);
        stores.is_some_and(|stores| stores.count() == survey.engine.slots.len())
    };
    let is_known = exchange && looked(rename.from) && looked(rename.to);
    if let Some((stays, origin, elsewhere)) = undone.filter(|_| is_known) {
        if let Some(ids) = claims.get_mut(elsewhere) {
            ids.remove(&stays);
        }
        claims.entry(origin.clone()).or_default().insert(stays);
        return;
    }
    let done: Vec<StoreIndex> = voters().filter(|v| has(moving, &to, *v)).collect();
    if done.is_empty() {
        // Not done anywhere: undone where what was at the target is left there somewhere, with the
        // names that it has on that voter. What was to move may be lost altogether.
        if let Some(voter) = voters().find(|v| has(target, &to, *v)) {
            let target_decides = survey.decider_of_id(target);
            if !target_decides.is_some_and(|v| has(target, &to, v)) {
                follow(survey, claims, target, voter);
            }
            return;
        }
        if let Manner::Replace { both } = rename.manner
            && (both.is_empty() || voters().any(|v| both.has(v)))
        {
            // The target cannot have gone before the mover came: it never was durable.
            return;
        }
        let decides = survey.decider_of_id(moving);
        if !decides.is_some_and(|v| has(moving, &from, v)) && !survey.is_only_aside(moving) {
            return;
        }
        if exchange {
            // Where the other object has not come here either, no store had begun.
            if let Some(voter) = voters().find(|v| has(target, &from, *v)) {
                follow(survey, claims, target, voter);
            } else if survey.is_only_aside(target) {
                claims.entry(from.clone()).or_default().insert(target);
            } else {
                return;
            }
        }
        if let Some(ids) = claims.get_mut(&from) {
            ids.remove(&moving);
        }
        claims.entry(to).or_default().insert(moving);
        return;
    }
    // Where the store that decides has not done it, it is behind: that it had moved on would have
    // taken the rename out of the journal.
    let decides = survey.decider_of_id(moving);
    if !decides.is_some_and(|v| has(moving, &to, v)) {
        follow(survey, claims, moving, done[0]);
    }
    // The other object: as it is on a voter that has done the rename and holds a copy of it. The
    // store that decides for it may be further behind, and have it where it was before it came to
    // the target.
    let Some(target_decides) = survey.decider_of_id(target) else {
        if exchange && survey.is_only_aside(target) {
            claims.entry(from).or_default().insert(target);
        }
        return;
    };
    let behind = if exchange {
        !has(target, &from, target_decides)
    } else {
        has(target, &to, target_decides)
    };
    if !behind {
        return;
    }
    let holds = |v: &StoreIndex| {
        let first = survey.seen(target).first();
        first.is_some_and(|s| s.kind == Kind::Dir || s.label.copies.has(*v))
    };
    match done.iter().find(|v| holds(v)) {
        Some(voter) => follow(survey, claims, target, *voter),
        None => {
            if let Some(ids) = claims.get_mut(&to) {
                ids.remove(&target);
            }
            if exchange {
                claims.entry(from).or_default().insert(target);
            }
        }
    }
}

fn names(survey: &Survey<'_>, claims: Claims) -> Decided {
    let mut holders: BTreeMap<Spot, ObjectId> = BTreeMap::new();
    let mut losers = BTreeSet::new();
    for (spot, ids) in claims {
        // What is whole comes first. Else ids grow with time: the younger object was made after
        // the older one had left the name.
        let whole = ids.iter().rev().find(|id| survey.is_complete(&spot, **id));
        let Some(id) = whole.or(ids.last()).copied() else {
            continue;
        };
        losers.extend(ids.into_iter().filter(|i| *i != id));
        holders.insert(spot, id);
    }
    // Who lost a name takes all of its names from a voter that is further on, and with it who has
    // one of these and has gone on there, too.
    losers.retain(|id| {
        let spots = survey.seen(*id);
        let mut voters = spots.iter().map(|s| s.voter);
        let further =
            voters.find_map(|voter| Some((voter, moved_on(survey, &holders, *id, voter)?)));
        if let Some((voter, moved)) = further {
            holders.retain(|_, holder| !moved.contains(holder));
            for id in moved {
                let view = survey.seen(id).iter().filter(|s| s.voter == voter);
                holders.extend(view.map(|seen| (seen.spot.clone(), id)));
            }
            return false;
        }
        let free = |seen: &&Seen| holders.get(&seen.spot).is_none_or(|holder| holder == id);
        if holders.values().any(|holder| holder == id) {
            return false;
        }
        if let Some(seen) = spots.iter().find(free) {
            holders.insert(seen.spot.clone(), *id);
            return false;
        }
        tracing::warn!(
            id = id.0,
            "two objects claimed one name after a crash; one is kept aside"
        );
        true
    });
    let mut decided = Decided {
        names: survey
            .scanned
            .keys()
            .map(|dir| (*dir, Names::new()))
            .collect(),
        losers,
    };
    let mut counts: BTreeMap<ObjectId, u32> = BTreeMap::new();
    for id in holders.values() {
        *counts.entry(*id).or_default() += 1;
    }
    for ((dir, name), id) in holders {
        if let Some(mut wanted) = wanted(survey, id) {
            // The copy that is followed may have fewer names than it is to have.
            wanted.links = wanted.links.max(counts[&id]);
            decided.names.entry(dir).or_default().insert(name, wanted);
        }
    }
    decided
}

/// The objects that have to follow `voter` so that `id` can have the names that it has there;
/// `None` where one of these belongs to what does not move.
fn moved_on(
    survey: &Survey<'_>,
    holders: &BTreeMap<Spot, ObjectId>,
    id: ObjectId,
    voter: StoreIndex,
) -> Option<BTreeSet<ObjectId>> {
    let mut moved = BTreeSet::from([id]);
    let mut queue = vec![id];
    while let Some(next) = queue.pop() {
        let mut view = survey
            .seen(next)
            .iter()
            .filter(|s| s.voter == voter)
            .peekable();
        // What that voter does not have says nothing about where it would be.
        view.peek()?;
        for seen in view {
            let Some(holder) = holders.get(&seen.spot).filter(|h| **h != next) else {
                continue;
            };
            if survey.is_complete(&seen.spot, *holder) {
                return None;
            }
            if moved.insert(*holder) {
                queue.push(*holder);
            }
        }
    }
    Some(moved)
}

/// The object with its source: the decider's copy, or any where the decider does not have it.
fn wanted(survey: &Survey<'_>, id: ObjectId) -> Option<Wanted> {
    let spots = survey.seen(id);
    let Some(first) = spots.first() else {
        return survey.aside_copies.get(&id).cloned();
    };
    let decides = decider(survey.voters, &first.label, first.kind == Kind::Dir);
    let source = spots
        .iter()
        .find(|s| Some(s.voter) == decides)
        .unwrap_or(first);
    Some(Wanted {
        label: source.label,
        kind: source.kind,
        links: source.links,
        source: (source.voter, source.node.clone()),
    })
}
