//! Every crash of a run of groups, with and without the cleaner, and planted bugs.

use super::model::{self, ID, Model, OPTIONS, Step};
use crate::engine::Plant;
use crate::{Change, ObjectId, Options, Volume};
use env::Disk;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use std::sync::Arc;

/// What the workload was promised, or began.
#[derive(Clone, Debug)]
enum Event {
    Created,
    /// This group was begun: nothing of a later one may be found.
    Begun(Arc<Vec<Step>>),
    /// All groups so far are durable.
    Synced,
}

/// How a workload runs.
#[derive(Clone, Copy, Debug)]
struct Plan {
    disks: usize,
    disk_bytes: u64,
    groups: u64,
    objects: u64,
    blocks: u64,
    /// One in so many groups is synced.
    sync_every: u64,
    /// One in so many is followed by the cleaner.
    clean_every: u64,
    packs: bool,
    plant: Option<Plant>,
}

impl Plan {
    fn options(&self) -> Options {
        Options {
            packs: self.packs,
            ..OPTIONS
        }
    }
}

const PLAN: Plan = Plan {
    disks: 1,
    disk_bytes: 2 << 20,
    groups: 60,
    objects: 3,
    blocks: 40,
    sync_every: 4,
    clean_every: 1000,
    packs: true,
    plant: None,
};

fn disks(world: &World, plan: &Plan) -> Vec<Arc<dyn Disk>> {
    (0..plan.disks)
        .map(|disk| -> Arc<dyn Disk> { world.disk(&format!("disk{disk}"), plan.disk_bytes) })
        .collect()
}

fn open(world: &World, plan: &Plan) -> crate::Result<Volume> {
    let mut volume = Volume::found(disks(world, plan), plan.options(), false)?;
    volume.plant = plan.plant;
    volume.recover(false)?;
    Ok(volume)
}

fn work(world: &World, events: &Notes<Event>, plan: &Plan) {
    let mut rng = world.rng();
    let mut volume = Volume::create(disks(world, plan), ID, plan.options()).unwrap();
    volume.plant = plan.plant;
    events.note(Event::Created);
    let mut left = plan.groups;
    while left > 0 {
        // Some at once, so that several share a flight and several flights share a sync.
        let together = (1 + rng.below(3)).min(left);
        left -= together;
        let groups: Vec<Arc<Vec<Step>>> = (0..together)
            .map(|_| Arc::new(model::group(&mut rng, plan.objects, plan.blocks)))
            .collect();
        let mut last = None;
        for group in &groups {
            events.note(Event::Begun(group.clone()));
            last = Some(volume.begin(&model::changes(group)).unwrap());
        }
        if let Some(last) = last {
            match rng.chance(1, 2) {
                true => volume.wait(last).unwrap(),
                false => volume.leave(last).unwrap(),
            }
        }
        if rng.chance(1, plan.sync_every) {
            volume.sync().unwrap();
            events.note(Event::Synced);
        }
        if rng.chance(1, plan.clean_every) {
            volume.clean(u64::MAX).unwrap();
        }
        if rng.chance(1, 30) {
            volume.checkpoint().unwrap();
        }
        if plan.plant.is_none() && rng.chance(1, 40) {
            // What was left goes with the process.
            volume.settle().unwrap();
            drop(volume);
            volume = open(world, plan).unwrap();
        }
    }
}

/// Recovers, and finds which of the promised states it is.
fn check(world: &World, events: &[Event], plan: &Plan) -> Result<(), String> {
    let created = events.iter().any(|event| matches!(event, Event::Created));
    let volume = match open(world, plan) {
        Ok(volume) => volume,
        Err(_) if !created => return Ok(()),
        Err(error) => return Err(format!("does not open: {error}")),
    };
    let found = model::held(&volume).map_err(|error| format!("cannot be read: {error}"))?;
    let mut state = Model::new();
    let mut complaint = None;
    // States before the last sync do not count.
    let synced = events
        .iter()
        .rposition(|event| matches!(event, Event::Synced));
    let mut fits = false;
    for (at, event) in events.iter().enumerate() {
        if let Event::Begun(group) = event {
            model::apply(&mut state, group);
        }
        if synced.is_none_or(|synced| at >= synced) {
            match model::difference(&found, &state) {
                None => fits = true,
                Some(difference) => complaint = Some(difference),
            }
        }
    }
    if !fits && !events.is_empty() {
        let complaint = complaint.unwrap_or_default();
        return Err(format!("is none of the states that it may be: {complaint}"));
    }
    let report = volume
        .check(&mut |_, _| {})
        .map_err(|error| error.to_string())?;
    match report.damaged.first() {
        Some(damage) => Err(format!("damaged: {damage:?}")),
        None => Ok(()),
    }
}

fn run(seed: u64, plan: &Plan, look: impl Fn(&mut Look)) -> Result<Report, Failure> {
    let mut options = Look::new(seed);
    options.cuts_max = 120;
    options.samples_per_cut = 3;
    look(&mut options);
    search(
        &options,
        |world, events| work(world, events, plan),
        |world, events| check(world, events, plan),
    )
}

fn all_pass(seed: u64, plan: &Plan, look: impl Fn(&mut Look)) -> Report {
    run(seed, plan, look).unwrap_or_else(|failure| panic!("{plan:?}: {failure}"))
}

#[test]
fn after_every_crash_the_first_groups_are_there_whole() {
    let plan = Plan { groups: 25, ..PLAN };
    let report = all_pass(1, &plan, |look| look.cuts_max = 120);
    assert!(report.images > 250, "{report:?}");
    let report = all_pass(2, &Plan { disks: 2, ..plan }, |look| look.cuts_max = 60);
    assert!(report.recovery_images > 60, "{report:?}");
}

#[test]
fn so_they_are_while_the_cleaner_runs() {
    let plan = Plan {
        groups: 80,
        clean_every: 8,
        ..PLAN
    };
    all_pass(3, &plan, |look| look.cuts_max = 70);
}

#[test]
fn so_they_are_on_a_volume_that_is_nearly_full() {
    // 24 segments of 15 blocks, 8 of them kept: 156 blocks may be mapped.
    let plan = Plan {
        disk_bytes: 2000 << 10,
        groups: 150,
        objects: 3,
        blocks: 50,
        sync_every: 6,
        ..PLAN
    };
    all_pass(5, &plan, |look| look.cuts_max = 40);
}

/// Whether some seed shows the bug.
fn is_found(plan: &Plan) -> bool {
    (0..6).any(
        |seed| match run(seed, plan, |look| look.samples_per_cut = 6) {
            Ok(_) => false,
            Err(failure) => {
                println!("{:?}: {failure}", plan.plant);
                true
            }
        },
    )
}

#[test]
fn a_forgotten_sync_is_found() {
    let plant = Some(Plant::ForgetSync);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn a_sync_without_what_was_left_is_found() {
    let plant = Some(Plant::ForgetLeft);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn a_tail_that_is_trusted_is_found() {
    let plant = Some(Plant::TrustTail);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

#[test]
fn a_checkpoint_whose_header_comes_too_soon_is_found() {
    let plan = Plan {
        plant: Some(Plant::HasteCheckpoint),
        clean_every: 10,
        ..PLAN
    };
    assert!(is_found(&plan));
}

#[test]
fn a_segment_that_is_taken_again_too_soon_is_found() {
    let plan = Plan {
        plant: Some(Plant::EarlyReuse),
        // So that segments are full soon.
        packs: false,
        disk_bytes: 2000 << 10,
        groups: 90,
        objects: 1,
        blocks: 12,
        sync_every: 8,
        ..PLAN
    };
    assert!(is_found(&plan));
}

#[test]
fn packs_that_are_trusted_are_found() {
    let plant = Some(Plant::TrustPacks);
    assert!(is_found(&Plan { plant, ..PLAN }));
}

/// Groups that are longer than a segment, so that a crash may leave half of their flights.
fn long_groups(seed: u64, plant: Option<Plant>) -> Result<Report, Failure> {
    let plan = Plan { plant, ..PLAN };
    let mut options = Look::new(seed);
    options.cuts_max = 400;
    let content = |round: u8| vec![round; 40 * 4096];
    search(
        &options,
        |world, events| {
            let mut volume = Volume::create(disks(world, &plan), ID, plan.options()).unwrap();
            volume.plant = plant;
            for round in 1..8 {
                let content = content(round);
                let write = |object, bytes| Change::Write {
                    object: ObjectId(object),
                    offset: 0,
                    bytes,
                };
                events.note((round, false));
                let changes = [write(1, &content[..]), write(2, &content[..8192])];
                volume.commit(&changes).unwrap();
                volume.sync().unwrap();
                events.note((round, true));
            }
        },
        |world, events| {
            let durable = events.iter().filter(|(_, durable)| *durable);
            let durable = durable.map(|(round, _)| *round).max().unwrap_or(0);
            let volume = match open(world, &plan) {
                Ok(volume) => volume,
                Err(_) if events.is_empty() => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let found = model::held(&volume).map_err(|error| error.to_string())?;
            let begun = events.last().map_or(0, |(round, _)| *round);
            let fits = (durable..=begun).any(|round| {
                let mut expected = Model::new();
                if round > 0 {
                    expected.insert(1, content(round));
                    expected.insert(2, content(round)[..8192].to_vec());
                }
                found == expected
            });
            match fits {
                true => Ok(()),
                false => Err(format!("neither of rounds {durable} to {begun}")),
            }
        },
    )
}

#[test]
fn a_group_of_several_flights_and_segments_is_whole_or_absent() {
    let report = long_groups(1, None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 100, "{report:?}");
}

#[test]
fn half_a_group_is_found() {
    let failure = (1..5).find_map(|seed| long_groups(seed, Some(Plant::HalfGroup)).err());
    println!("{}", failure.expect("half a group was not found"));
}
