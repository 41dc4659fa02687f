//! Making a stripe, and giving one up.

use super::shard::{Form, OpenShard, name, new_name};
use super::{Base, Layout, Result, Site, State, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use env::Open;
use env::errno::Errno;
use parity::{Code, Role, Shard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A stripe to be made.
#[derive(Clone, Debug)]
pub struct Draft {
    /// A number that no stripe of the set has ever had.
    pub id: StripeId,
    /// Its shards.
    pub layout: Layout,
    /// Where the base of each data shard lies.
    pub bases: Vec<(Shard, Base)>,
}

/// Stripes whose shards are all there, durable and verified, and that nobody relies on yet.
/// Dropping it takes them away again.
#[must_use = "stripes that are not activated go away"]
pub struct Prepared<'a> {
    stripes: &'a Stripes,
    made: Vec<Arc<Stripe>>,
    /// What was read again is not what was computed from: a base has changed.
    unverified: BTreeSet<StripeId>,
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prepared").field(&self.made).finish()
    }
}

impl Stripes {
    /// Computes the parity of chunks, writes it and the checksums of all shards, makes them
    /// durable, reads everything again (what the page cache has, it may read there) and compares. The caller
    /// keeps writers off the bases, or notices them and drops the result. Stripes that are made
    /// together share their syncs; each needs four descriptors or so until it is done.
    ///
    /// # Errors
    /// Nothing is left then, unless a store failed: it is to be fenced.
    pub fn prepare(&self, drafts: impl IntoIterator<Item = Draft>) -> Result<Prepared<'_>> {
        let mut prepared = Prepared {
            stripes: self,
            made: Vec::new(),
            unverified: BTreeSet::new(),
        };
        let mut open = Vec::new();
        for Draft { id, layout, bases } in drafts {
            layout.check()?;
            let is_new = prepared.made.iter().all(|stripe| stripe.id != id);
            if !is_new || self.stripes.read().contains_key(&id) {
                return Err(StripeError::Exists(id));
            }
            let bases = bases.into_iter().map(|(shard, base)| (shard.0, base));
            let stripe = Arc::new(Stripe::new(id, Form::default(), layout, bases.collect()));
            prepared.made.push(stripe.clone());
            let shards = self.make_files(&stripe)?;
            self.fill(&stripe, &shards)?;
            let there = shards.iter().flatten();
            there.for_each(OpenShard::start_sync);
            open.push(shards);
        }
        for shard in open.iter().flatten().flatten() {
            #[cfg(test)]
            if self.plants(super::tests::Planted::MakesUnsynced) {
                continue;
            }
            shard.sync()?;
        }
        self.sync_directories(&prepared.made)?;
        for (stripe, shards) in prepared.made.iter().zip(&open) {
            if !self.verify(stripe, shards)? {
                tracing::warn!(
                    stripe = stripe.id.0,
                    "what was read again is not what a stripe was made of"
                );
                prepared.unverified.insert(stripe.id);
            }
        }
        Ok(prepared)
    }

    /// Calls `act` for each shard that a store has.
    pub(super) fn each_site(
        &self,
        layout: &Layout,
        mut act: impl FnMut(Shard, &Site) -> Result<()>,
    ) -> Result<()> {
        for (shard, slot) in layout.shards() {
            if let Some(store) = slot.store() {
                act(shard, &*self.site(store)?)?;
            }
        }
        Ok(())
    }

    fn make_files(&self, stripe: &Stripe) -> Result<Vec<Option<OpenShard>>> {
        let mut shards: Vec<_> = stripe.layout.slots.iter().map(|_| None).collect();
        self.each_site(&stripe.layout, |shard, site| {
            shards[usize::from(shard.0)] =
                Some(self.make_file(stripe, shard, site, &new_name(stripe.id, shard))?);
            Ok(())
        })?;
        Ok(shards)
    }

    /// Makes the file of a shard under a name of what is not finished.
    pub(super) fn make_file(
        &self,
        stripe: &Stripe,
        shard: Shard,
        site: &Site,
        file: &str,
    ) -> Result<OpenShard> {
        let io = |doing| StripeError::io(site.store, doing);
        let layout = &stripe.layout;
        let parity = matches!(layout.geometry.role(shard), Ok(Role::Parity(_)));
        let header = stripe.header(shard).encode(self.set)?;
        let before = stripe.metadata_bytes();
        assert!(header.len() as u64 <= before, "a header before the data");
        let bytes = before + if parity { layout.chunk.get() } else { 0 };
        match site.shards.remove(file) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(io("removing what a crash has left")(errno)),
        }
        let disk = site.shards.open(file, Open::Allocate(bytes));
        let disk = disk.map_err(io("making a shard"))?;
        disk.write_at(0, &header).map_err(io("writing a shard"))?;
        OpenShard::open_as(self.set, site, stripe, shard, file)
    }

    fn fill(&self, stripe: &Stripe, shards: &[Option<OpenShard>]) -> Result<()> {
        let (layout, geometry) = (&stripe.layout, stripe.layout.geometry);
        let (data, parity) = shards.split_at(usize::from(geometry.data()));
        for run in layout.all_pages().runs() {
            let read = data.iter().map(|shard| match shard {
                Some(shard) => shard.read(run),
                None => Ok(vec![0; run.bytes()]),
            });
            let read: Vec<Vec<u8>> = read.collect::<Result<_>>()?;
            let mut made = vec![vec![0; run.bytes()]; parity.len()];
            {
                let inputs: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
                let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
                stripe.code.encode(&inputs, &mut outputs)?;
            }
            for (shard, bytes) in shards.iter().zip(read.iter().chain(&made)) {
                let Some(shard) = shard else { continue };
                if matches!(geometry.role(shard.shard), Ok(Role::Parity(_))) {
                    shard.write_parity(run, bytes)?;
                }
                shard.seal(run, bytes)?;
            }
        }
        Ok(())
    }

    /// Reads everything again; whether it is right.
    fn verify(&self, stripe: &Stripe, shards: &[Option<OpenShard>]) -> Result<bool> {
        for run in stripe.layout.all_pages().runs() {
            let mut read = Vec::with_capacity(shards.len());
            for (at, shard) in (0u8..).zip(shards) {
                let bytes = match shard {
                    Some(shard) => {
                        let bytes = shard.read(run)?;
                        if shard.right(run, &bytes)?.contains(&false) {
                            return Ok(false);
                        }
                        bytes
                    }
                    None => vec![0; run.bytes()],
                };
                read.push((Shard(at), bytes));
            }
            let read: Vec<(Shard, &[u8])> = read.iter().map(|(s, b)| (*s, b.as_slice())).collect();
            if stripe.code.verify(&read).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn sync_directories(&self, stripes: &[Arc<Stripe>]) -> Result<()> {
        let all = stripes.iter().map(|stripe| stripe.layout.stores());
        let all = all.fold(StoreMask::default(), StoreMask::with_all);
        all.iter()
            .try_for_each(|store| self.site(store)?.sync_shards())
    }

    /// Gives all shards of stripes their final names, durably: of each stripe the first shard
    /// before the second, the parity last.
    fn let_stand(&self, stripes: &[Arc<Stripe>]) -> Result<()> {
        let most = stripes.iter().map(|stripe| stripe.layout.slots.len()).max();
        for shard in (0u8..).map(Shard).take(most.unwrap_or(0)) {
            let mut named: BTreeMap<StoreIndex, Arc<Site>> = BTreeMap::new();
            for stripe in stripes {
                let slot = stripe.layout.slots.get(usize::from(shard.0));
                let Some(store) = slot.and_then(|slot| slot.store()) else {
                    continue;
                };
                let site = self.site(store)?;
                let from = new_name(stripe.id, shard);
                let renamed = site.shards.rename_unsynced(&from, &name(stripe.id, shard));
                renamed.map_err(StripeError::io(store, "letting a stripe stand"))?;
                named.insert(store, site);
            }
            named.values().try_for_each(|site| site.sync_shards())?;
        }
        Ok(())
    }

    /// Gives stripes up: their members have their copies again, durably, or are gone. When this
    /// has returned nothing of them is left on the stores that are there, and the bases may be
    /// written.
    ///
    /// # Errors
    /// [`StripeError::Left`] with the stores that failed: they are to be fenced. On all others the
    /// stripes are gone.
    pub fn remove(&self, ids: &[StripeId]) -> Result<()> {
        let mut gone = Vec::with_capacity(ids.len());
        for id in ids {
            let stripe = self.get(*id)?;
            *stripe.state.write() = State::Removed;
            self.stripes.write().remove(id);
            gone.push(stripe);
        }
        let failed = self.take_away(&gone);
        if failed.is_empty() {
            Ok(())
        } else {
            Err(StripeError::Left(failed))
        }
    }

    /// Takes the final names of the parity shards that are there, or, where none is, that of a data
    /// shard, durably; the stores that failed, and the shards.
    fn unfinish(&self, stripes: &[Arc<Stripe>]) -> (StoreMask, BTreeSet<(StripeId, Shard)>) {
        let (mut failed, mut marks) = (StoreMask::default(), BTreeSet::new());
        let mut sites: BTreeMap<StoreIndex, Arc<Site>> = BTreeMap::new();
        for stripe in stripes {
            let mut done = false;
            for (shard, slot) in stripe.layout.shards().rev() {
                let Some(Ok(site)) = slot.store().map(|store| self.site(store)) else {
                    continue;
                };
                if slot.chunk().is_some() && done {
                    break;
                }
                match site.unfinish(stripe.id, shard) {
                    Ok(()) => {
                        done = true;
                        marks.insert((stripe.id, shard));
                        sites.insert(site.store, site);
                    }
                    Err(_) => failed = failed.with(site.store),
                }
            }
        }
        for (store, site) in sites {
            if site.shards.sync().is_err() {
                failed = failed.with(store);
            }
        }
        (failed, marks)
    }

    /// Removes the files of stripes wherever a store is there; the stores that failed.
    fn take_away(&self, gone: &[Arc<Stripe>]) -> StoreMask {
        // First the stripes count as not finished, so that a start after a crash in here takes the
        // rest away: the copies, not what is left of a stripe, are what the data is. What says so
        // goes last.
        let (mut failed, marks) = self.unfinish(gone);
        let sites: Vec<Arc<Site>> = self.sites.read().values().cloned().collect();
        for is_mark in [false, true] {
            let wanted = |key: &(StripeId, Shard)| marks.contains(key) == is_mark;
            for site in &sites {
                if let Err(error) = site.take_all_away(gone, wanted) {
                    tracing::warn!(%error, "stripes that were given up are left on a store");
                    failed = failed.with(site.store);
                }
            }
        }
        failed
    }
}

impl Site {
    /// Removes the files of a shard, durably, and sees to it that no merge of it comes back.
    pub(super) fn take_away(&self, stripe: StripeId, shard: Shard) -> Result<()> {
        self.end_merges()?;
        self.remove_files(stripe, shard)?;
        self.sync_shards()
    }

    /// The same for all shards that the store has of some stripes.
    fn take_all_away(
        &self,
        stripes: &[Arc<Stripe>],
        wanted: impl Fn(&(StripeId, Shard)) -> bool,
    ) -> Result<()> {
        let mut shards = Vec::new();
        for stripe in stripes {
            let mine = stripe.layout.shards();
            let mine = mine.filter(|(_, slot)| slot.store() == Some(self.store));
            shards.extend(mine.map(|(shard, _)| (stripe.id, shard)).filter(&wanted));
        }
        if shards.is_empty() {
            return Ok(());
        }
        self.end_merges()?;
        for (stripe, shard) in shards {
            self.remove_files(stripe, shard)?;
        }
        self.sync_shards()
    }

    fn end_merges(&self) -> Result<()> {
        let flushed = self.notes.flush();
        flushed.map_err(StripeError::notes(self.store, "ending merges"))
    }

    fn remove_files(&self, stripe: StripeId, shard: Shard) -> Result<()> {
        for file in [name(stripe, shard), new_name(stripe, shard)] {
            match self.shards.remove(&file) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(StripeError::io(self.store, "removing a shard")(errno)),
            }
        }
        Ok(())
    }

    pub(super) fn sync_shards(&self) -> Result<()> {
        let synced = self.shards.sync();
        synced.map_err(StripeError::io(self.store, "syncing the shards' directory"))
    }

    /// Takes a shard its final name; durable after a sync of the directory.
    fn unfinish(&self, stripe: StripeId, shard: Shard) -> Result<()> {
        let (from, to) = (name(stripe, shard), new_name(stripe, shard));
        let renamed = self.shards.rename_unsynced(&from, &to);
        match renamed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(StripeError::io(self.store, "giving a stripe up")(errno)),
        }
    }

    /// Gives what is in `file` the final name of a shard.
    pub(super) fn finish(&self, file: &str, stripe: StripeId, shard: Shard) -> Result<()> {
        let renamed = self.shards.rename(file, &name(stripe, shard));
        renamed.map_err(StripeError::io(self.store, "letting a stripe stand"))
    }
}

impl Prepared<'_> {
    /// Lets those stripes stand that are `wanted` and verified, all of them or none, and takes the
    /// others away; gives those that stand. From here on their members may give up their copies,
    /// and must not be written in place.
    ///
    /// # Errors
    /// None of them stands. A store that failed, or that kept what was to be removed again
    /// ([`StripeError::Left`]), is to be fenced before a base is written.
    pub fn activate(mut self, wanted: impl Fn(StripeId) -> bool) -> Result<Vec<Arc<Stripe>>> {
        let made = std::mem::take(&mut self.made);
        let stands =
            |stripe: &Arc<Stripe>| !self.unverified.contains(&stripe.id) && wanted(stripe.id);
        let (chosen, rest) = made.into_iter().partition(stands);
        let chosen: Vec<Arc<Stripe>> = chosen;
        self.made = rest;
        match self.stripes.let_stand(&chosen) {
            Ok(()) => {
                let mut stripes = self.stripes.stripes.write();
                stripes.extend(chosen.iter().map(|stripe| (stripe.id, stripe.clone())));
                Ok(chosen)
            }
            Err(error) => {
                let left = self.stripes.take_away(&chosen);
                let failed = error.failed().map(StoreMask::only).unwrap_or_default();
                Err(if left.is_empty() {
                    error
                } else {
                    StripeError::Left(left.with_all(failed))
                })
            }
        }
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if !self.made.is_empty() {
            // What cannot be removed here has a name that a start removes.
            let _ = self.stripes.take_away(&self.made);
        }
    }
}
