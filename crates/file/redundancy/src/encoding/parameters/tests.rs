use super::*;

fn share(fraction: f64) -> Share {
    Share::new(fraction).expect("in range")
}

#[test]
fn a_share_is_a_number_from_0_to_1() {
    for wrong in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
        assert!(Share::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(share(0.0), Share::NONE);
    assert_eq!(share(1.0), Share::ALL);
    assert_eq!("0.5".parse(), Ok(share(0.5)));
    let text = "1.5".parse::<Share>().unwrap_err().to_string();
    assert_eq!(
        text,
        "1.5 is not a share: it has to be a number from 0 to 1"
    );
    let text = "half".parse::<Share>().unwrap_err().to_string();
    assert_eq!(text, "\"half\" is not a number");
}

#[test]
fn a_share_of_the_largest_whole_does_not_overflow() {
    assert_eq!(Share::ALL.of(u64::MAX), u64::MAX);
    assert_eq!(share(0.5).of(u64::MAX), u64::MAX / 2);
    assert!(Share::ALL.holds(u128::MAX, u128::MAX));
    assert!(Share::NONE.holds(0, 0));
    assert!(!Share::NONE.exceeds(0, 0));
}

#[test]
fn a_read_weight_is_not_negative() {
    for wrong in [-0.1, 1000.1, f64::NAN, f64::INFINITY] {
        assert!(ReadWeight::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(ReadWeight::new(1.0).unwrap().value(), 1.0);
}

#[test]
fn a_chunk_is_a_power_of_two_in_range() {
    for wrong in [0, 2048, 500_000, 128 << 20, u64::MAX] {
        assert!(ChunkBytes::new(wrong).is_err(), "{wrong}");
    }
    assert_eq!(ChunkBytes::new(512 << 10), Ok(ChunkBytes::DEFAULT));
    assert_eq!(ChunkBytes::DEFAULT.pages(), 128, "[F] section 5.2.2");
}

#[test]
fn shapes_that_cannot_work_are_refused_with_the_reason() {
    let refused = [
        (0, 1, 2, 3),
        (2, 0, 1, 3),
        (2, 2, 2, 3),
        (255, 255, 2, 255),
        (200, 100, 2, 64),
        (2, 1, 4, 3),
        (2, 1, 3, 3),
        (1, 1, 2, 2),
        (2, 2, 2, 4),
        (2, 1, 0, 3),
    ];
    let mut said = String::new();
    for (data, parity, copies, stores) in refused {
        let error = Geometry::new(data, parity, copies, stores).unwrap_err();
        said.push_str(&format!("{error}\n"));
    }
    let expected = "\
a code of 0+1 is none: it has at least one data and one parity shard
a code of 2+0 is none: it has at least one data and one parity shard
a code of 2+2 needs 4 stores, one for each shard, and there are 3
255 stores are more than the 64 of a set
a code of 200+100 needs 300 stores, one for each shard, and there are 64
4 copies need 4 stores, and there are 3
encoding would make data less safe: lost stores that 3 copies survive: 2, that the code survives: 1
a code of 1+1 takes no less space than 2 copies
a code of 2+2 takes no less space than 2 copies
a code of 2+1 takes no less space than 0 copies
";
    assert_eq!(said, expected);
}

/// \[F\] equation 4.4 for three-way replication and 6D2P. Its table 4.2 agrees at 0 and 1; the rows
/// between (0.47 at 0.33, 0.61 at 0.66) are on the straight line between these two, where the
/// equation gives 0.41 and 0.53.
#[test]
fn capacity_efficiency_is_equation_4_4() {
    let geometry = Geometry::new(6, 2, 3, 8).unwrap();
    let rounded = |encoded| (geometry.capacity_efficiency(share(encoded)) * 100.0).round();
    assert_eq!(
        [0.0, 0.33, 0.66, 1.0].map(rounded),
        [33.0, 41.0, 53.0, 75.0]
    );
    let equation_4_4 = |r: f64| 1.0 / (1.0 + 2.0 * (1.0 - r * 5.0 / 6.0));
    for encoded in [0.0, 0.25, 0.9, 1.0] {
        let ours = geometry.capacity_efficiency(share(encoded));
        assert!((ours - equation_4_4(encoded)).abs() < 1e-12);
    }
}

/// \[F\] equation 5.3, worked by hand.
#[test]
fn differential_pages_are_made_up_for() {
    // 2+1 beside two copies: r / (r - 3/2) = 4.
    let small = Geometry::new(2, 1, 2, 3).unwrap();
    assert_eq!(small.encoded_target(share(0.9), share(0.005)), share(0.92));
    assert_eq!(small.encoded_target(share(0.9), Share::NONE), share(0.9));
    assert_eq!(small.encoded_target(share(0.9), share(0.05)), Share::ALL);
    // 6+2 beside three copies: 3 / (3 - 8/6) = 1.8.
    let large = Geometry::new(6, 2, 3, 8).unwrap();
    assert_eq!(large.encoded_target(share(0.5), share(0.01)), share(0.518));
}

#[test]
fn space_taken_with_differential_pages_is_no_more_than_without() {
    for (data, parity, copies) in [(2, 1, 2), (4, 2, 3), (6, 2, 3), (10, 4, 3)] {
        let geometry = Geometry::new(data, parity, copies, 16).unwrap();
        let (rate, pages) = (share(0.5), share(0.005));
        let space = |encoded| 1.0 / geometry.capacity_efficiency(encoded);
        let with = space(geometry.encoded_target(rate, pages)) + f64::from(copies) * 0.005;
        // The target is rounded down to a millionth.
        assert!(with - space(rate) < 4e-6, "{data}+{parity}");
    }
}

#[test]
fn an_interval_of_no_length_is_refused() {
    let parameters = Parameters {
        geometry: Geometry::new(2, 1, 2, 3).unwrap(),
        chunk: ChunkBytes::DEFAULT,
        read_weight: ReadWeight::default(),
        load_limit: share(0.1),
        target_rate: share(0.9),
        differential: share(0.005),
        at_once: false,
        interval: Duration::ZERO,
    };
    assert_eq!(parameters.validate(), Err(ParameterError::NoInterval));
    let limits = parameters.limits();
    assert_eq!((limits.load, limits.encoded), (share(0.1), share(0.92)));
}
