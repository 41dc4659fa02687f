use proptest::prelude::*;

use super::*;
use crate::{
    AddOptions, End, Hash, List, Set, SortedSet, Stream, StringValue, Thresholds, Value,
    ValueError,
    stream::{Claim, NewId, StreamId},
};

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(b'a'..b'g', 0..8),
        4 => any::<i16>().prop_map(|n| n.to_string().into_bytes()),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..400),
    ]
}

/// Thresholds around which values change their form.
fn limits() -> Thresholds {
    Thresholds {
        list_max_listpack_size: 4,
        hash_max_listpack_entries: 5,
        set_max_intset_entries: 6,
        zset_max_listpack_entries: 5,
        stream_node_max_entries: 4,
        ..Thresholds::REDIS
    }
}

fn stream() -> impl Strategy<Value = Value> {
    let entry = (
        0u64..3,
        prop::collection::vec((text(), text()), 1..4),
        any::<bool>(),
    );
    (
        prop::collection::vec(entry, 0..20),
        any::<bool>(),
        0usize..9,
    )
        .prop_map(|(entries, group, read)| {
            let mut stream = Stream::new();
            if group {
                stream.create_group(b"g", StreamId::MIN, Some(0));
            }
            let mut now = 1000;
            for (step, fields, delete) in entries {
                now += step;
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(f, v)| (f.as_slice(), v.as_slice()))
                    .collect();
                let id = stream.add(NewId::Auto, now, &fields, &limits()).unwrap();
                if delete && group {
                    stream.delete(id);
                }
            }
            if group {
                stream.deliver(b"g", b"one", read, false, now);
                stream.deliver(b"g", b"two", 1, false, now + 1);
                let ids: Vec<StreamId> = stream
                    .iter(StreamId::MIN, StreamId::MAX)
                    .map(|entry| entry.id)
                    .collect();
                stream.claim(
                    b"g",
                    b"three",
                    &ids[..ids.len().min(2)],
                    Claim::default(),
                    now + 9,
                );
            }
            stream.into()
        })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|bytes| StringValue::new(&bytes).into()),
        prop::collection::vec(text(), 1..20).prop_map(|elements| {
            let mut list = List::new();
            elements
                .iter()
                .for_each(|element| list.push(End::Back, element, &limits()));
            list.into()
        }),
        prop::collection::btree_map(text(), text(), 1..10).prop_map(|fields| {
            let mut hash = Hash::new();
            for (field, value) in &fields {
                hash.set(field, value, &limits());
            }
            hash.into()
        }),
        prop::collection::vec(text(), 1..14).prop_map(|members| {
            let mut set = Set::new();
            for member in &members {
                set.add(member, &limits());
            }
            set.into()
        }),
        prop::collection::vec(any::<i32>(), 1..9).prop_map(|members| {
            let mut set = Set::new();
            for member in &members {
                set.add(member.to_string().as_bytes(), &limits());
            }
            set.into()
        }),
        prop::collection::vec((text(), any::<f64>()), 1..10).prop_map(|members| {
            let mut set = SortedSet::new();
            for (member, score) in &members {
                let score = if score.is_nan() { 0.5 } else { *score };
                set.add(score, member, AddOptions::default(), &limits())
                    .unwrap();
            }
            set.into()
        }),
        stream(),
    ]
}

proptest! {
    #[test]
    fn payloads_come_back(value in value()) {
        let payload = dump(&value);
        prop_assert_eq!(restore(&payload, &limits()), Ok(value.clone()));
        prop_assert_eq!(restore(&payload, &Thresholds::REDIS), Ok(value.clone()));
        let tiny = Thresholds { hash_max_listpack_entries: 0, zset_max_listpack_entries: 0, set_max_intset_entries: 0, ..limits() };
        prop_assert_eq!(restore(&payload, &tiny), Ok(value));
    }

    #[test]
    fn any_flipped_bit_is_seen(value in value(), place in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut payload = dump(&value);
        let at = place.index(payload.len());
        payload[at] ^= 1 << bit;
        prop_assert_eq!(restore(&payload, &limits()), Err(ValueError::Payload));
    }

    /// Damage behind a checksum that is made to match gives a value or an error, and what it gives
    /// can be dumped again.
    #[test]
    fn damage_never_panics(value in value(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut payload = dump(&value);
        payload.truncate(payload.len() - 8);
        for (place, byte) in edits {
            let at = place.index(payload.len() - 2);
            payload[at] = byte;
        }
        let mut sum = crc();
        sum.update(&payload);
        payload.extend_from_slice(&sum.finalize().to_le_bytes());
        if let Ok(value) = restore(&payload, &limits()) {
            prop_assert_eq!(restore(&dump(&value), &limits()), Ok(value));
        }
    }

    #[test]
    fn files_come_back(values in prop::collection::vec((text(), value(), proptest::option::of(any::<i64>())), 0..12), cut in any::<prop::sample::Index>()) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.note(b"redis-ver", b"7.0.15").unwrap();
        writer.function(b"#!lua name=x\n").unwrap();
        writer.database(3, values.len() as u64, 0).unwrap();
        for (key, value, expires_ms) in &values {
            writer.key(key, value, *expires_ms).unwrap();
        }
        let file = writer.finish().unwrap();
        let mut expected = vec![
            Item::Note { name: b"redis-ver".to_vec(), value: b"7.0.15".to_vec() },
            Item::Function(b"#!lua name=x\n".to_vec()),
            Item::Database(3),
            Item::Sizes { keys: values.len() as u64, expires: 0 },
        ];
        expected.extend(values.into_iter().map(|(key, value, expires_ms)| {
            Item::Key(Box::new(KeyItem { key, value, expires_ms, idle_s: None, frequency: None }))
        }));
        prop_assert_eq!(items(&file).unwrap(), expected);
        let cut = cut.index(file.len());
        prop_assert!(items(&file[..cut]).is_err());
    }
}

fn items(file: &[u8]) -> Result<Vec<Item>, RdbError> {
    let mut reader = Reader::new(file, limits())?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

/// A payload of an older form.
fn old(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind];
    payload.extend_from_slice(content);
    payload.extend_from_slice(&9u16.to_le_bytes());
    let mut sum = crc();
    sum.update(&payload);
    payload.extend_from_slice(&sum.finalize().to_le_bytes());
    payload
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// "a", 1, 300, 70000, "bcd" as Redis 6 packs them.
fn ziplist() -> Vec<u8> {
    let body = [
        b"\x00\x01a".as_slice(),
        b"\x03\xf2",
        b"\x02\xc0\x2c\x01",
        b"\x04\xf0\x70\x11\x01",
        b"\x05\x03bcd",
    ]
    .concat();
    let total = u32::try_from(10 + body.len() + 1).unwrap();
    let tail = total - 6;
    [
        &total.to_le_bytes()[..],
        &tail.to_le_bytes(),
        &5u16.to_le_bytes(),
        &body,
        b"\xff",
    ]
    .concat()
}

#[test]
fn forms_of_older_versions_are_read() {
    let limits = Thresholds::REDIS;
    let elements: Vec<&[u8]> = vec![b"a", b"1", b"300", b"70000", b"bcd"];
    let mut list = List::new();
    elements
        .iter()
        .for_each(|element| list.push(End::Back, element, &limits));
    let expected: Value = list.into();
    let zip = string(&ziplist());
    assert_eq!(
        restore(&old(kind::LIST_ZIPLIST, &zip), &limits),
        Ok(expected.clone())
    );
    let quick = [b"\x01".as_slice(), &zip].concat();
    assert_eq!(
        restore(&old(kind::LIST_QUICKLIST, &quick), &limits),
        Ok(expected.clone())
    );
    let plain = [
        b"\x05\x01a".as_slice(),
        b"\xc0\x01",
        b"\xc1\x2c\x01",
        b"\xc2\x70\x11\x01\x00",
        b"\x03bcd",
    ]
    .concat();
    assert_eq!(restore(&old(kind::LIST, &plain), &limits), Ok(expected));
    // Five elements are no pairs.
    assert_eq!(
        restore(&old(kind::HASH_ZIPLIST, &zip), &limits),
        Err(ValueError::PayloadContent)
    );

    let mut hash = Hash::new();
    hash.set(b"foo", b"bar", &limits);
    hash.set(b"hello", b"world", &limits);
    let zipmap = string(b"\x02\x03foo\x03\x00bar\x05hello\x05\x02world..\xff");
    assert_eq!(
        restore(&old(kind::HASH_ZIPMAP, &zipmap), &limits),
        Ok(hash.into())
    );

    let mut set = SortedSet::new();
    set.add(1.5, b"x", AddOptions::default(), &limits).unwrap();
    set.add(f64::INFINITY, b"y", AddOptions::default(), &limits)
        .unwrap();
    let scores = b"\x02\x01x\x031.5\x01y\xfe";
    assert_eq!(
        restore(&old(kind::SORTED_SET, scores), &limits),
        Ok(set.into())
    );
}

#[test]
fn compressed_strings_are_read() {
    // A run of one byte, a reference of 9 bytes, a run.
    let packed = b"\x00a\xe0\x00\x00\x01bc";
    let content = [b"\xc3\x08\x0c".as_slice(), packed].concat();
    let expected: Value = StringValue::new(b"aaaaaaaaaabc").into();
    assert_eq!(
        restore(&old(kind::STRING, &content), &Thresholds::REDIS),
        Ok(expected)
    );
    for bad in [
        b"\xc3\x08\x0b".as_slice(),
        b"\xc3\x08\x0d",
        b"\xc3\x08\xc0\x00\x01",
    ] {
        let content = [bad, packed].concat();
        assert!(restore(&old(kind::STRING, &content), &Thresholds::REDIS).is_err());
    }
    assert_eq!(lzf::decompress(b"\x20\x00", 3), None);
    // A length that no input of this size can have is not believed.
    assert_eq!(lzf::decompress(b"\x00a", usize::MAX), None);
}

#[test]
fn lengths_are_believed_as_far_as_bytes_follow() {
    for content in [
        b"\x81\x00\x00\x00\x00\x7f\xff\xff\xff".as_slice(),
        b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\xff\xff\xff\xff",
    ] {
        for kind in 0..=19 {
            assert!(
                restore(&old(kind, content), &Thresholds::REDIS).is_err(),
                "{kind}"
            );
        }
    }
}

#[test]
fn errors_name_the_place() {
    let error = |file: &[u8]| items(file).unwrap_err().to_string();
    assert_eq!(
        error(b"REDIT0010"),
        "at byte 9: expected an RDB file (REDIS and a version), found REDIT0010; what stands before it can be read"
    );
    assert_eq!(
        error(b"REDIS0011\xff"),
        "at byte 9: an RDB file of version (11) is not supported; what stands before it can be read"
    );
    assert_eq!(
        error(b"REDIS0010\x07\x01k"),
        "at byte 12: a value of a module, of type (7) is not supported; what stands before it can be read"
    );
    assert_eq!(
        error(b"REDIS0010\x00\x01k\x05ab"),
        "at byte 15: expected more bytes, found the end; what stands before it can be read"
    );
    assert!(error(b"REDIS0010\xff12345678").contains("the checksum of the file"));
    assert_eq!(items(b"REDIS0010\xff\0\0\0\0\0\0\0\0").unwrap(), []);
    assert_eq!(items(b"REDIS0004\xff").unwrap(), []);
}

/// What redis-server 7.0.15 answers to FUNCTION DUMP.
const FUNCTIONS: &[u8] = b"\xf5@A#!lua name=q\nredis.register_function(\"q\",function() return 5 end)\n\x00\xc5\x04p\xd0Y(\x91\xa8";

#[test]
fn libraries_of_functions_are_dumped_as_redis_does() {
    let code = &FUNCTIONS[3..FUNCTIONS.len() - 10];
    assert_eq!(super::dump_functions([code]), FUNCTIONS);
    assert_eq!(super::restore_functions(FUNCTIONS).unwrap(), [code]);
    let none = super::dump_functions([]);
    assert_eq!(super::restore_functions(&none).unwrap().len(), 0);
    let two = super::dump_functions([code, b"12"]);
    assert_eq!(super::restore_functions(&two).unwrap(), [code, b"12"]);
    for end in 0..FUNCTIONS.len() {
        assert!(
            super::restore_functions(&FUNCTIONS[..end]).is_err(),
            "{end}"
        );
    }
    let string = crate::Value::String(crate::StringValue::new(b"12"));
    let other = super::restore_functions(&super::dump(&string));
    assert_eq!(other, Err(crate::ValueError::PayloadContent));
    let thresholds = crate::Thresholds::default();
    let value = super::restore(FUNCTIONS, &thresholds);
    assert_eq!(value.err(), Some(crate::ValueError::PayloadContent));
}
