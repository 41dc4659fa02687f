//! Crashes of a log that its own threads write and compact, while several threads append. Which
//! crashes there are differs from run to run; what has to hold does not.

use super::model::{Database, History, KEYS, State, create, directories, options};
use crate::shared::Plant;
use crate::{Change, Options, Position, Receipt, Sync, Vlog, open};
use env::Rng;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use std::collections::BTreeMap;
use std::time::Duration;

const APPENDERS: u32 = 2;
const STEPS: usize = 120;

/// Thread, and what it did: its streams are its number and that plus 2 and 3, on two lanes.
#[derive(Clone, Debug)]
enum Event {
    Created,
    Began(u32, Vec<(u32, u8, Option<u32>)>),
    Durable(u32, usize),
}

/// Streams of one appender, which lie on different lanes.
fn streams(appender: u32) -> [u32; 2] {
    [appender * 2, appender * 2 + 1]
}

fn append(log: &Vlog, appender: u32, seed: u64, notes: &Notes<Event>) {
    let mut rng = Rng::new(seed << 8 | u64::from(appender));
    let mut entries: BTreeMap<(u32, u8), Position> = BTreeMap::new();
    let mut waiting: Vec<(usize, Receipt)> = Vec::new();
    for index in 0..STEPS {
        let value = index as u32 + 1;
        let key = rng.below(KEYS) as u8;
        let stream = streams(appender)[rng.index(2)];
        let step = match rng.below(4) {
            0 if entries.contains_key(&(stream, key)) => vec![(stream, key, None)],
            1 => streams(appender).map(|of| (of, key, Some(value))).to_vec(),
            _ => vec![(stream, key, Some(value))],
        };
        notes.note(Event::Began(appender, step.clone()));
        let payloads: Vec<_> = step
            .iter()
            .map(|(_, key, _)| super::model::payload(*key, value))
            .collect();
        let changes: Vec<_> = step
            .iter()
            .zip(&payloads)
            .map(|((stream, key, value), payload)| {
                let (stream, before) = (*stream, entries.get(&(*stream, *key)).copied());
                match (value, before) {
                    (None, Some(position)) => Change::Kill { stream, position },
                    (_, replaces) => Change::Append {
                        stream,
                        payload,
                        replaces,
                    },
                }
            })
            .collect();
        let mut positions = Vec::new();
        let receipt = log.group(&changes, &mut positions).unwrap();
        waiting.push((index, receipt));
        let mut positions = positions.into_iter();
        for (stream, key, value) in step {
            match value {
                None => drop(entries.remove(&(stream, key))),
                Some(_) => drop(entries.insert((stream, key), positions.next().unwrap())),
            }
        }
        if rng.chance(1, 20) {
            log.durable(receipt).unwrap();
        }
        waiting.retain(|(index, receipt)| {
            let durable = log.is_durable(*receipt);
            if durable {
                notes.note(Event::Durable(appender, *index));
            }
            !durable
        });
    }
}

fn work(world: &World, notes: &Notes<Event>, seed: u64, plant: Option<Plant>) {
    create(world);
    notes.note(Event::Created);
    let options = Options {
        threads: true,
        sync: Sync::Every(Duration::from_millis(1)),
        ..options(2)
    };
    let (shared, locks) = open::open("db", directories(world), options, &|_| {}, false).unwrap();
    *shared.plant.lock() = plant;
    let log = Vlog::start(shared, locks).unwrap();
    std::thread::scope(|scope| {
        for appender in 0..APPENDERS {
            let log = &log;
            scope.spawn(move || append(log, appender, seed, notes));
        }
        let log = &log;
        scope.spawn(move || {
            for _ in 0..20 {
                log.compact(20).unwrap();
            }
        });
    });
}

fn check(world: &World, events: &[Event]) -> Result<(), String> {
    let opened = Database::open(world, 2, None);
    if events.is_empty() {
        // The creation may have been cut.
        return Ok(());
    }
    let state = opened.map_err(|error| error.to_string())?.state();
    for appender in 0..APPENDERS {
        let mut history = History {
            lanes: 2,
            ..History::default()
        };
        for event in events {
            match event {
                Event::Began(of, step) if *of == appender => {
                    history.steps.push(step.clone());
                    history.promised.push(false);
                }
                Event::Durable(of, index) if *of == appender => history.promised[*index] = true,
                _ => {}
            }
        }
        let mine: State = state
            .iter()
            .filter(|((stream, _), _)| streams(appender).contains(stream))
            .map(|(key, value)| (*key, *value))
            .collect();
        history.allows(&mine)?;
    }
    Ok(())
}

fn run(seed: u64, plant: Option<Plant>) -> Result<Report, Failure> {
    let mut look = Look::new(seed);
    look.cuts_max = 120;
    search(&look, |world, notes| work(world, notes, seed, plant), check)
}

#[test]
fn whatever_the_threads_did_each_lane_is_a_prefix_and_groups_are_whole() {
    for seed in 0..5 {
        run(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_rule_left_out_is_found_with_threads_too() {
    for plant in [Plant::DurableWithoutGroups, Plant::KillsDropped] {
        let found = (0..60).find_map(|seed| run(seed, Some(plant)).err());
        let found = found.unwrap_or_else(|| panic!("{plant:?} was not found"));
        println!("{plant:?}: {found}");
    }
}
