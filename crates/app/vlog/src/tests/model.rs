//! A small database on the log, and what it may be after a crash.

use crate::shared::Plant;
use crate::{
    Change, Compaction, Directory, Options, Position, Receipt, Record, Sync, Vlog, VlogError,
    VlogId, open,
};
use env::Rng;
use env::sim::World;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const ID: VlogId = VlogId(0x1f);
pub(super) const STREAMS: u32 = 5;
pub(super) const KEYS: u64 = 6;

/// Stream and key to value.
pub(super) type State = BTreeMap<(u32, u8), u32>;

/// One atomic change of the database: stream, key, and the new value if it has one.
pub(super) type Step = Vec<(u32, u8, Option<u32>)>;

pub(super) fn directories(world: &World) -> Vec<Directory> {
    ["one", "two"]
        .map(|name| Directory {
            dir: world.dir(name),
            path: format!("/{name}"),
        })
        .to_vec()
}

pub(super) fn options(lanes: u32) -> Options {
    Options {
        lanes,
        segment_bytes: 4096,
        pending_bytes_max: 1 << 20,
        sync: Sync::Never,
        compaction: Compaction {
            dead_percent_min: 50,
            bytes_per_s_max: None,
        },
        threads: false,
        recovery_threads: 1,
        wake: None,
        expect: None,
    }
}

pub(super) fn payload(key: u8, value: u32) -> Vec<u8> {
    let mut bytes = vec![key];
    bytes.extend_from_slice(&value.to_le_bytes());
    let mut rng = Rng::new(value.into());
    let padding = match rng.below(4) {
        0 => rng.index(1200),
        _ => rng.index(60),
    };
    bytes.resize(5 + padding, value as u8);
    bytes
}

fn parse(bytes: &[u8]) -> (u8, u32) {
    let key = bytes[0];
    let value = u32::from_le_bytes(bytes[1..5].try_into().unwrap());
    assert_eq!(bytes, payload(key, value), "content");
    (key, value)
}

/// The database.
pub(super) struct Database {
    pub(super) log: Vlog,
    pub(super) entries: BTreeMap<(u32, u8), (Position, u32)>,
    pub(super) next_value: u32,
    /// Entries whose record is of this opening.
    fresh: BTreeSet<(u32, u8)>,
}

pub(super) fn create(world: &World) {
    Vlog::create("db", directories(world), ID).unwrap();
}

impl Database {
    pub(super) fn open(
        world: &World,
        lanes: u32,
        plant: Option<Plant>,
    ) -> Result<Database, VlogError> {
        let found = parking_lot::Mutex::new(Vec::new());
        let sink = |record: Record<'_>| {
            let (key, value) = parse(record.payload);
            let entry = ((record.stream, key), (record.position, value));
            found.lock().push(entry);
        };
        let (shared, locks) = open::open(
            "db",
            directories(world),
            options(lanes),
            &sink,
            plant == Some(Plant::TornGroups),
        )?;
        *shared.plant.lock() = plant;
        let log = Vlog::start(shared, locks)?;
        let found = found.into_inner();
        let count = found.len();
        let entries: BTreeMap<_, _> = found.into_iter().collect();
        let next_value = entries.values().map(|(_, value)| value + 1).max();
        if entries.len() != count {
            let file = format!("{} entries, {count} records", entries.len());
            // Not what the error is for: the test's own complaint.
            return Err(VlogError::Exists { file });
        }
        Ok(Database {
            log,
            entries,
            next_value: next_value.unwrap_or(1),
            fresh: BTreeSet::new(),
        })
    }

    pub(super) fn state(&self) -> State {
        let entries = self.entries.iter();
        entries.map(|(key, (_, value))| (*key, *value)).collect()
    }

    /// A step that could be made now, each entry in it once.
    pub(super) fn choose(&mut self, rng: &mut Rng) -> Step {
        let mut last: BTreeMap<(u32, u8), Option<u32>> = BTreeMap::new();
        for (stream, key, value) in self.draw(rng) {
            last.insert((stream, key), value);
        }
        // Deleting what is not there changes nothing, and no lane hears of it.
        last.retain(|entry, value| value.is_some() || self.entries.contains_key(entry));
        let changes = last.into_iter();
        changes
            .map(|((stream, key), value)| (stream, key, value))
            .collect()
    }

    fn draw(&mut self, rng: &mut Rng) -> Step {
        let stream = rng.below(u64::from(STREAMS)) as u32;
        let key = rng.below(KEYS) as u8;
        let other = rng.below(u64::from(STREAMS)) as u32;
        let other_key = rng.below(KEYS) as u8;
        let mut value = || {
            self.next_value += 1;
            Some(self.next_value)
        };
        match rng.below(10) {
            0..5 => vec![(stream, key, value())],
            5..7 => vec![(stream, key, None)],
            7 => vec![(stream, key, value()), (other, other_key, value())],
            8 => vec![(stream, key, None), (other, other_key, value())],
            _ => {
                let mut all: Step = (0..STREAMS).map(|stream| (stream, key, value())).collect();
                all.truncate(2 + rng.index(4));
                all
            }
        }
    }

    /// Makes it.
    pub(super) fn make(&mut self, step: &Step, rng: &mut Rng) -> Result<Receipt, VlogError> {
        let last: BTreeMap<(u32, u8), Option<u32>> = step
            .iter()
            .map(|(stream, key, value)| ((*stream, *key), *value))
            .collect();
        let payloads: Vec<_> = last
            .iter()
            .map(|((_, key), value)| value.map(|value| payload(*key, value)))
            .collect();
        let mut changes = Vec::new();
        let mut killed = None;
        let moves = last.len() == 2
            && last.values().filter(|value| value.is_some()).count() == 1
            && rng.chance(1, 2);
        for ((entry, value), payload) in last.iter().zip(&payloads) {
            let before = self.entries.get(entry).map(|(position, _)| *position);
            let stream = entry.0;
            match (value, payload, before) {
                (Some(_), Some(payload), before) => changes.push(Change::Append {
                    stream,
                    payload,
                    replaces: before,
                }),
                // Of older records the log does not know the stream: they are killed on it.
                (None, _, Some(position)) if moves && self.fresh.contains(entry) => {
                    killed = Some((stream, position))
                }
                (None, _, Some(position)) => changes.push(Change::Kill { stream, position }),
                _ => {}
            }
        }
        // An entry that moves to another stream: the new record names the old one.
        if let Some((stream, position)) = killed {
            match changes.first_mut() {
                Some(Change::Append { replaces, .. }) if replaces.is_none() => {
                    *replaces = Some(position);
                }
                _ => changes.push(Change::Kill { stream, position }),
            }
        }
        if changes.is_empty() {
            return Ok(Receipt { lane: 0, chunk: 0 });
        }
        let mut positions = Vec::new();
        let receipt = self.log.group(&changes, &mut positions)?;
        let mut positions = positions.into_iter();
        for (entry, value) in last {
            match value {
                None => {
                    self.entries.remove(&entry);
                }
                Some(value) => {
                    self.fresh.insert(entry);
                    self.entries
                        .insert(entry, (positions.next().unwrap(), value));
                }
            }
        }
        assert_eq!(positions.next(), None);
        Ok(receipt)
    }
}

pub(super) fn apply(state: &mut State, step: &Step) {
    for (stream, key, value) in step {
        match value {
            None => state.remove(&(*stream, *key)),
            Some(value) => state.insert((*stream, *key), *value),
        };
    }
}

/// What may be there after a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) base: State,
    pub(super) lanes: u32,
    pub(super) steps: Vec<Step>,
    /// Of each step, whether it was promised.
    pub(super) promised: Vec<bool>,
}

impl History {
    fn lanes_of(&self, step: &Step) -> Vec<u32> {
        let mut lanes: Vec<u32> = step
            .iter()
            .map(|(stream, ..)| stream % self.lanes)
            .collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Whether `found` is what a prefix of each lane's steps makes, with all that was promised, and
    /// with steps whole or absent.
    pub(super) fn allows(&self, found: &State) -> Result<(), String> {
        let of_lane = |state: &State, lane: u32| -> State {
            let here = state.iter().filter(|((s, _), _)| s % self.lanes == lane);
            here.map(|(key, value)| (*key, *value)).collect()
        };
        // Of each lane: how many of its steps may have been kept.
        let mut choices: Vec<Vec<usize>> = Vec::new();
        let mut of_lanes: Vec<Vec<usize>> = Vec::new();
        for lane in 0..self.lanes {
            let steps: Vec<usize> = (0..self.steps.len())
                .filter(|index| self.lanes_of(&self.steps[*index]).contains(&lane))
                .collect();
            let least = steps.iter().rposition(|index| self.promised[*index]);
            let least = least.map_or(0, |at| at + 1);
            let wanted = of_lane(found, lane);
            let mut state = self.base.clone();
            let mut fits = Vec::new();
            for count in 0..=steps.len() {
                if count > 0 {
                    apply(&mut state, &self.steps[steps[count - 1]]);
                }
                if count >= least && of_lane(&state, lane) == wanted {
                    fits.push(count);
                }
            }
            if fits.is_empty() {
                return Err(format!(
                    "lane {lane} has {wanted:?}, which is none of the states from step {least} of \
                     its {} on, base {:?}, steps {:?}",
                    steps.len(),
                    of_lane(&self.base, lane),
                    steps.iter().map(|i| &self.steps[*i]).collect::<Vec<_>>(),
                ));
            }
            choices.push(fits);
            of_lanes.push(steps);
        }
        if self.some_choice_is_whole(&choices, &of_lanes, &mut Vec::new()) {
            Ok(())
        } else {
            Err(format!("steps are torn: {choices:?} of {:?}", self.steps))
        }
    }

    fn some_choice_is_whole(
        &self,
        choices: &[Vec<usize>],
        of_lanes: &[Vec<usize>],
        taken: &mut Vec<usize>,
    ) -> bool {
        let Some(next) = choices.get(taken.len()) else {
            return true;
        };
        for count in next {
            taken.push(*count);
            let lane = taken.len() - 1;
            // Each step on this lane and an earlier one is kept on both or neither.
            let whole = of_lanes[lane].iter().enumerate().all(|(at, index)| {
                let kept = at < *count;
                (0..lane).all(|other| {
                    let there = of_lanes[other].iter().position(|step| step == index);
                    there.is_none_or(|there| (there < taken[other]) == kept)
                })
            });
            if whole && self.some_choice_is_whole(choices, of_lanes, taken) {
                return true;
            }
            taken.pop();
        }
        false
    }
}
