use super::*;
use crate::key::Number;

fn linked() -> (ObjectKey, Header) {
    let key = ObjectKey::Linked(Number::new(7).unwrap());
    let header = Header {
        length: 5000,
        references: 1,
        ..Header::new(7, 3, b"\x01a handle")
    };
    (key, header)
}

#[test]
fn what_is_written_is_read_for_every_class() {
    let store = StoreId(9);
    let number = Number::new(0xffff_ffff_ffff).unwrap();
    let cases = [
        linked(),
        (ObjectKey::Shared(number), Header::new(2, 0, b"")),
        (ObjectKey::Roster(number), Header::new(3, 0, b"")),
        (
            ObjectKey::System(SystemName::new("a.b-c_1").unwrap()),
            Header::new(4, 0, b"a.b-c_1"),
        ),
    ];
    for (key, header) in cases {
        let mut area = header.encode(&key, store);
        assert_eq!(area.len(), 152);
        area.resize(HEADER_AREA_BYTES, 0);
        let (found, identity, decoded) = Header::decode(&area).unwrap();
        assert_eq!((found, &decoded), (store, &header));
        assert_eq!(identity, key.identity(store, header.generation));
        assert_eq!(decoded.key(&identity), Some(key.clone()));
        assert_eq!(ObjectKey::from_file_name(&key.file_name()), Some(key));
    }
}

#[test]
fn fields_that_cannot_be_are_refused() {
    let (key, header) = linked();
    let long = Header {
        length: OBJECT_BYTES_MAX + 1,
        ..header.clone()
    };
    let nobody = Header {
        owner: Vec::new(),
        ..header
    };
    for bad in [long, nobody] {
        assert!(Header::decode(&bad.encode(&key, StoreId(1))).is_err());
    }
}

#[test]
fn file_names_of_others_are_none_of_ours() {
    for name in [
        "l1",
        "l00000000000A",
        "x000000000001",
        "l000000000000",
        "n-",
        "n-A",
        "n-.x",
        "store",
        "",
        "l+00000000001",
    ] {
        assert_eq!(ObjectKey::from_file_name(name), None, "{name}");
    }
}
