//! Stripes: what of cold chunks is left in place of their copies, and what gives them back.
//!
//! A stripe is made of `k` chunks of files, each on another store, its base, and `m` parity shards
//! on further stores. Every store that has a shard of it has a shard file
//! (`docs/formats/shard.md`): for a data shard who it is and the checksums of the base's pages, for
//! a parity shard also its bytes. Bases lie in the user's files; nobody changes one but a merge.
//! The engine makes them of cold chunks, writes to them through [`delayed`], and gives them up before
//! a file gets shorter or goes.
//!
//! # Promise
//! While the stripe stands, any `m` of its stores may be lost and every byte of every base is
//! returned: after [`Stripes::merge`] has answered with what was merged, before it as it was, and
//! after a crash inside it as one or the other, page by page the same for all who ask. A page that
//! cannot be returned right is an error, never wrong bytes.
//!
//! # What it rests on
//! `parity` for the arithmetic, [`filemeta::Store`] for the notes of merges, one on each store. A
//! store that is a member has what it acknowledged.
//!
//! # Invariants
//! - a number is used by one stripe only, so stripe and generation are one: what is decoded
//!   together carries one number, in its shard files and in its page checksums
//! - nothing relies on a stripe before its shard file has its final name on every store
//! - in-place writes of a merge begin after its commit is durable on every store that takes part
//! - of a store's own files its own shard says where they are, then the headers of the others
//! - bytes `i` of the shards of a stripe belong together, so pages are merged one by one
//!
//! # How it is tested
//! Crashes of a build, merges and a removal at points that a seed picks, each followed by the loss
//! of up to `m` stores and their return, on simulated directories; planted bugs that this has to
//! find; flipped bytes everywhere; kill -9 on a real file system.

mod build;
mod decode;
pub mod delayed;
mod error;
pub mod inspect;
mod merge;
mod note;
mod position;
mod rebuild;
mod recover;
mod scrub;
mod shard;
mod site;

pub use build::{Draft, Prepared};
pub use error::{Result, StripeError};
pub use merge::{MERGE_PAGES_MAX, PageWrite};
pub use position::{ScrubCounts, ScrubEnd, ScrubPass, ScrubPosition};
pub use rebuild::Rebuilt;
pub use recover::{Recovered, standing};
pub use scrub::{DAMAGE_MAX, Damage, ScrubReport};
pub use shard::{Base, Layout, Slot};
pub use site::{Bases, NamedBases, Site};

use crate::encoding::StripeId;
use crate::label::StoreIndex;
use crate::set::SetId;
use parity::{ReedSolomon, Shard};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A page: what a checksum covers, and what a merge replaces.
pub const PAGE_BYTES: usize = codec::PAGE_BYTES;

/// A stripe that stands.
#[derive(Debug)]
pub struct Stripe {
    /// Its number.
    pub id: StripeId,
    /// Which shard is where.
    pub layout: Layout,
    /// How its shard files are laid out, all of them.
    form: shard::Form,
    code: ReedSolomon,
    bases: shard::BaseMap,
    /// Readers decode, the writer merges. A merge that was left undecided says so.
    state: RwLock<State>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Sound,
    /// A merge is in the notes and could not be ended: what decodes may mix old and new.
    Undecided,
    Removed,
}

impl Stripe {
    fn new(id: StripeId, form: shard::Form, layout: Layout, bases: shard::BaseMap) -> Stripe {
        Stripe {
            id,
            form,
            code: ReedSolomon::new(layout.geometry),
            layout,
            bases,
            state: RwLock::new(State::Sound),
        }
    }

    /// Bytes of the header and the checksums of each shard.
    pub fn metadata_bytes(&self) -> u64 {
        self.form.data_offset(&self.layout)
    }

    /// What the file of a shard begins with.
    fn header(&self, shard: Shard) -> shard::Header {
        shard::Header {
            form: self.form,
            stripe: self.id,
            shard,
            layout: self.layout.clone(),
            bases: self.bases.clone(),
        }
    }

    /// Where the base of a data shard lies, and its copies.
    pub fn base(&self, shard: Shard) -> Option<&Base> {
        self.bases.get(&shard.0)
    }
}

/// The stripes of a set.
pub struct Stripes {
    set: SetId,
    sites: RwLock<BTreeMap<StoreIndex, Arc<Site>>>,
    stripes: RwLock<BTreeMap<StripeId, Arc<Stripe>>>,
    merges: Mutex<env::Rng>,
    #[cfg(test)]
    pub(crate) planted: Mutex<tests::Planted>,
}

impl std::fmt::Debug for Stripes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stripes")
            .field("stripes", &self.stripes.read().len())
            .finish_non_exhaustive()
    }
}

impl Stripes {
    /// The stripe of a number.
    ///
    /// # Errors
    /// [`StripeError::NoStripe`].
    pub fn get(&self, id: StripeId) -> Result<Arc<Stripe>> {
        let stripes = self.stripes.read();
        stripes.get(&id).cloned().ok_or(StripeError::NoStripe(id))
    }

    /// All that stand.
    pub fn all(&self) -> Vec<Arc<Stripe>> {
        self.stripes.read().values().cloned().collect()
    }

    /// A store is gone: nothing is asked of it until it joins again.
    pub fn leave(&self, store: StoreIndex) {
        self.sites.write().remove(&store);
    }

    fn site(&self, store: StoreIndex) -> Result<Arc<Site>> {
        let sites = self.sites.read();
        sites.get(&store).cloned().ok_or(StripeError::Away(store))
    }

    #[cfg(test)]
    fn plants(&self, bug: tests::Planted) -> bool {
        *self.planted.lock() == bug
    }
}

#[cfg(test)]
mod tests;
