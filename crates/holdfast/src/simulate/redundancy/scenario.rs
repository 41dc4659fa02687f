//! What is compared: ways to choose what to encode, chunk sizes, and parameters.

use redundancy::encoding::{ChunkBytes, Geometry, Limits, ReadWeight, Share};
use serde::Serialize;

/// How chunks are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The coldest first, within both limits
    Adaptive,
    /// In a random order up to the target rate
    Random,
    /// All that was not written in the interval, as HDFS-based systems do
    Modified,
}

impl Choice {
    /// As the table shows it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Choice::Adaptive => "adaptive",
            Choice::Random => "random",
            Choice::Modified => "modified time",
        }
    }
}

/// Lists of which every combination is tried.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) choices: Vec<Choice>,
    pub(super) chunks: Vec<ChunkBytes>,
    pub(super) read_weights: Vec<ReadWeight>,
    pub(super) load_limits: Vec<Share>,
    pub(super) target_rates: Vec<Share>,
}

/// One way to encode.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scenario {
    pub(super) choice: Choice,
    pub(super) chunk: ChunkBytes,
    /// a; 0 where the choice does not look at reads.
    pub(super) read_weight: ReadWeight,
    /// L; `None` where the choice has no such limit.
    pub(super) load_limit: Option<Share>,
    /// R; `None` where the choice has no such limit.
    pub(super) target_rate: Option<Share>,
}

impl Scenario {
    /// The limits with differential pages up to a share of the capacity.
    pub(super) fn limits(&self, geometry: Geometry, differential: Share) -> Limits {
        let encoded = match self.target_rate {
            Some(rate) => geometry.encoded_target(rate, differential),
            None => Share::ALL,
        };
        let load = match self.choice {
            Choice::Adaptive => self.load_limit.unwrap_or(Share::ALL),
            Choice::Random => Share::ALL,
            // What was written has a load, with a = 0 nothing else has.
            Choice::Modified => Share::NONE,
        };
        Limits { load, encoded }
    }
}

/// All combinations, in the order of the table.
pub(super) fn scenarios(lists: &Lists) -> Vec<Scenario> {
    let mut all = Vec::new();
    for &choice in &lists.choices {
        for &chunk in &lists.chunks {
            let plain = Scenario {
                choice,
                chunk,
                read_weight: ReadWeight::default(),
                load_limit: None,
                target_rate: None,
            };
            match choice {
                Choice::Adaptive => all.extend(adaptive(plain, lists)),
                Choice::Random => all.extend(lists.target_rates.iter().map(|rate| Scenario {
                    target_rate: Some(*rate),
                    ..plain
                })),
                Choice::Modified => all.push(plain),
            }
        }
    }
    all
}

fn adaptive(plain: Scenario, lists: &Lists) -> Vec<Scenario> {
    let mut all = Vec::new();
    for &read_weight in &lists.read_weights {
        for &load_limit in &lists.load_limits {
            for &rate in &lists.target_rates {
                all.push(Scenario {
                    read_weight,
                    load_limit: Some(load_limit),
                    target_rate: Some(rate),
                    ..plain
                });
            }
        }
    }
    all
}
