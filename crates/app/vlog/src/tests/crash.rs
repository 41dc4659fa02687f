//! Every crash that a log can meet, and every rule left out once.

use super::model::{Database, History, State, Step, create};
use crate::VlogError;
use crate::shared::Plant;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};

#[derive(Clone, Debug)]
enum Event {
    Created,
    /// The database is this now, and steps go to so many lanes.
    Opened(State, u32),
    Began(Step),
    /// The step (counted since it was opened) would survive a crash.
    Durable(usize),
}

/// Steps, syncs, compactions and new openings, as the seed says.
fn work(world: &World, notes: &Notes<Event>, count: usize, plant: Option<Plant>) {
    let mut rng = world.rng();
    create(world);
    notes.note(Event::Created);
    let mut lanes = 1 + rng.below(3) as u32;
    let mut database = Database::open(world, lanes, plant).unwrap();
    notes.note(Event::Opened(database.state(), lanes));
    let mut receipts = Vec::new();
    for _ in 0..count {
        match rng.below(24) {
            0..16 => {
                let step = database.choose(&mut rng);
                notes.note(Event::Began(step.clone()));
                let receipt = database.make(&step, &mut rng).unwrap();
                receipts.push(Some(receipt));
            }
            16..18 => database.log.flush(rng.below(lanes.into()) as u32).unwrap(),
            18..21 => {
                let lane = rng.below(lanes.into()) as u32;
                database.log.flush(lane).unwrap();
                database.log.sync(lane).unwrap();
            }
            21..23 => {
                let least = 1 + rng.below(60) as u32;
                while rng.chance(3, 4) && database.log.compact(least).unwrap().is_some() {}
            }
            _ => {
                // Half of the ends are in good order.
                let entries = database.next_value;
                if rng.chance(1, 2) {
                    database.log.close().unwrap();
                } else {
                    drop(database.log);
                }
                lanes = 1 + rng.below(3) as u32;
                database = Database::open(world, lanes, plant).unwrap();
                database.next_value = database.next_value.max(entries);
                receipts.clear();
                notes.note(Event::Opened(database.state(), lanes));
            }
        }
        for (index, receipt) in receipts.iter_mut().enumerate() {
            if let Some(waiting) = receipt
                && waiting.chunk > 0
                && database.log.is_durable(*waiting)
            {
                notes.note(Event::Durable(index));
                *receipt = None;
            }
        }
    }
}

fn history(events: &[Event]) -> Option<History> {
    let mut history = None;
    for event in events {
        match event {
            Event::Created => {
                history = Some(History {
                    lanes: 1,
                    ..History::default()
                });
            }
            Event::Opened(state, lanes) => {
                history = Some(History {
                    base: state.clone(),
                    lanes: *lanes,
                    ..History::default()
                });
            }
            Event::Began(step) => {
                let history = history.as_mut().unwrap();
                history.steps.push(step.clone());
                history.promised.push(false);
            }
            Event::Durable(index) => history.as_mut().unwrap().promised[*index] = true,
        }
    }
    history
}

fn check(world: &World, events: &[Event], plant: Option<Plant>) -> Result<(), String> {
    let opened = Database::open(world, 2, plant);
    let Some(history) = history(events) else {
        return match opened {
            Ok(_) => Ok(()),
            Err(VlogError::Missing { .. }) => {
                // A creation that the crash cut must not stand in the way of another.
                create(world);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
    };
    let database = opened.map_err(|error| error.to_string())?;
    history.allows(&database.state())
}

fn run(look: &Look, count: usize, plant: Option<Plant>) -> Result<Report, Failure> {
    search(
        look,
        |world, notes| work(world, notes, count, plant),
        |world, events| check(world, events, plant),
    )
}

#[test]
fn at_every_crash_each_lane_is_a_prefix_with_what_was_promised_and_groups_are_whole() {
    let mut images = 0;
    for seed in 0..6 {
        let mut look = Look::new(seed);
        look.cuts_max = 500;
        let report = run(&look, 160, None).unwrap_or_else(|failure| panic!("{failure}"));
        images += report.images;
    }
    println!("{images} images");
    assert!(
        images > 3000 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok(),
        "{images}"
    );
}

#[test]
fn every_rule_that_is_left_out_is_found() {
    for plant in [
        Plant::BitsBeforeKillers,
        Plant::KillsDropped,
        Plant::InstalledUnsynced,
        Plant::RemovedFirst,
        Plant::DurableWithoutGroups,
        Plant::TornGroups,
        Plant::RolledUnsynced,
    ] {
        let found = (0..40).find_map(|seed| {
            let mut look = Look::new(seed);
            look.cuts_max = 300;
            // A workload may trip over the bug by itself.
            let run = std::panic::AssertUnwindSafe(|| run(&look, 120, Some(plant)));
            match std::panic::catch_unwind(run) {
                Ok(Ok(_)) => None,
                Ok(Err(failure)) => Some(failure.to_string()),
                Err(_) => Some(format!("seed {seed}: the workload panicked")),
            }
        });
        let found = found.unwrap_or_else(|| panic!("{plant:?} was not found"));
        println!("{plant:?}: {}", &found[..found.len().min(300)]);
    }
}

#[test]
fn a_log_that_crashes_again_and_again_keeps_its_promises_and_its_size() {
    for seed in 0..20 {
        let world = World::new(seed);
        let mut rng = world.rng();
        create(&world);
        let mut expected = History {
            lanes: 1,
            ..History::default()
        };
        let mut value = 1;
        for round in 0..25 {
            let lanes = 1 + rng.below(3) as u32;
            let mut database = Database::open(&world, lanes, None).unwrap();
            expected
                .allows(&database.state())
                .unwrap_or_else(|why| panic!("seed {seed} round {round}: {why}"));
            // What recovery returned once it must return again.
            expected = History {
                base: database.state(),
                lanes,
                ..History::default()
            };
            database.next_value = database.next_value.max(value);
            for _ in 0..rng.below(40) {
                let step = database.choose(&mut rng);
                expected.steps.push(step.clone());
                expected.promised.push(false);
                let receipt = database.make(&step, &mut rng).unwrap();
                if rng.chance(1, 6) && receipt.chunk > 0 {
                    database.log.durable(receipt).unwrap();
                    *expected.promised.last_mut().unwrap() = true;
                }
                if rng.chance(1, 12) {
                    database.log.compact(30).unwrap();
                }
            }
            while database.log.compact(30).unwrap().is_some() {}
            let status = database.log.status();
            assert!(status.files <= 16, "{status:?}");
            value = database.next_value;
            drop(database);
            world.crash();
        }
    }
}
