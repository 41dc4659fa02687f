use proptest::prelude::*;

use super::*;

fn with(elements: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut bytes = create();
    for element in elements {
        add(
            &mut bytes,
            format!("element:{element}").as_bytes(),
            &Thresholds::REDIS,
        )
        .unwrap();
    }
    bytes
}

#[test]
fn an_empty_one_has_the_bytes_of_redis() {
    assert_eq!(create(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
    assert_eq!(count(&mut create()), Ok(0));
}

#[test]
fn estimates_are_near() {
    for exact in [1u32, 10, 100, 1000, 10_000, 100_000] {
        let mut bytes = with(0..exact);
        let estimate = count(&mut bytes).unwrap();
        let error = (estimate as f64 - f64::from(exact)).abs() / f64::from(exact);
        assert!(error < 0.03, "{exact}: {estimate}");
        assert_eq!(count(&mut bytes), Ok(estimate));
    }
}

#[test]
fn a_long_sparse_one_becomes_dense() {
    assert_eq!(is_sparse(&with(0..900)), Ok(true));
    let dense = with(0..3000);
    assert_eq!((is_sparse(&dense), dense.len()), (Ok(false), DENSE_BYTES));
    let early = Thresholds {
        hll_sparse_max_bytes: 30,
        ..Thresholds::REDIS
    };
    let mut bytes = create();
    for element in 0..10u32 {
        add(&mut bytes, &element.to_le_bytes(), &early).unwrap();
    }
    assert_eq!(is_sparse(&bytes), Ok(false));
}

#[test]
fn other_strings_are_refused() {
    for other in [
        b"".as_slice(),
        b"HYLL",
        b"HYLX\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff",
        b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0\x7f\xff",
        b"HYLL\x00\0\0\0\0\0\0\0\0\0\0\0\x7f\xff",
    ] {
        assert_eq!(check(other), Err(ValueError::NotHyperLogLog));
    }
    let mut short = create();
    short.truncate(17);
    assert_eq!(registers(&short), Err(ValueError::CorruptHyperLogLog));
    assert_eq!(
        add(&mut short, b"x", &Thresholds::REDIS),
        Err(ValueError::CorruptHyperLogLog)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Sparse, dense and a plain array of registers say the same.
    #[test]
    fn registers_are_those_of_an_array(elements in prop::collection::vec(any::<u32>(), 0..400), most in 20usize..1500) {
        let limits = Thresholds { hll_sparse_max_bytes: most, ..Thresholds::REDIS };
        let (mut bytes, mut model) = (create(), vec![0u8; REGISTERS]);
        for element in elements {
            let (register, value) = estimate::register(&element.to_le_bytes());
            let changed = model[register] < value;
            model[register] = model[register].max(value);
            prop_assert_eq!(add(&mut bytes, &element.to_le_bytes(), &limits), Ok(changed));
        }
        prop_assert_eq!(registers(&bytes), Ok(model.clone()));
        prop_assert_eq!(count(&mut bytes), Ok(estimate::count(&model)));
        let mut dense = bytes.clone();
        make_dense(&mut dense).unwrap();
        prop_assert_eq!(registers(&dense), Ok(model));
    }

    #[test]
    fn a_merge_is_as_if_all_were_added(a in prop::collection::vec(0u32..900, 0..300), b in prop::collection::vec(0u32..900, 0..300), dense in any::<bool>()) {
        let (mut one, mut two) = (with(a.clone()), with(b.clone()));
        if dense { make_dense(&mut two).unwrap(); }
        let both = with(a.into_iter().chain(b));
        prop_assert_eq!(count_union(&[&one, &two]), count(&mut both.clone()));
        merge(&mut one, &[&two], &Thresholds::REDIS).unwrap();
        prop_assert_eq!(is_sparse(&one), Ok(!dense && is_sparse(&both).unwrap()));
        prop_assert_eq!(registers(&one), registers(&both));
    }

    #[test]
    fn any_bytes_are_refused_or_read(body in prop::collection::vec(any::<u8>(), 0..40), element in any::<u32>()) {
        let mut bytes = create();
        bytes.truncate(HEADER);
        bytes.extend(body);
        let _ = add(&mut bytes, &element.to_le_bytes(), &Thresholds::REDIS);
        let _ = count(&mut bytes);
    }
}
