use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn key(number: u8) -> Box<[u8]> {
    format!("key{number}").into_bytes().into()
}

proptest! {
    #[test]
    fn edits_are_those_of_a_set(edits in prop::collection::vec((any::<bool>(), any::<u8>()), 0..600)) {
        let (mut dict, mut model) = (Dict::with_capacity(0), BTreeSet::new());
        for (add, number) in edits {
            let found = dict.find(&key(number));
            prop_assert_eq!(found.is_some(), model.contains(&number));
            match (add, found) {
                (true, None) => { dict.add(key(number)); model.insert(number); }
                (false, Some(row)) => { dict.remove(row); model.remove(&number); }
                _ => {}
            }
            prop_assert_eq!(dict.len(), model.len());
        }
        let rows: usize = dict.iter().map(|row| row.len()).sum();
        prop_assert_eq!(rows, dict.heap);
    }
}

type Edits = Vec<(bool, u8)>;
type Scan = fn(&Dict<Box<[u8]>>, u64, usize, &mut dyn FnMut(&Box<[u8]>)) -> u64;

/// Runs a scan to its end with edits between its calls; whether it returned all that stayed.
fn returns_what_stays(scan: Scan, start: &BTreeSet<u8>, steps: Vec<(Edits, usize)>) -> bool {
    let mut dict = Dict::with_capacity(0);
    for &number in start {
        dict.add(key(number));
    }
    let (mut stays, mut seen, mut cursor) = (start.clone(), BTreeSet::new(), 0);
    let mut steps = steps.into_iter();
    loop {
        let (edits, count) = steps.next().unwrap_or((Vec::new(), 10));
        cursor = scan(&dict, cursor, count, &mut |row| {
            seen.insert(row.clone());
        });
        if cursor == 0 {
            return stays.iter().all(|&number| seen.contains(&key(number)));
        }
        for (add, number) in edits {
            match (add, dict.find(&key(number))) {
                (true, None) => {
                    dict.add(key(number));
                }
                (false, Some(row)) => {
                    dict.remove(row);
                    stays.remove(&number);
                }
                _ => {}
            }
        }
    }
}

fn runs() -> impl Strategy<Value = (BTreeSet<u8>, Vec<(Edits, usize)>)> {
    let edits = prop::collection::vec((any::<bool>(), any::<u8>()), 0..20);
    (
        prop::collection::btree_set(any::<u8>(), 0..200),
        prop::collection::vec((edits, 1usize..20), 1..60),
    )
}

proptest! {
    /// The promise of SCAN: what is there from the first call to the last is returned.
    #[test]
    fn a_scan_returns_what_stays((start, steps) in runs()) {
        let scan: Scan = |dict, cursor, count, visit| dict.scan(cursor, count, visit);
        prop_assert!(returns_what_stays(scan, &start, steps));
    }
}

/// The test above finds a scan that goes from the first row up.
#[test]
fn a_scan_in_the_wrong_direction_is_found() {
    let upwards: Scan = |dict, cursor, count, visit| {
        let start = usize::try_from(cursor).unwrap();
        dict.iter().skip(start).take(count).for_each(visit);
        if dict.len().saturating_sub(start) <= count {
            0
        } else {
            cursor + count as u64
        }
    };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let result = runner.run(&runs(), |(start, steps)| {
        prop_assert!(returns_what_stays(upwards, &start, steps));
        Ok(())
    });
    assert!(result.is_err(), "what moves down behind the cursor is lost");
}

/// Larger than a piece of rows and a table of the index, on the way up and down.
#[test]
fn a_large_one_grows_and_shrinks() {
    const ROWS: u32 = 50_000;
    let key = |number: u32| number.to_string().into_bytes().into_boxed_slice();
    let mut dict = Dict::with_capacity(0);
    for number in 0..ROWS {
        dict.add(key(number));
    }
    assert!(matches!(dict.index, Index::Many(_)));
    for number in 0..ROWS {
        assert_eq!(dict.get(&key(number)), Some(&key(number)));
    }
    assert_eq!(dict.find(b"x"), None);
    let full = dict.heap_bytes();
    for number in (0..ROWS).filter(|number| number % 100 != 0) {
        let row = dict.find(&key(number)).unwrap();
        assert_eq!(dict.remove(row), key(number));
    }
    assert_eq!(dict.len(), 500);
    assert!(matches!(dict.index, Index::One(_)));
    assert!(dict.heap_bytes() < full / 20);
    for number in 0..ROWS {
        assert_eq!(dict.find(&key(number)).is_some(), number % 100 == 0);
    }
}
