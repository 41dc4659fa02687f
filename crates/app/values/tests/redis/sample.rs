//! Values of every type and form.

use holdfast_values::{
    AddOptions, End, Hash, List, Set, SortedSet, Stream, StreamId, StringValue, Thresholds, Value,
    geo, hyperloglog,
    stream::{Claim, NewId},
};

const LIMITS: Thresholds = Thresholds::REDIS;

/// Names, values, and when they expire.
pub(crate) fn values() -> Vec<(Vec<u8>, Value, Option<i64>)> {
    let mut all: Vec<(Vec<u8>, Value, Option<i64>)> = Vec::new();
    let mut put = |name: &str, value: Value| all.push((name.into(), value, None));
    for (name, text) in [
        ("int8", b"-7".as_slice()),
        ("int16", b"1234"),
        ("int32", b"-70000"),
        ("int64", b"123456789012345"),
        ("text", b"hello"),
        ("empty", b""),
        ("binary", b"\x00\xff\r\n\x80"),
        ("almost-int", b"007"),
    ] {
        put(name, StringValue::new(text).into());
    }
    put("long", StringValue::new(&[b'x'; 100_000]).into());
    for count in [1, 10, 5000] {
        put(&format!("list:{count}"), list(count));
        put(&format!("hash:{count}"), hash(count));
        put(&format!("set:{count}"), set(count, "m"));
        put(&format!("set:int:{count}"), set(count, ""));
        put(&format!("zset:{count}"), sorted_set(count));
        put(&format!("stream:{count}"), stream(count).into());
    }
    let mut wide = Set::new();
    for bits in 0..62 {
        wide.add((-(1i64 << bits)).to_string().as_bytes(), &LIMITS);
    }
    put("set:int:wide", wide.into());
    put("stream:groups", groups().into());
    put("stream:empty", Stream::new().into());
    for count in [3u32, 300, 9000] {
        let mut bytes = hyperloglog::create();
        for element in 0..count {
            hyperloglog::add(&mut bytes, &element.to_le_bytes(), &LIMITS).unwrap();
        }
        put(&format!("hll:{count}"), StringValue::Raw(bytes).into());
    }
    let mut places = SortedSet::new();
    for (index, (longitude, latitude)) in [(13.361_389, 38.115_556), (15.087_269, 37.502_669)]
        .iter()
        .enumerate()
    {
        let score = geo::Place::new(*longitude, *latitude).unwrap().score();
        places
            .add(
                score,
                format!("place{index}").as_bytes(),
                AddOptions::default(),
                &LIMITS,
            )
            .unwrap();
    }
    put("geo", places.into());
    all.push((
        b"expires".to_vec(),
        StringValue::new(b"later").into(),
        Some(4_102_444_800_123),
    ));
    all
}

fn list(count: usize) -> Value {
    let mut list = List::new();
    for element in 0..count {
        let value = if element % 3 == 0 {
            element.to_string()
        } else {
            format!("element {element}")
        };
        list.push(End::Back, value.as_bytes(), &LIMITS);
    }
    list.push(End::Front, &[b'y'; 20_000], &LIMITS);
    // Around the limits of the lengths that stand behind elements.
    for length in [
        125, 126, 127, 16_376, 16_377, 16_378, 16_379, 2_097_144, 2_097_145, 2_097_146, 2_097_147,
    ] {
        list.push(End::Back, &vec![b'z'; length], &LIMITS);
    }
    list.into()
}

fn hash(count: usize) -> Value {
    let mut hash = Hash::new();
    for field in 0..count {
        hash.set(
            format!("field{field}").as_bytes(),
            (field * 1000).to_string().as_bytes(),
            &LIMITS,
        );
    }
    hash.into()
}

fn set(count: usize, prefix: &str) -> Value {
    let mut set = Set::new();
    for member in 0..count {
        set.add(format!("{prefix}{}", member * 7).as_bytes(), &LIMITS);
    }
    set.into()
}

fn sorted_set(count: usize) -> Value {
    let mut set = SortedSet::new();
    for (member, score) in [
        ("inf", f64::INFINITY),
        ("-inf", f64::NEG_INFINITY),
        ("tenth", 0.1),
        ("zero", -0.0),
    ] {
        set.add(score, member.as_bytes(), AddOptions::default(), &LIMITS)
            .unwrap();
    }
    for member in 0..count {
        let score = (member % 100) as f64 * 1.25e10;
        set.add(
            score,
            format!("m{member}").as_bytes(),
            AddOptions::default(),
            &LIMITS,
        )
        .unwrap();
    }
    set.into()
}

fn stream(count: usize) -> Stream {
    let mut stream = Stream::new();
    for entry in 0..count {
        let value = entry.to_string();
        let same: [(&[u8], &[u8]); 2] = [(b"field", value.as_bytes()), (b"other", b"text")];
        let different: [(&[u8], &[u8]); 1] = [(value.as_bytes(), b"")];
        let fields: &[(&[u8], &[u8])] = if entry % 5 == 4 { &different } else { &same };
        stream
            .add(NewId::Auto, 1000 + entry as u64 / 3, fields, &LIMITS)
            .unwrap();
    }
    stream
}

fn groups() -> Stream {
    let mut stream = stream(40);
    stream.create_group(b"first", StreamId::MIN, Some(0));
    stream.create_group(b"second", StreamId::new(1003, 0), None);
    stream.deliver(b"first", b"one", 7, false, 5000);
    stream.deliver(b"first", b"two", 5, false, 6000);
    let ids: Vec<StreamId> = stream
        .iter(StreamId::MIN, StreamId::MAX)
        .map(|entry| entry.id)
        .take(3)
        .collect();
    stream.claim(b"first", b"three", &ids, Claim::default(), 7000);
    stream.group_mut(b"first").unwrap().acknowledge(ids[1]);
    stream.deliver(b"second", b"only", 100, true, 8000);
    stream.delete(StreamId::new(1005, 1));
    stream
}
