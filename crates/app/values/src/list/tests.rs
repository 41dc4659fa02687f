use proptest::prelude::*;

use super::*;

fn small() -> Thresholds {
    Thresholds {
        list_max_listpack_size: 3,
        ..Thresholds::REDIS
    }
}

fn elements(list: &List) -> Vec<Vec<u8>> {
    let forward: Vec<_> = list.iter().map(Element::to_vec).collect();
    let mut back: Vec<_> = list.iter_back().map(Element::to_vec).collect();
    back.reverse();
    assert_eq!(forward, back);
    assert_eq!(forward.len(), list.len());
    assert!(list.nodes.iter().all(|node| !node.is_empty()));
    forward
}

#[derive(Debug, Clone)]
enum Edit {
    Push(bool, Vec<u8>),
    Pop(bool),
    Set(i64, Vec<u8>),
    Insert(Vec<u8>, bool, Vec<u8>),
    Remove(i64, Vec<u8>),
    Trim(i64, i64),
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..6).prop_map(|n| vec![b'a' + n]),
        (0u8..6).prop_map(|n| vec![b'0' + n])
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (any::<bool>(), value()).prop_map(|(end, value)| Edit::Push(end, value)),
        1 => any::<bool>().prop_map(Edit::Pop),
        1 => (-12i64..12, value()).prop_map(|(index, value)| Edit::Set(index, value)),
        3 => (value(), any::<bool>(), value()).prop_map(|(pivot, behind, value)| Edit::Insert(pivot, behind, value)),
        1 => (-3i64..4, value()).prop_map(|(count, value)| Edit::Remove(count, value)),
        1 => (-20i64..20, -20i64..20).prop_map(|(start, end)| Edit::Trim(start, end)),
    ]
}

fn place(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 {
        index + length as i64
    } else {
        index
    };
    usize::try_from(index).ok().filter(|&index| index < length)
}

proptest! {
    #[test]
    fn edits_are_those_of_a_vector(edits in prop::collection::vec(edit(), 0..80), limit in prop_oneof![Just(3), Just(-1), Just(1)]) {
        let limits = Thresholds { list_max_listpack_size: limit, ..Thresholds::REDIS };
        let (mut list, mut model) = (List::new(), Vec::<Vec<u8>>::new());
        for edit in edits {
            match edit {
                Edit::Push(true, value) => { list.push(End::Front, &value, &limits); model.insert(0, value); }
                Edit::Push(false, value) => { list.push(End::Back, &value, &limits); model.push(value); }
                Edit::Pop(front) => {
                    let end = if front { End::Front } else { End::Back };
                    let expected = if model.is_empty() { None } else if front { Some(model.remove(0)) } else { model.pop() };
                    prop_assert_eq!(list.pop(end), expected);
                }
                Edit::Set(index, value) => {
                    let at = place(index, model.len());
                    prop_assert_eq!(list.set(index, &value, &limits).is_ok(), at.is_some());
                    if let Some(at) = at { model[at] = value; }
                }
                Edit::Insert(pivot, behind, value) => {
                    let at = model.iter().position(|other| *other == pivot);
                    if let Some(at) = at { model.insert(at + usize::from(behind), value.clone()); }
                    prop_assert_eq!(list.insert(&pivot, behind, &value, &limits), at.map(|_| model.len()));
                }
                Edit::Remove(count, value) => {
                    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
                    let mut found: Vec<usize> = (0..model.len()).filter(|&at| model[at] == value).collect();
                    if count < 0 { found.reverse(); }
                    found.truncate(most);
                    found.sort_unstable();
                    prop_assert_eq!(list.remove(count, &value), found.len());
                    for at in found.into_iter().rev() { model.remove(at); }
                }
                Edit::Trim(start, end) => {
                    list.trim(start, end);
                    model = match indices(start, end, model.len()) {
                        Some((start, end)) => model[start..=end].to_vec(),
                        None => Vec::new(),
                    };
                }
            }
            prop_assert_eq!(elements(&list), model.clone());
        }
        for start in -9..9 {
            let read: Vec<_> = list.range(start, start + 3).map(Element::to_vec).collect();
            let expected = indices(start, start + 3, model.len()).map_or(Vec::new(), |(a, b)| model[a..=b].to_vec());
            prop_assert_eq!(read, expected);
            prop_assert_eq!(list.get(start).map(Element::to_vec), place(start, model.len()).map(|at| model[at].clone()));
        }
    }
}

#[test]
fn positions_are_those_of_redis() {
    let mut list = List::new();
    for value in ["a", "b", "c", "1", "2", "3", "c", "c"] {
        list.push(End::Back, value.as_bytes(), &small());
    }
    assert_eq!(list.positions(b"c", 1, 1, 0), [2]);
    assert_eq!(list.positions(b"c", 2, 1, 0), [6]);
    assert_eq!(list.positions(b"c", -1, 1, 0), [7]);
    assert_eq!(list.positions(b"c", 1, 2, 0), [2, 6]);
    assert_eq!(list.positions(b"c", 1, 0, 0), [2, 6, 7]);
    assert_eq!(list.positions(b"c", -1, 0, 2), [7, 6]);
    assert_eq!(list.positions(b"c", 1, 0, 2), [0usize; 0]);
}

#[test]
fn a_small_list_is_one_node() {
    let mut list = List::new();
    for value in 0..100 {
        list.push(
            End::Back,
            format!("element {value}").as_bytes(),
            &Thresholds::REDIS,
        );
    }
    assert_eq!(list.nodes.len(), 1);
    list.push(End::Back, &[b'x'; 9000], &Thresholds::REDIS);
    assert_eq!(list.nodes.len(), 2);
    list.set(-1, &[b'y'; 100_000], &Thresholds::REDIS).unwrap();
    assert_eq!(list.get(100), Some(Element::Bytes(&[b'y'; 100_000])));
}
