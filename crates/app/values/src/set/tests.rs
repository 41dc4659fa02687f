use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Model = BTreeSet<Vec<u8>>;

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => (-10i64..10).prop_map(|n| n.to_string().into_bytes()),
        3 => any::<i32>().prop_map(|n| n.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => (0u8..20).prop_map(|n| format!("m{n}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 60..70),
    ]
}

fn members(set: &Set) -> BTreeSet<Vec<u8>> {
    let all: BTreeSet<_> = set.iter().map(Element::to_vec).collect();
    assert_eq!(all.len(), set.len());
    all
}

fn draw() -> impl FnMut(usize) -> usize {
    let mut state = 1usize;
    move |n| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    }
}

proptest! {
    #[test]
    fn edits_are_those_of_a_tree(edits in prop::collection::vec((0u8..4, member()), 0..120), most in 1usize..30) {
        let limits = Thresholds { set_max_intset_entries: most, ..Thresholds::REDIS };
        let (mut set, mut model) = (Set::new(), BTreeSet::new());
        let mut draw = draw();
        for (edit, member) in edits {
            match edit {
                0 => prop_assert_eq!(set.remove(&member), model.remove(&member)),
                1 if member.len() == 1 => for popped in set.pop(1, &mut draw) { prop_assert!(model.remove(&popped)); },
                _ => prop_assert_eq!(set.add(&member, &limits), model.insert(member)),
            }
            prop_assert_eq!(members(&set), model.clone());
            if let Some(bytes) = set.intset_bytes() {
                prop_assert_eq!(Set::from_intset(bytes.to_vec(), &Thresholds::REDIS), Some(set.clone()));
            }
        }
        for member in &model { prop_assert!(set.contains(member)); }
        let drawn: BTreeSet<_> = set.random_distinct(5, &mut draw).into_iter().map(Element::to_vec).collect();
        prop_assert_eq!(drawn.len(), model.len().min(5));
        prop_assert!(drawn.is_subset(&model));
    }

    #[test]
    fn combinations_are_those_of_trees(
        parts in prop::collection::vec(prop::collection::btree_set(member(), 0..30), 1..4),
    ) {
        let limits = Thresholds::REDIS;
        let sets: Vec<Set> = parts.iter().map(|part| {
            let mut set = Set::new();
            for member in part { set.add(member, &limits); }
            set
        }).collect();
        let sets: Vec<&Set> = sets.iter().collect();
        let mut both = BTreeSet::new();
        intersection(&sets, |member| both.insert(member.to_vec()));
        let fold = |f: fn(&Model, &Model) -> Model| {
            parts[1..].iter().fold(parts[0].clone(), |sum, part| f(&sum, part))
        };
        prop_assert_eq!(both, fold(|a, b| a & b));
        prop_assert_eq!(members(&union(&sets, &limits)), fold(|a, b| a | b));
        prop_assert_eq!(members(&difference(&sets, &limits)), fold(|a, b| a - b));
    }
}

#[test]
fn encodings_follow_what_is_added() {
    let limits = Thresholds::REDIS;
    let mut set = Set::new();
    for member in 0..512 {
        set.add(member.to_string().as_bytes(), &limits);
    }
    assert_eq!(set.encoding(), "intset");
    let mut other = set.clone();
    other.add(b"x", &limits);
    assert_eq!((other.encoding(), other.len()), ("hashtable", 513));
    set.add(b"512", &limits);
    assert_eq!((set.encoding(), set.len()), ("hashtable", 513));
    set.add(b"512", &limits);
    assert_eq!(set.len(), 513);
    assert_eq!(size_of::<Set>(), 32);
}
