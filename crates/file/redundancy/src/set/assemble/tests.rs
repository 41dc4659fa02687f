use super::*;
use crate::set::header::{Departure, HISTORY};
use crate::set::{SetId, StoreId};

mod rules;

const SET: SetId = SetId(0x5e7);

/// The header of a new set as store 0 has it.
fn new_set(count: usize) -> Header {
    let stores = (0..count)
        .map(|n| (StoreId(n as u128), Departure::default()))
        .collect();
    Header {
        set: SET,
        store: StoreId(0),
        index: StoreIndex(0),
        copies: 2,
        created_s: 0,
        mount_count: 1,
        pending_starts: 0,
        members: StoreMask::first(count),
        history: vec![Tenure {
            generation: 1,
            epoch: 0,
        }],
        stores,
    }
}

fn at(header: &Header, place: u8) -> Presence {
    Presence::Header(Box::new(header.for_store(StoreIndex(place))))
}

fn missing() -> Presence {
    Presence::Missing("it is not there".into())
}

/// As the engine does when `store` fails.
fn fence(header: &Header, store: u8, epoch: u64) -> Header {
    let mut next = header.clone();
    next.stores[usize::from(store)].1 = Departure {
        generation: header.tenure().generation,
        mount_count: header.mount_count,
        mark: 0,
    };
    next.advance(header.members.without(StoreIndex(store)), epoch);
    next
}

fn start(found: &[Presence]) -> Result<Assembly, RefuseReason> {
    assemble(found, StoreMask::default())
}

fn no_majority(present: usize, members: usize) -> RefuseReason {
    RefuseReason::NoMajority { present, members }
}

#[test]
fn a_set_starts_with_all_of_its_members() {
    let header = new_set(3);
    let found = [at(&header, 2), at(&header, 0), at(&header, 1)];
    let assembly = start(&found).unwrap();
    assert_eq!(assembly.present, StoreMask::first(3));
    assert!(assembly.missing.is_empty() && assembly.behind.is_empty());
    let places = [2, 0, 1].map(|n| Some(StoreIndex(n)));
    assert_eq!(assembly.places, places, "by header, not by order");
}

#[test]
fn places_without_a_header_are_no_set() {
    let found = [Presence::Empty, missing()];
    assert_eq!(start(&found), Err(RefuseReason::NoHeader));
}

#[test]
fn more_than_half_start() {
    let header = new_set(3);
    let assembly = start(&[at(&header, 0), missing(), at(&header, 2)]).unwrap();
    assert_eq!(assembly.present, StoreMask(0b101));
    assert_eq!(assembly.missing, StoreMask(0b010));
    let alone = start(&[missing(), at(&header, 1), Presence::Empty]);
    assert_eq!(alone, Err(no_majority(1, 3)));
}

#[test]
fn one_of_two_does_not_start_without_the_operators_word() {
    let header = new_set(2);
    for (found, gone) in [
        ([at(&header, 0), missing()], 1),
        ([missing(), at(&header, 1)], 0),
    ] {
        assert_eq!(start(&found), Err(no_majority(1, 2)));
        let word = StoreMask::only(StoreIndex(gone));
        let assembly = assemble(&found, word).unwrap();
        assert_eq!(assembly.missing, word);
    }
}

#[test]
fn the_operators_word_counts_only_for_the_stores_it_names() {
    let header = new_set(5);
    let found = [at(&header, 0), missing(), missing(), missing(), missing()];
    for word in [0b00010, 0b00110, 0b01110] {
        assert_eq!(assemble(&found, StoreMask(word)), Err(no_majority(1, 5)));
    }
    assert!(assemble(&found, StoreMask(0b11110)).is_ok());
}

#[test]
fn a_word_about_a_store_that_is_there_changes_nothing() {
    let header = new_set(3);
    let found = [at(&header, 0), missing(), missing()];
    let word = StoreMask::only(StoreIndex(0));
    assert_eq!(assemble(&found, word), Err(no_majority(1, 3)));
}

#[test]
fn a_fenced_store_is_left_outside_and_may_return() {
    let old = new_set(3);
    let header = fence(&old, 2, 7);
    let found = [at(&header, 0), at(&header, 1), at(&old, 2)];
    let assembly = start(&found).unwrap();
    assert_eq!(assembly.present, StoreMask(0b011));
    assert_eq!(assembly.outside, [(2, Ok(StoreIndex(2)))]);
}

#[test]
fn the_store_that_was_left_behind_does_not_start_with_one_that_went_on() {
    let old = new_set(3);
    let header = fence(&old, 2, 7);
    let found = [missing(), at(&header, 1), at(&old, 2)];
    assert_eq!(start(&found), Err(no_majority(1, 2)));
}

#[test]
fn an_interrupted_write_of_the_newest_tenure_is_completed() {
    let old = new_set(3);
    let header = fence(&old, 2, 7);
    let assembly = start(&[at(&header, 0), at(&old, 1), at(&old, 2)]).unwrap();
    assert_eq!(assembly.header.tenure(), header.tenure());
    assert_eq!(assembly.present, StoreMask(0b011));
    assert_eq!(assembly.behind, StoreMask(0b010));
    // Without the store that has it nothing was acknowledged under it.
    let assembly = start(&[missing(), at(&old, 1), at(&old, 2)]).unwrap();
    assert_eq!(assembly.present, StoreMask(0b110));
}

#[test]
fn two_tenures_of_one_generation_do_not_start_together() {
    let old = new_set(3);
    let (one, two) = (fence(&old, 2, 7), fence(&old, 0, 8));
    let found = [at(&one, 0), at(&two, 1), at(&two, 2)];
    assert_eq!(start(&found), Err(RefuseReason::Diverged { found: 2 }));
}

#[test]
fn a_store_with_a_history_of_its_own_stays_outside() {
    let old = new_set(3);
    let mine = fence(&fence(&old, 2, 7), 1, 9);
    let theirs = fence(&old, 0, 8);
    let assembly = start(&[at(&mine, 0), missing(), at(&theirs, 2)]).unwrap();
    let diverged = RefuseReason::Diverged { found: 2 };
    assert_eq!(assembly.outside, [(2, Err(diverged))]);
}

#[test]
fn an_older_image_of_a_fenced_store_is_refused() {
    let mut header = new_set(3);
    let image = header.clone();
    header.mount_count = 5;
    let header = fence(&header, 2, 7);
    let assembly = start(&[at(&header, 0), at(&header, 1), at(&image, 2)]).unwrap();
    let older = RefuseReason::Older {
        found: 1,
        found_mount: 1,
        expected: 1,
        expected_mount: 5,
    };
    assert_eq!(assembly.outside, [(2, Err(older))]);
}

#[test]
fn an_older_image_of_a_member_does_not_count_as_one() {
    let mut header = new_set(3);
    let image = header.clone();
    header.mount_count = 3;
    let assembly = start(&[at(&header, 0), at(&header, 1), at(&image, 2)]).unwrap();
    assert_eq!(assembly.present, StoreMask(0b011));
    let found = [at(&header, 0), missing(), at(&image, 2)];
    assert_eq!(start(&found), Err(no_majority(1, 3)));
}

#[test]
fn a_store_of_another_set_is_refused_whoever_is_newer() {
    let ours = new_set(2);
    let mut other = new_set(2);
    other.set = SetId(0xbad);
    for newer in [false, true] {
        if newer {
            other.advance(StoreMask::first(2), 3);
        }
        let refused = start(&[at(&ours, 0), at(&ours, 1), at(&other, 1)]);
        assert!(
            matches!(refused, Err(RefuseReason::OtherSet { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_copy_of_a_store_is_refused() {
    let header = new_set(2);
    let found = [at(&header, 0), at(&header, 1), at(&header, 1)];
    assert_eq!(start(&found), Err(RefuseReason::Place { index: 1 }));
}

#[test]
fn a_store_that_was_replaced_may_not_take_its_place_again() {
    let old = new_set(2);
    let mut header = fence(&old, 1, 7);
    header.stores[1].0 = StoreId(99);
    let assembly = start(&[at(&header, 0), at(&old, 1)]).unwrap();
    let place = RefuseReason::Place { index: 1 };
    assert_eq!(assembly.outside, [(1, Err(place))]);
}

#[test]
fn a_store_returns_while_its_tenure_is_among_the_64_remembered() {
    let old = new_set(3);
    let mut header = fence(&old, 2, 7);
    while header.history.len() < HISTORY {
        header.advance(header.members, header.tenure().generation);
    }
    let returning = old.for_store(StoreIndex(2));
    assert_eq!(judge_return(&returning, &header), Ok(StoreIndex(2)));
    header.advance(header.members, 99);
    // Nobody can tell any more whether its history is ours: it is rebuilt as an empty one.
    let refused = judge_return(&returning, &header);
    assert_eq!(refused, Err(RefuseReason::Diverged { found: 1 }));
}
