//! What the loss of more stores than a set may lose took with it.
//!
//! A stripe of which too little is left is kept: a store that is away may come back with the rest.
//! Only when somebody says that none will is it given up, and what nothing decodes any more is
//! zeros from then on. Until then a store that is attached cannot get its part of it, and stays
//! out.

use super::Engine;
use super::give_up::{BATCH, Lost};
use crate::check::{CheckReport, Difference, SHOWN_MAX};
use crate::encoding::StripeId;
use crate::stripes::{Slot, Stripe};
use mount::Result;
use std::path::PathBuf;
use std::sync::Arc;

impl Engine {
    /// Stripes that cannot be decoded with the stores that are there.
    fn undecodable(&self) -> Vec<Arc<Stripe>> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Vec::new();
        };
        if self.members().count() == self.slots.len() {
            return Vec::new();
        }
        let present = stripes.present();
        let mut all = stripes.all();
        all.retain(|stripe| {
            let slots = stripe.layout.slots.iter();
            let there = slots.filter(|slot| slot.store().is_none_or(|store| present.has(store)));
            let few = there.count() < usize::from(stripe.layout.geometry.data());
            let mut shards = stripe.layout.shards();
            few || shards.any(|(shard, _)| delayed.is_lost(stripe.id, shard))
        });
        all
    }

    /// Chunks that cannot be read: those of such stripes whose own bytes are not there.
    fn lost_in<'a>(&self, stripes: &'a [Arc<Stripe>]) -> impl Iterator<Item = Lost> + 'a {
        let (members, delayed) = (self.members(), self.encoded.delayed());
        stripes.iter().flat_map(move |stripe| {
            let delayed = delayed.clone();
            let shards = stripe.layout.shards();
            shards.filter_map(move |(shard, slot)| {
                let Slot::Data { store, object, .. } = slot else {
                    return None;
                };
                let logs = delayed.as_ref();
                let reads = members.has(store)
                    && !logs.is_some_and(|delayed| delayed.is_lost(stripe.id, shard));
                (!reads).then_some(Lost {
                    object,
                    offset: stripe.base(shard)?.offset,
                    bytes: stripe.layout.chunk.get(),
                })
            })
        })
    }

    /// How many chunks of files cannot be read.
    pub(crate) fn lost_chunks(&self) -> u64 {
        self.lost_in(&self.undecodable()).count() as u64
    }

    /// Adds chunks that cannot be read to what a comparison found.
    pub(crate) fn report_lost(&self, report: &mut CheckReport) {
        let stripes = self.undecodable();
        for lost in self.lost_in(&stripes) {
            report.lose(&lost, "cannot be read");
        }
    }

    /// Gives up every stripe of which too little is left: what of its chunks can be read gets its
    /// copies back, the rest is zeros from now on and is reported. What a store that is away has of
    /// it counts for nothing any more. Somebody has said that no such store will come back.
    ///
    /// # Errors
    /// A store failed, or is full: what was not given up stays as it is.
    pub fn accept_loss(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let stripes = self.undecodable();
        let ids: Vec<StripeId> = stripes.iter().map(|stripe| stripe.id).collect();
        for batch in ids.chunks(BATCH) {
            self.go_on()?;
            let _gate = self.begin()?;
            let mut lost = Vec::new();
            let given_up = self.restore_or_lose(batch, &mut lost);
            for lost in &lost {
                tracing::warn!(
                    inode = lost.object.0,
                    offset = lost.offset,
                    "lost: zeros now"
                );
                report.lose(lost, "lost: zeros from now on");
            }
            given_up?;
            report.objects += batch.len() as u64;
        }
        Ok(report)
    }
}

impl CheckReport {
    fn lose(&mut self, lost: &Lost, detail: &str) {
        self.differences += 1;
        self.lost_chunks += 1;
        self.only_missing = false;
        if self.shown.len() < SHOWN_MAX {
            let (object, from, to) = (lost.object.0, lost.offset, lost.offset + lost.bytes);
            self.shown.push(Difference {
                path: PathBuf::from(format!("inode {object}, bytes {from} to {to}")),
                stores: Vec::new(),
                detail: detail.to_owned(),
            });
        }
    }
}
