//! Bringing new pages into bases and parity, so that no crash leaves the two apart.
//!
//! 1. Every store that takes part notes what it is to write: the homes the new pages, the parity
//!    stores the new parity. Nothing of it is in place yet.
//! 2. When all have that durably, all note that it counts.
//! 3. When all have that durably, all write in place, and sync.
//! 4. The notes are done with.
//!
//! After a crash, or without a store that failed: where any store that is there has noted that it
//! counts, it does, and all that are there go on from 2; else nobody can have begun 3, and the notes
//! are dropped. A store that was away learns of it when it comes back ([`super::recover`]).

use super::note::{self, COMMIT, Commit, PREPARE, Prepare, Redo};
use super::shard::OpenShard;
use super::site::Pages;
use super::{PAGE_BYTES, Result, Site, State, Stripe, StripeError, Stripes};
use crate::encoding::StripeId;
use crate::label::{StoreIndex, StoreMask};
use filemeta::Ticket;
use parity::{Code, Shard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most pages of one merge: a note has at most a mebibyte.
pub const MERGE_PAGES_MAX: usize = 240;

/// A page of a base as it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageWrite<'a> {
    /// The data shard.
    pub shard: Shard,
    /// The page in it.
    pub page: u32,
    /// Its new content, [`PAGE_BYTES`].
    pub bytes: &'a [u8],
}

/// A store that takes part in a merge.
pub(super) struct Part {
    pub(super) site: Arc<Site>,
    pub(super) prepare: Prepare,
    pub(super) prepared: Ticket,
    pub(super) committed: Option<Ticket>,
}

impl Stripes {
    /// Merges pages into their bases and the parity. All of it is there after this, on the medium;
    /// after a crash inside all or nothing.
    ///
    /// # Errors
    /// [`StripeError::Away`] where a store that has to take part is not there;
    /// [`StripeError::Rotten`] where a base or a parity page is damaged: then a scrub is due. A
    /// store that failed is to be told by [`Stripes::leave`]; the others have decided.
    /// [`StripeError::Undecided`] where they could not.
    pub fn merge(&self, id: StripeId, pages: &[PageWrite<'_>]) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        if pages.len() > MERGE_PAGES_MAX {
            return Err(StripeError::Misuse("too many pages for one merge"));
        }
        let stripe = self.get(id)?;
        let mut state = stripe.state.write();
        match *state {
            State::Sound => {}
            State::Undecided => return Err(StripeError::Undecided(id)),
            State::Removed => return Err(StripeError::NoStripe(id)),
        }
        let redo = self.redo(&stripe, pages)?;
        let stores = redo
            .keys()
            .fold(StoreMask::default(), |mask, (store, _)| mask.with(*store));
        let merge = self.merges.lock().next_u64();
        let mut parts = Vec::with_capacity(redo.len());
        let prepared = redo.into_iter().try_for_each(|((store, shard), pages)| {
            let site = self.site(store)?;
            let prepare = Prepare {
                merge,
                stripe: id.0.get(),
                shard: shard.0,
                stores,
                pages,
            };
            let prepared = site.write_note(PREPARE, &prepare)?;
            parts.push(Part {
                site,
                prepare,
                prepared,
                committed: None,
            });
            Ok(())
        });
        if let Err(error) = prepared {
            // Nobody can have noted that it counts.
            for part in &parts {
                part.site.notes.done(part.prepared);
            }
            return Err(error);
        }
        #[cfg(test)]
        if self.plants(super::tests::Planted::AppliesBeforeCommit) {
            for part in &parts {
                self.apply(&stripe, part)?;
            }
        }
        let Err((error, failed)) = self.finish(&stripe, &mut parts) else {
            return Ok(());
        };
        // The stores that are left decide among themselves.
        self.leave(failed);
        parts.retain(|part| part.site.store != failed);
        let committed = parts.iter().any(|part| part.committed.is_some());
        let away = StoreMask::only(failed);
        if self
            .decide(&stripe, &mut parts, merge, committed, away)
            .is_err()
        {
            *state = State::Undecided;
            return Err(StripeError::Undecided(id));
        }
        Err(error)
    }

    /// What each store is to write.
    fn redo(
        &self,
        stripe: &Stripe,
        pages: &[PageWrite<'_>],
    ) -> Result<BTreeMap<(StoreIndex, Shard), Vec<Redo>>> {
        let layout = &stripe.layout;
        let mut open: BTreeMap<Shard, OpenShard> = BTreeMap::new();
        let parity: Vec<Shard> = layout.geometry.parity_shards().collect();
        let data = pages.iter().map(|page| page.shard);
        for shard in parity.iter().copied().chain(data) {
            let Some(store) = layout.slot(shard)?.store() else {
                return Err(StripeError::Misuse("a page of a vacant place"));
            };
            if let std::collections::btree_map::Entry::Vacant(entry) = open.entry(shard) {
                entry.insert(OpenShard::open(
                    self.set,
                    &*self.site(store)?,
                    stripe,
                    shard,
                )?);
            }
        }
        // Parity by page; every data page once, as last given.
        let mut sums: BTreeMap<(Shard, u32), Vec<u8>> = BTreeMap::new();
        let wanted: BTreeMap<(Shard, u32), &[u8]> = pages
            .iter()
            .map(|page| ((page.shard, page.page), page.bytes))
            .collect();
        for ((shard, page), bytes) in &wanted {
            if bytes.len() != PAGE_BYTES || *page >= layout.pages() {
                return Err(StripeError::Misuse("a page that is none"));
            }
            let old = checked(stripe, &open[shard], *page)?;
            let mut difference = vec![0; PAGE_BYTES];
            parity::difference(&old, bytes, &mut difference)?;
            let mut parities = Vec::with_capacity(usize::from(layout.geometry.parity()));
            for parity in parity.iter().copied() {
                let bytes = match sums.remove(&(parity, *page)) {
                    Some(bytes) => bytes,
                    None => checked(stripe, &open[&parity], *page)?,
                };
                parities.push((parity, bytes));
            }
            {
                let borrowed = parities
                    .iter_mut()
                    .map(|(shard, bytes)| (*shard, &mut **bytes));
                let mut borrowed: Vec<(Shard, &mut [u8])> = borrowed.collect();
                stripe.code.update(*shard, &difference, &mut borrowed)?;
            }
            sums.extend(
                parities
                    .into_iter()
                    .map(|(shard, bytes)| ((shard, *page), bytes)),
            );
        }
        let mut redo: BTreeMap<(StoreIndex, Shard), Vec<Redo>> = BTreeMap::new();
        let data = wanted.into_iter().map(|(key, bytes)| (key, bytes.to_vec()));
        for ((shard, page), bytes) in data.chain(sums) {
            let store = open[&shard].store;
            let pages = redo.entry((store, shard)).or_default();
            pages.push(Redo { page, bytes });
        }
        Ok(redo)
    }

    /// Notes that a merge counts where that is not noted yet, writes in place, and is done with it.
    ///
    /// # Errors
    /// With the store that failed.
    fn finish(
        &self,
        stripe: &Stripe,
        parts: &mut [Part],
    ) -> core::result::Result<(), (StripeError, StoreIndex)> {
        for part in parts.iter_mut().filter(|part| part.committed.is_none()) {
            let commit = Commit {
                merge: part.prepare.merge,
            };
            let noted = part.site.write_note(COMMIT, &commit);
            part.committed = Some(noted.map_err(|error| (error, part.site.store))?);
            #[cfg(test)]
            if self.plants(super::tests::Planted::AppliesAfterFirstCommit) {
                self.apply(stripe, part)
                    .map_err(|error| (error, part.site.store))?;
            }
        }
        for part in &*parts {
            self.apply(stripe, part)
                .map_err(|error| (error, part.site.store))?;
        }
        for part in &*parts {
            part.end();
        }
        Ok(())
    }

    fn apply(&self, stripe: &Stripe, part: &Part) -> Result<()> {
        let shard = Shard(part.prepare.shard);
        let open = OpenShard::open(self.set, &part.site, stripe, shard)?;
        for redo in &part.prepare.pages {
            open.write(redo.page, &redo.bytes)?;
        }
        #[cfg(test)]
        if self.plants(super::tests::Planted::ForgetsToSync) {
            return Ok(());
        }
        open.sync()
    }

    /// Ends a merge that not all of its stores can end now: the stores that are there do what
    /// counts and remember it for those that are away.
    pub(super) fn decide(
        &self,
        stripe: &Stripe,
        parts: &mut [Part],
        merge: u64,
        committed: bool,
        away: StoreMask,
    ) -> Result<()> {
        if !away.is_empty() {
            for part in &*parts {
                let mut decisions = part.site.decisions()?;
                decisions.retain(|decision| decision.merge != merge);
                decisions.push(note::Decision {
                    merge,
                    committed,
                    away,
                });
                part.site.set_decisions(&decisions)?;
            }
        }
        if committed {
            return self.finish(stripe, parts).map_err(|(error, _)| error);
        }
        for part in &*parts {
            part.end();
        }
        Ok(())
    }
}

impl Part {
    pub(super) fn end(&self) {
        self.site.notes.done(self.prepared);
        if let Some(committed) = self.committed {
            self.site.notes.done(committed);
        }
    }
}

impl Site {
    fn write_note<T: serde::Serialize>(&self, kind: u16, content: &T) -> Result<Ticket> {
        let mut request = self.notes.request();
        request.note(kind, &note::encode(content)?);
        let noted = request.commit();
        noted.map_err(StripeError::notes(self.store, "noting a merge"))
    }
}

/// One page, held against its checksum.
fn checked(stripe: &Stripe, open: &OpenShard, page: u32) -> Result<Vec<u8>> {
    let pages = Pages {
        first: page,
        count: 1,
    };
    let bytes = open.read(pages)?;
    let expected = open.sums(pages)?.first().copied().unwrap_or_default();
    let found = open.sum_of(page, &bytes);
    if found == expected {
        return Ok(bytes);
    }
    Err(StripeError::Rotten {
        stripe: stripe.id,
        shard: open.shard,
        page,
        expected,
        found,
    })
}
