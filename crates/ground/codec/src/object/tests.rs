use super::*;
use proptest::prelude::*;

const IDENTITY: Identity = Identity {
    set: *b"0123456789abcdef",
    object: 0x1122_3344_5566_7788,
    generation: 9,
};

/// Written by version 1; must be read for ever. The checksums were computed bit by bit from the
/// polynomial, not by this code.
const GOLDEN: &str = "484f4c4446415354010001000300000030313233343536373839616263646566\
8877665544332211090000000000000005000000000000003b4dc2aa62397db570616765\
73";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let bytes = seal_object(1, 3, &IDENTITY, b"pages");
    assert_eq!(hex(&bytes), GOLDEN);
}

#[test]
fn another_identity_is_refused_and_named() {
    let bytes = seal_object(1, 3, &IDENTITY, b"pages");
    let other = |change: fn(&mut Identity)| {
        let mut wanted = IDENTITY;
        change(&mut wanted);
        open_object(&bytes, 1, Some(&wanted)).unwrap_err()
    };
    assert_eq!(other(|i| i.set[0] = 0).what, "set id, first half");
    assert_eq!(other(|i| i.set[15] = 0).what, "set id, second half");
    assert_eq!(other(|i| i.object = 1).offset, 32);
    let stale = other(|i| i.generation = 10);
    assert_eq!((stale.expected, stale.found), (10, 9));
    assert_eq!(
        open_object(&bytes, 2, None).unwrap_err().what,
        "kind of object"
    );
}

#[test]
fn the_kind_is_told_from_the_header_alone() {
    let mut bytes = seal_object(1, 3, &IDENTITY, b"pages");
    bytes[66] ^= 1;
    assert_eq!(object_kind(&bytes), Ok(1));
    bytes[10] ^= 1;
    assert!(object_kind(&bytes).is_err());
}

#[test]
fn padding_is_zeros_or_corrupt() {
    let mut bytes = seal_object(1, 3, &IDENTITY, b"pages");
    bytes.resize(4096, 0);
    assert!(open_object(&bytes, 1, Some(&IDENTITY)).is_ok());
    bytes[4000] = 7;
    assert_eq!(open_object(&bytes, 1, None).unwrap_err().offset, 4000);
}

#[test]
fn a_later_header_version_is_refused_by_its_number() {
    let mut raw = RawHeader::read_from_prefix(&seal_object(1, 3, &IDENTITY, b""))
        .unwrap()
        .0;
    raw.format = U16::new(2);
    raw.header_crc = U32::new(raw.checksum());
    let error = open_object(raw.as_bytes(), 1, None).unwrap_err();
    assert_eq!((error.what, error.found), ("header version", 2));
}

proptest! {
    #[test]
    fn what_was_sealed_opens(kind: u16, version: u16, set: [u8; 16], object: u64, generation: u64,
                             payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let identity = Identity { set, object, generation };
        let bytes = seal_object(kind, version, &identity, &payload);
        let opened = open_object(&bytes, kind, Some(&identity)).unwrap();
        prop_assert_eq!((opened.kind, opened.version, opened.identity), (kind, version, identity));
        prop_assert_eq!(opened.payload, &payload[..]);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(open_object(&bytes, 1, None).is_err());
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let bytes = seal_object(1, 3, &IDENTITY, b"pages");
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(open_object(&bad, 1, Some(&IDENTITY)).is_err(), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(
            open_object(&bytes[..length], 1, None).is_err(),
            "length {length}"
        );
    }
}
