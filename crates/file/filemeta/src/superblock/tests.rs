use super::*;

#[test]
fn what_is_written_is_read_and_every_flipped_bit_found() {
    let superblock = Superblock {
        store: StoreId(0x1234),
        writes: 3,
        numbers: 1025,
        attribute: c"trusted.hfm".to_owned(),
    };
    let bytes = superblock.encode();
    assert_eq!(Superblock::decode(&bytes), Ok(superblock));
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn names_of_attributes_have_a_namespace() {
    for good in [c"trusted.hfm", c"user.x", c"security.holdfast"] {
        assert!(is_attribute_name(good));
    }
    for bad in [c"hfm", c"trusted.", c"system.x", c""] {
        assert!(!is_attribute_name(bad));
    }
}
