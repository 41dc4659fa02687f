use super::*;
use env::Rng;
use std::collections::BTreeSet;

/// Whether the set and the model say the same, also after encoding and decoding.
fn compare(set: &LiveSet, model: &BTreeSet<u32>) {
    assert_eq!(set.live() as usize, model.len());
    let mut bytes = Vec::new();
    set.encode(&mut bytes);
    bytes.extend_from_slice(b"rest");
    let (again, rest) = LiveSet::decode(&bytes, set.records()).expect("what was encoded");
    assert_eq!(rest, b"rest");
    assert_eq!(again.live(), set.live());
    for ordinal in 0..set.records() + 2 {
        assert_eq!(set.contains(ordinal), model.contains(&ordinal), "{ordinal}");
        assert_eq!(again.contains(ordinal), model.contains(&ordinal));
    }
}

#[test]
fn it_is_a_set() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let (mut set, mut model) = (LiveSet::default(), BTreeSet::new());
        for phase in 0..6 {
            for _ in 0..30_000 {
                if rng.chance(phase + 1, 8) && set.records() > 0 {
                    let ordinal = rng.below(u64::from(set.records())) as u32;
                    assert_eq!(set.kill(ordinal), model.remove(&ordinal));
                } else {
                    let ordinal = set.push();
                    assert!(model.insert(ordinal));
                }
            }
            compare(&set, &model);
        }
        while let Some(ordinal) = model.pop_first() {
            assert!(set.kill(ordinal) && !set.kill(ordinal));
            if model.len() % 7001 == 0 {
                compare(&set, &model);
            }
        }
        let left = set.pieces.iter().map(Piece::heap_bytes).sum::<usize>();
        assert_eq!((set.live(), left), (0, 0));
    }
}

#[test]
fn it_takes_little_memory_at_every_share() {
    let mut rng = Rng::new(7);
    let mut set = LiveSet::all(1 << 20);
    let mut worst: f64 = 0.0;
    while set.live() > 1 << 14 {
        set.kill(rng.below(1 << 20) as u32);
        let pieces = set.pieces.iter().map(Piece::heap_bytes).sum::<usize>();
        worst = worst.max(pieces as f64 / f64::from(set.live()));
    }
    assert!(worst < 2.3, "{worst} bytes for each live entry");
}

#[test]
fn bytes_that_were_never_encoded_are_refused() {
    for (bytes, records) in [
        (&b""[..], 1),
        (b"\x04", 1),
        (b"\x03\x00\x00", 9),
        (b"\x03\x02\x00\x05\x00\x05\x00", 9),
        (b"\x03\x01\x00\x09\x00", 9),
        (b"\x03\x01\x00", 9),
        (b"\x02", 9),
    ] {
        assert!(LiveSet::decode(bytes, records).is_err(), "{bytes:?}");
    }
    let mut few = vec![2];
    few.resize(1 + WORDS * 8, 0);
    assert!(LiveSet::decode(&few, PIECE).is_err(), "a list is due");
}
