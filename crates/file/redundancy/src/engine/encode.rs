//! Giving up the copies of chunks for a stripe, and giving them back.
//!
//! The caller of everything here holds the gate for reading where it says so, and no lock of the
//! engine besides.

use super::Engine;
use crate::encoded;
use crate::encoding::{ChunkBytes, StripeId};
use crate::journal::Failed;
use crate::journal::dirty::{Entry, Place, regions};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::store::{Node, Store, StoreFile};
use crate::stripes::{Base, Layout, Recovered, Slot, Stripe, StripeError, Stripes};
use env::errno::{Errno, Fault, fault};
use mount::{AllocateFlags, Result};
use parity::{Geometry, Shard};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Bytes that are read and written at once where copies get their bytes again.
const RUN_BYTES: u64 = 256 << 10;

/// A chunk of a file that has copies, with all of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) object: ObjectId,
    pub(crate) index: u32,
    /// The store whose copy becomes the base.
    pub(crate) home: StoreIndex,
    /// Every copy of the file, the home's too.
    pub(crate) copies: Vec<(StoreIndex, Node)>,
}

/// A stripe to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NewStripe {
    /// One for each data shard.
    pub(crate) members: Vec<Member>,
    /// A store for each parity shard.
    pub(crate) parity: Vec<StoreIndex>,
}

impl NewStripe {
    fn geometry(&self) -> Option<Geometry> {
        let (data, parity) = (self.members.len(), self.parity.len());
        Geometry::new(u8::try_from(data).ok()?, u8::try_from(parity).ok()?).ok()
    }

    fn layout(&self, chunk: ChunkBytes) -> Option<Layout> {
        let data = self.members.iter().map(|member| Slot::Data {
            store: member.home,
            object: member.object,
            chunk: member.index,
        });
        let parity = self
            .parity
            .iter()
            .map(|store| Slot::Parity { store: *store });
        Some(Layout {
            geometry: self.geometry()?,
            chunk,
            slots: data.chain(parity).collect(),
        })
    }

    fn bases(&self, chunk: ChunkBytes) -> Option<Vec<(Shard, Base)>> {
        let bases = (0u8..).zip(&self.members).map(|(shard, member)| {
            let (home, others): (Vec<_>, Vec<_>) = member
                .copies
                .iter()
                .cloned()
                .partition(|(s, _)| *s == member.home);
            let base = Base {
                node: home.into_iter().next()?.1,
                offset: u64::from(member.index) * chunk.get(),
                copies: others,
            };
            Some((Shard(shard), base))
        });
        bases.collect()
    }
}

impl Engine {
    /// Opens the stripes of the members, where the set encodes or has encoded. Stripes that stand
    /// in part are given up.
    pub(crate) fn open_stripes(&self) -> Result<()> {
        let mut wanted = self.options.encoding.is_some();
        for (index, bare) in self.bare_members() {
            match encoded::has_site(&bare) {
                Ok(has) => wanted |= has,
                Err(errno) => self.fence_for(index, errno)?,
            }
        }
        if !wanted {
            return Ok(());
        }
        'again: for _ in 0..=self.slots.len() {
            let mut sites = Vec::new();
            for (index, bare) in self.bare_members() {
                match encoded::open_site(self.set, index, &bare) {
                    Ok(site) => sites.push(site),
                    Err(errno) => {
                        drop(sites);
                        self.fence_for(index, errno)?;
                        continue 'again;
                    }
                }
            }
            let random = env::Rng::new(self.random());
            match Stripes::open(self.set, sites, random) {
                Ok((stripes, report)) => {
                    self.encoded.set_stripes(stripes);
                    self.give_up_incomplete(&report)?;
                    return Ok(());
                }
                Err(error) => self.fence_of(&error)?,
            }
        }
        Err(Errno::IO)
    }

    /// The stores as replication sees them, with whole copies, for tests.
    #[cfg(feature = "sim")]
    pub fn whole_stores(&self) -> Vec<(StoreIndex, Arc<dyn Store>)> {
        self.member_stores()
    }

    /// Chunks that are encoded.
    pub fn encoded_chunks(&self) -> usize {
        self.encoded.len()
    }

    fn bare_members(&self) -> Vec<(StoreIndex, Arc<dyn Store>)> {
        let members = self.members();
        let bare = |index| Some((index, self.encoded.bare(index)?));
        members.iter().filter_map(bare).collect()
    }

    /// Fences the store that a stripe's error names.
    fn fence_of(&self, error: &StripeError) -> Result<()> {
        tracing::warn!(%error, "a stripe met an error");
        match error {
            StripeError::Left(stores) => stores
                .iter()
                .try_for_each(|store| self.fence_for(store, Errno::UCLEAN)),
            error => match error.failed() {
                Some(store) => self.fence_for(store, Errno::IO),
                None => Err(Errno::IO),
            },
        }
    }

    /// A range of a file is about to change: encoded chunks in it get their copies back first. The
    /// caller holds the gate for reading.
    pub(crate) fn before_change(&self, object: ObjectId, offset: u64, length: u64) -> Result<()> {
        if self.encoded.is_idle() {
            return Ok(());
        }
        self.encoded.watch().change(object, offset, length);
        while let Some(chunk) = self.encoded.first_in(object, offset, length) {
            self.restore_copies(chunk.stripe)?;
        }
        Ok(())
    }

    /// Gives every chunk of a stripe its copies back, durably, and gives the stripe up. The caller
    /// holds the gate for reading, or nobody else is there yet.
    ///
    /// # Errors
    /// ENOSPC where the copies have no room, EIO where a chunk cannot be decoded, or no store with a
    /// copy of it is there: the stripe stands.
    pub(crate) fn restore_copies(&self, id: StripeId) -> Result<()> {
        let _one = self.encoded.changing.lock();
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(());
        };
        let Ok(stripe) = stripes.get(id) else {
            return Ok(());
        };
        for (shard, slot) in stripe.layout.shards() {
            if let (Some(chunk), Some(home), Some(base)) =
                (slot.chunk(), slot.store(), stripe.base(shard))
            {
                self.fill_copies(&stripes, &stripe, shard, (chunk.object, home), base)?;
            }
        }
        self.encoded.remove(&stripe);
        match stripes.remove(id) {
            Ok(()) => Ok(()),
            Err(error) => self.fence_of(&error),
        }
    }

    fn fill_copies(
        &self,
        stripes: &Stripes,
        stripe: &Stripe,
        shard: Shard,
        (object, home): (ObjectId, StoreIndex),
        base: &Base,
    ) -> Result<()> {
        let length = stripe.layout.chunk.get();
        let mut holders = std::iter::once(home).chain(base.copies.iter().map(|(store, _)| *store));
        if !holders.any(|store| self.members().has(store)) {
            // Before anything is written down: a change that no member can tell of would keep the
            // stores that can from coming back.
            return Err(Errno::IO);
        }
        // A store that is away has not seen that its copy is needed again.
        self.touch_copies(object, base.offset, length, || Place {
            nodes: std::iter::once((home, base.node.clone()))
                .chain(base.copies.iter().cloned())
                .collect(),
            ..Place::default()
        })?;
        let mut held = self.members().has(home);
        for (index, node) in &base.copies {
            let Some(bare) = self
                .encoded
                .bare(*index)
                .filter(|_| self.members().has(*index))
            else {
                continue;
            };
            let filled = bare.open(node, true).and_then(|file| {
                self.fill(stripes, stripe, shard, (home, base), &*file)?;
                file.sync(true)
            });
            match filled {
                // The copy was removed, or made anew with all of its bytes.
                Ok(()) | Err(Errno::STALE | Errno::NOENT) => held = true,
                Err(errno) if fault(errno) == Fault::Medium => self.fence_for(*index, errno)?,
                Err(Errno::NODATA) => return Err(Errno::IO),
                Err(errno) => return Err(errno),
            }
        }
        // Every store with a copy is away: one of them would come back with a hole that seems to
        // be the content, and without the stripe nothing would say otherwise.
        held.then_some(()).ok_or(Errno::IO)
    }

    /// Writes what a chunk is into one copy.
    fn fill(
        &self,
        stripes: &Stripes,
        stripe: &Stripe,
        shard: Shard,
        (home, base): (StoreIndex, &Base),
        file: &dyn StoreFile,
    ) -> Result<()> {
        let length = stripe.layout.chunk.get();
        let mut buffer = vec![0; length.min(RUN_BYTES) as usize];
        let mut at = 0;
        while at < length {
            let part = (length - at).min(RUN_BYTES);
            let buffer = &mut buffer[..part as usize];
            if let Err(error) = stripes.read(stripe.id, shard, at, buffer) {
                // What is left of the stripe does not say what is right. The file itself does, as
                // it did before it was encoded.
                tracing::warn!(%error, "a chunk is taken from its home as it is");
                let bare = self.encoded.bare(home).filter(|_| self.members().has(home));
                let own = bare.ok_or(Errno::NODATA)?.open(&base.node, false);
                let read = own.and_then(|own| own.read_at(base.offset + at, buffer));
                if read != Ok(buffer.len()) {
                    return Err(Errno::NODATA);
                }
            }
            let zeros = buffer.iter().all(|byte| *byte == 0);
            let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
            if !zeros || file.allocate(base.offset + at, part, punch).is_err() {
                file.write_at(base.offset + at, buffer)?;
            }
            at += part;
        }
        Ok(())
    }

    fn touch_copies(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        place: impl Fn() -> Place,
    ) -> Result<()> {
        if self.journal.implicit(object) {
            return Ok(());
        }
        for (region, mask) in regions(offset, length) {
            let entry = Entry::Region(object, region);
            let mut tries = 0..=self.slots.len();
            loop {
                tries.next().ok_or(Errno::IO)?;
                match self.journal.touch(entry, mask, &place) {
                    Ok(()) => break,
                    Err(Failed(stores)) => {
                        for (store, error) in stores {
                            self.fence(store, &format!("its journal cannot be written: {error}"))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Encodes chunks, stripe by stripe, and frees their copies. What has changed since it was
    /// chosen, or changes meanwhile, keeps its copies. Returns the stripes that stand, in the order
    /// of `new`.
    pub(crate) fn encode(
        &self,
        new: &[NewStripe],
        chunk: ChunkBytes,
    ) -> Result<Vec<Option<StripeId>>> {
        let mut standing = vec![None; new.len()];
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(standing);
        };
        let ranges = |new: &NewStripe| {
            let bytes = chunk.get();
            let range = move |m: &Member| (m.object, u64::from(m.index) * bytes, bytes);
            new.members.iter().map(range).collect::<Vec<_>>()
        };
        let watched: Vec<_> = new
            .iter()
            .map(|new| (new, self.encoded.watch().begin(ranges(new))))
            .collect();
        // Changes that were under way before anything was watched have ended after this.
        drop(self.gate.write());
        for ((new, watched), stands) in watched.into_iter().zip(&mut standing) {
            let whole = self.members().count() == self.slots.len();
            if !whole
                || self
                    .keeper
                    .stop_flag()
                    .load(std::sync::atomic::Ordering::Acquire)
            {
                break;
            }
            if !self.fits(new, chunk)? {
                continue;
            }
            let (Some(layout), Some(bases)) = (new.layout(chunk), new.bases(chunk)) else {
                continue;
            };
            let Some(number) = NonZeroU64::new(self.next_id().0) else {
                continue;
            };
            let prepared = match stripes.prepare(StripeId(number), layout, bases) {
                Ok(prepared) => prepared,
                Err(StripeError::Io { errno, .. }) if fault(errno) == Fault::NoSpace => break,
                Err(error) => {
                    self.fence_of(&error)?;
                    break;
                }
            };
            let _one = self.encoded.changing.lock();
            let Some(_ready) = watched.ready() else {
                continue;
            };
            if self.members().count() != self.slots.len() {
                break;
            }
            match prepared.activate() {
                Ok(stripe) => {
                    self.encoded.add(&stripe);
                    self.free_copies(&stripe);
                    *stands = Some(stripe.id);
                }
                Err(error) => {
                    self.fence_of(&error)?;
                    break;
                }
            }
        }
        Ok(standing)
    }

    /// Whether the chunks of a stripe to be made are there, whole, on every copy that is told, and
    /// have not changed since the last checkpoint.
    fn fits(&self, new: &NewStripe, chunk: ChunkBytes) -> Result<bool> {
        for member in &new.members {
            let object = member.object;
            let encoded =
                self.encoded
                    .first_in(object, u64::from(member.index) * chunk.get(), chunk.get());
            let fresh = object >= self.journal.durable_mark() || self.journal.is_active(object);
            if encoded.is_some() || fresh {
                return Ok(false);
            }
            let end = (u64::from(member.index) + 1) * chunk.get();
            let mut holders = StoreMask::default();
            for (index, node) in &member.copies {
                let found = match self.store(*index).and_then(|store| store.inspect(node)) {
                    Ok(found) => found,
                    Err(Errno::STALE | Errno::NOENT) => return Ok(false),
                    Err(errno) => {
                        self.fence_for(*index, errno)?;
                        return Ok(false);
                    }
                };
                holders = holders.with(*index);
                let label = self.label_of(&found).filter(|label| label.id == object);
                let fits = label.is_some_and(|l| {
                    let all = l.copies.count() == member.copies.len();
                    l.home == member.home && l.copies.has(*index) && all
                });
                if !fits || found.attr.size < end || found.attr.nlink == 0 {
                    return Ok(false);
                }
            }
            if !holders.has(member.home) || holders.count() != member.copies.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees what copies have given up. What cannot be freed takes space and does no harm.
    pub(crate) fn free_copies(&self, stripe: &Stripe) {
        let punch = AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE;
        for (shard, _) in stripe.layout.shards() {
            let Some(base) = stripe.base(shard) else {
                continue;
            };
            for (index, node) in &base.copies {
                let Some(bare) = self.encoded.bare(*index) else {
                    continue;
                };
                let freed = bare
                    .open(node, true)
                    .and_then(|file| file.allocate(base.offset, stripe.layout.chunk.get(), punch));
                if let Err(errno) = freed {
                    tracing::debug!(store = index.0, %errno, "a copy could not be freed");
                }
            }
        }
    }

    /// A store that comes back takes its part in the stripes again; where nothing on it is to be
    /// believed, the stripes that had a part there are given up first.
    pub(crate) fn join_stripes(
        &self,
        index: StoreIndex,
        bare: &Arc<dyn Store>,
        doubtful: bool,
    ) -> Result<()> {
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(());
        };
        stripes.leave(index);
        if doubtful {
            self.give_up_shards_of(index, bare)?;
        }
        let opened = match encoded::open_site(self.set, index, bare) {
            Err(Errno::UCLEAN) => {
                self.give_up_shards_of(index, bare)?;
                encoded::open_site(self.set, index, bare)
            }
            other => other,
        };
        let (site, notes) = opened?;
        let report = stripes.join(site, notes).map_err(|error| {
            tracing::warn!(store = index.0, %error, "a store cannot take its part in stripes");
            Errno::IO
        })?;
        let _gate = self.gate.read();
        self.give_up_incomplete(&report)
    }

    /// Gives up every stripe that has a part on a store that is away, whose own word is not to be
    /// believed, and takes away what it has of them. A stripe of which too little is left without
    /// the store keeps it out: what it has may be all that there is.
    fn give_up_shards_of(&self, index: StoreIndex, bare: &Arc<dyn Store>) -> Result<()> {
        let stripes = self.encoded.stripes();
        for stripe in stripes.map_or_else(Vec::new, |stripes| stripes.all()) {
            let held = |base: &Base| base.copies.iter().any(|(store, _)| *store == index);
            let mut shards = stripe.layout.shards();
            let copies = shards.any(|(shard, _)| stripe.base(shard).is_some_and(held));
            if stripe.layout.stores().has(index) || copies {
                let _gate = self.gate.read();
                self.restore_copies(stripe.id)?;
            }
        }
        encoded::clear_site(bare)
    }

    /// Gives up what stands in part. Where too little of a stripe is there it stays as it is: a
    /// store that is away may bring what is missing.
    fn give_up_incomplete(&self, report: &Recovered) -> Result<()> {
        for (store, file, wrong) in &report.damaged {
            tracing::warn!(store = store.0, file, %wrong, "a shard file is damaged; it is kept");
        }
        for id in &report.incomplete {
            tracing::warn!(stripe = id.0, "a stripe stands in part and is given up");
            self.give_up_if_possible(*id)?;
        }
        Ok(())
    }

    fn give_up_if_possible(&self, id: StripeId) -> Result<()> {
        match self.restore_copies(id) {
            Err(Errno::IO | Errno::NOSPC) => {
                tracing::warn!(
                    stripe = id.0,
                    "it cannot be given up now: too little of it is there, or no room for copies"
                );
                Ok(())
            }
            other => other,
        }
    }

    /// Gives up the stripes of files that a recovery or a return has made anew, or removed: the
    /// references of their copies lead nowhere.
    pub(crate) fn audit_stripes(&self) -> Result<()> {
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(());
        };
        let mut known: BTreeMap<(StoreIndex, Node), bool> = BTreeMap::new();
        for stripe in stripes.all() {
            let mut lost = false;
            for (shard, slot) in stripe.layout.shards() {
                let (Some(chunk), Some(home), Some(base)) =
                    (slot.chunk(), slot.store(), stripe.base(shard))
                else {
                    continue;
                };
                let own = (home, base.node.clone());
                for copy in std::iter::once(&own).chain(&base.copies) {
                    let there = match known.get(copy) {
                        Some(there) => *there,
                        None => {
                            let there = self.is_there(copy, chunk.object)?;
                            known.insert(copy.clone(), there);
                            there
                        }
                    };
                    lost |= !there;
                }
            }
            if lost {
                tracing::info!(
                    stripe = stripe.id.0,
                    "a file of a stripe is gone; it is given up"
                );
                self.give_up_if_possible(stripe.id)?;
            }
        }
        Ok(())
    }

    /// Whether a copy is what it was, or on a store that is away.
    fn is_there(&self, (index, node): &(StoreIndex, Node), object: ObjectId) -> Result<bool> {
        if !self.members().has(*index) {
            return Ok(true);
        }
        let found = self.store(*index).and_then(|store| store.inspect(node));
        match found {
            // What has no name and is still open somewhere is as good as gone.
            Ok(found) if found.attr.nlink == 0 => Ok(false),
            Ok(found) => Ok(self
                .label_of(&found)
                .is_some_and(|label| label.id == object)),
            Err(Errno::STALE | Errno::NOENT) => Ok(false),
            Err(errno) => self.fence_for(*index, errno).map(|()| true),
        }
    }
}
