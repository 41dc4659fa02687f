//! Giving a store its part of stripes anew, after that was lost or is not to be believed.
//!
//! The part is computed from the other shards. The copies that the store has of the chunks may be
//! other files than before, so headers get new references: in the store's own shard first, whose
//! word on the store's own files counts, and then in the others.

use super::shard::{BaseMap, OpenShard, name, rebuilt_name};
use super::{Result, Site, State, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use crate::label::{ObjectId, StoreIndex};
use crate::store::Node;
use env::errno::Errno;
use env::{Disk, Open};
use parity::Shard;
use std::sync::Arc;

/// What was made anew.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Stripes, as they were and as they are now.
    pub made: Vec<(Arc<Stripe>, Arc<Stripe>)>,
    /// Stripes of which the store cannot have a part: it has no shard of them, or a file is not
    /// there any more. They are to be given up.
    pub left: Vec<StripeId>,
    /// Bytes that were written.
    pub bytes: u64,
}

/// A part that is written, and not relied on yet.
struct Part {
    old: Arc<Stripe>,
    new: Arc<Stripe>,
    shard: OpenShard,
}

impl Stripes {
    /// Whether what a store has to hold of a stripe can be computed without it, as far as shards
    /// are there.
    pub fn stands_without(&self, stripe: &Stripe, store: StoreIndex) -> bool {
        let present = self.present();
        let slots = stripe.layout.slots.iter();
        let there = slots.filter(|slot| match slot.store() {
            Some(holder) => holder != store && present.has(holder),
            None => true,
        });
        there.count() >= usize::from(stripe.layout.geometry.data())
    }

    /// Makes the part of a store that is away anew in each of `ids`, durably: base or parity, its
    /// checksums, and in all headers where its copies are now, by `nodes`. The caller keeps merges
    /// off, and lets the store join after this.
    ///
    /// # Errors
    /// [`StripeError::TooFew`], [`StripeError::Undecided`], or a store failed. What was made counts
    /// for nothing before the store has joined.
    pub fn rebuild_parts(
        &self,
        site: &Site,
        ids: &[StripeId],
        nodes: &dyn Fn(ObjectId) -> Option<Node>,
    ) -> Result<Rebuilt> {
        let mut rebuilt = Rebuilt::default();
        let mut parts = Vec::with_capacity(ids.len());
        for id in ids {
            // One that was given up meanwhile needs nothing.
            let Ok(old) = self.get(*id) else { continue };
            match self.rebuild_part(site, &old, nodes) {
                Ok(Some((part, bytes))) => {
                    part.shard.start_sync();
                    rebuilt.bytes += bytes;
                    parts.push(part);
                }
                Ok(None) => rebuilt.left.push(*id),
                Err(error)
                    if error.failed() == Some(site.store)
                        && matches!(error.errno(), Some(Errno::STALE | Errno::NOENT)) =>
                {
                    rebuilt.left.push(*id);
                }
                Err(error) => return Err(error),
            }
        }
        for part in &parts {
            #[cfg(test)]
            if self.plants(super::tests::Planted::RebuildsUnsynced) {
                continue;
            }
            part.shard.sync()?;
        }
        for Part { new, shard, .. } in &parts {
            let from = rebuilt_name(new.id, shard.shard);
            let renamed = site
                .shards
                .rename_unsynced(&from, &name(new.id, shard.shard));
            renamed.map_err(StripeError::io(site.store, "letting a shard stand"))?;
        }
        site.sync_shards()?;
        let moved = parts.iter().filter(|part| part.old.bases != part.new.bases);
        self.write_headers(moved.map(|part| &*part.new), Some(site.store))?;
        for Part { old, new, .. } in parts {
            *old.state.write() = State::Removed;
            self.stripes.write().insert(new.id, new.clone());
            rebuilt.made.push((old, new));
        }
        Ok(rebuilt)
    }

    /// Writes one store's part; nothing where it has none.
    fn rebuild_part(
        &self,
        site: &Site,
        old: &Arc<Stripe>,
        nodes: &dyn Fn(ObjectId) -> Option<Node>,
    ) -> Result<Option<(Part, u64)>> {
        let mut shards = old.layout.shards();
        let mine = shards.find(|(_, slot)| slot.store() == Some(site.store));
        let (Some((shard, _)), Some(bases)) = (mine, moved(old, site.store, nodes)) else {
            return Ok(None);
        };
        let state = old.state.read();
        match *state {
            State::Sound => {}
            State::Undecided => return Err(StripeError::Undecided(old.id)),
            State::Removed => return Ok(None),
        }
        let new = Arc::new(Stripe::new(old.id, old.form, old.layout.clone(), bases));
        let open = self.make_file(&new, shard, site, &rebuilt_name(old.id, shard))?;
        let mut written = 0;
        for pages in old.layout.all_pages().runs() {
            let mut bytes = vec![0; pages.bytes()];
            let run = self.look_at_all(old, pages);
            run.decode(old, shard, &mut bytes)?;
            written += open.rewrite(pages, &bytes)?;
        }
        let part = Part {
            old: old.clone(),
            new,
            shard: open,
        };
        Ok(Some((part, written)))
    }

    /// Writes the headers of stripes again, durably, on all stores that are there but one.
    pub(super) fn write_headers<'a>(
        &self,
        stripes: impl IntoIterator<Item = &'a Stripe>,
        but: Option<StoreIndex>,
    ) -> Result<()> {
        let mut written: Vec<(StoreIndex, Arc<dyn Disk>)> = Vec::new();
        for stripe in stripes {
            for (shard, slot) in stripe.layout.shards() {
                let Some(store) = slot.store().filter(|store| Some(*store) != but) else {
                    continue;
                };
                let Ok(site) = self.site(store) else { continue };
                let header = stripe.header(shard).encode(self.set)?;
                let disk = match site.shards.open(&name(stripe.id, shard), Open::Write) {
                    // A shard that is lost has no header either.
                    Err(Errno::NOENT) => continue,
                    other => other.map_err(StripeError::io(store, "opening a shard"))?,
                };
                let done = disk.write_at(0, &header);
                done.map_err(StripeError::io(store, "writing a header"))?;
                disk.start_sync();
                written.push((store, disk));
            }
        }
        for (store, disk) in written {
            disk.sync()
                .map_err(StripeError::io(store, "syncing a header"))?;
        }
        Ok(())
    }
}

/// The bases of a stripe, with the references that a store has now; `None` where it lacks a file.
fn moved(
    stripe: &Stripe,
    store: StoreIndex,
    nodes: &dyn Fn(ObjectId) -> Option<Node>,
) -> Option<BaseMap> {
    let mut bases = stripe.bases.clone();
    for (shard, slot) in stripe.layout.shards() {
        let Some(chunk) = slot.chunk() else { continue };
        for node in nodes_on(&mut bases, shard, slot.store(), store) {
            *node = nodes(chunk.object)?;
        }
    }
    Some(bases)
}

/// The references of a data shard that are a store's own.
pub(super) fn nodes_on(
    bases: &mut BaseMap,
    shard: Shard,
    home: Option<StoreIndex>,
    store: StoreIndex,
) -> impl Iterator<Item = &mut Node> {
    let base = bases.get_mut(&shard.0).into_iter();
    base.flat_map(move |base| {
        let own = (home == Some(store)).then_some(&mut base.node);
        let copies = base.copies.iter_mut();
        let copies = copies.filter_map(move |(at, node)| (*at == store).then_some(node));
        own.into_iter().chain(copies)
    })
}
