use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..20).prop_map(|n| format!("f{n}").into_bytes()),
        (0u8..20).prop_map(|n| n.to_string().into_bytes()),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => any::<i8>().prop_map(|n| n.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn edits_are_those_of_a_map(
        edits in prop::collection::vec((0u8..4, field(), value()), 0..80), most in 2usize..12, long in 10usize..300,
    ) {
        let limits = Thresholds { hash_max_listpack_entries: most, hash_max_listpack_value: long, ..Thresholds::REDIS };
        let (mut hash, mut model) = (Hash::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        for (edit, field, value) in edits {
            match edit {
                0 | 1 => {
                    let new = hash.set(&field, &value, &limits);
                    prop_assert_eq!(new, model.insert(field, value).is_none());
                }
                2 => prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                _ => {
                    let own = model.get(&field).map_or(Some(0), |own| crate::number::parse_integer(own));
                    let sum = hash.increment(&field, 7, &limits).ok();
                    prop_assert_eq!(sum, own.and_then(|own| own.checked_add(7)));
                    if let Some(sum) = sum { model.insert(field, sum.to_string().into_bytes()); }
                }
            }
            prop_assert_eq!(hash.len(), model.len());
            let read: BTreeMap<_, _> = hash.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(&read, &model);
            if hash.len() > most { prop_assert_eq!(hash.encoding(), "hashtable"); }
        }
        for (field, value) in &model {
            prop_assert!(hash.get(field).unwrap().equals(value));
        }
        let mut seen = BTreeMap::new();
        let mut cursor = 0;
        loop {
            cursor = hash.scan(cursor, 3, |(field, value)| { seen.insert(field.to_vec(), value.to_vec()); });
            if cursor == 0 { break; }
        }
        prop_assert_eq!(seen, model);
        let mut state = 7usize;
        let mut draw = |n: usize| { state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); (state >> 33) % n };
        let drawn: BTreeMap<_, _> = hash.random_distinct(4, &mut draw).into_iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
        prop_assert_eq!(drawn.len(), hash.len().min(4));
        prop_assert_eq!(hash.random_repeated(9, &mut draw).len(), if hash.is_empty() { 0 } else { 9 });
    }
}

#[test]
fn floats_are_added_in_text() {
    let mut hash = Hash::new();
    let by = |text: &str| Extended::parse(text.as_bytes()).unwrap();
    assert_eq!(
        hash.increment_float(b"f", by("10.50"), &Thresholds::REDIS)
            .unwrap(),
        "10.5"
    );
    assert_eq!(
        hash.increment_float(b"f", by("0.1"), &Thresholds::REDIS)
            .unwrap(),
        "10.6"
    );
    hash.set(b"f", b"x", &Thresholds::REDIS);
    assert_eq!(
        hash.increment_float(b"f", by("1"), &Thresholds::REDIS),
        Err(ValueError::FieldNotFloat)
    );
    assert_eq!(
        hash.increment(b"f", 1, &Thresholds::REDIS),
        Err(ValueError::FieldNotInteger)
    );
}

#[test]
fn a_hash_is_packed_up_to_its_limits() {
    let mut hash = Hash::new();
    for field in 0..128 {
        hash.set(
            format!("f{field}").as_bytes(),
            &[b'x'; 64],
            &Thresholds::REDIS,
        );
    }
    assert_eq!(hash.encoding(), "listpack");
    let mut long = hash.clone();
    long.set(b"f0", &[b'x'; 65], &Thresholds::REDIS);
    assert_eq!(long.encoding(), "hashtable");
    hash.set(b"one more", b"", &Thresholds::REDIS);
    assert_eq!(hash.encoding(), "hashtable");
    assert_eq!(hash.len(), 129);
    assert_eq!(size_of::<Hash>(), 24);
}
