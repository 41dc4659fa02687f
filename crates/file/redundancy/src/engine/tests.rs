//! Placement and what the set says of itself, on simulated stores.

use super::*;
use crate::status::StoreState;
use crate::store::sim::{Power, SimStore};

mod pace;

const GIB: u64 = 1 << 30;
const RESERVE: u64 = 64 << 20;

fn set(count: usize, copies: u8) -> Arc<Engine> {
    let power = Power::new();
    let candidates = (0..count)
        .map(|n| Candidate {
            path: format!("sim-{n}"),
            store: Ok(SimStore::new(n as u64, &power)),
        })
        .collect();
    let options = EngineOptions {
        copies,
        background: false,
        reserve_bytes: RESERVE,
        seed: Some(1),
        ..EngineOptions::default()
    };
    Engine::open(candidates, &options).unwrap()
}

fn with_free(engine: &Engine, free: &[u64]) {
    for (slot, free) in engine.slots.iter().zip(free) {
        slot.space.lock().available_bytes = *free;
    }
}

/// How often each store was home, and held a copy, of `files` new ones.
fn placed(engine: &Engine, files: usize, full: StoreMask) -> (Vec<usize>, Vec<usize>) {
    let mut homes = vec![0; engine.slots.len()];
    let mut copies = vec![0; engine.slots.len()];
    for _ in 0..files {
        let (home, mask) = engine.choose(full);
        assert_eq!(mask.count(), usize::from(engine.copy_count));
        assert!(mask.has(home));
        homes[usize::from(home.0)] += 1;
        for store in mask.iter() {
            copies[usize::from(store.0)] += 1;
        }
    }
    (homes, copies)
}

#[test]
fn stores_with_about_the_same_room_take_turns() {
    let engine = set(3, 2);
    with_free(&engine, &[100 * GIB; 3]);
    let (homes, copies) = placed(&engine, 300, StoreMask::default());
    assert_eq!(homes, [100; 3]);
    assert_eq!(copies, [200; 3]);
}

#[test]
fn stores_with_more_room_come_first() {
    let engine = set(3, 2);
    with_free(&engine, &[10 * GIB, 100 * GIB, 100 * GIB]);
    let (_, copies) = placed(&engine, 30, StoreMask::default());
    assert_eq!(copies, [0, 30, 30]);
}

#[test]
fn a_store_under_the_reserve_or_full_is_taken_only_where_nothing_else_is_left() {
    let engine = set(3, 2);
    with_free(&engine, &[RESERVE + GIB, RESERVE - 1, RESERVE + GIB]);
    let (_, copies) = placed(&engine, 30, StoreMask::default());
    assert_eq!(copies, [30, 0, 30]);
    let (homes, copies) = placed(&engine, 30, StoreMask::only(StoreIndex(0)));
    assert_eq!(homes, [0, 0, 30], "what has room is home");
    assert_eq!(copies.iter().sum::<usize>(), 60);
}

#[test]
fn with_fewer_members_than_copies_the_rest_is_kept_for_stores_that_are_away() {
    let engine = set(3, 2);
    with_free(&engine, &[GIB, 100 * GIB, 100 * GIB]);
    engine.fence(StoreIndex(2), "for the test").unwrap();
    engine.fence(StoreIndex(1), "for the test").unwrap();
    let (homes, copies) = placed(&engine, 30, StoreMask::default());
    assert_eq!(
        homes,
        [30, 0, 0],
        "a member is home, however little room it has"
    );
    assert_eq!(copies[0], 30);
    assert_eq!(copies[1] + copies[2], 30);
}

#[test]
fn a_degraded_set_says_what_is_wrong_and_what_may_still_be_lost() {
    let engine = set(3, 2);
    let status = engine.status();
    assert!(status.redundant && status.writable);
    assert_eq!((status.may_lose, status.generation), (1, 1));
    assert!(status.stores.iter().all(|s| s.state == StoreState::InSync));

    engine.fence_for(StoreIndex(2), Errno::ROFS).unwrap();
    let status = engine.status();
    assert!(!status.redundant && status.writable);
    assert_eq!((status.may_lose, status.generation), (0, 2));
    let store = &status.stores[2];
    assert_eq!(store.state, StoreState::Fenced);
    assert_eq!(store.errors, 1);
    assert!(
        store
            .detail
            .starts_with("it is read-only; mount it writable again"),
        "{}",
        store.detail
    );
    assert_eq!(status.stores[0].detail, "");
}

#[test]
fn a_set_whose_last_member_fails_takes_no_more_changes() {
    let engine = set(2, 2);
    engine.fence_for(StoreIndex(0), Errno::IO).unwrap();
    assert_eq!(engine.fence_for(StoreIndex(1), Errno::IO), Err(Errno::ROFS));
    let status = engine.status();
    assert!(!status.writable);
    assert_eq!(engine.members(), StoreMask::only(StoreIndex(1)));
    assert!(engine.read_only_reason().is_some());
    assert!(engine.begin().is_err());
}
