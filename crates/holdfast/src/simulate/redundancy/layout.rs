//! A set under one scenario: which chunks are encoded, and what became of the requests.

use super::buffer::{Buffer, Updates};
use super::scenario::{Choice, Scenario};
use super::space::{Piece, Space};
use crate::simulate::trace::Kind;
use redundancy::encoding::{
    Census, ChunkBytes, ChunkId, Counts, Crawler, Decision, FileCounters, FileView, Geometry,
    Limits, Plan, Progress, StripeId,
};
use redundancy::label::{ObjectId, StoreMask};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Chunks that the crawler visits in a step. The result does not depend on it.
const CRAWL: u32 = 4096;

/// Counts since the last round, for one chunk size.
#[derive(Debug)]
pub(super) struct Watch {
    /// Bytes of a chunk.
    pub(super) chunk: ChunkBytes,
    files: Vec<FileCounters>,
}

impl Watch {
    /// Nothing counted yet.
    pub(super) fn new(chunk: ChunkBytes, space: &Space) -> Watch {
        Watch {
            chunk,
            files: vec![FileCounters::default(); space.len() as usize],
        }
    }

    /// Counts a part of a request.
    pub(super) fn count(&mut self, chunk: ChunkId, kind: Kind) {
        let Some(file) = self.files.get_mut(chunk.object.0 as usize) else {
            return;
        };
        match kind {
            Kind::Read => file.read(chunk.index),
            Kind::Write => file.wrote(chunk.index),
        }
    }

    /// A round has seen the counts.
    pub(super) fn reset(&mut self) {
        self.files.fill(FileCounters::default());
    }
}

/// Parts of requests, and those of them that found their chunk with copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Hits {
    /// All.
    pub(super) all: u64,
    /// With copies.
    pub(super) replicated: u64,
}

impl Hits {
    /// Share from 0 to 1; `None` of none.
    pub(super) fn ratio(self) -> Option<f64> {
        (self.all > 0).then(|| self.replicated as f64 / self.all as f64)
    }
}

/// What rounds decided.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rounds {
    /// Rounds.
    pub(super) count: u64,
    /// Sum of the encoded shares after each.
    pub(super) encoded: f64,
    /// Greatest load share of encoded chunks after one.
    pub(super) load_share_max: f64,
    /// Chunks that gave up their copies, other than by a swap.
    pub(super) chunks_encoded: u64,
    /// Chunks that took the place of another.
    pub(super) chunks_swapped: u64,
    /// Chunks that got their copies back, other than by a swap.
    pub(super) chunks_returned: u64,
}

/// A set under one scenario.
#[derive(Debug)]
pub(super) struct Layout {
    /// The scenario.
    pub(super) scenario: Scenario,
    /// Its limits.
    pub(super) limits: Limits,
    /// Writes.
    pub(super) writes: Hits,
    /// Reads.
    pub(super) reads: Hits,
    /// Parity updates without delayed parity.
    pub(super) direct: Updates,
    /// Delayed parity at several bounds.
    pub(super) buffers: Vec<Buffer>,
    /// What rounds decided.
    pub(super) rounds: Rounds,
    /// For each chunk the number of its stripe; 0 for none.
    stripe_of: Vec<u32>,
    /// For each stripe its parity stores and how many members it has.
    stripes: Vec<(StoreMask, u32)>,
    seed: u64,
}

impl Layout {
    /// Nothing encoded yet.
    pub(super) fn new(scenario: Scenario, limits: Limits, seed: u64) -> Layout {
        Layout {
            scenario,
            limits,
            writes: Hits::default(),
            reads: Hits::default(),
            direct: Updates::default(),
            buffers: Vec::new(),
            rounds: Rounds::default(),
            stripe_of: Vec::new(),
            stripes: Vec::new(),
            seed,
        }
    }

    /// Bytes that the table of a layout takes.
    pub(super) fn bytes(scenario: &Scenario, space: &Space) -> u64 {
        let chunks = space.bytes() / scenario.chunk.get();
        let stripes = chunks / 2 * size_of::<(StoreMask, u32)>() as u64;
        chunks * size_of::<u32>() as u64 + stripes
    }

    /// Makes room for the chunks.
    pub(super) fn prepare(&mut self, space: &Space) {
        let chunks = space.bytes() / self.scenario.chunk.get();
        self.stripe_of = vec![0; chunks as usize];
    }

    /// Lets go of what only rounds and requests need.
    pub(super) fn close(&mut self) {
        self.stripe_of = Vec::new();
        self.stripes = Vec::new();
    }

    /// A part of a request after the first round.
    pub(super) fn serve(&mut self, piece: Piece, kind: Kind, space: &Space) {
        let place = space.place(piece.chunk, self.scenario.chunk);
        let encoded = self.stripe_of.get(place).is_some_and(|stripe| *stripe > 0);
        let hits = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        };
        hits.all += 1;
        hits.replicated += u64::from(!encoded);
        if encoded && kind == Kind::Write {
            self.direct.requests += 1;
            self.direct.pages += piece.pages().len() as u64;
            for buffer in &mut self.buffers {
                buffer.write(piece);
            }
        }
    }

    /// A round: crawls, plans, and carries the plan out.
    pub(super) fn round(&mut self, watch: &Watch, space: &Space, geometry: Geometry) {
        let mut crawler = Crawler::new(self.scenario.chunk, self.scenario.read_weight);
        let mut census = View {
            layout: self,
            watch,
            space,
        };
        while crawler.step(&mut census, CRAWL) == Progress::More {}
        let Ok(list) = crawler.finish() else {
            return;
        };
        let stripes: BTreeMap<StripeId, StoreMask> = (1..)
            .zip(&self.stripes)
            .filter(|(_, (_, members))| *members > 0)
            .filter_map(|(number, (parity, _))| Some((id(number)?, *parity)))
            .collect();
        let present = StoreMask::first(geometry.stores());
        let mut plan = Plan::new(list, &stripes, geometry, present, self.limits);
        for decision in plan.by_ref() {
            self.carry_out(decision, space);
        }
        self.rounds.count += 1;
        self.rounds.encoded += plan.encoded_share();
        self.rounds.load_share_max = self.rounds.load_share_max.max(plan.load_share());
    }

    fn carry_out(&mut self, decision: Decision, space: &Space) {
        match decision {
            Decision::Encode { members, parity } => {
                self.stripes.push((parity, 0));
                let number = self.stripes.len() as u32;
                for member in &members {
                    self.set(member.chunk, number, space);
                }
                self.rounds.chunks_encoded += members.len() as u64;
            }
            Decision::Swap {
                stripe,
                leaves,
                joins,
            } => {
                self.set(leaves.chunk, 0, space);
                self.set(joins.chunk, stripe.0.get() as u32, space);
                self.rounds.chunks_swapped += 1;
            }
            Decision::Fill { stripe, joins } => {
                self.set(joins.chunk, stripe.0.get() as u32, space);
                self.rounds.chunks_encoded += 1;
            }
            Decision::Return { leaves, .. } => {
                self.set(leaves.chunk, 0, space);
                self.rounds.chunks_returned += 1;
            }
        }
    }

    /// Puts a chunk into a stripe, or, with 0, gives it copies.
    fn set(&mut self, chunk: ChunkId, stripe: u32, space: &Space) {
        let place = space.place(chunk, self.scenario.chunk);
        let before = std::mem::replace(&mut self.stripe_of[place], stripe);
        if let Some((_, members)) = member_count(&mut self.stripes, before) {
            *members -= 1;
        }
        if let Some((_, members)) = member_count(&mut self.stripes, stripe) {
            *members += 1;
        }
        if stripe == 0 {
            for buffer in &mut self.buffers {
                buffer.settle(chunk, self.scenario.chunk);
            }
        }
    }

    /// In place of counts, for a choice that ignores them: a number that differs from chunk to
    /// chunk and stays the same.
    fn chance(&self, chunk: ChunkId) -> Counts {
        // SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014), over seed, file and chunk.
        let mix = |mut z: u64| {
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let file = mix(self
            .seed
            .wrapping_add(step)
            .wrapping_add(chunk.object.0.wrapping_mul(step)));
        let writes = mix(file.wrapping_add(u64::from(chunk.index.0).wrapping_mul(step))) >> 32;
        Counts { reads: 0, writes }
    }
}

fn member_count(stripes: &mut [(StoreMask, u32)], number: u32) -> Option<&mut (StoreMask, u32)> {
    stripes.get_mut((number as usize).checked_sub(1)?)
}

fn id(number: u64) -> Option<StripeId> {
    NonZeroU64::new(number).map(StripeId)
}

/// What the crawler sees of a layout.
struct View<'a> {
    layout: &'a Layout,
    watch: &'a Watch,
    space: &'a Space,
}

impl Census for View<'_> {
    fn file_from(&mut self, least: ObjectId) -> Option<FileView> {
        (least.0 < self.space.len()).then(|| FileView {
            object: least,
            home: self.space.home(least),
            bytes: self.space.extent(),
        })
    }

    /// Several layouts look at the same counts, so they are reset by [`Watch::reset`] once all
    /// have.
    fn take_counts(&mut self, chunk: ChunkId) -> Counts {
        if self.layout.scenario.choice == Choice::Random {
            return self.layout.chance(chunk);
        }
        let file = self.watch.files.get(chunk.object.0 as usize);
        file.map_or(Counts::NONE, |file| file.counts(chunk.index))
    }

    fn stripe_of(&mut self, chunk: ChunkId) -> Option<StripeId> {
        let place = self.space.place(chunk, self.layout.scenario.chunk);
        id(u64::from(*self.layout.stripe_of.get(place)?))
    }
}
