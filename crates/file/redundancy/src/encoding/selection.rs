//! Which chunks to encode, to swap, and to return to copies: the coordinator of \[F\] section
//! 4.3.4.
//!
//! The colder a chunk, the sooner it is encoded, while the encoded chunks' share of the load
//! stays below L (\[F\] equation 4.3) and their share of the capacity at most R. A stripe is made
//! of chunks of different homes, and its parity goes to further stores, so that a lost store
//! takes at most one shard of it.

mod homes;

use super::{ChunkId, ChunkList, Entry, Geometry, Load, Share};
use crate::label::{StoreIndex, StoreMask};
use homes::Homes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// A stripe, for as long as it has a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct StripeId(pub NonZeroU64);

/// How much may be encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The load share of encoded chunks stays below this (L), where 1 is no limit. Chunks
    /// without any load are always below: at L = 0 just these are encoded.
    pub load: Share,
    /// The capacity share of encoded chunks stays at or below this (R, made up for
    /// differential pages by [`Geometry::encoded_target`]).
    pub encoded: Share,
}

/// A chunk and the store that keeps its data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    /// The store.
    pub home: StoreIndex,
    /// The chunk.
    pub chunk: ChunkId,
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Make a stripe of these chunks, which have copies now, and give the copies up.
    Encode {
        /// The chunks, as many as the code has data shards, each of another home.
        members: Vec<Member>,
        /// Where the parity goes: as many stores as the code has parity shards, no member's
        /// home among them.
        parity: StoreMask,
    },
    /// Let a colder chunk of the same home take the place of a warmer one, which gets its copies
    /// back.
    Swap {
        /// The stripe.
        stripe: StripeId,
        /// Is encoded now.
        leaves: Member,
        /// Has copies now.
        joins: Member,
    },
    /// Let a chunk take a vacant place.
    Fill {
        /// The stripe.
        stripe: StripeId,
        /// Has copies now; no shard of the stripe is on its home.
        joins: Member,
    },
    /// Give a chunk its copies back. Its place is vacant, which counts as zeros; when every
    /// place is, the stripe is no more.
    Return {
        /// The stripe.
        stripe: StripeId,
        /// Is encoded now.
        leaves: Member,
    },
}

/// A stripe while a plan is made.
#[derive(Clone, Debug)]
struct Stripe {
    parity: StoreMask,
    members: Vec<usize>,
}

/// What comes next; each part begins where the one before has nothing left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Colder chunks take the places of warmer ones, which takes no space.
    Swap,
    /// While a limit is broken, the warmest encoded chunk gets its copies back.
    Return,
    /// Vacant places are filled; a stripe that frees no space any more is given up.
    Mend,
    /// The coldest chunks are encoded.
    Grow,
    /// What a stripe that was given up left may be colder than what is encoded. After such a swap
    /// there may be room again, so mending follows; else this is the end.
    Settle,
}

/// The decisions of one round, in order. Each assumes that those before it were carried out: when
/// one was not, drop the plan; the next round sees the stripes as they are then.
///
/// Chunks whose home is not among `present` are counted and left as they are, as are stripes
/// that have a shard elsewhere.
///
/// Cost: sorting the list when it is made, then a decision takes a time that grows with the
/// stores and the logarithm of the chunks. Memory: about 20 bytes a chunk beside the list.
#[derive(Debug)]
pub struct Plan {
    geometry: Geometry,
    limits: Limits,
    present: StoreMask,
    entries: Vec<Entry>,
    chunk_bytes: u64,
    bytes_total: u64,
    load_total: u128,
    bytes_encoded: u64,
    load_encoded: u128,
    /// The same by the home of the chunks.
    loads_encoded: [u128; 64],
    stripes: BTreeMap<StripeId, Stripe>,
    /// Chunks with copies that may be encoded.
    replicated: Homes,
    /// Members of stripes that may be changed.
    encoded: Homes,
    /// Parity shards on each store.
    parities: [u64; 64],
    part: Part,
    /// Stripes with vacant places, still to be mended, the next at the end.
    short: Vec<StripeId>,
    /// Whether this part did something that asks for a part before it.
    again: bool,
}

impl Plan {
    /// A plan over what a round found. `stripes` has the parity stores of every stripe that has
    /// a member; `present` the stores that take part.
    pub fn new(
        list: ChunkList,
        stripes: &BTreeMap<StripeId, StoreMask>,
        geometry: Geometry,
        present: StoreMask,
        limits: Limits,
    ) -> Plan {
        let mut plan = Plan {
            geometry,
            limits,
            present,
            chunk_bytes: list.chunk.get(),
            bytes_total: list.bytes_total,
            load_total: list.load_total,
            bytes_encoded: 0,
            load_encoded: 0,
            loads_encoded: [0; 64],
            stripes: BTreeMap::new(),
            replicated: Homes::new(),
            encoded: Homes::new(),
            parities: [0; 64],
            part: Part::Swap,
            short: Vec::new(),
            again: false,
            entries: list.entries,
        };
        for (&stripe, &parity) in stripes {
            for store in parity.iter() {
                plan.parities[usize::from(store.0)] += 1;
            }
            let members = Vec::with_capacity(geometry.data());
            plan.stripes.insert(stripe, Stripe { parity, members });
        }
        plan.sort();
        plan
    }

    /// Puts every entry where it is looked for.
    fn sort(&mut self) {
        for at in 0..self.entries.len() {
            let entry = self.entries[at];
            let Some(stripe) = entry.stripe else {
                if self.present.has(entry.home) {
                    self.replicated.insert(entry.home, entry.load, at);
                }
                continue;
            };
            self.bytes_encoded += self.chunk_bytes;
            self.load_encoded += u128::from(entry.load.0);
            self.loads_encoded[usize::from(entry.home.0)] += u128::from(entry.load.0);
            if let Some(stripe) = self.stripes.get_mut(&stripe) {
                stripe.members.push(at);
            }
        }
        for stripe in self.stripes.values() {
            if self.whole(stripe) {
                for &at in &stripe.members {
                    let entry = self.entries[at];
                    self.encoded.insert(entry.home, entry.load, at);
                }
            }
        }
    }

    /// Share of the load that encoded chunks have, from 0 to 1 (left side of \[F\] equation 4.3);
    /// 0 where there is no load.
    pub fn load_share(&self) -> f64 {
        if self.load_total == 0 {
            return 0.0;
        }
        self.load_encoded as f64 / self.load_total as f64
    }

    /// The same of the chunks that have one store as their home.
    pub fn load_share_of(&self, store: StoreIndex) -> f64 {
        match self.loads_encoded.get(usize::from(store.0)) {
            Some(load) if self.load_total > 0 => *load as f64 / self.load_total as f64,
            _ => 0.0,
        }
    }

    /// Share of the capacity that is encoded, from 0 to 1; 0 where there is nothing.
    pub fn encoded_share(&self) -> f64 {
        if self.bytes_total == 0 {
            return 0.0;
        }
        self.bytes_encoded as f64 / self.bytes_total as f64
    }

    /// Whether every shard of a stripe is on a store that takes part.
    fn whole(&self, stripe: &Stripe) -> bool {
        let mut homes = stripe.members.iter().map(|at| self.entries[*at].home);
        stripe.parity.minus(self.present).is_empty() && homes.all(|home| self.present.has(home))
    }

    fn member(&self, at: usize) -> Member {
        Member {
            home: self.entries[at].home,
            chunk: self.entries[at].chunk(),
        }
    }

    /// Whether chunks of this load, `count` of them, may be encoded beside what is.
    fn admits(&self, load: u128, count: usize) -> bool {
        let Some(bytes) = (count as u64).checked_mul(self.chunk_bytes) else {
            return false;
        };
        let bytes = u128::from(self.bytes_encoded) + u128::from(bytes);
        let cold = load == 0 || self.limits.load == Share::ALL;
        let load = self.load_encoded.saturating_add(load);
        (cold || self.limits.load.exceeds(load, self.load_total))
            && self.limits.encoded.holds(bytes, self.bytes_total.into())
    }

    /// A chunk with copies is encoded from now on.
    fn encode(&mut self, at: usize) {
        let Entry { home, load, .. } = self.entries[at];
        self.replicated.remove(home, load, at);
        self.bytes_encoded += self.chunk_bytes;
        self.load_encoded += u128::from(load.0);
        self.loads_encoded[usize::from(home.0)] += u128::from(load.0);
    }

    /// A member of a stripe has copies from now on.
    fn replicate(&mut self, stripe: StripeId, at: usize) {
        let Entry { home, load, .. } = self.entries[at];
        self.encoded.remove(home, load, at);
        self.replicated.insert(home, load, at);
        self.entries[at].stripe = None;
        self.bytes_encoded -= self.chunk_bytes;
        self.load_encoded -= u128::from(load.0);
        self.loads_encoded[usize::from(home.0)] -= u128::from(load.0);
        if let Some(stripe) = self.stripes.get_mut(&stripe) {
            stripe.members.retain(|member| *member != at);
        }
    }

    /// A chunk with copies joins a stripe.
    fn join(&mut self, stripe: StripeId, at: usize) {
        self.encode(at);
        let Entry { home, load, .. } = self.entries[at];
        self.encoded.insert(home, load, at);
        self.entries[at].stripe = Some(stripe);
        if let Some(stripe) = self.stripes.get_mut(&stripe) {
            stripe.members.push(at);
        }
    }

    /// The swap that lowers the load of encoded chunks most.
    fn swap(&mut self) -> Option<Decision> {
        let mut best: Option<(Load, usize, usize)> = None;
        for home in self.present.iter() {
            let pair = (self.encoded.warmest(home), self.replicated.coldest(home));
            let (Some((warm, leaves)), Some((cold, joins))) = pair else {
                continue;
            };
            let gain = Load(warm.0.saturating_sub(cold.0));
            if gain > best.map_or(Load::NONE, |(gain, ..)| gain) {
                best = Some((gain, leaves, joins));
            }
        }
        let (_, leaves, joins) = best?;
        let stripe = self.entries[leaves].stripe?;
        self.replicate(stripe, leaves);
        self.join(stripe, joins);
        Some(Decision::Swap {
            stripe,
            leaves: self.member(leaves),
            joins: self.member(joins),
        })
    }

    /// While a limit is broken: the warmest encoded chunk, where its return mends that.
    fn give_back(&mut self) -> Option<Decision> {
        let warmest = self
            .present
            .iter()
            .filter_map(|home| self.encoded.warmest(home));
        let (load, at) = warmest.max()?;
        let bytes = u128::from(self.bytes_encoded);
        let too_loaded = !self.limits.load.holds(self.load_encoded, self.load_total);
        let too_many = !self.limits.encoded.holds(bytes, self.bytes_total.into());
        if too_many || (too_loaded && load > Load::NONE) {
            return self.give_back_one(at);
        }
        None
    }

    fn give_back_one(&mut self, at: usize) -> Option<Decision> {
        let stripe = self.entries[at].stripe?;
        self.replicate(stripe, at);
        Some(Decision::Return {
            stripe,
            leaves: self.member(at),
        })
    }

    /// Fills vacant places, and gives up stripes that free nothing.
    fn mend(&mut self) -> Option<Decision> {
        while let Some(&id) = self.short.last() {
            let stripe = self.stripes.get(&id)?.clone();
            if stripe.members.len() < self.geometry.data()
                && let Some(at) = self.filler(&stripe)
            {
                self.join(id, at);
                return Some(Decision::Fill {
                    stripe: id,
                    joins: self.member(at),
                });
            }
            let members = u8::try_from(stripe.members.len()).unwrap_or(u8::MAX);
            match stripe.members.last() {
                Some(&at) if !self.geometry.frees(members) => {
                    self.again = true;
                    return self.give_back_one(at);
                }
                _ => self.short.pop(),
            };
        }
        None
    }

    /// The coldest chunk that may take a vacant place of a stripe.
    fn filler(&self, stripe: &Stripe) -> Option<usize> {
        let homes = stripe.members.iter().map(|at| self.entries[*at].home);
        let taken = homes.fold(stripe.parity, StoreMask::with);
        let free = self.present.minus(taken);
        let (load, at) = free
            .iter()
            .filter_map(|home| self.replicated.coldest(home))
            .min()?;
        // A stripe that frees nothing stays one until it has enough members; what it takes in
        // has to be worth it at once.
        let members = u8::try_from(stripe.members.len() + 1).unwrap_or(u8::MAX);
        (self.geometry.frees(members) && self.admits(load.0.into(), 1)).then_some(at)
    }

    /// A stripe of the coldest chunks.
    fn grow(&mut self) -> Option<Decision> {
        let stripe_bytes = self.chunk_bytes.checked_mul(self.geometry.data() as u64)?;
        let room = self
            .limits
            .encoded
            .of(self.bytes_total)
            .saturating_sub(self.bytes_encoded);
        let wanted = room / stripe_bytes;
        let members = self
            .replicated
            .stripe(self.present, self.geometry.data(), wanted)
            .into_iter()
            .find(|members| {
                let load = members
                    .iter()
                    .map(|at| u128::from(self.entries[*at].load.0));
                self.admits(load.sum(), members.len())
            })?;
        let homes = members.iter().map(|at| self.entries[*at].home);
        let parity = self.parity_stores(homes.fold(StoreMask::default(), StoreMask::with))?;
        for &at in &members {
            self.encode(at);
        }
        Some(Decision::Encode {
            members: members.iter().map(|at| self.member(*at)).collect(),
            parity,
        })
    }

    /// The stores with the least parity that are not among `homes`.
    fn parity_stores(&mut self, homes: StoreMask) -> Option<StoreMask> {
        let mut stores: Vec<StoreIndex> = self.present.minus(homes).iter().collect();
        stores.sort_by_key(|store| self.parities[usize::from(store.0)]);
        let chosen = stores.get(..self.geometry.parity())?;
        for store in chosen {
            self.parities[usize::from(store.0)] += 1;
        }
        Some(
            chosen
                .iter()
                .fold(StoreMask::default(), |mask, store| mask.with(*store)),
        )
    }

    /// Stripes with a vacant place whose shards are all on stores that take part.
    fn short_stripes(&self) -> Vec<StripeId> {
        let short = |stripe: &Stripe| {
            !stripe.members.is_empty() && stripe.members.len() < self.geometry.data()
        };
        let all = self.stripes.iter().rev();
        all.filter(|(_, stripe)| short(stripe) && self.whole(stripe))
            .map(|(id, _)| *id)
            .collect()
    }
}

impl Iterator for Plan {
    type Item = Decision;

    fn next(&mut self) -> Option<Decision> {
        loop {
            let decision = match self.part {
                Part::Swap => self.swap(),
                Part::Return => self.give_back(),
                Part::Mend => self.mend(),
                Part::Grow => self.grow(),
                Part::Settle => self.swap().inspect(|_| self.again = true),
            };
            if decision.is_some() {
                return decision;
            }
            let again = std::mem::take(&mut self.again);
            self.part = match self.part {
                Part::Swap => Part::Return,
                Part::Mend if !again => Part::Grow,
                Part::Return | Part::Mend => Part::Mend,
                Part::Grow => Part::Settle,
                Part::Settle if again => Part::Mend,
                Part::Settle => return None,
            };
            if self.part == Part::Mend {
                self.short = self.short_stripes();
            }
        }
    }
}

#[cfg(test)]
mod tests;
