//! Encoded chunks as the engine sees them: which ranges of which copies are given up, stores whose
//! copies look whole all the same, and who has to wait while a stripe begins to stand.
//!
//! # Promise
//! A store wrapped by [`Encoded::wrap`] shows every copy whole: what a copy has given up is decoded
//! from the stripe that stands for it, and what was written to the chunk since lies over it, from
//! the differentials. So replication, resynchronisation and comparison go on as if nothing had been
//! encoded. The home's copy, the base, is the file itself.
//!
//! # Invariants
//! - the index names a range only while its stripe stands: it is entered before copies are freed,
//!   and taken out after they have their bytes again, and the base has all that was written
//! - nobody changes a base, or frees or fills a given-up range, but the holder of
//!   [`Encoded::changing`] or of a chunk's exclusive change

mod file;
mod index;
mod site;
mod store;
pub(crate) mod watch;

pub(crate) use index::{Chunk, Extents, Index};
pub(crate) use site::{clear_notes, clear_site, has_site, index_of, log_site, open_site};

use crate::encoding::StripeId;
use crate::label::{ObjectId, StoreIndex};
use crate::store::{Node, Store};
use crate::stripes::delayed::Delayed;
use crate::stripes::{Stripe, StripeError, Stripes};
use env::errno::Errno;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use watch::Watch;

/// The encoded chunks of a set.
#[derive(Default)]
pub(crate) struct Encoded {
    layers: RwLock<Option<(Arc<Stripes>, Arc<Delayed>)>>,
    index: RwLock<Index>,
    /// Changes of the index.
    version: AtomicU64,
    watch: Watch,
    /// Stores as they are, without what is decoded.
    bare: RwLock<BTreeMap<StoreIndex, Arc<dyn Store>>>,
    /// Held by whoever makes stripes stand or gives them up.
    pub(crate) changing: Mutex<()>,
}

impl Encoded {
    /// The store with whole copies. The last store of an index is what [`Encoded::bare`] gives.
    pub(crate) fn wrap(
        self: &Arc<Encoded>,
        index: StoreIndex,
        bare: Arc<dyn Store>,
    ) -> Arc<dyn Store> {
        self.bare.write().insert(index, bare.clone());
        Arc::new(store::WholeStore::new(index, bare, self.clone()))
    }

    /// The store without what is decoded.
    pub(crate) fn bare(&self, index: StoreIndex) -> Option<Arc<dyn Store>> {
        self.bare.read().get(&index).cloned()
    }

    /// Lets go of a store that has left.
    pub(crate) fn forget(&self, index: StoreIndex) {
        if let Some((stripes, delayed)) = self.layers() {
            stripes.leave(index);
            delayed.leave(index);
        }
        self.bare.write().remove(&index);
    }

    pub(crate) fn stripes(&self) -> Option<Arc<Stripes>> {
        self.layers
            .read()
            .as_ref()
            .map(|(stripes, _)| stripes.clone())
    }

    pub(crate) fn delayed(&self) -> Option<Arc<Delayed>> {
        self.layers
            .read()
            .as_ref()
            .map(|(_, delayed)| delayed.clone())
    }

    /// The stripes, and what of them is in differentials.
    pub(crate) fn layers(&self) -> Option<(Arc<Stripes>, Arc<Delayed>)> {
        self.layers.read().clone()
    }

    /// Whether nothing of a chunk is in differentials.
    fn is_plain(&self, chunk: Chunk) -> bool {
        let layers = self.layers.read();
        layers
            .as_ref()
            .is_none_or(|(_, delayed)| delayed.is_plain(chunk.stripe, chunk.shard))
    }

    /// Whether nothing at all is in differentials.
    fn is_all_plain(&self) -> bool {
        let layers = self.layers.read();
        layers
            .as_ref()
            .is_none_or(|(_, delayed)| delayed.is_empty())
    }

    /// From now on these stripes stand for what they hold.
    pub(crate) fn set_layers(&self, stripes: Arc<Stripes>, delayed: Arc<Delayed>) {
        let mut index = Index::default();
        for stripe in stripes.all() {
            index.add(&stripe);
        }
        *self.layers.write() = Some((stripes, delayed));
        *self.index.write() = index;
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// A stripe stands.
    pub(crate) fn add(&self, stripe: &Stripe) {
        self.index.write().add(stripe);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The copies of what a stripe holds have their bytes again; changes still wait for the bases.
    pub(crate) fn refill(&self, stripe: &Stripe) {
        self.index.write().refill(stripe);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The same stripe, with copies elsewhere.
    pub(crate) fn replace(&self, old: &Stripe, new: &Stripe) {
        let mut index = self.index.write();
        index.remove(old);
        index.add(new);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// A stripe is given up.
    pub(crate) fn remove(&self, stripe: &Stripe) {
        self.index.write().remove(stripe);
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Chunks that are encoded.
    pub(crate) fn len(&self) -> usize {
        self.index.read().len()
    }

    /// The first encoded chunk that reaches into a range of an object.
    pub(crate) fn first_in(&self, object: ObjectId, offset: u64, length: u64) -> Option<Chunk> {
        self.index.read().first_in(object, offset, length)
    }

    /// Stripes with chunks that reach into a range of an object, at most so many.
    pub(crate) fn stripes_in(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Vec<StripeId> {
        let index = self.index.read();
        let mut ids: Vec<StripeId> = Vec::new();
        let end = offset.saturating_add(length);
        let mut at = offset;
        while let Some(chunk) = index.first_in(object, at, end - at) {
            if !ids.contains(&chunk.stripe) {
                ids.push(chunk.stripe);
            }
            at = chunk.end();
            if at >= end || ids.len() >= most {
                break;
            }
        }
        ids
    }

    /// Whether nothing is encoded, and nothing about to be: changes need not ask.
    pub(crate) fn is_idle(&self) -> bool {
        self.watch.is_empty() && self.index.read().len() == 0
    }

    /// Who is watched for changes while its stripe is made.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn extents(&self, store: StoreIndex, node: &Node) -> Option<Arc<Extents>> {
        self.index.read().extents(store, node)
    }
}

/// What the caller of a read gets. A page that cannot be decoded is nobody's fault whose copy was
/// asked: fencing a store for it would take more away.
fn errno_of(error: &StripeError) -> Errno {
    tracing::error!(%error, "an encoded range cannot be read");
    Errno::NODATA
}

#[cfg(test)]
mod tests;
