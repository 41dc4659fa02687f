//! What stands after a start, and what a store that comes back has to hear.

use super::merge::Part;
use super::note::{self, COMMIT, Commit, Decision, PREPARE, Prepare};
use super::rebuild::nodes_on;
use super::shard::{BaseMap, Form, HEADER_BYTES, Header, REBUILT, new_name, parse};
use super::{Layout, Result, Site, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use crate::set::SetId;
use crate::store::Node;
use codec::Corruption;
use env::errno::Errno;
use env::{Dir, Open};
use filemeta::{OpenNote, Ticket};
use parity::Shard;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a start found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Stripes that stand whole.
    pub whole: usize,
    /// Stripes that lack a shard on a store that is there: damaged, or half removed. Their members
    /// are to get their copies back.
    pub incomplete: Vec<StripeId>,
    /// Stripes that were being made and were taken away.
    pub unmade: usize,
    /// Merges that were completed.
    pub completed: usize,
    /// Merges that were dropped.
    pub dropped: usize,
    /// Shard files whose header says nothing that can be used, by store; they are kept.
    pub damaged: Vec<(StoreIndex, String, Corruption)>,
}

/// What the stores have of one stripe.
#[derive(Default)]
struct Seen {
    made: Option<(Form, Layout, BaseMap)>,
    disagree: bool,
    /// The headers name other files of a store than its own one does.
    outdated: bool,
    /// Shards with their final name, and those without.
    standing: BTreeSet<u8>,
    unmade: BTreeSet<u8>,
}

impl Seen {
    /// Whether a store has a shard without its final name.
    fn is_unmade(&self) -> bool {
        let mut unmade = self.unmade.iter();
        unmade.any(|shard| !self.standing.contains(shard))
    }

    fn add(&mut self, store: StoreIndex, header: Header, standing: bool) {
        let shard = header.shard.0;
        match &mut self.made {
            Some((form, layout, bases)) if (*form, &*layout) == (header.form, &header.layout) => {
                if *bases != header.bases {
                    self.outdated = true;
                    self.disagree |= !adopt(layout, bases, header.bases, store);
                }
            }
            Some(_) => self.disagree = true,
            None => self.made = Some((header.form, header.layout, header.bases)),
        }
        if standing {
            self.standing.insert(shard);
        } else {
            self.unmade.insert(shard);
        }
    }
}

/// Takes a store's word on where its own files are; whether both are the same besides.
fn adopt(layout: &Layout, bases: &mut BaseMap, mut own: BaseMap, store: StoreIndex) -> bool {
    for (shard, slot) in layout.shards() {
        let now = nodes_on(&mut own, shard, slot.store(), store);
        let now: Vec<Node> = now.map(|node| node.clone()).collect();
        let known = nodes_on(bases, shard, slot.store(), store);
        known.zip(now).for_each(|(known, now)| *known = now);
    }
    let bare = |bases: &BaseMap| {
        let mut bases = bases.clone();
        for base in bases.values_mut() {
            base.node = Node::default();
            base.copies
                .iter_mut()
                .for_each(|(_, node)| *node = Node::default());
        }
        bases
    };
    bare(bases) == bare(&own)
}

type Found = BTreeMap<StripeId, Seen>;

/// A merge in the notes.
#[derive(Default)]
struct Pending {
    stores: StoreMask,
    stripe: u64,
    parts: Vec<Part>,
    /// Commits of stores by which they are noted.
    committed: BTreeMap<StoreIndex, Ticket>,
}

/// The shard files of one store.
#[derive(Clone, Copy)]
struct Shards<'a> {
    store: StoreIndex,
    dir: &'a dyn Dir,
}

impl Site {
    /// The headers of all shard files. What a crash has left of a shard that was being made again
    /// goes.
    fn survey(&self, set: SetId, found: &mut Found, report: &mut Recovered) -> Result<()> {
        let io = |doing| StripeError::io(self.store, doing);
        let files = self.shards.list().map_err(io("listing shards"))?;
        for file in files.iter().filter(|file| file.ends_with(REBUILT)) {
            let removed = self.shards.remove(file);
            removed.map_err(io("removing what a crash has left"))?;
        }
        let shards = Shards {
            store: self.store,
            dir: &*self.shards,
        };
        shards.survey(set, found, report)
    }
}

impl Shards<'_> {
    fn survey(self, set: SetId, found: &mut Found, report: &mut Recovered) -> Result<()> {
        let files = self.dir.list();
        let files = files.map_err(StripeError::io(self.store, "listing shards"))?;
        for file in files {
            let Some((stripe, shard, standing)) = parse(&file) else {
                continue;
            };
            match self.header(set, &file)? {
                Ok(header) if (header.stripe, header.shard) == (stripe, shard) => {
                    let slot = header.layout.slot(shard)?;
                    if slot.store() == Some(self.store) {
                        let seen = found.entry(stripe).or_default();
                        seen.add(self.store, header, standing);
                        continue;
                    }
                    let wrong = misplaced(self.store, slot.store());
                    report.damaged.push((self.store, file, wrong));
                }
                Ok(header) => {
                    let wrong = Corruption {
                        what: "number of a stripe",
                        offset: 0,
                        expected: stripe.0.get(),
                        found: header.stripe.0.get(),
                    };
                    report.damaged.push((self.store, file, wrong));
                }
                // A file that was being made need not have a header yet.
                Err(_) if !standing => {
                    found.entry(stripe).or_default().unmade.insert(shard.0);
                }
                Err(wrong) => report.damaged.push((self.store, file, wrong)),
            }
        }
        Ok(())
    }

    fn header(self, set: SetId, file: &str) -> Result<core::result::Result<Header, Corruption>> {
        let io = |doing| StripeError::io(self.store, doing);
        let disk = self
            .dir
            .open(file, Open::Read)
            .map_err(io("opening a shard"))?;
        let length = disk.len().map_err(io("measuring a shard"))?;
        let mut bytes = vec![0; length.min(HEADER_BYTES) as usize];
        match disk.read_at(0, &mut bytes) {
            // It is no file.
            Err(Errno::ISDIR) => bytes.clear(),
            other => other.map_err(io("reading a shard"))?,
        }
        Ok(Header::decode(&bytes, Some(set)))
    }
}

fn misplaced(store: StoreIndex, expected: Option<StoreIndex>) -> Corruption {
    Corruption {
        what: "store of a shard",
        offset: 0,
        expected: expected.map_or(u64::MAX, |store| store.0.into()),
        found: store.0.into(),
    }
}

/// Sorts notes by merge.
fn pending(
    sites: impl IntoIterator<Item = (Arc<Site>, Vec<OpenNote>)>,
) -> Result<BTreeMap<u64, Pending>> {
    let mut merges: BTreeMap<u64, Pending> = BTreeMap::new();
    let unknown = || StripeError::Misuse("a note of another version of Holdfast");
    for (site, notes) in sites {
        for note in notes {
            match note.kind {
                PREPARE => {
                    let prepare: Prepare = note::decode(&note.payload).ok_or_else(unknown)?;
                    let merge = merges.entry(prepare.merge).or_default();
                    (merge.stores, merge.stripe) = (prepare.stores, prepare.stripe);
                    merge.parts.push(Part {
                        site: site.clone(),
                        prepare,
                        prepared: note.ticket,
                        committed: None,
                    });
                }
                COMMIT => {
                    let commit: Commit = note::decode(&note.payload).ok_or_else(unknown)?;
                    let merge = merges.entry(commit.merge).or_default();
                    merge.committed.insert(site.store, note.ticket);
                }
                _ => return Err(unknown()),
            }
        }
    }
    for merge in merges.values_mut() {
        for part in &mut merge.parts {
            part.committed = merge.committed.remove(&part.site.store);
        }
    }
    Ok(merges)
}

/// The stripes that stand by what the shard files of some stores say; nothing is changed.
///
/// # Errors
/// A store cannot be read.
pub fn standing<'a>(
    set: SetId,
    stores: impl IntoIterator<Item = (StoreIndex, &'a dyn Dir)>,
) -> Result<Vec<Stripe>> {
    let (mut found, mut report) = (Found::new(), Recovered::default());
    for (store, dir) in stores {
        Shards { store, dir }.survey(set, &mut found, &mut report)?;
    }
    let stand = found.into_iter().filter_map(|(id, seen)| {
        let relied_on = !seen.disagree && !seen.is_unmade();
        let (form, layout, bases) = seen.made.filter(|_| relied_on)?;
        Some(Stripe::new(id, form, layout, bases))
    });
    Ok(stand.collect())
}

impl Stripes {
    /// Opens the stripes of a set on the stores that are members and there. `sites` come with the
    /// notes that opening their metadata store has handed back; `random` makes the numbers of
    /// merges.
    ///
    /// # Errors
    /// A store that failed; it is to be left out.
    pub fn open(
        set: SetId,
        sites: impl IntoIterator<Item = (Site, Vec<OpenNote>)>,
        random: env::Rng,
    ) -> Result<(Stripes, Recovered)> {
        let stripes = Stripes {
            set,
            sites: RwLock::default(),
            stripes: RwLock::default(),
            merges: Mutex::new(random),
            #[cfg(test)]
            planted: Mutex::default(),
        };
        let mut report = Recovered::default();
        let (mut found, mut notes) = (Found::new(), Vec::new());
        for (site, open) in sites {
            site.survey(set, &mut found, &mut report)?;
            let site = Arc::new(site);
            stripes.sites.write().insert(site.store, site.clone());
            notes.push((site, open));
        }
        let present = stripes.present();
        let merges = pending(notes)?;
        for (id, seen) in found {
            stripes.place(id, seen, present, &merges, &mut report)?;
        }
        for (merge, pending) in merges {
            stripes.settle(merge, pending, present, &mut report)?;
        }
        Ok((stripes, report))
    }

    /// The stores that are there.
    pub fn present(&self) -> StoreMask {
        let sites = self.sites.read();
        sites
            .keys()
            .fold(StoreMask::default(), |mask, store| mask.with(*store))
    }

    /// Lets a stripe stand, or takes it away.
    fn place(
        &self,
        id: StripeId,
        seen: Seen,
        present: StoreMask,
        merges: &BTreeMap<u64, Pending>,
        report: &mut Recovered,
    ) -> Result<()> {
        let (unmade, outdated) = (seen.is_unmade(), seen.outdated);
        let Some((form, layout, bases)) = seen.made.filter(|_| !seen.disagree) else {
            if seen.standing.is_empty() {
                return self.unmake(id, &seen.unmade, merges, report);
            }
            report.incomplete.push(id);
            return Ok(());
        };
        // A shard without its final name on any store: nobody relied on the stripe yet.
        if unmade {
            let shards = seen.unmade.union(&seen.standing).copied().collect();
            return self.unmake(id, &shards, merges, report);
        }
        let lacks = layout.shards().any(|(shard, slot)| {
            slot.store().is_some_and(|store| present.has(store))
                && !seen.standing.contains(&shard.0)
        });
        if lacks {
            report.incomplete.push(id);
        } else {
            report.whole += 1;
        }
        let stripe = Arc::new(Stripe::new(id, form, layout, bases));
        if outdated {
            // A crash came while a store got its part anew.
            self.write_headers([&*stripe], None)?;
        }
        self.stripes.write().insert(id, stripe);
        Ok(())
    }

    fn unmake(
        &self,
        id: StripeId,
        shards: &BTreeSet<u8>,
        merges: &BTreeMap<u64, Pending>,
        report: &mut Recovered,
    ) -> Result<()> {
        // Its merges end first: a crash after a shard is gone must not leave one to be completed
        // in it, when the store that says that the stripe was given up is lost next.
        for pending in merges.values().filter(|m| m.stripe == id.0.get()) {
            for part in &pending.parts {
                part.end();
            }
        }
        for site in self.sites.read().values() {
            let flushed = site.notes.flush();
            flushed.map_err(StripeError::notes(site.store, "ending merges"))?;
        }
        for site in self.sites.read().values() {
            for shard in shards {
                site.take_away(id, Shard(*shard))?;
            }
        }
        report.unmade += 1;
        Ok(())
    }

    /// Ends a merge that a crash has cut.
    fn settle(
        &self,
        merge: u64,
        mut pending: Pending,
        present: StoreMask,
        report: &mut Recovered,
    ) -> Result<()> {
        // What is noted as counting by a store that no longer has its part: that was done.
        let Pending {
            stores, committed, ..
        } = &pending;
        let orphans = committed.iter().map(|(store, ticket)| (*store, *ticket));
        let (stores, orphans): (_, Vec<_>) = (*stores, orphans.collect());
        let known = self.decision(merge)?;
        let counts = known.unwrap_or_else(|| {
            !orphans.is_empty() || pending.parts.iter().any(|part| part.committed.is_some())
        });
        let stripe = std::num::NonZeroU64::new(pending.stripe).map(StripeId);
        if let Some(stripe) = stripe.and_then(|id| self.get(id).ok()) {
            let away = stores.minus(present);
            self.decide(&stripe, &mut pending.parts, merge, counts, away)?;
        } else {
            // The stripe was given up, after the merge had ended.
            for part in &pending.parts {
                part.end();
            }
        }
        for (store, ticket) in orphans {
            self.site(store)?.notes.done(ticket);
        }
        if counts {
            report.completed += 1;
        } else {
            report.dropped += 1;
        }
        Ok(())
    }

    /// What the stores that are there remember of a merge.
    fn decision(&self, merge: u64) -> Result<Option<bool>> {
        for site in self.sites.read().values() {
            let decisions = site.decisions()?;
            if let Some(decision) = decisions.iter().find(|decision| decision.merge == merge) {
                return Ok(Some(decision.committed));
            }
        }
        Ok(None)
    }

    /// A store that was away is there again. What it has of stripes that were given up meanwhile
    /// goes; merges that were decided without it are ended on it as the others have.
    ///
    /// # Errors
    /// The store failed, or has what cannot be understood: it stays away.
    pub fn join(&self, site: Site, notes: Vec<OpenNote>) -> Result<Recovered> {
        let mut report = Recovered::default();
        let mut found = Found::new();
        site.survey(self.set, &mut found, &mut report)?;
        let store = site.store;
        for (id, seen) in found {
            self.rejoin(&site, id, seen, &mut report)?;
        }
        let site = Arc::new(site);
        self.sites.write().insert(store, site.clone());
        let ended = pending([(site.clone(), notes)]).and_then(|merges| {
            merges.into_iter().try_for_each(|(merge, pending)| {
                self.settle(merge, pending, self.present(), &mut report)
            })
        });
        // The others forget only what this one will not ask again.
        let heard = ended.and_then(|()| {
            let flushed = site.notes.flush();
            flushed.map_err(StripeError::notes(store, "ending merges"))?;
            self.heard(store)
        });
        if let Err(error) = heard {
            self.leave(store);
            return Err(error);
        }
        Ok(report)
    }

    /// The shards of one stripe on a store that joins.
    fn rejoin(&self, site: &Site, id: StripeId, seen: Seen, report: &mut Recovered) -> Result<()> {
        let Ok(stripe) = self.get(id) else {
            for shard in seen.standing.union(&seen.unmade) {
                site.take_away(id, Shard(*shard))?;
            }
            report.unmade += 1;
            return Ok(());
        };
        if seen.disagree
            || seen.made.as_ref().is_some_and(|(form, layout, bases)| {
                (*form, layout, bases) != (stripe.form, &stripe.layout, &stripe.bases)
            })
        {
            report.incomplete.push(id);
            return Ok(());
        }
        for shard in seen.unmade.difference(&seen.standing) {
            // The stripe stands: the others know that this shard was finished.
            site.finish(&new_name(id, Shard(*shard)), id, Shard(*shard))?;
        }
        report.whole += 1;
        Ok(())
    }

    /// A store has heard of all decisions, or will never come back.
    pub fn heard(&self, store: StoreIndex) -> Result<()> {
        for site in self.sites.read().values() {
            let before = site.decisions()?;
            let mut decisions: Vec<Decision> = before.clone();
            for decision in &mut decisions {
                decision.away = decision.away.minus(StoreMask::only(store));
            }
            decisions.retain(|decision| !decision.away.is_empty());
            if decisions != before {
                site.set_decisions(&decisions)?;
            }
        }
        Ok(())
    }
}
