use super::*;
use proptest::prelude::*;

const STORE: StoreId = StoreId(0x0123_4567_89ab_cdef);

fn owner(bytes: &[u8]) -> Handle {
    Handle::from_bytes(bytes).unwrap()
}

fn entry() -> impl Strategy<Value = Entry> {
    let number = (1u64..1 << 48).prop_map(|number| Number::new(number).unwrap());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Entry::Value),
        number.clone().prop_map(Entry::Linked),
        (number, any::<u32>()).prop_map(|(number, place)| Entry::Shared { number, place }),
    ]
}

fn composite() -> impl Strategy<Value = Composite> {
    let tag = (0u8..64).prop_map(|tag| Tag::new(tag).unwrap());
    prop::collection::btree_map(tag, entry(), 0..8).prop_map(|entries| Composite { entries })
}

proptest! {
    #[test]
    fn what_is_written_is_read_padded_or_not(composite in composite(), least in 0usize..300) {
        let owner = owner(b"\x01handle");
        let bytes = composite.encode(STORE, &owner, least).unwrap();
        prop_assert!(bytes.len() >= least);
        prop_assert_eq!(Composite::decode(&bytes, STORE, &owner), Ok(composite));
    }

    #[test]
    fn another_owner_or_store_or_a_flipped_bit_is_found(composite in composite(), bit: usize) {
        let first = owner(b"\x01handle");
        let bytes = composite.encode(STORE, &first, 0).unwrap();
        prop_assert!(Composite::decode(&bytes, STORE, &owner(b"\x01handlf")).is_err());
        prop_assert!(Composite::decode(&bytes, StoreId(1), &first).is_err());
        let mut bad = bytes.clone();
        let bit = bit % (bytes.len() * 8);
        bad[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Composite::decode(&bad, STORE, &first).is_err());
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Composite::decode(&longer, STORE, &first).is_err());
    }
}

#[test]
fn one_linked_object_takes_twelve_bytes() {
    let mut composite = Composite::default();
    let entry = Entry::Linked(Number::new(1).unwrap());
    composite.entries.insert(Tag::MAX, entry);
    let bytes = composite.encode(STORE, &owner(b"\x01h"), 0).unwrap();
    assert_eq!(bytes.len(), 12);
}

#[test]
fn too_many_entries_are_refused() {
    let mut composite = Composite::default();
    for tag in 0..5 {
        let value = Entry::Value(vec![0; VALUE_BYTES_MAX]);
        composite.entries.insert(Tag::new(tag).unwrap(), value);
    }
    assert_eq!(composite.encode(STORE, &owner(b"\x01h"), 0), None);
    assert!(Composite::decode_unverified(&[0; COMPOSITE_BYTES_MAX + 1]).is_err());
}
