use proptest::prelude::*;

use super::*;

fn elements(pack: &Listpack) -> Vec<Vec<u8>> {
    let forward: Vec<_> = pack.iter().map(Element::to_vec).collect();
    let mut back: Vec<_> = pack.iter_back().map(Element::to_vec).collect();
    back.reverse();
    assert_eq!(forward, back);
    assert_eq!(forward.len(), pack.len());
    assert_eq!(
        Listpack::from_bytes(pack.bytes().to_vec()).as_ref(),
        Some(pack)
    );
    forward
}

#[test]
fn integers_and_strings_of_every_width_come_back() {
    let mut pack = Listpack::new();
    let mut expected = Vec::new();
    for bits in 0..63 {
        for value in [
            1i64 << bits,
            (1 << bits) - 1,
            -(1 << bits),
            -(1 << bits) - 1,
        ] {
            pack.push_back(value.to_string().as_bytes());
            expected.push(value.to_string().into_bytes());
        }
    }
    for length in [
        0, 63, 64, 125, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 70_000,
    ] {
        pack.push_back(&vec![b'x'; length]);
        expected.push(vec![b'x'; length]);
    }
    assert_eq!(elements(&pack), expected);
}

#[test]
fn bytes_are_those_of_redis() {
    // As DUMP of Redis 7.0 shows it: "a", 1, "hello", -5, 300.
    let pack: Listpack = [b"a".as_slice(), b"1", b"hello", b"-5", b"300"]
        .into_iter()
        .collect();
    let expected = b"\x1b\0\0\0\x05\0\x81a\x02\x01\x01\x85hello\x06\xdf\xfb\x02\xc1\x2c\x02\xff";
    let mut expected = expected.to_vec();
    expected[0] = u8::try_from(expected.len()).unwrap();
    assert_eq!(pack.bytes(), expected);
}

#[test]
fn more_elements_than_the_header_can_say_are_counted() {
    let mut pack = Listpack::new();
    for value in 0..66_000 {
        pack.push_integer(value);
    }
    assert_eq!(pack.len(), 66_000);
    assert_eq!(pack.get(pack.at(65_999).unwrap()), Element::Integer(65_999));
    pack.remove(HEADER, 66_000);
    assert!(pack.is_empty());
    assert_eq!(pack.len(), 0);
}

proptest! {
    #[test]
    fn edits_are_those_of_a_vector(edits in prop::collection::vec((0u8..5, 0usize..40, prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        any::<i64>().prop_map(|value| value.to_string().into_bytes()),
        (0i64..300).prop_map(|value| value.to_string().into_bytes()),
    ]), 0..60)) {
        let (mut pack, mut model) = (Listpack::new(), Vec::<Vec<u8>>::new());
        for (edit, place, value) in edits {
            let index = if model.is_empty() { 0 } else { place % model.len() };
            let at = pack.at(i64::try_from(index).unwrap());
            match (edit, at) {
                (0, Some(at)) => { pack.insert(at, &value); model.insert(index, value); }
                (1, Some(at)) => { pack.insert_after(at, &value); model.insert(index + 1, value); }
                (2, Some(at)) => { pack.replace(at, &value); model[index] = value; }
                (3, Some(at)) => {
                    pack.remove(at, 2);
                    model.drain(index..(index + 2).min(model.len()));
                }
                (4, Some(at)) => {
                    let rest = pack.split_off(at);
                    prop_assert_eq!(elements(&rest), model[index..].to_vec());
                    pack.append(&rest);
                }
                _ => { pack.push_front(&value); model.insert(0, value); }
            }
            prop_assert_eq!(elements(&pack), model.clone());
        }
        for (index, value) in model.iter().enumerate() {
            let first = model.iter().position(|other| other == value).unwrap();
            prop_assert_eq!(pack.find(value, 1), pack.at(i64::try_from(first).unwrap()), "{}", index);
        }
    }

    #[test]
    fn bytes_from_outside_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(pack) = Listpack::from_bytes(bytes) {
            elements(&pack);
        }
    }
}
