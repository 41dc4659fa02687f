use proptest::prelude::*;

use super::*;

#[test]
fn bits_are_set_and_counted() {
    let mut bytes = Vec::new();
    assert!(!set(&mut bytes, 7, true));
    assert!(set(&mut bytes, 7, false));
    assert_eq!(bytes, [0]);
    assert!(!get(&bytes, u64::MAX));
    assert_eq!(count(b"foobar", 0, -1, Unit::Byte), 26);
    assert_eq!(count(b"foobar", 0, 0, Unit::Byte), 4);
    assert_eq!(count(b"foobar", 1, 1, Unit::Byte), 6);
    assert_eq!(count(b"foobar", 5, 30, Unit::Bit), 17);
    assert_eq!(count(b"", 0, -1, Unit::Bit), 0);
}

#[test]
fn positions_are_those_of_redis() {
    assert_eq!(
        position(b"\xff\xf0\x00", false, 0, None, Unit::Byte),
        Some(12)
    );
    assert_eq!(
        position(b"\x00\xff\xf0", true, 2, None, Unit::Byte),
        Some(16)
    );
    assert_eq!(position(b"\x00\x00\x00", true, 0, None, Unit::Byte), None);
    assert_eq!(
        position(b"\xff\xff\xff", false, 0, None, Unit::Byte),
        Some(24)
    );
    assert_eq!(
        position(b"\xff\xff\xff", false, 0, Some(-1), Unit::Byte),
        None
    );
    assert_eq!(
        position(b"\x00\xff\xf0", true, 7, Some(15), Unit::Bit),
        Some(8)
    );
}

#[test]
fn fields_overflow_as_asked() {
    let u2 = BitField::parse(b"u2").unwrap();
    let mut bytes = Vec::new();
    let mut step = |overflow| field_increment(&mut bytes, u2, 100, 1, overflow);
    assert_eq!(
        [
            step(Overflow::Wrap),
            step(Overflow::Wrap),
            step(Overflow::Wrap)
        ],
        [Some(1), Some(2), Some(3)]
    );
    assert_eq!(step(Overflow::Saturate), Some(3));
    assert_eq!(step(Overflow::Fail), None);
    assert_eq!(step(Overflow::Wrap), Some(0));
    let i8 = BitField::parse(b"i8").unwrap();
    assert_eq!(field_set(&mut bytes, i8, 0, 200, Overflow::Wrap), Some(0));
    assert_eq!(field_get(&bytes, i8, 0), -56);
    assert_eq!(
        field_set(&mut bytes, i8, 0, 200, Overflow::Saturate),
        Some(-56)
    );
    assert_eq!(field_get(&bytes, i8, 0), 127);
    for bad in ["u64", "i65", "i0", "x8", "", "u", "i-1", "u08"] {
        assert_eq!(BitField::parse(bad.as_bytes()), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn counts_and_positions_are_those_of_single_bits(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12),
        start in -110i64..110, end in -110i64..110, on in any::<bool>(), bit in any::<bool>(),
    ) {
        let unit = if bit { Unit::Bit } else { Unit::Byte };
        let range = bit_range(bytes.len(), start, end, unit);
        let inside: Vec<usize> = range.map(|(a, b)| (a..=b).collect()).unwrap_or_default();
        let counted = inside.iter().filter(|&&at| get(&bytes, at as u64)).count();
        let counted = if start < 0 && end < 0 && start > end { 0 } else { counted };
        prop_assert_eq!(count(&bytes, start, end, unit), counted as u64);
        let first = inside.iter().find(|&&at| get(&bytes, at as u64) == on).map(|&at| at as u64);
        prop_assert_eq!(position(&bytes, on, start, Some(end), unit), first);
    }

    #[test]
    fn a_field_that_is_set_is_read(signed in any::<bool>(), bits in 1u32..=63, offset in 0u64..90, value in any::<i64>()) {
        let field = BitField::parse(format!("{}{bits}", if signed { 'i' } else { 'u' }).as_bytes()).unwrap();
        let mut bytes = vec![0xa5; 4];
        let before = bytes.clone();
        field_set(&mut bytes, field, offset, value, Overflow::Wrap);
        let read = field_get(&bytes, field, offset);
        prop_assert_eq!((read ^ value) << (64 - bits), 0);
        for at in (0..160).filter(|at| !(offset..offset + u64::from(bits)).contains(at)) {
            prop_assert_eq!(get(&bytes, at), get(&before, at));
        }
    }

    #[test]
    fn combinations_are_those_of_single_bits(a in prop::collection::vec(any::<u8>(), 0..9), b in prop::collection::vec(any::<u8>(), 0..9)) {
        for at in 0..72 {
            let (x, y) = (get(&a, at), get(&b, at));
            let within = at < 8 * a.len().max(b.len()) as u64;
            prop_assert_eq!(get(&combine(BitOperation::And, &[&a, &b]), at), x && y);
            prop_assert_eq!(get(&combine(BitOperation::Or, &[&a, &b]), at), x || y);
            prop_assert_eq!(get(&combine(BitOperation::Xor, &[&a, &b]), at), within && (x ^ y));
            prop_assert_eq!(get(&combine(BitOperation::Not, &[&a]), at), at < 8 * a.len() as u64 && !x);
        }
    }
}
