//! The rounds of adaptive encoding: requests are counted by chunk, every interval all files are
//! visited, and what the policy ([`crate::encoding`]) decides is carried out.

use super::Engine;
use super::encode::{Member, NewStripe};
use crate::encoding::{
    Census, ChunkBytes, ChunkId, ChunkIndex, Counts, Crawler, Decision, FileCounters, FileView,
    Parameters, Plan, Progress, StripeId,
};
use crate::label::{Label, ObjectId, StoreIndex, StoreMask};
use crate::resync::wanted::labelled;
use crate::store::Node;
use env::errno::Errno;
use mount::{Kind, Result};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

/// Chunks that the crawler visits before it looks whether the set stops.
const VISITS: u32 = 4096;

/// Stripes that are made behind one pass of the gate.
const BATCH: usize = 16;

const SHARDS: usize = 16;

/// What one round did.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Round {
    /// Stripes that were made.
    pub made: u64,
    /// Stripes that were given up.
    pub given_up: u64,
    /// Of those that were made, the ones with a colder chunk in the place of a warmed one.
    pub swapped: u64,
    /// Share of the capacity that is encoded after it, from 0 to 1.
    pub encoded_share: f64,
    /// Share of the load that the encoded chunks had in it, from 0 to 1.
    pub load_share: f64,
    /// Bytes of all files.
    pub user_bytes: u64,
}

/// The last round, and the share of the load that encoded chunks of each home had in it.
pub(crate) type LastRound = (Round, BTreeMap<StoreIndex, f64>);

/// Requests on each chunk since the last round.
pub(crate) struct Counters {
    chunk: ChunkBytes,
    shards: Vec<Mutex<HashMap<ObjectId, FileCounters>>>,
}

impl Counters {
    pub(crate) fn new(chunk: ChunkBytes) -> Counters {
        Counters {
            chunk,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn each(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        count: impl Fn(&mut FileCounters, ChunkIndex),
    ) {
        let chunk = self.chunk.get();
        let first = offset / chunk;
        let last = offset.saturating_add(length.max(1) - 1) / chunk;
        let mut shard = self.shards[object.0 as usize % SHARDS].lock();
        let counters = shard.entry(object).or_default();
        for index in first..=last {
            if let Ok(index) = u32::try_from(index) {
                count(counters, ChunkIndex(index));
            }
        }
    }

    pub(crate) fn read(&self, object: ObjectId, offset: u64, length: u64) {
        self.each(object, offset, length, FileCounters::read);
    }

    pub(crate) fn wrote(&self, object: ObjectId, offset: u64, length: u64) {
        self.each(object, offset, length, FileCounters::wrote);
    }

    fn take(&self, chunk: ChunkId) -> Counts {
        let mut shard = self.shards[chunk.object.0 as usize % SHARDS].lock();
        let Some(counters) = shard.get_mut(&chunk.object) else {
            return Counts::NONE;
        };
        let taken = counters.take(chunk.index);
        if counters.bytes() == 0 {
            shard.remove(&chunk.object);
        }
        taken
    }

    /// Drops the counts of files that are no more, or too small.
    fn keep(&self, files: &BTreeMap<ObjectId, File>) {
        for shard in &self.shards {
            shard.lock().retain(|object, _| files.contains_key(object));
        }
    }

    /// Bytes of counts that are held now.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |shard: &Mutex<HashMap<ObjectId, FileCounters>>| {
            let shard = shard.lock();
            shard.values().map(FileCounters::bytes).sum::<usize>()
        };
        self.shards.iter().map(bytes).sum()
    }
}

/// A file with at least one whole chunk.
#[derive(Clone, Debug)]
struct File {
    label: Label,
    bytes: u64,
    copies: Vec<(StoreIndex, Node)>,
}

/// Every file of the set.
struct Files<'a> {
    engine: &'a Engine,
    counters: &'a Counters,
    large: BTreeMap<ObjectId, File>,
    /// Bytes of the files without a whole chunk.
    small_bytes: u64,
}

impl Census for Files<'_> {
    fn file_from(&mut self, least: ObjectId) -> Option<FileView> {
        let (object, file) = self.large.range(least..).next()?;
        Some(FileView {
            object: *object,
            home: file.label.home,
            bytes: file.bytes,
        })
    }

    fn take_counts(&mut self, chunk: ChunkId) -> Counts {
        self.counters.take(chunk)
    }

    fn stripe_of(&mut self, chunk: ChunkId) -> Option<StripeId> {
        let bytes = self.counters.chunk.get();
        let offset = u64::from(chunk.index.0) * bytes;
        let found = self.engine.encoded.first_in(chunk.object, offset, bytes)?;
        Some(found.stripe)
    }
}

impl Files<'_> {
    fn member(&self, member: crate::encoding::Member) -> Option<Member> {
        let file = self.large.get(&member.chunk.object)?;
        Some(Member {
            object: member.chunk.object,
            index: member.chunk.index.0,
            home: member.home,
            copies: file.copies.clone(),
        })
    }
}

/// What is done as the decisions of a plan come in.
#[derive(Default)]
struct Work {
    batch: Vec<NewStripe>,
    /// What is to take the place of stripes that were given up for a swap.
    swaps: BTreeMap<StripeId, NewStripe>,
    gone: BTreeSet<StripeId>,
    round: Round,
}

impl Engine {
    /// Visits every file, and encodes, swaps and gives back what the policy says. The counts of
    /// requests begin anew.
    ///
    /// # Errors
    /// A store failed, or the set stops; what was done so far stands.
    pub fn encode_round(&self) -> Result<Round> {
        let (Some(parameters), Some(counters)) = (self.options.encoding, &self.counters) else {
            return Ok(Round::default());
        };
        match self.release_held() {
            // The round may make room.
            Ok(()) | Err(Errno::IO | Errno::NOSPC) => {}
            Err(errno) => return Err(errno),
        }
        {
            let _gate = self.begin()?;
            self.audit_stripes()?;
        }
        let mut files = Files {
            engine: self,
            counters,
            large: BTreeMap::new(),
            small_bytes: 0,
        };
        self.visit_files(&mut files, parameters.chunk)?;
        counters.keep(&files.large);
        let mut crawler = Crawler::new(parameters.chunk, parameters.read_weight);
        while crawler.step(&mut files, VISITS) == Progress::More {
            self.go_on()?;
        }
        let Ok(mut list) = crawler.finish() else {
            return Err(Errno::AGAIN);
        };
        list.bytes_total = list.bytes_total.saturating_add(files.small_bytes);
        let parities = self.parities();
        let (geometry, limits) = (parameters.geometry, parameters.limits());
        let user_bytes = list.bytes_total;
        let mut plan = Plan::new(list, &parities, geometry, self.members(), limits);
        let mut work = Work::default();
        for decision in plan.by_ref() {
            self.go_on()?;
            self.carry_out(decision, &files, &parameters, &mut work)?;
        }
        self.finish_batch(&parameters, &mut work)?;
        self.finish_swaps(&parameters, &mut work)?;
        work.round.encoded_share = plan.encoded_share();
        work.round.load_share = plan.load_share();
        work.round.user_bytes = user_bytes;
        let stores = self.members();
        let loads = stores
            .iter()
            .map(|store| (store, plan.load_share_of(store)));
        *self.last_round.lock() = Some((work.round, loads.collect()));
        Ok(work.round)
    }

    /// Gives everything that is encoded its copies back.
    pub(crate) fn return_all(&self) -> Result<()> {
        let stripes = self.encoded.stripes();
        let all = stripes.map_or_else(Vec::new, |stripes| stripes.all());
        let ids: Vec<StripeId> = all.iter().map(|stripe| stripe.id).collect();
        for batch in ids.chunks(BATCH) {
            self.go_on()?;
            let _gate = self.begin()?;
            self.restore_copies(batch)?;
        }
        Ok(())
    }

    pub(crate) fn go_on(&self) -> Result<()> {
        if self.keeper.stop_flag().load(Ordering::Acquire) {
            return Err(Errno::INTR);
        }
        Ok(())
    }

    /// The parity stores of each stripe.
    fn parities(&self) -> BTreeMap<StripeId, StoreMask> {
        let stripes = self.encoded.stripes();
        let all = stripes.map_or_else(Vec::new, |stripes| stripes.all());
        let parity = |stripe: &crate::stripes::Stripe| {
            let slots = stripe
                .layout
                .shards()
                .filter(|(_, slot)| slot.chunk().is_none());
            let stores = slots.filter_map(|(_, slot)| slot.store());
            stores.fold(StoreMask::default(), StoreMask::with)
        };
        all.iter()
            .map(|stripe| (stripe.id, parity(stripe)))
            .collect()
    }

    fn carry_out(
        &self,
        decision: Decision,
        files: &Files<'_>,
        parameters: &Parameters,
        work: &mut Work,
    ) -> Result<()> {
        match decision {
            Decision::Encode { members, parity } => {
                let members = members.iter().map(|m| files.member(*m));
                if let Some(members) = members.collect() {
                    let parity = parity.iter().collect();
                    work.batch.push(NewStripe { members, parity });
                }
                if work.batch.len() < BATCH {
                    return Ok(());
                }
                self.finish_batch(parameters, work)
            }
            Decision::Return { stripe, .. } => match work.swaps.remove(&stripe) {
                // It is given up already.
                Some(_) => Ok(()),
                None => self.give_up(stripe, work),
            },
            Decision::Swap {
                stripe,
                leaves,
                joins,
            } => {
                let old = match work.swaps.remove(&stripe) {
                    Some(new) => Some(new),
                    None => {
                        let old = self.members_of(stripe, files);
                        self.give_up(stripe, work)?;
                        old
                    }
                };
                let (chunk, joins) = (leaves.chunk, files.member(joins));
                if let (Some(mut new), Some(joins)) = (old, joins) {
                    let left = new.members.iter_mut().find(|member| {
                        (member.object, member.index) == (chunk.object, chunk.index.0)
                    });
                    if let Some(left) = left {
                        *left = joins;
                        work.swaps.insert(stripe, new);
                    }
                }
                Ok(())
            }
            // Only a stripe that has given a chunk back has room, and here it is given up with all
            // of its chunks: the next round encodes them again.
            Decision::Fill { .. } => Ok(()),
        }
    }

    /// What a stripe is made of.
    fn members_of(&self, stripe: StripeId, files: &Files<'_>) -> Option<NewStripe> {
        let old = self.encoded.stripes()?.get(stripe).ok()?;
        let mut made = NewStripe {
            members: Vec::new(),
            parity: Vec::new(),
        };
        for (_, slot) in old.layout.shards() {
            let (home, chunk) = (slot.store()?, slot.chunk());
            match chunk {
                Some(chunk) => {
                    let member = crate::encoding::Member { home, chunk };
                    made.members.push(files.member(member)?);
                }
                None => made.parity.push(home),
            }
        }
        Some(made)
    }

    fn give_up(&self, stripe: StripeId, work: &mut Work) -> Result<()> {
        if work.gone.insert(stripe) {
            let _gate = self.begin()?;
            self.restore_copies(&[stripe])?;
            work.round.given_up += 1;
        }
        Ok(())
    }

    fn finish_batch(&self, parameters: &Parameters, work: &mut Work) -> Result<()> {
        let batch = std::mem::take(&mut work.batch);
        if !batch.is_empty() {
            let made = self.encode(&batch, parameters.chunk)?;
            work.round.made += made.iter().flatten().count() as u64;
        }
        Ok(())
    }

    /// Makes what takes the place of stripes that were given up for a swap.
    fn finish_swaps(&self, parameters: &Parameters, work: &mut Work) -> Result<()> {
        let swaps: Vec<NewStripe> = std::mem::take(&mut work.swaps).into_values().collect();
        if swaps.is_empty() {
            return Ok(());
        }
        // Copies that got their bytes back count as changed until then, and what has changed is not
        // encoded.
        self.checkpoint()?;
        for batch in swaps.chunks(BATCH) {
            self.go_on()?;
            let made = self.encode(batch, parameters.chunk)?;
            let made = made.iter().flatten().count() as u64;
            work.round.made += made;
            work.round.swapped += made;
        }
        Ok(())
    }

    /// Walks the tree on all members.
    fn visit_files(&self, files: &mut Files<'_>, chunk: ChunkBytes) -> Result<()> {
        let stores = self.member_stores();
        let roots = stores
            .iter()
            .map(|(index, store)| Ok((*index, store.root()?)))
            .collect::<Result<Vec<_>>>()?;
        let mut seen = BTreeSet::new();
        let mut queue = vec![roots];
        while let Some(dirs) = queue.pop() {
            self.go_on()?;
            let mut below: BTreeMap<ObjectId, Vec<(StoreIndex, Node)>> = BTreeMap::new();
            for (index, dir) in dirs {
                let Some((_, store)) = stores.iter().find(|(s, _)| *s == index) else {
                    continue;
                };
                let entries = match labelled(self, &**store, &dir) {
                    // Removed meanwhile.
                    Err(Errno::STALE | Errno::NOENT) => continue,
                    other => other?,
                };
                for (_, found, label) in entries {
                    match found.attr.kind {
                        Kind::Dir => below.entry(label.id).or_default().push((index, found.node)),
                        Kind::File if found.attr.size < chunk.get() => {
                            let first = found.attr.nlink == 1 || seen.insert(label.id);
                            let counts = label.home == index && first;
                            files.small_bytes += if counts { found.attr.size } else { 0 };
                        }
                        Kind::File => {
                            let file = files.large.entry(label.id).or_insert_with(|| File {
                                label,
                                bytes: 0,
                                copies: Vec::new(),
                            });
                            if file.copies.iter().all(|(s, _)| *s != index) {
                                file.copies.push((index, found.node));
                            }
                            if label.home == index {
                                file.bytes = found.attr.size;
                            }
                        }
                        _ => {}
                    }
                }
            }
            queue.extend(below.into_values());
        }
        Ok(())
    }
}
