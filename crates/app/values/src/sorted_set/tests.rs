use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Thresholds, range::indices};

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..30).prop_map(|n| format!("m{n}").into_bytes()),
        (0u8..30).prop_map(|n| n.to_string().into_bytes()),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-4i8..4).prop_map(f64::from),
        1 => any::<f64>().prop_filter("scores are numbers", |score| !score.is_nan()),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(0.1),
    ]
}

fn sorted(model: &BTreeMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model
        .iter()
        .map(|(member, score)| (member.clone(), *score))
        .collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0)));
    all
}

fn owned<'a>(members: impl Iterator<Item = Scored<'a>>) -> Vec<(Vec<u8>, f64)> {
    members
        .map(|(member, score)| (member.to_vec(), score))
        .collect()
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
    fn edits_and_ranges_are_those_of_a_sorted_vector(
        edits in prop::collection::vec((0u8..8, member(), score()), 0..120), most in 1usize..40,
        (low, high) in (score(), score()), (start, end) in (-25i64..25, -25i64..25), (open, back) in any::<(bool, bool)>(),
    ) {
        let limits = Thresholds { zset_max_listpack_entries: most, ..Thresholds::REDIS };
        let (mut set, mut model) = (SortedSet::new(), BTreeMap::<Vec<u8>, f64>::new());
        for (edit, member, score) in edits {
            match edit {
                0 | 1 => { let removed = set.remove(&member); prop_assert_eq!(removed, model.remove(&member)); }
                2 => {
                    let sum = model.get(&member).map_or(score, |own| own + score);
                    let result = set.increment(&member, score, &limits);
                    if sum.is_nan() { prop_assert_eq!(result, Err(crate::ValueError::ScoreNotNumber)); }
                    else { prop_assert_eq!(result, Ok(sum)); model.insert(member, sum); }
                }
                3 if score == 1.0 => {
                    let popped = set.pop_last(1);
                    prop_assert_eq!(&popped, &sorted(&model).into_iter().rev().take(1).collect::<Vec<_>>());
                    for (member, _) in popped { model.remove(&member); }
                }
                _ => {
                    let added = set.add(score, &member, AddOptions::default(), &limits).unwrap();
                    let expected = match model.insert(member, score) {
                        None => Added::New(score),
                        Some(old) if old == score => Added::Same(score),
                        Some(_) => Added::Changed(score),
                    };
                    prop_assert_eq!(added, expected);
                }
            }
            prop_assert_eq!(owned(set.iter()), sorted(&model));
        }
        let all = sorted(&model);
        prop_assert_eq!(owned(set.iter_back()), all.iter().rev().cloned().collect::<Vec<_>>());
        for (rank, (member, score)) in all.iter().enumerate() {
            prop_assert_eq!(set.rank(member), Some(rank));
            prop_assert_eq!(set.rank_back(member), Some(all.len() - 1 - rank));
            prop_assert_eq!(set.score(member), Some(*score));
        }
        let ordered: Vec<_> = if back { all.iter().rev().cloned().collect() } else { all.clone() };
        let ranked = indices(start, end, all.len()).map_or(Vec::new(), |(start, end)| ordered[start..=end].to_vec());
        prop_assert_eq!(owned(set.by_rank(start, end, back)), ranked);
        let range = ScoreRange {
            min: ScoreBound { score: low, exclusive: open },
            max: ScoreBound { score: high, exclusive: !open },
        };
        let inside = |score: f64| if open { score > low && score <= high } else { score >= low && score < high };
        let scored: Vec<_> = ordered.iter().filter(|(_, score)| inside(*score)).cloned().collect();
        prop_assert_eq!(set.count_scores(range), scored.len());
        prop_assert_eq!(owned(set.by_score(range, back, 0, None)), scored.clone());
        let limited: Vec<_> = scored.iter().skip(1).take(2).cloned().collect();
        prop_assert_eq!(owned(set.by_score(range, back, 1, Some(2))), limited);
        let drawn = set.random_distinct(3, &mut draw());
        prop_assert_eq!(drawn.len(), all.len().min(3));
        prop_assert_eq!(set.remove_by_score(range), scored.len());
        prop_assert_eq!(owned(set.iter()), all.into_iter().filter(|(_, score)| !inside(*score)).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_of_members_are_those_of_a_sorted_vector(
        members in prop::collection::btree_set(member(), 0..40), low in member(), high in member(),
        open in any::<bool>(), back in any::<bool>(), most in 1usize..60,
    ) {
        let limits = Thresholds { zset_max_listpack_entries: most, ..Thresholds::REDIS };
        let mut set = SortedSet::new();
        for member in &members { set.add(0.0, member, AddOptions::default(), &limits).unwrap(); }
        let (min, max) = if open {
            (LexBound::Excluded(low.clone()), LexBound::Included(high.clone()))
        } else {
            (LexBound::Included(low.clone()), LexBound::Excluded(high.clone()))
        };
        let range = LexRange { min, max };
        let mut expected: Vec<_> = members.iter()
            .filter(|member| if open { **member > low && **member <= high } else { **member >= low && **member < high })
            .cloned().collect();
        if back { expected.reverse(); }
        prop_assert_eq!(set.count_lex(&range), expected.len());
        let found: Vec<_> = set.by_lex(&range, back, 0, None).map(|(member, _)| member.to_vec()).collect();
        prop_assert_eq!(found, expected);
        let all = LexRange { min: LexBound::Lowest, max: LexBound::Highest };
        prop_assert_eq!(set.count_lex(&all), members.len());
    }
}

#[test]
fn conditions_are_those_of_zadd() {
    let limits = Thresholds::REDIS;
    let mut set = SortedSet::new();
    let mut add = |score, options| set.add(score, b"m", options, &limits).unwrap();
    let none = AddOptions::default();
    assert_eq!(
        add(
            1.0,
            AddOptions {
                only_present: true,
                ..none
            }
        ),
        Added::Refused
    );
    assert_eq!(
        add(
            1.0,
            AddOptions {
                only_higher: true,
                ..none
            }
        ),
        Added::New(1.0)
    );
    assert_eq!(
        add(
            2.0,
            AddOptions {
                only_new: true,
                ..none
            }
        ),
        Added::Refused
    );
    assert_eq!(
        add(
            0.5,
            AddOptions {
                only_higher: true,
                ..none
            }
        ),
        Added::Refused
    );
    assert_eq!(
        add(
            3.0,
            AddOptions {
                only_higher: true,
                ..none
            }
        ),
        Added::Changed(3.0)
    );
    assert_eq!(
        add(
            4.0,
            AddOptions {
                only_lower: true,
                ..none
            }
        ),
        Added::Refused
    );
    assert_eq!(
        add(
            2.0,
            AddOptions {
                increment: true,
                ..none
            }
        ),
        Added::Changed(5.0)
    );
    assert_eq!(add(5.0, none), Added::Same(5.0));
    assert!(set.add(f64::NAN, b"m", none, &limits).is_err());
}

#[test]
fn encodings_follow_the_limits() {
    let limits = Thresholds::REDIS;
    let mut set = SortedSet::new();
    for member in 0..128 {
        set.add(
            f64::from(member),
            format!("m{member}").as_bytes(),
            AddOptions::default(),
            &limits,
        )
        .unwrap();
    }
    assert_eq!(set.encoding(), "listpack");
    let mut long = set.clone();
    long.add(0.0, &[b'x'; 65], AddOptions::default(), &limits)
        .unwrap();
    assert_eq!(long.encoding(), "skiplist");
    set.add(0.0, b"more", AddOptions::default(), &limits)
        .unwrap();
    assert_eq!((set.encoding(), set.len()), ("skiplist", 129));
    assert_eq!(size_of::<SortedSet>(), 24);
}

#[test]
fn combinations_weigh_and_aggregate() {
    let limits = Thresholds::REDIS;
    let put = |pairs: &[(&str, f64)]| {
        let mut set = SortedSet::new();
        for (member, score) in pairs {
            set.add(*score, member.as_bytes(), AddOptions::default(), &limits)
                .unwrap();
        }
        set
    };
    let (a, b) = (
        put(&[("x", 1.0), ("y", 2.0)]),
        put(&[("y", 3.0), ("z", 4.0), ("w", 9.0)]),
    );
    let mut plain = crate::Set::new();
    plain.add(b"y", &limits);
    let both = [ScoreSource::Sorted(&a), ScoreSource::Sorted(&b)];
    let sum = union(&both, &[2.0, 3.0], Aggregate::Sum, &limits);
    assert_eq!(
        sum,
        put(&[("x", 2.0), ("y", 13.0), ("z", 12.0), ("w", 27.0)])
    );
    assert_eq!(
        intersection(&both, &[], Aggregate::Max, None, &limits),
        put(&[("y", 3.0)])
    );
    let three = [both[0], both[1], ScoreSource::Plain(&plain)];
    assert_eq!(
        intersection(&three, &[], Aggregate::Min, None, &limits),
        put(&[("y", 1.0)])
    );
    assert_eq!(difference(&both, &limits), put(&[("x", 1.0)]));
    let (up, down) = (
        put(&[("x", f64::INFINITY)]),
        put(&[("x", f64::NEG_INFINITY)]),
    );
    let sum = union(
        &[ScoreSource::Sorted(&up), ScoreSource::Sorted(&down)],
        &[],
        Aggregate::Sum,
        &limits,
    );
    assert_eq!(sum, put(&[("x", 0.0)]));
}

/// A dump's order is not believed, nor its scores or members.
#[test]
fn a_listpack_from_outside_is_sorted_or_refused() {
    let limits = Thresholds::REDIS;
    let of = |elements: &[&str]| {
        let pack: Listpack = elements.iter().map(|element| element.as_bytes()).collect();
        SortedSet::from_pack(pack, &limits)
    };
    let sorted = of(&["a", "1", "b", "2"]);
    assert!(sorted.is_some());
    assert_eq!(of(&["b", "2", "a", "1"]), sorted);
    assert_eq!(of(&["a", "1", "b"]), None);
    assert_eq!(of(&["a", "1", "b", "nan"]), None);
    assert_eq!(of(&["a", "x"]), None);
    assert_eq!(of(&["a", "1", "a", "2"]), None);
    let many: Vec<String> = (0..80)
        .flat_map(|n| [format!("m{n}"), n.to_string()])
        .collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(of(&many).map(|set| set.len()), Some(80));
    many[80] = many[0];
    assert_eq!(of(&many), None);
}
