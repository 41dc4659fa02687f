//! Stores, a running system on them, the model beside it, and what happens to them all.

use crate::operation::{KINDS, Operation};
use crate::system::{Running, System};
use crate::walk;
use anyhow::{Context, Result, bail, ensure};
use holdfast_redundancy::model::{Certain, Meta, Moment, Tree};
use holdfast_redundancy::store::sim::{Choose, Fault, Power, Rng, SimStore};
use mount::{Errno, Ino, Kind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Kill,
    PowerCut,
}

/// What ails one store. At most one is ailing at a time: more is more than two copies stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Gone,
    Faulty,
}

pub(crate) struct World<'a> {
    system: &'a dyn System,
    running: Option<Box<dyn Running>>,
    stores: Vec<Arc<SimStore>>,
    power: Power,
    tree: Tree,
    /// Files without names that the layer still knows.
    held: Vec<u64>,
    weights: Vec<u64>,
    armed: Option<End>,
    trouble: Option<(usize, Trouble)>,
    /// The ailing store has lost what was not synced, or may do a write in part, and nobody knows
    /// yet.
    unnoticed: bool,
    /// Bytes may not fit just now.
    tight: bool,
    seeds: Rng,
    pub(crate) log: Vec<String>,
}

impl<'a> World<'a> {
    pub(crate) fn new(system: &'a dyn System, seed: u64) -> Result<World<'a>> {
        system.begin();
        let mut seeds = Rng::new(seed);
        let power = Power::new();
        let stores = (0..system.stores())
            .map(|_| SimStore::new(seeds.next_u64(), &power))
            .collect();
        // Swarm testing (Groce and others, ISSTA 2012): each run leaves some kinds out.
        let weights = (0..KINDS)
            .map(|_| {
                if seeds.chance(1, 4) {
                    0
                } else {
                    seeds.between(1, 8)
                }
            })
            .collect();
        let mut world = World {
            system,
            running: None,
            stores,
            power,
            tree: Tree::new(
                Ino::ROOT.0,
                Meta {
                    mode: 0o755,
                    uid: 0,
                    gid: 0,
                },
            ),
            held: Vec::new(),
            weights,
            armed: None,
            trouble: None,
            unnoticed: false,
            tight: false,
            seeds,
            log: Vec::new(),
        };
        world.start().context("first start")?;
        world.compare(Certain::Now)?;
        Ok(world)
    }

    fn note(&mut self, what: impl std::fmt::Debug) {
        self.log.push(format!("{what:?}"));
    }

    fn running(&self) -> Result<&dyn Running> {
        self.running.as_deref().context("nothing runs")
    }

    /// One step: an operation, or something that happens to the stores or the process.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Result<()> {
        if rng.chance(1, 9) {
            self.event(rng)?;
        } else {
            self.operate(rng)?;
        }
        self.unnoticed &= self.running()?.in_sync();
        Ok(())
    }

    fn operate(&mut self, rng: &mut Rng) -> Result<()> {
        let total: u64 = self.weights.iter().sum();
        let mut at = rng.below(total);
        let kind = self.weights.iter().position(|weight| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        let Some(operation) = Operation::choose(&self.tree, &self.held, kind.unwrap_or(0), rng)
        else {
            return Ok(());
        };
        self.note(&operation);
        let floor = self.tree.moment();
        let answer = operation.run(self.running()?.layer(), &self.tree);
        if self.power.is_off() {
            // Whatever the call said, it may or may not have happened; unless it said that it
            // was done and only the end of the process came with it.
            match answer {
                Ok(Ok(ino)) => self.done(&operation, ino, rng)?,
                _ => operation.apply(&mut self.tree, None),
            }
            return self.end(floor, rng);
        }
        match answer? {
            Ok(ino) => self.done(&operation, ino, rng),
            Err(Errno::NOSPC) if self.tight => {
                operation.apply(&mut self.tree, None);
                self.compare(Certain::UpTo(floor))
            }
            Err(errno) => bail!("{operation:?} answered {errno:?}"),
        }
    }

    /// The operation has been done: the model follows.
    fn done(&mut self, operation: &Operation, ino: Option<u64>, rng: &mut Rng) -> Result<()> {
        let before: Vec<u64> = self.tree.named().map(|(ino, _)| ino).collect();
        operation.apply(&mut self.tree, ino);
        if let Operation::Sync { ino, data_only } = operation {
            self.tree.sync(*ino, *data_only);
        }
        for ino in before {
            let Some(object) = self.tree.object(ino) else {
                continue;
            };
            if object.is_named() {
                continue;
            }
            if object.made.kind == Kind::File && rng.chance(1, 3) {
                self.held.push(ino);
            } else {
                self.running()?.layer().forget(Ino(ino));
            }
        }
        if self.held.len() > 3 {
            let ino = self.held.remove(0);
            self.running()?.layer().forget(Ino(ino));
        }
        Ok(())
    }

    fn event(&mut self, rng: &mut Rng) -> Result<()> {
        let ailing = self.trouble.is_some();
        let loses = self.system.tolerates_loss();
        let floor = self.tree.moment();
        let events = if self.system.encodes() { 23 } else { 16 };
        match rng.below(if loses { events } else { 8 }) {
            0 => {
                self.note("power cut");
                self.armed = Some(End::PowerCut);
                self.end(floor, rng)
            }
            1 => {
                self.note("kill");
                self.armed = Some(End::Kill);
                self.end(floor, rng)
            }
            2 | 3 if self.armed.is_none() => {
                let end = if rng.chance(2, 3) {
                    End::PowerCut
                } else {
                    End::Kill
                };
                let steps = rng.below(40);
                self.note(format!("{end:?} after {steps} steps"));
                self.armed = Some(end);
                self.power.cut_after(steps);
                Ok(())
            }
            4 => {
                self.note("checkpoint");
                let result = self.running()?.checkpoint();
                if self.power.is_off() {
                    return self.end(floor, rng);
                }
                result.context("checkpoint")?;
                if self.system.checkpoint_syncs() {
                    self.tree.sync_all();
                }
                Ok(())
            }
            5 => {
                self.note("remount");
                self.held.clear();
                let result = match self.running.take() {
                    Some(running) => running.shutdown(),
                    None => Ok(()),
                };
                if self.power.is_off() {
                    return self.end(floor, rng);
                }
                result.context("shutdown")?;
                self.tree.sync_all();
                self.stores.iter().for_each(|store| store.kill());
                match self.start() {
                    Err(_) if self.power.is_off() => self.end(self.tree.moment(), rng),
                    started => {
                        started.context("start")?;
                        self.compare(Certain::Now)
                    }
                }
            }
            6 | 7 => self.compare(Certain::Now),
            8 | 9 if !ailing => {
                let at = rng.below(self.stores.len() as u64) as usize;
                self.trouble = Some((at, Trouble::Gone));
                let crashes = rng.chance(1, 2);
                self.note(format!("store {at} vanishes, crashes: {crashes}"));
                if crashes {
                    self.unnoticed = true;
                    self.stores[at].crash()
                } else {
                    self.stores[at].kill()
                }
                Ok(())
            }
            10 if !ailing => {
                let at = rng.below(self.stores.len() as u64) as usize;
                self.trouble = Some((at, Trouble::Faulty));
                let kind = rng.below(5);
                self.note(format!("store {at} fails: {kind}"));
                self.unnoticed = true;
                let (store, after) = (&self.stores[at], rng.below(6));
                match kind {
                    0 => store.set_read_only(true),
                    1 => store.fail_after(Fault::ReadError, after),
                    2 => store.fail_after(Fault::WriteError, after),
                    3 => store.fail_after(Fault::SyncError, after),
                    _ => {
                        store.set_room(Some(rng.below(200_000)));
                        self.tight = true;
                    }
                }
                Ok(())
            }
            11 | 12 if ailing => self.mend(rng),
            13 | 14 => self.catch_up(rng),
            16..=20 => self.encode(rng),
            21.. => self.merge(rng),
            _ => Ok(()),
        }
    }

    /// What is cold, which is everything, gives up its copies.
    fn encode(&mut self, rng: &mut Rng) -> Result<()> {
        self.note("encode");
        let floor = self.tree.moment();
        let result = self.running()?.checkpoint();
        if self.power.is_off() {
            return self.end(floor, rng);
        }
        result.context("checkpoint")?;
        self.tree.sync_all();
        let result = self.running()?.encode();
        if self.power.is_off() {
            return self.end(floor, rng);
        }
        result.context("encode")
    }

    /// What was written to encoded chunks goes into bases and parity.
    fn merge(&mut self, rng: &mut Rng) -> Result<()> {
        self.note("merge");
        let floor = self.tree.moment();
        let result = self.running()?.merge();
        if self.power.is_off() {
            return self.end(floor, rng);
        }
        result.context("merge")
    }

    /// The ailing store comes back, or an empty one does.
    fn mend(&mut self, rng: &mut Rng) -> Result<()> {
        let Some((at, trouble)) = self.trouble else {
            return Ok(());
        };
        let floor = self.tree.moment();
        self.stores[at].heal();
        self.tight = false;
        if trouble == Trouble::Gone && rng.chance(1, 3) {
            self.note(format!("store {at} is replaced by an empty one"));
            self.stores[at] = SimStore::new(self.seeds.next_u64(), &self.power);
        } else {
            self.note(format!("store {at} returns"));
            self.stores[at].kill();
            self.stores[at] = self.stores[at].reopen();
        }
        self.trouble = Some((at, Trouble::Faulty));
        let result = self.running()?.attach(at, Arc::clone(&self.stores[at]));
        if self.power.is_off() {
            return self.end(floor, rng);
        }
        result.with_context(|| format!("attach of store {at}"))
    }

    /// Waits for redundancy, and then each copy must be right by itself.
    fn catch_up(&mut self, rng: &mut Rng) -> Result<()> {
        if matches!(self.trouble, Some((_, Trouble::Gone))) || self.tight {
            return Ok(());
        }
        self.note("catch up");
        let floor = self.tree.moment();
        let mut result = self.running()?.resync();
        for _ in 0..3 {
            if self.power.is_off() || (result.is_ok() && self.running()?.in_sync()) {
                break;
            }
            if let Some((at, _)) = self.trouble {
                self.stores[at].heal();
                self.mend(rng)?;
            }
            if self.running.is_some() && !self.power.is_off() {
                result = self.running()?.resync();
            }
        }
        if self.power.is_off() {
            return self.end(floor, rng);
        }
        result.context("resync")?;
        let running = self.running()?;
        ensure!(
            running.in_sync(),
            "not in sync after a resync: {}",
            running.health()
        );
        self.trouble = None;
        self.stores.iter().for_each(|store| store.heal());
        self.compare(Certain::Now)?;
        self.compare_copies()
    }

    /// The process ends as it was armed to, and a new one starts.
    fn end(&mut self, floor: Moment, rng: &mut Rng) -> Result<()> {
        let end = self.armed.take().unwrap_or(End::PowerCut);
        self.note(format!("the process ends: {end:?}"));
        self.running = None;
        self.held.clear();
        let stop = |world: &World<'_>| {
            for store in &world.stores {
                match end {
                    End::PowerCut => store.crash(),
                    End::Kill => store.kill(),
                }
            }
            world.power.set(true);
        };
        stop(self);
        // A store that went down with what it had not synced, and is back before anybody noticed, is
        // as after a power cut.
        let lost = end == End::PowerCut || std::mem::take(&mut self.unnoticed);
        for _ in 0..2 {
            if !rng.chance(1, 3) {
                break;
            }
            let steps = rng.below(60);
            self.note(format!("and again after {steps} steps of the start"));
            self.power.cut_after(steps);
            match self.start() {
                Err(error) if !self.power.is_off() => return Err(error.context("start")),
                _ => {}
            }
            self.running = None;
            stop(self);
        }
        self.start().context("start")?;
        self.compare(if lost {
            Certain::Synced
        } else {
            Certain::UpTo(floor)
        })?;
        if rng.chance(1, 2) {
            self.catch_up(rng)
        } else {
            Ok(())
        }
    }

    fn start(&mut self) -> Result<()> {
        let mut present = Vec::new();
        for (at, store) in self.stores.iter_mut().enumerate() {
            if self.trouble == Some((at, Trouble::Gone)) {
                present.push(None);
                continue;
            }
            store.heal();
            *store = store.reopen();
            present.push(Some(Arc::clone(store)));
        }
        self.tight = false;
        self.running = Some(self.system.open(&present)?);
        Ok(())
    }

    /// Compares the whole tree as the layer shows it; what it shows is the present from now on.
    fn compare(&mut self, certain: Certain) -> Result<()> {
        // The walk itself must not be cut.
        let armed = self.armed.take();
        if armed.is_some() {
            self.power.set(true);
        }
        let found = walk::through(self.running()?.layer()).context("walking the tree")?;
        self.tree
            .check(&found, certain)
            .with_context(|| format!("through the layer, certain: {certain:?}"))?;
        self.tree.adopt(&found);
        let held: BTreeSet<u64> = self.held.iter().copied().collect();
        self.tree.forget_gone(|ino| held.contains(&ino));
        Ok(())
    }

    fn compare_copies(&self) -> Result<()> {
        let mut held = std::collections::BTreeMap::<u64, u64>::new();
        for (at, store) in self.stores.iter().enumerate() {
            let whole = self.running()?.whole(at, store);
            let (found, copies) =
                walk::store(&*whole).with_context(|| format!("reading store {at}"))?;
            for (place, ino) in &found.entries {
                ensure!(
                    self.tree.find(place.0, &place.1) == Some(*ino),
                    "store {at} has {place:?} as object {ino}, the tree has {:?}",
                    self.tree.find(place.0, &place.1)
                );
            }
            for (ino, object) in self.tree.named() {
                let Some(seen) = found.objects.get(&ino) else {
                    ensure!(
                        object.made.kind != Kind::Dir,
                        "directory {ino} is not on store {at}"
                    );
                    continue;
                };
                object
                    .check(ino, seen, Certain::Now)
                    .with_context(|| format!("on store {at} alone"))?;
                let names = found
                    .entries
                    .values()
                    .filter(|found| **found == ino)
                    .count();
                ensure!(
                    ino == Ino::ROOT.0 || names == object.names.now().len(),
                    "object {ino} has {names} names on store {at}"
                );
                if object.made.kind != Kind::Dir {
                    let mask = copies.get(&ino).copied().unwrap_or(0);
                    ensure!(
                        mask >> at & 1 == 1,
                        "store {at} holds object {ino}, mask {mask:b}"
                    );
                }
                *held.entry(ino).or_default() |= 1 << at;
            }
        }
        for (ino, object) in self.tree.named() {
            let count = held.get(&ino).copied().unwrap_or(0).count_ones() as usize;
            ensure!(
                object.made.kind == Kind::Dir || count >= self.system.copies(),
                "object {ino} has {count} copies"
            );
        }
        Ok(())
    }

    /// The last comparison of a run.
    pub(crate) fn finish(&mut self, rng: &mut Rng) -> Result<()> {
        self.compare(Certain::Now)?;
        if self.trouble.is_some() {
            self.mend(rng)?;
        }
        self.catch_up(rng)?;
        self.compare_copies()
    }
}
