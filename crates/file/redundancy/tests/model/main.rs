//! Random operations, crashes and faults on simulated stores, compared with a model in plain
//! memory. Planted bugs show that the comparison has teeth.

mod engine;
mod mirror;
mod operation;
mod run;
mod system;
mod walk;
mod world;

use mirror::{Mirror, Plant};
use std::time::Duration;

const QUICK: Duration = Duration::from_secs(30);

/// Seeds of soaks that once broke a promise: an exchange of a file with several names that one
/// store had lost together with an earlier rename; an open file without a name whose stores went
/// one after the other; an exchange that no store had begun, of a file that one of them had at an
/// earlier name; a second name in a directory that was done before the first name was in place; a
/// rename whose mover was lost with its store, or on every store; a name given back to a file that
/// another store has without it (twice); a page that a failed sync left in the cache; a new object
/// in a directory that had to wait for the next round; a store that crashed unnoticed (twice); a
/// rename over what was never durable, completed from a state before an earlier unlink; a page that
/// a failed sync left in the cache, with a hole punched into it; a rename
/// completed without a link made just before it; a file kept
/// aside for want of one of its two names; a recovery cut after one of two names was there again; a
/// process that ended inside a write that its store did in part; one of several names lost with its
/// directory; a directory below one that was removed, filled there and made again elsewhere; a second
/// name in a directory that was kept aside; an exchange with a file that was never durable.
const FOUND: [u64; 28] = [
    1_795_252_396_000_137,
    1_795_252_396_000_106,
    1_795_271_359_000_980,
    1_795_271_359_000_953,
    1_795_272_153_000_213,
    1_795_272_153_000_074,
    1_795_272_258_000_102,
    1_795_272_258_000_524,
    1_795_275_809_000_427,
    1_795_276_142_000_033,
    1_795_276_142_000_044,
    1_795_276_323_000_054,
    1_795_278_082_005_302,
    1_795_281_705_000_318,
    1_795_282_326_001_962,
    1_795_282_326_000_488,
    1_795_283_662_002_350,
    1_795_284_763_000_117,
    1_795_284_763_003_143,
    1_795_287_492_001_698,
    1_795_289_038_000_972,
    1_795_289_444_001_605,
    1_795_289_444_003_007,
    1_795_290_230_005_109,
    1_795_292_330_002_370,
    1_795_296_101_001_293,
    1_795_307_349_000_972,
    1_795_315_384_000_015,
];

/// The same of the engine that encodes.
const FOUND_ENCODING: [u64; 4] = [
    1_795_290_995_000_358,
    1_795_291_406_000_665,
    1_795_315_384_000_015,
    1_795_315_682_000_424,
];

fn passes(system: &dyn system::System, seeds: u64) {
    if let Some(failure) = run::run_many(system, seeds, QUICK) {
        panic!("{failure}");
    }
}

/// Whether one of the first seeds trips over the planted bug.
fn is_found(plant: Plant) {
    let system = Mirror { stores: 2, plant };
    let failure = (1..=40).find_map(|seed| run::run(&system, seed));
    let failure = failure.unwrap_or_else(|| panic!("nobody noticed {plant:?}"));
    println!("{plant:?}: {failure}");
    let sound = Mirror {
        stores: 2,
        plant: Plant::Nothing,
    };
    assert!(
        run::run(&sound, failure.seed).is_none(),
        "the seed fails without {plant:?} too"
    );
    assert!(
        failure.steps.len() < 80,
        "{plant:?} needs {} steps",
        failure.steps.len()
    );
}

#[test]
fn a_layer_over_one_store_agrees_with_the_model() {
    passes(
        &Mirror {
            stores: 1,
            plant: Plant::Nothing,
        },
        300,
    );
}

#[test]
fn a_layer_over_two_stores_agrees_with_the_model() {
    passes(
        &Mirror {
            stores: 2,
            plant: Plant::Nothing,
        },
        300,
    );
}

#[test]
fn the_engine_with_two_copies_agrees_with_the_model() {
    passes(&engine::Set::new(2), 80);
}

#[test]
fn the_engine_with_three_copies_agrees_with_the_model() {
    passes(&engine::Set::new(3), 80);
}

#[test]
fn the_engine_with_encoding_agrees_with_the_model() {
    passes(&engine::Set::encoding(), 80);
}

#[test]
fn the_engine_that_swaps_chunks_agrees_with_the_model() {
    let set = engine::Set::swapping();
    passes(&set, 100);
    assert!(set.swapped.get() > 0, "no chunk was swapped");
}

#[test]
fn what_soaks_have_found_stays_found() {
    for seed in FOUND {
        for copies in [2, 3] {
            if let Some(failure) = run::run(&engine::Set::new(copies), seed) {
                panic!("{failure}");
            }
        }
    }
    for seed in FOUND_ENCODING {
        if let Some(failure) = run::run(&engine::Set::encoding(), seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_forgotten_fsync_is_found() {
    is_found(Plant::ForgetsSync);
}

#[test]
fn half_a_rename_is_found() {
    is_found(Plant::HalfRename);
}

#[test]
fn a_write_to_one_copy_only_is_found() {
    is_found(Plant::OneCopy);
}
