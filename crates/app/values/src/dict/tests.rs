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
        let rows: usize = dict.rows().iter().map(|row| row.len()).sum();
        prop_assert_eq!(rows, dict.heap);
    }

    /// The promise of SCAN: what is there from the first call to the last is returned.
    #[test]
    fn a_scan_returns_what_stays(
        start in prop::collection::btree_set(any::<u8>(), 0..200),
        steps in prop::collection::vec((prop::collection::vec((any::<bool>(), any::<u8>()), 0..20), 1usize..20), 1..60),
    ) {
        let mut dict = Dict::with_capacity(0);
        for &number in &start {
            dict.add(key(number));
        }
        let (mut stays, mut seen, mut cursor) = (start, BTreeSet::new(), 0);
        let mut steps = steps.into_iter();
        loop {
            let (edits, count) = steps.next().unwrap_or((Vec::new(), 10));
            cursor = dict.scan(cursor, count, |row| { seen.insert(row.clone()); });
            if cursor == 0 {
                break;
            }
            for (add, number) in edits {
                match (add, dict.find(&key(number))) {
                    (true, None) => { dict.add(key(number)); }
                    (false, Some(row)) => { dict.remove(row); stays.remove(&number); }
                    _ => {}
                }
            }
        }
        for number in stays {
            prop_assert!(seen.contains(&key(number)));
        }
    }
}
