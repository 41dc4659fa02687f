use proptest::prelude::*;

use super::*;

fn order(of: Entry) -> impl Fn(Entry) -> Ordering {
    move |own| own.partial_cmp(&of).unwrap()
}

fn check(tree: &Tree, model: &[Entry]) {
    assert_eq!(tree.len(), model.len());
    assert!(tree.walk(0).eq(model.iter().copied()));
    if let Some(last) = model.len().checked_sub(1) {
        assert!(tree.walk_back(last).eq(model.iter().rev().copied()));
        assert!(
            tree.walk_back(last / 3)
                .eq(model[..=last / 3].iter().rev().copied())
        );
    }
    for rank in (0..model.len()).step_by(1 + model.len() / 7) {
        assert_eq!(tree.get(rank), Some(model[rank]));
        assert_eq!(
            tree.rank(|own| order(model[rank])(own) == Ordering::Less),
            rank
        );
        assert!(tree.walk(rank).eq(model[rank..].iter().copied()));
    }
    assert_eq!(tree.get(model.len()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn edits_are_those_of_a_sorted_vector(edits in prop::collection::vec((0u8..9, 0u16..400), 0..3000), grow in 3u8..8) {
        let (mut tree, mut model) = (Tree::new(), Vec::<Entry>::new());
        for (count, (edit, number)) in edits.into_iter().enumerate() {
            let entry = (f64::from(number / 4), u32::from(number));
            match model.binary_search_by(|own| order(entry)(*own)) {
                Err(at) if edit < grow => { tree.insert(entry, order(entry)); model.insert(at, entry); }
                Ok(at) if edit >= grow => { prop_assert!(tree.remove(order(entry))); model.remove(at); }
                Err(_) => prop_assert!(!tree.remove(order(entry))),
                Ok(_) => {}
            }
            if count % 200 == 0 { check(&tree, &model); }
        }
        check(&tree, &model);
        while let Some(entry) = model.pop() { prop_assert!(tree.remove(order(entry))); }
        check(&tree, &model);
    }
}

#[test]
fn a_large_tree_grows_and_shrinks() {
    let (mut tree, mut model) = (Tree::new(), Vec::new());
    for row in 0..20_000u32 {
        let entry = (f64::from(row), row);
        tree.insert(entry, order(entry));
        model.push(entry);
    }
    check(&tree, &model);
    for row in (0..20_000u32).filter(|row| row % 7 != 0) {
        let entry = (f64::from(row), row);
        assert!(tree.remove(order(entry)));
    }
    model.retain(|entry| entry.1 % 7 == 0);
    check(&tree, &model);
    let entry = model[100];
    tree.renumber(5, order(entry));
    assert_eq!(tree.get(100), Some((entry.0, 5)));
}
