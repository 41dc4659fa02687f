//! A store whose word is not to be believed, or that is empty, gets its part of the stripes anew.
//!
//! Its stripes stand meanwhile, so that nobody needs room for more copies. What of its files is
//! encoded is left out while they are made equal; then bases and parity are computed from what the
//! others have, and last it takes its part in the stripes. Until it is a member nothing of this
//! counts, and an end in between begins anew.

use super::Engine;
use crate::encoded;
use crate::encoding::StripeId;
use crate::label::{ObjectId, StoreIndex};
use crate::resync::pace::Pace;
use crate::store::{Node, Store};
use crate::stripes::{Base, Stripe, StripeError};
use env::errno::Errno;
use mount::{AllocateFlags, Result, SetAttr, SetTime};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stripes that share syncs.
const BATCH: usize = 32;

/// The files with encoded chunks that a store has got.
#[derive(Debug, Default)]
pub(crate) struct Rebuild(Mutex<BTreeMap<ObjectId, Node>>);

impl Rebuild {
    /// The store has this file, without the bytes of its encoded chunks.
    pub(crate) fn note(&self, object: ObjectId, node: &Node) {
        self.0.lock().insert(object, node.clone());
    }

    fn node(&self, object: ObjectId) -> Option<Node> {
        self.0.lock().get(&object).cloned()
    }
}

impl Engine {
    /// Stripes that have a shard on a store, or a copy of a chunk.
    pub(crate) fn stripes_on(&self, index: StoreIndex) -> Vec<Arc<Stripe>> {
        let stripes = self.encoded.stripes();
        let mut all = stripes.map_or_else(Vec::new, |stripes| stripes.all());
        all.retain(|stripe| {
            let held = |base: &Base| base.copies.iter().any(|(store, _)| *store == index);
            let mut shards = stripe.layout.shards();
            let copies = shards.any(|(shard, _)| stripe.base(shard).is_some_and(held));
            stripe.layout.stores().has(index) || copies
        });
        all
    }

    /// A store is to get its part of the stripes anew; `None` where there are none.
    ///
    /// # Errors
    /// EIO where too little of a stripe is there without it: what it has may be all that there is,
    /// and it is left as it is.
    pub(crate) fn begin_rebuild(
        &self,
        index: StoreIndex,
        bare: &Arc<dyn Store>,
    ) -> Result<Option<Rebuild>> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(None);
        };
        {
            let _one = self.encoded.changing.lock();
            stripes.leave(index);
            delayed.leave(index);
        }
        for stripe in self.stripes_on(index) {
            let mut shards = stripe.layout.shards();
            let lost = shards.any(|(shard, _)| delayed.is_lost(stripe.id, shard));
            if lost || !stripes.stands_without(&stripe, index) {
                tracing::warn!(
                    store = index.0,
                    stripe = stripe.id.0,
                    "too little of a stripe is there without the store; it is left as it is"
                );
                return Err(Errno::IO);
            }
        }
        encoded::clear_notes(bare)?;
        Ok(Some(Rebuild::default()))
    }

    /// Parts of a range of a file that are not encoded.
    pub(crate) fn plain_parts(&self, object: ObjectId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut parts, mut at) = (Vec::new(), start);
        while at < end {
            let chunk = self.encoded.first_in(object, at, end - at);
            let from = chunk.map_or(end, |chunk| chunk.offset.clamp(at, end));
            if from > at {
                parts.push((at, from));
            }
            at = chunk.map_or(end, |chunk| chunk.end());
        }
        parts
    }

    /// Computes the store's part of all stripes, and has it take part in them.
    ///
    /// # Errors
    /// A store failed, or a stripe cannot be decoded: the store stays out.
    pub(crate) fn end_rebuild(
        &self,
        index: StoreIndex,
        bare: &Arc<dyn Store>,
        rebuild: &Rebuild,
        pace: &Pace,
    ) -> Result<()> {
        let Some((stripes, _)) = self.encoded.layers() else {
            return Ok(());
        };
        pace.set_phase("decoding");
        let (site, notes) = encoded::open_site(self.set, index, bare)?;
        let ids: Vec<StripeId> = self.stripes_on(index).iter().map(|s| s.id).collect();
        for batch in ids.chunks(BATCH) {
            pace.check()?;
            let rebuilt = {
                let _one = self.encoded.changing.lock();
                let times = self.times_on(index, bare, batch, rebuild);
                let rebuilt = stripes
                    .rebuild_parts(&site, batch, &|object| rebuild.node(object))
                    .map_err(|error| self.not_rebuilt(index, &error))?;
                for (old, new) in &rebuilt.made {
                    self.encoded.replace(old, new);
                    free_copies_on(index, bare, new);
                }
                for (node, change) in &times {
                    // A time that is not as it was harms no content; a later pass compares it.
                    let _ = bare.set_attr(node, change);
                }
                rebuilt
            };
            let bytes: u64 = rebuilt.made.iter().map(|(_, s)| s.layout.chunk.get()).sum();
            pace.bytes(bytes, rebuilt.bytes)?;
            if !rebuilt.left.is_empty() {
                let _gate = self.gate.read();
                self.restore_copies(&rebuilt.left)?;
            }
        }
        self.take_part(index, bare, site, notes)
    }

    fn not_rebuilt(&self, index: StoreIndex, error: &StripeError) -> Errno {
        tracing::warn!(store = index.0, %error, "a store cannot get its part of a stripe");
        match error.failed() {
            Some(store) if store != index => self.fence_of(error).err().unwrap_or(Errno::AGAIN),
            _ => error.errno().unwrap_or(Errno::IO),
        }
    }

    /// The times of files that bases are written into.
    fn times_on(
        &self,
        index: StoreIndex,
        bare: &Arc<dyn Store>,
        ids: &[StripeId],
        rebuild: &Rebuild,
    ) -> BTreeMap<Node, SetAttr> {
        let stripes = self.encoded.stripes();
        let all = ids.iter().filter_map(|id| stripes.as_ref()?.get(*id).ok());
        let mut times = BTreeMap::new();
        for stripe in all {
            for (_, slot) in stripe.layout.shards() {
                let chunk = slot.chunk().filter(|_| slot.store() == Some(index));
                let Some(node) = chunk.and_then(|chunk| rebuild.node(chunk.object)) else {
                    continue;
                };
                let Ok(attr) = bare.attr(&node) else { continue };
                let change = SetAttr {
                    atime: Some(SetTime::To(attr.atime)),
                    mtime: Some(SetTime::To(attr.mtime)),
                    ..SetAttr::default()
                };
                times.insert(node, change);
            }
        }
        times
    }
}

/// Frees what a store has of chunks in copies that have given them up.
fn free_copies_on(index: StoreIndex, bare: &Arc<dyn Store>, stripe: &Stripe) {
    let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
    let length = stripe.layout.chunk.get();
    for (shard, _) in stripe.layout.shards() {
        let Some(base) = stripe.base(shard) else {
            continue;
        };
        for (_, node) in base.copies.iter().filter(|(store, _)| *store == index) {
            let freed =
                bare.open(node, true)
                    .and_then(|file| match file.seek(base.offset, false) {
                        Ok(data) if data < base.offset + length => {
                            file.allocate(base.offset, length, punch)
                        }
                        _ => Ok(()),
                    });
            if let Err(errno) = freed {
                tracing::debug!(store = index.0, %errno, "a copy could not be freed");
            }
        }
    }
}
