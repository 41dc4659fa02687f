//! Giving up the copies of chunks for a stripe, and what stores have of stripes when they come.
//!
//! The caller of everything here holds the gate for reading where it says so, and no lock of the
//! engine besides.

use super::Engine;
use crate::encoded;
use crate::encoded::watch::{Ready, Watched};
use crate::encoding::{ChunkBytes, Share, StripeId};
use crate::label::{ObjectId, StoreIndex, StoreMask};
use crate::store::{Node, Store};
use crate::stripes::delayed::{self, Delayed, Method};
use crate::stripes::{Base, Draft, Layout, PAGE_BYTES, Site, Slot, Stripe, StripeError, Stripes};
use env::errno::{Errno, Fault, fault};
use mount::AllocateFlags;
use parity::{Geometry, Shard};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Result<T, E = Errno> = core::result::Result<T, E>;

/// B where nothing is said: 0.5 % of the capacity (\[F\] section 5.3).
const DIFFERENTIAL_SHARE: Share = Share::per_mille(5);

/// Differential pages that are always let be: 4 MiB.
const DIFFERENTIAL_PAGES_MIN: u64 = 1024;

/// Most differential pages, however large the stores: 1 GiB of them, known in about 50 MiB of
/// memory.
const DIFFERENTIAL_PAGES_MAX: u64 = 1 << 18;

/// Bytes of data that are encoded with shared syncs. Who writes to a chunk of them waits for a
/// moment for all of them.
const TOGETHER_BYTES: u64 = 32 << 20;

/// How far encoding some chunks came.
enum Encoded {
    /// What can be is encoded.
    Done,
    /// A store is full.
    NoSpace,
    /// Nothing more is to be encoded now.
    Stopped,
}

fn is_unchanged((_, watched): &(&NewStripe, Option<Watched<'_>>)) -> bool {
    watched.as_ref().is_some_and(Watched::is_unchanged)
}

/// How many stripes are made with shared syncs.
fn together(new: &[NewStripe], chunk: ChunkBytes) -> usize {
    let widest = new.iter().map(|new| new.members.len()).max().unwrap_or(1);
    let bytes = chunk.get().saturating_mul(widest as u64).max(1);
    usize::try_from(TOGETHER_BYTES / bytes).map_or(1, |most| most.max(1))
}

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
            let (stripes, report) = match Stripes::open(self.set, sites, random) {
                Ok((stripes, report)) => (Arc::new(stripes), report),
                Err(error) => {
                    self.fence_of(&error)?;
                    continue;
                }
            };
            let mut logs = Vec::new();
            for (index, bare) in self.bare_members() {
                match encoded::log_site(index, &bare) {
                    Ok(log) => logs.push(log),
                    Err(errno) => {
                        self.fence_for(index, errno)?;
                        continue 'again;
                    }
                }
            }
            match Delayed::open(stripes.clone(), logs, self.differential_options()) {
                Ok((delayed, found)) => {
                    self.encoded.set_layers(stripes, Arc::new(delayed));
                    self.finish_given_up(&found)?;
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
    pub(crate) fn fence_of(&self, error: &StripeError) -> Result<()> {
        tracing::warn!(%error, "a stripe met an error");
        let fence = |store, errno| {
            if !self.members().has(store) {
                // It is being brought up to date, and must not join without this.
                self.encoded.forget(store);
            }
            self.fence_for(store, errno)
        };
        match error {
            StripeError::Left(stores) => stores
                .iter()
                .try_for_each(|store| fence(store, Errno::UCLEAN)),
            error => match error.failed() {
                Some(store) => fence(store, error.errno().unwrap_or(Errno::IO)),
                None => Err(Errno::IO),
            },
        }
    }

    /// How differentials are kept on the stores as they are.
    fn differential_options(&self) -> delayed::Options {
        let bare = self.bare_members();
        let spaces = bare.iter().filter_map(|(_, store)| store.space().ok());
        let bytes: u64 = spaces.map(|space| space.total_bytes).sum();
        let share = self.options.encoding.map(|encoding| encoding.differential);
        let share = share.unwrap_or(DIFFERENTIAL_SHARE);
        let pages = if share == Share::NONE {
            0
        } else {
            let pages = share.of(bytes) / PAGE_BYTES as u64;
            pages.clamp(DIFFERENTIAL_PAGES_MIN, DIFFERENTIAL_PAGES_MAX)
        };
        let devices: BTreeSet<u64> = bare.iter().map(|(_, store)| store.device()).collect();
        let at_once = self.options.encoding.is_some_and(|e| e.at_once);
        delayed::Options {
            method: if at_once {
                Method::Naive
            } else {
                Method::Delayed
            },
            parallel: self.options.background && devices.len() > 1,
            ..delayed::Options::new(pages)
        }
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
        let mut batch: Vec<_> = watched.into_iter().map(|(n, w)| (n, Some(w))).collect();
        let (mut at, mut most) = (0, together(new, chunk));
        while at < new.len() {
            let end = (at + most).min(new.len());
            let (Some(part), Some(stands)) = (batch.get_mut(at..end), standing.get_mut(at..end))
            else {
                break;
            };
            match self.encode_together(&stripes, part, stands, chunk)? {
                Encoded::Done => at = end,
                // What one stripe frees makes room for the next.
                Encoded::NoSpace if most > 1 => most = 1,
                Encoded::NoSpace | Encoded::Stopped => break,
            }
        }
        Ok(standing)
    }

    /// Encodes some chunks with shared syncs; all that can be, or nothing.
    fn encode_together(
        &self,
        stripes: &Stripes,
        new: &mut [(&NewStripe, Option<Watched<'_>>)],
        standing: &mut [Option<StripeId>],
        chunk: ChunkBytes,
    ) -> Result<Encoded> {
        let stop = self.keeper.stop_flag();
        let is_whole = || self.members().count() == self.slots.len();
        if !is_whole() || stop.load(Ordering::Acquire) {
            return Ok(Encoded::Stopped);
        }
        let (prepared, places) = loop {
            let (drafts, places) = self.drafts(new, chunk)?;
            match stripes.prepare(drafts) {
                Ok(prepared) => break (prepared, places),
                Err(StripeError::Io { errno, .. }) if fault(errno) == Fault::NoSpace => {
                    return Ok(Encoded::NoSpace);
                }
                // What a user cuts off or removes meanwhile cannot be read, and says nothing of the
                // store. Each time round there is less.
                Err(_) if places.values().any(|place| !is_unchanged(&new[*place])) => {}
                Err(error) => {
                    self.fence_of(&error)?;
                    return Ok(Encoded::Stopped);
                }
            }
        };
        let _one = self.encoded.changing.lock();
        let ready: BTreeMap<StripeId, Ready<'_>> = places
            .iter()
            .filter_map(|(id, place)| Some((*id, new.get_mut(*place)?.1.take()?.ready()?)))
            .collect();
        if !is_whole() {
            return Ok(Encoded::Stopped);
        }
        match prepared.activate(|id| ready.contains_key(&id)) {
            Ok(made) => {
                for stripe in made {
                    self.encoded.add(&stripe);
                    self.free_copies(&stripe);
                    let place = places.get(&stripe.id);
                    if let Some(stands) = place.and_then(|place| standing.get_mut(*place)) {
                        *stands = Some(stripe.id);
                    }
                }
                Ok(Encoded::Done)
            }
            Err(error) => {
                self.fence_of(&error)?;
                Ok(Encoded::Stopped)
            }
        }
    }

    /// What is to be prepared of some stripes, and the place among them of each.
    fn drafts(
        &self,
        new: &[(&NewStripe, Option<Watched<'_>>)],
        chunk: ChunkBytes,
    ) -> Result<(Vec<Draft>, BTreeMap<StripeId, usize>)> {
        let (mut drafts, mut places) = (Vec::new(), BTreeMap::new());
        for (place, watched) in new.iter().enumerate() {
            let (new, _) = watched;
            if !is_unchanged(watched) || !self.fits(new, chunk)? {
                continue;
            }
            let (Some(layout), Some(bases)) = (new.layout(chunk), new.bases(chunk)) else {
                continue;
            };
            let Some(number) = NonZeroU64::new(self.next_id().0) else {
                continue;
            };
            let id = StripeId(number);
            places.insert(id, place);
            drafts.push(Draft { id, layout, bases });
        }
        Ok((drafts, places))
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

    /// Whether a store has its part in the stripes, where there are any.
    pub(crate) fn takes_part(&self, index: StoreIndex) -> bool {
        let layers = self.encoded.layers();
        layers.is_none_or(|(stripes, delayed)| {
            stripes.present().has(index) && delayed.present().has(index)
        })
    }

    /// A store that comes back takes its part in the stripes again.
    pub(crate) fn join_stripes(&self, index: StoreIndex, bare: &Arc<dyn Store>) -> Result<()> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(());
        };
        stripes.leave(index);
        delayed.leave(index);
        let opened = match encoded::open_site(self.set, index, bare) {
            Err(Errno::UCLEAN) => {
                self.give_up_shards_of(index, bare)?;
                encoded::open_site(self.set, index, bare)
            }
            other => other,
        };
        let (site, notes) = opened?;
        self.take_part(index, bare, site, notes)
    }

    /// Joins a store to stripes and differentials.
    pub(crate) fn take_part(
        &self,
        index: StoreIndex,
        bare: &Arc<dyn Store>,
        site: Site,
        notes: Vec<filemeta::OpenNote>,
    ) -> Result<()> {
        let Some((stripes, delayed)) = self.encoded.layers() else {
            return Ok(());
        };
        let refuse = |error: StripeError| {
            tracing::warn!(store = index.0, %error, "a store cannot take its part in stripes");
            error.errno().unwrap_or(Errno::IO)
        };
        let report = stripes.join(site, notes).map_err(refuse)?;
        {
            let _one = self.encoded.changing.lock();
            let log = encoded::log_site(index, bare)?;
            let found = delayed.join(log).map_err(refuse)?;
            if found.lost > 0 {
                tracing::error!(pages = found.lost, "differential pages are on no store");
            }
        }
        let _gate = self.gate.read();
        self.give_up_incomplete(&report)
    }

    /// Gives up the stripes of files that a recovery or a return has made anew, or removed: the
    /// references of their copies lead nowhere.
    pub(crate) fn audit_stripes(&self) -> Result<()> {
        let Some(stripes) = self.encoded.stripes() else {
            return Ok(());
        };
        let mut gone = Vec::new();
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
                gone.push(stripe.id);
            }
        }
        self.give_up_if_possible(&gone)
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
