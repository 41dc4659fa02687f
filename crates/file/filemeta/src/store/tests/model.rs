//! A store against a plain map, with crashes, by proptest.

use super::history::{ATTRIBUTE, FILES, ID, Model, OPTIONS, SYSTEM, Step, owners, places};
use crate::{MetaError, Store};
use env::errno::ErrorKind;
use env::sim::World;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Move {
    Request(Vec<Step>),
    Checkpoint,
    Kill,
    Crash,
    Garbage,
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![6 => 0usize..200, 3 => 3500usize..9000, 1 => 65_530usize..70_000];
    (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length])
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..FILES;
    let tag = 0u8..3;
    let at = (file, tag);
    let name = prop::sample::select(&SYSTEM[..]).prop_map(str::to_owned);
    let small = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        2 => (at.clone(), small.clone()).prop_map(|((f, t), b)| Step::Value(f, t, b)),
        4 => (at.clone(), content()).prop_map(|((f, t), b)| Step::Put(f, t, b)),
        4 => (at.clone(), 0u64..5000, small.clone())
            .prop_map(|((f, t), o, b)| Step::Patch(f, t, o, b)),
        3 => (at.clone(), 0u64..13_000).prop_map(|((f, t), n)| Step::Resize(f, t, n)),
        3 => (at.clone(), 0u8..3).prop_map(|((f, t), b)| Step::Share(f, t, vec![b; 90])),
        1 => at.clone().prop_map(|(f, t)| Step::Clear(f, t)),
        1 => (0..FILES).prop_map(Step::Forget),
        1 => (name.clone(), content()).prop_map(|(n, b)| Step::PutSystem(n, b)),
        1 => (name.clone(), 0u64..200, small).prop_map(|(n, o, b)| Step::PatchSystem(n, o, b)),
        1 => name.prop_map(Step::RemoveSystem),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        12 => prop::collection::vec(step(), 1..4).prop_map(Move::Request),
        1 => Just(Move::Checkpoint),
        1 => Just(Move::Kill),
        1 => Just(Move::Crash),
        1 => Just(Move::Garbage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_store_does_what_a_map_would(seed: u64, all in prop::collection::vec(moves(), 1..30)) {
        let world = World::new(seed);
        let handles = owners(&world);
        let mut store = Store::create(&places(&world), ID, ATTRIBUTE, OPTIONS).unwrap();
        let mut model = Model::default();
        for one in all {
            match one {
                Move::Request(steps) => {
                    let mut next = model.clone();
                    let legal = steps.iter().all(|step| next.apply(step));
                    let mut request = store.request();
                    for step in &steps {
                        step.ask(&mut request, &handles).unwrap();
                    }
                    match request.commit() {
                        Ok(_) => {
                            prop_assert!(legal, "{:?}", steps);
                            model = next;
                        }
                        Err(error) => {
                            prop_assert!(!legal, "{:?}: {}", steps, error);
                            prop_assert_eq!(error.kind(), ErrorKind::Misuse);
                        }
                    }
                }
                Move::Checkpoint => store.checkpoint().unwrap(),
                Move::Kill | Move::Crash => {
                    drop(store);
                    match one {
                        Move::Crash => world.crash(),
                        _ => world.kill(),
                    }
                    store = Store::open(&places(&world), Some(ID), OPTIONS).unwrap().store;
                }
                Move::Garbage => {
                    prop_assert_eq!(store.collect_garbage(crate::Unlinked::Keep).unwrap().left, 0);
                }
            }
            prop_assert_eq!(&Model::of_store(&store, &handles).unwrap(), &model);
        }
        prop_assert!(store.check().unwrap().is_sound());
        let missing = store.get(&handles[0], super::history::tag(40));
        prop_assert!(matches!(missing, Err(MetaError::NoSuchEntry)));
    }
}
