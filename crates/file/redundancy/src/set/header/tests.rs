use super::*;

/// A store header of version 1: sealed object, payload of 64 + 2 * 16 + 3 * 40 bytes.
const GOLDEN: &str = include_str!("tests/v1.hex");

fn header() -> Header {
    let tenure = |generation, epoch| Tenure { generation, epoch };
    Header {
        set: SetId(0x5f0c_2f6a_8a1d_4f43_b2a7_e6c9_d0f1_a2b3),
        store: StoreId(0xa1),
        index: StoreIndex(1),
        copies: 2,
        created_s: 1_795_243_699,
        mount_count: 9,
        pending_starts: 0,
        members: StoreMask::first(2),
        history: vec![tenure(2, 0x22), tenure(1, 0x11)],
        stores: vec![
            (StoreId(0xa0), Departure::default()),
            (StoreId(0xa1), Departure::default()),
            (
                StoreId(0xa2),
                Departure {
                    generation: 1,
                    mount_count: 8,
                    mark: 0x77,
                },
            ),
        ],
    }
}

fn golden() -> Vec<u8> {
    let digits: Vec<u8> = GOLDEN.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Seals a changed payload, so that the checks behind the checksums are reached.
fn sealed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let bytes = header().encode();
    let object = open_object(&bytes, OBJECT_KIND, None).unwrap();
    let mut payload = object.payload.to_vec();
    change(&mut payload);
    seal_object(OBJECT_KIND, VERSION, &object.identity, &payload)
}

#[test]
fn a_header_has_the_bytes_of_version_1() {
    let bytes = header().encode();
    let lines: Vec<String> = bytes
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect())
        .collect();
    assert_eq!(bytes, golden(), "\n{}", lines.join("\n"));
    assert_eq!(Header::decode(&golden()), Ok(header()));
}

#[test]
fn every_field_out_of_its_range_is_named() {
    let cases: [(usize, u8, &str); 9] = [
        (16, 0xff, "store"),
        (32, 3, "stores"),
        (33, 0, "copies"),
        (33, 4, "copies"),
        (34, 0, "stores"),
        (34, 65, "stores"),
        (35, 0, "history"),
        (35, 65, "history"),
        (56, 0x08, "members"),
    ];
    for (at, value, field) in cases {
        let decoded = Header::decode(&sealed(|payload| payload[at] = value));
        assert_eq!(
            decoded,
            Err(HeaderError::Field(field)),
            "byte {at} = {value}"
        );
    }
    let short = Header::decode(&sealed(|payload| payload.truncate(payload.len() - 1)));
    assert_eq!(short, Err(HeaderError::Field("length")));
    let long = Header::decode(&sealed(|payload| payload.push(0)));
    assert_eq!(long, Err(HeaderError::Field("length")));
}

#[test]
fn a_header_sealed_for_another_set_place_or_generation_is_refused() {
    let other = |bytes: Vec<u8>| Header::decode(&bytes);
    assert_eq!(other(sealed(|p| p[0] ^= 1)), Err(HeaderError::Identity));
    assert_eq!(other(sealed(|p| p[64] ^= 1)), Err(HeaderError::Identity));
    let place = sealed(|p| {
        p[32] = 0;
        p[16] = 0xa0;
    });
    assert_eq!(other(place), Err(HeaderError::Identity));
}

#[test]
fn a_later_version_is_refused_with_its_number() {
    let bytes = header().encode();
    let object = open_object(&bytes, OBJECT_KIND, None).unwrap();
    let later = seal_object(OBJECT_KIND, 2, &object.identity, object.payload);
    assert_eq!(Header::decode(&later), Err(HeaderError::Version(2)));
}

#[test]
fn history_keeps_the_newest_64_tenures() {
    let mut header = header();
    let oldest = header.history[1];
    for epoch in 0..62 {
        header.advance(StoreMask::first(2), epoch);
    }
    assert!(header.descends_from(oldest));
    header.advance(StoreMask::first(3), 62);
    assert!(!header.descends_from(oldest));
    assert_eq!(header.history.len(), HISTORY);
    assert_eq!(header.tenure().generation, 65);
    assert_eq!(header.members, StoreMask::first(3));
    assert_eq!(Header::decode(&header.encode()), Ok(header));
}

#[test]
fn each_store_keeps_the_same_header_under_its_own_name() {
    let other = header().for_store(StoreIndex(2));
    assert_eq!((other.index, other.store), (StoreIndex(2), StoreId(0xa2)));
    assert_eq!(other.for_store(StoreIndex(1)), header());
    assert_eq!(Header::decode(&other.encode()), Ok(other));
}
