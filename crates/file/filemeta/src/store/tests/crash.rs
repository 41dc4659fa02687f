//! Every crash of a random history, recovered and compared; and bugs that this must find.

use super::history::{ATTRIBUTE, ID, Model, OPTIONS, Step, owners, places, random_step};
use crate::Store;
use crate::store::Planted;
use env::Rng;
use env::sim::World;
use env::sim::crash::{Failure, Notes, Options as Look, Report, search};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the check may rely on.
#[derive(Clone)]
enum Note {
    /// A request that makes this of the store was handed over.
    Begun(Arc<Model>),
    /// The first so many requests are durable.
    Durable(usize),
    /// This note of a durable request is open.
    Open(Vec<u8>),
    /// Soon it is not any more.
    Done(Vec<u8>),
}

fn work(world: &World, notes: &Notes<Note>, requests: usize, planted: Planted) {
    let owners = owners(world);
    let store = Store::create(&places(world), ID, ATTRIBUTE, OPTIONS).unwrap();
    store.state.lock().planted = planted;
    notes.note(Note::Begun(Arc::default()));
    notes.note(Note::Durable(0));
    let mut rng = world.rng();
    let mut model = Model::default();
    for number in 1..=requests {
        let mut request = store.request();
        let mut written = None;
        for _ in 0..1 + rng.below(3) {
            let mut step = random_step(&mut rng, &model);
            if let Step::Note(payload) = &mut step {
                // So that each is told from every other.
                payload.push(number as u8);
                written = Some(payload.clone());
            }
            assert!(model.apply(&step));
            step.ask(&mut request, &owners).unwrap();
        }
        notes.note(Note::Begun(Arc::new(model.clone())));
        if rng.chance(2, 3) {
            let ticket = request.commit().unwrap();
            notes.note(Note::Durable(number));
            if let Some(payload) = written {
                notes.note(Note::Open(payload.clone()));
                if rng.chance(1, 2) {
                    notes.note(Note::Done(payload));
                    store.done(ticket);
                }
            }
        } else {
            request.submit().unwrap();
        }
        if rng.chance(1, 12) {
            store.checkpoint().unwrap();
            notes.note(Note::Durable(number));
        }
    }
}

fn check(world: &World, notes: &[Note]) -> Result<(), String> {
    let mut begun = Vec::new();
    let mut durable = None;
    let mut open = BTreeSet::new();
    for note in notes {
        match note {
            Note::Begun(model) => begun.push(model),
            Note::Durable(number) => durable = Some(*number),
            Note::Open(payload) => {
                open.insert(payload);
            }
            Note::Done(payload) => {
                open.remove(payload);
            }
        }
    }
    let Some(durable) = durable else {
        // Nothing was promised, not even that there is a store.
        return Ok(());
    };
    let owners = owners(world);
    let opened = Store::open(&places(world), Some(ID), OPTIONS).map_err(|e| e.to_string())?;
    let found = Model::of_store(&opened.store, &owners).map_err(|e| e.to_string())?;
    let equal = |model: &Model| (&model.tags, &model.system) == (&found.tags, &found.system);
    let allowed = begun.get(durable..).unwrap_or_default();
    if !allowed.iter().any(|model| equal(model)) {
        let earlier = begun.iter().position(|model| equal(model));
        return Err(format!(
            "of {} requests {durable} are durable, found the state after {earlier:?}",
            begun.len() - 1
        ));
    }
    for note in open {
        if !opened.notes.iter().any(|found| found.payload == *note) {
            return Err(format!("the open note {note:?} did not come back"));
        }
    }
    let report = opened.store.check().map_err(|e| e.to_string())?;
    if !report.is_sound() {
        return Err(format!("check finds {:?}", report.findings));
    }
    Ok(())
}

fn look(seed: u64, requests: usize, planted: Planted) -> Result<Report, Failure> {
    let mut look = Look::new(seed);
    look.cuts_max = 220;
    look.samples_per_cut = 2;
    search(
        &look,
        |world, notes| work(world, notes, requests, planted),
        check,
    )
}

#[test]
fn at_every_crash_a_request_is_there_whole_or_not_at_all() {
    let mut images = 0;
    for seed in 0..3 {
        let report = look(seed, 40, Planted::Nothing).unwrap_or_else(|failure| panic!("{failure}"));
        images += report.images;
    }
    assert!(
        images > 1000 || std::env::var(env::sim::crash::SEED_VARIABLE).is_ok(),
        "{images}"
    );
}

#[test]
fn planted_bugs_of_order_are_found() {
    let bugs = [
        Planted::AppliesFirst,
        Planted::TruncatesUnsynced,
        Planted::StagesWithoutDirSync,
    ];
    for bug in bugs {
        let found = (0..8).find_map(|seed| look(seed, 40, bug).err());
        let failure = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: {failure}");
    }
}

#[test]
fn a_store_that_crashes_again_and_again_goes_on_and_stays_small() {
    for seed in 0..12 {
        let world = World::new(seed);
        let mut rng = Rng::new(seed);
        let owners = owners(&world);
        drop(Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap());
        let mut model = Model::default();
        for _ in 0..12 {
            let opened = Store::open(&places(&world), None, OPTIONS).unwrap();
            let store = opened.store;
            let mut found = Model::of_store(&store, &owners).unwrap();
            found.note.clone_from(&model.note);
            assert_eq!(found, model, "seed {seed}");
            for note in opened.notes {
                store.done(note.ticket);
            }
            for _ in 0..rng.below(8) {
                let step = random_step(&mut rng, &model);
                assert!(model.apply(&step));
                let mut request = store.request();
                step.ask(&mut request, &owners).unwrap();
                request.commit().unwrap();
            }
            world.crash();
        }
        let store = Store::open(&places(&world), None, OPTIONS).unwrap().store;
        let garbage = store.collect_garbage(crate::Unlinked::Keep).unwrap();
        assert_eq!(garbage.left, 0);
        let report = store.check().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        store.checkpoint().unwrap();
        let held = store.status().journal_bytes;
        assert!(held <= 12 * OPTIONS.segment_bytes, "{held}");
    }
}
