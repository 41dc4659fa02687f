//! What Redis 7.0.15 wrote: `golden/dumps-7.0.15.txt` has keys with the payloads that DUMP answered,
//! `golden/redis-7.0.15.rdb` is the file that SAVE wrote of the same keys.

use std::collections::BTreeMap;

use holdfast_values::{
    AddOptions, End, Hash, List, Set, SortedSet, Stream, StreamId, StringValue, Thresholds, Value,
    geo::Place,
    hyperloglog,
    rdb::{Item, Reader, Writer, dump, inspect, restore},
    stream::NewId,
};

const LIMITS: Thresholds = Thresholds::REDIS;

fn payloads() -> BTreeMap<String, Vec<u8>> {
    let line = |line: &str| {
        let (key, hex) = line.split_once(' ').unwrap();
        let digits = hex
            .as_bytes()
            .chunks(2)
            .map(|two| std::str::from_utf8(two).unwrap());
        (
            key.to_owned(),
            digits
                .map(|two| u8::from_str_radix(two, 16).unwrap())
                .collect(),
        )
    };
    include_str!("golden/dumps-7.0.15.txt")
        .lines()
        .map(line)
        .collect()
}

/// The values as the commands that made them say.
fn values() -> BTreeMap<String, Value> {
    let string = |text: &[u8]| Value::from(StringValue::new(text));
    let list = |elements: &[&str]| {
        let mut list = List::new();
        elements
            .iter()
            .for_each(|element| list.push(End::Back, element.as_bytes(), &LIMITS));
        Value::from(list)
    };
    let hash = || {
        let mut hash = Hash::new();
        for (field, value) in [("a", "1"), ("b", "two"), ("c", "3.5")] {
            hash.set(field.as_bytes(), value.as_bytes(), &LIMITS);
        }
        Value::from(hash)
    };
    let set = |members: &[&str]| {
        let mut set = Set::new();
        members
            .iter()
            .for_each(|member| assert!(set.add(member.as_bytes(), &LIMITS)));
        Value::from(set)
    };
    let sorted = |members: &[(&str, f64)]| {
        let mut set = SortedSet::new();
        for (member, score) in members {
            set.add(*score, member.as_bytes(), AddOptions::default(), &LIMITS)
                .unwrap();
        }
        Value::from(set)
    };
    let place = |longitude, latitude| Place::new(longitude, latitude).unwrap().score();
    let mut estimate = hyperloglog::create();
    for element in "abcdefg".bytes() {
        hyperloglog::add(&mut estimate, &[element], &LIMITS).unwrap();
    }
    let (inf, low) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut long = vec![0; 3003];
    long[3000..].copy_from_slice(b"end");
    [
        ("int", string(b"12345")),
        ("big", string(b"9999999999")),
        ("text", string(b"hello")),
        ("later", string(b"x")),
        ("lzf", string(&long)),
        (
            "list",
            list(&["a", "b", "c", "1", "300", "-70000", "99999999999"]),
        ),
        ("list:nodes", list(&["a", "b", "c", "d", "e"])),
        ("hash", hash()),
        ("hash:table", hash()),
        ("ints", set(&["1", "2", "-5", "70000"])),
        ("set", set(&["a", "b", "c", "1"])),
        ("set:table", set(&["1", "2", "3"])),
        (
            "zset",
            sorted(&[("a", 1.0), ("b", 2.5), ("c", inf), ("d", low), ("e", 0.1)]),
        ),
        ("zset:table", sorted(&[("a", 1.0), ("b", 2.5), ("c", inf)])),
        (
            "geo",
            sorted(&[
                ("Palermo", place(13.361389, 38.115556)),
                ("Catania", place(15.087269, 37.502669)),
            ]),
        ),
        ("hll", string(&estimate)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

#[test]
fn payloads_of_redis_are_read() {
    let (payloads, values) = (payloads(), values());
    assert_eq!(payloads.len(), values.len() + 1);
    for (key, value) in &values {
        assert_eq!(
            restore(&payloads[key], &LIMITS).as_ref(),
            Ok(value),
            "{key}"
        );
    }
}

#[test]
fn a_stream_of_redis_is_read() {
    let Value::Stream(stream) = restore(&payloads()["stream"], &LIMITS).unwrap() else {
        panic!("a stream");
    };
    let mut expected = Stream::new();
    for (ms, sequence, fields) in [
        (5, 1, [("a", "1"), ("b", "2")].as_slice()),
        (5, 2, &[("a", "3"), ("b", "4")]),
        (6, 0, &[("c", "5")]),
    ] {
        let fields: Vec<_> = fields
            .iter()
            .map(|(f, v)| (f.as_bytes(), v.as_bytes()))
            .collect();
        expected
            .add(
                NewId::Exact(StreamId::new(ms, sequence)),
                0,
                &fields,
                &LIMITS,
            )
            .unwrap();
    }
    expected.create_group(b"g", StreamId::MIN, None);
    let now = stream
        .group(b"g")
        .unwrap()
        .consumer(b"one")
        .unwrap()
        .seen_ms;
    expected.deliver(b"g", b"one", 2, false, now);
    expected
        .group_mut(b"g")
        .unwrap()
        .acknowledge(StreamId::new(5, 1));
    expected.delete(StreamId::new(6, 0));
    assert_eq!(*stream, expected);
}

#[test]
fn payloads_have_the_bytes_of_redis() {
    for (key, payload) in payloads() {
        // Tables come in another order or packed, and nothing is compressed here.
        if !key.ends_with("table") && key != "lzf" {
            assert_eq!(dump(&restore(&payload, &LIMITS).unwrap()), payload, "{key}");
        }
    }
}

#[test]
fn a_file_of_redis_is_read_and_written_again() {
    let file = include_bytes!("golden/redis-7.0.15.rdb");
    let items = read(file);
    let keys: BTreeMap<String, Value> = items
        .iter()
        .filter_map(|item| match item {
            Item::Key(item) => Some((
                String::from_utf8(item.key.clone()).unwrap(),
                item.value.clone(),
            )),
            _ => None,
        })
        .collect();
    let expected: BTreeMap<String, Value> = payloads()
        .into_iter()
        .map(|(key, payload)| (key, restore(&payload, &LIMITS).unwrap()))
        .collect();
    assert_eq!(keys, expected);
    assert!(items.contains(&Item::Note {
        name: b"redis-ver".to_vec(),
        value: b"7.0.15".to_vec()
    }));
    assert!(items.contains(&Item::Sizes {
        keys: 17,
        expires: 1
    }));
    let mut writer = Writer::new(Vec::new()).unwrap();
    for item in &items {
        match item {
            Item::Note { name, value } => writer.note(name, value).unwrap(),
            Item::Database(number) => writer.database(*number, 17, 1).unwrap(),
            Item::Key(item) => writer.key(&item.key, &item.value, item.expires_ms).unwrap(),
            Item::Sizes { .. } => {}
            Item::Function(code) => writer.function(code).unwrap(),
        }
    }
    assert_eq!(read(&writer.finish().unwrap()), items);
}

#[test]
fn a_file_is_shown_up_to_where_it_is_damaged() {
    let file = include_bytes!("golden/redis-7.0.15.rdb");
    let (fields, whole) = inspect(file.as_slice());
    assert!(whole);
    let field = |name: &str| {
        fields
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(field("version"), Some("10"));
    assert_eq!(field("note redis-ver"), Some("7.0.15"));
    assert_eq!(field("database 0, list keys"), Some("2"));
    assert_eq!(field("database 0, stream keys"), Some("1"));
    assert_eq!(field("database 0, keys that expire"), Some("1"));
    assert_eq!(field("bytes read"), Some(file.len().to_string().as_str()));
    let (fields, whole) = inspect(&file[..file.len() - 100]);
    assert!(!whole);
    assert!(
        fields
            .iter()
            .any(|(name, value)| name == "damage" && value.starts_with("at byte "))
    );
}

fn read(file: &[u8]) -> Vec<Item> {
    let mut reader = Reader::new(file, LIMITS).unwrap();
    std::iter::from_fn(|| reader.next_item().unwrap()).collect()
}
