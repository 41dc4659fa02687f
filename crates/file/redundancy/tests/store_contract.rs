//! One contract for every kind of store, and proof that it notices a store that breaks it.

use holdfast_redundancy::store::Store;
use holdfast_redundancy::store::local::LocalStore;
use holdfast_redundancy::store::sim::{Power, SimStore};
use mount::NewObject;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[path = "store_contract/checks.rs"]
mod checks;
#[path = "store_contract/crash.rs"]
mod crash;
#[path = "store_contract/deviant.rs"]
mod deviant;

/// Runs every check in a directory of its own and returns the names of those that fail.
fn failures(store: &Arc<dyn Store>) -> Vec<&'static str> {
    let root = store.root().expect("a root");
    let mut failed = Vec::new();
    for (index, (name, check)) in checks::CHECKS.iter().enumerate() {
        let dir = checks::make(store, &root, &format!("check-{index}"), NewObject::Dir).node;
        if catch_unwind(AssertUnwindSafe(|| check(store, &dir))).is_err() {
            failed.push(*name);
        }
    }
    failed
}

fn sim(seed: u64) -> Arc<dyn Store> {
    SimStore::new(seed, &Power::new())
}

#[test]
fn the_simulated_store_keeps_the_contract() {
    assert_eq!(failures(&sim(1)), Vec::<&str>::new());
}

#[test]
fn the_local_store_keeps_the_contract() {
    let place = tempfile::tempdir().expect("a temporary directory");
    LocalStore::create_layout(place.path()).expect("lays out (the test needs root)");
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(place.path()).expect("opens"));
    assert_eq!(failures(&store), Vec::<&str>::new());
}

#[test]
fn every_planted_deviation_is_noticed() {
    for bug in deviant::BUGS {
        let store: Arc<dyn Store> = Arc::new(deviant::Deviant {
            inner: sim(2),
            bug: *bug,
        });
        assert!(!failures(&store).is_empty(), "nobody noticed {bug:?}");
    }
}
