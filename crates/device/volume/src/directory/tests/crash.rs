//! Every crash of a run of calls and batches, and planted bugs.

use super::model::{self, Model, Picture, Step, User};
use crate::directory::{Plant, Tree, check as check_tree, draft};
use crate::{Volume, directory};
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use mount::{Ino, Layer};
use std::sync::Arc;

const DISK_BYTES: u64 = 3 << 20;

/// What the workload was promised, or began.
#[derive(Clone, Debug)]
enum Event {
    Created,
    /// This step was begun: nothing of a later one may be found.
    Begun(Arc<Step>),
    /// All steps so far are durable.
    Synced,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    steps: u64,
    /// Only batches, on one file.
    batches_only: bool,
    plant: Option<Plant>,
}

const PLAN: Plan = Plan {
    steps: 60,
    batches_only: false,
    plant: None,
};

/// A step that commits makes all before it durable too.
fn syncs(step: &Step, done: bool) -> bool {
    done && matches!(step, Step::Batch(.., true) | Step::Replace(.., true))
}

fn work(world: &World, events: &Notes<Event>, plan: &Plan) {
    let mut rng = world.rng();
    let mut tree = model::create(world, DISK_BYTES);
    tree.plant = plan.plant;
    events.note(Event::Created);
    let mut user = User::new(&tree);
    let first = Step::MakeFile(b"a".to_vec());
    events.note(Event::Begun(Arc::new(first.clone())));
    user.perform(&first).unwrap();
    let mut held = None;
    for _ in 0..plan.steps {
        let step = loop {
            if let Some(path) = held.take() {
                // What is open is often removed.
                break Step::Unlink(path);
            }
            let step = model::step(&mut rng);
            match step {
                Step::Batch(_, writes, commit) if plan.batches_only => {
                    break Step::Batch(b"a".to_vec(), writes, commit);
                }
                Step::Replace(_, writes, commit) if plan.batches_only => {
                    break Step::Replace(b"a".to_vec(), writes, commit);
                }
                _ if plan.batches_only => {}
                step => break step,
            }
        };
        events.note(Event::Begun(Arc::new(step.clone())));
        let done = user.perform(&step).is_ok();
        held = match &step {
            Step::Hold(path) if done && rng.chance(2, 3) => Some(path.clone()),
            _ => None,
        };
        if syncs(&step, done) {
            events.note(Event::Synced);
        } else if rng.chance(1, 5) {
            tree.sync(Ino::ROOT, rng.chance(1, 2)).unwrap();
            events.note(Event::Synced);
        }
        if rng.chance(1, 30) {
            tree.write_times().unwrap();
        }
        if rng.chance(1, 40) {
            tree.settle().unwrap();
        }
    }
}

fn open(world: &World, plan: &Plan) -> crate::Result<Tree> {
    let volume = Volume::open(model::disks(world, DISK_BYTES), model::OPTIONS)?;
    if plan.plant == Some(Plant::KeepOrphans) {
        return Tree::of(volume);
    }
    Tree::open(volume)
}

/// Recovers, and finds which of the promised states it is.
fn check(world: &World, events: &[Event], plan: &Plan) -> Result<(), String> {
    let created = events.iter().any(|event| matches!(event, Event::Created));
    let tree = match open(world, plan) {
        Ok(tree) => tree,
        Err(_) if !created => return Ok(()),
        Err(error) => return Err(format!("does not open: {error}")),
    };
    let blocks = (tree.volume.check(&mut |_, _| {})).map_err(|error| error.to_string())?;
    let report = check_tree(&tree.volume, &blocks.damaged);
    let report = report.map_err(|error| error.to_string())?;
    if let Some(problem) = report.and_then(|report| report.problems.first().cloned()) {
        return Err(format!("the tree is damaged: {problem:?}"));
    }
    let orphans = directory::folder::Folder::load(&tree.volume, directory::ORPHANS, &mut |_, _| {});
    if orphans.is_ok_and(|orphans| orphans.len() > 0) {
        return Err("removed files keep their room".to_owned());
    }
    let found = model::look(&tree).map_err(|error| format!("cannot be read: {error}"))?;
    is_one_of(&found, events)
}

fn is_one_of(found: &Picture, events: &[Event]) -> Result<(), String> {
    let mut state = Model::new();
    let mut complaint = None;
    // States before the last sync do not count.
    let synced = (events.iter()).rposition(|event| matches!(event, Event::Synced));
    let mut looked = false;
    for (at, event) in events.iter().enumerate() {
        if let Event::Begun(step) = event {
            // One that fails changes nothing, which the model test has seen.
            let _ = state.apply(step);
        }
        if synced.is_none_or(|synced| at >= synced) {
            looked = true;
            match model::difference(found, &state.picture()) {
                None => return Ok(()),
                Some(difference) => complaint = Some(difference),
            }
        }
    }
    match looked {
        true => Err(format!("none of the states that it may be: {complaint:?}")),
        false => Ok(()),
    }
}

fn run(seed: u64, plan: &Plan, look: impl Fn(&mut Look)) -> Result<Report, Failure> {
    let mut options = Look::new(seed);
    options.cuts_max = 100;
    options.samples_per_cut = 2;
    look(&mut options);
    search(
        &options,
        |world, events| work(world, events, plan),
        |world, events| check(world, events, plan),
    )
}

#[test]
fn after_every_crash_the_tree_is_that_of_some_moment_since_the_last_sync() {
    for seed in 1..4 {
        let report = run(seed, &PLAN, |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 150, "{report:?}");
    }
}

#[test]
fn after_every_crash_a_batch_is_there_whole_or_not_at_all() {
    let plan = Plan {
        steps: 30,
        batches_only: true,
        ..PLAN
    };
    let report = run(9, &plan, |look| look.cuts_max = 200);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 150, "{report:?}");
}

/// Whether some seed shows the bug.
fn is_found(plan: &Plan) -> bool {
    (0..6).any(
        |seed| match run(seed, plan, |look| look.samples_per_cut = 4) {
            Ok(_) => false,
            Err(failure) => {
                println!("{:?}: {failure}", plan.plant);
                true
            }
        },
    )
}

#[test]
fn names_and_inodes_in_two_groups_are_found() {
    let plant = Some(Plant::TwoGroups);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn a_batch_that_is_committed_block_by_block_is_found() {
    let plan = Plan {
        steps: 20,
        batches_only: true,
        plant: Some(Plant::BatchInPieces),
    };
    assert!(is_found(&plan));
}

#[test]
fn a_sync_that_does_nothing_is_found() {
    let plant = Some(Plant::ForgetSync);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn removed_files_that_are_not_taken_away_are_found() {
    let plant = Some(Plant::KeepOrphans);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn a_removed_file_has_a_name_that_a_start_finds() {
    assert_eq!(draft::orphan_name(Ino(43)), "43");
}
