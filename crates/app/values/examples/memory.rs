//! Measures what collections take: bytes of resident memory for each element, and what
//! `memory_bytes` estimates. `cargo run --example memory -p holdfast-values`.

use holdfast_values::{
    AddOptions, End, Hash, List, Set, SortedSet, Stream, Thresholds, Value, stream::NewId,
};

const ELEMENTS: usize = 1 << 20;
const LIMITS: Thresholds = Thresholds::REDIS;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = status
        .split(' ')
        .nth(1)
        .expect("resident pages")
        .parse()
        .expect("a number");
    pages * 4096
}

fn text(index: usize, bytes: usize) -> Vec<u8> {
    format!("{index:0>bytes$x}").into_bytes()
}

/// Builds a value and says what it took for each of `elements`.
fn measure(name: &str, elements: usize, build: impl FnOnce() -> Vec<Value>) {
    let before = resident_bytes();
    let values = build();
    let each = |bytes: usize| bytes as f64 / elements as f64;
    let taken = each(resident_bytes().saturating_sub(before));
    let estimated = each(values.iter().map(Value::memory_bytes).sum());
    println!("{name:<40} {taken:>8.1} resident {estimated:>8.1} estimated");
    // What is freed must not be taken again by the next case.
    std::mem::forget(values);
}

fn main() {
    measure("string (16)", ELEMENTS, || {
        (0..ELEMENTS)
            .map(|index| holdfast_values::StringValue::new(&text(index, 15)).into())
            .collect()
    });
    measure("small hash, 5 x (8, 16)", ELEMENTS / 4, || {
        let small = |index: usize| {
            let mut hash = Hash::new();
            for field in 0..5 {
                hash.set(&text(field, 8), &text(index, 16), &LIMITS);
            }
            hash.into()
        };
        (0..ELEMENTS / 4).map(small).collect()
    });
    measure("field of a big hash (12, 16)", ELEMENTS, || {
        let mut hash = Hash::new();
        (0..ELEMENTS)
            .for_each(|index| assert!(hash.set(&text(index, 12), &text(index, 16), &LIMITS)));
        vec![hash.into()]
    });
    measure("member of a big set (16)", ELEMENTS, || {
        let mut set = Set::new();
        (0..ELEMENTS).for_each(|index| assert!(set.add(&text(index, 16), &LIMITS)));
        vec![set.into()]
    });
    measure("member of a big sorted set (16)", ELEMENTS, || {
        let mut set = SortedSet::new();
        for index in 0..ELEMENTS {
            let score = (index.wrapping_mul(2_654_435_761) % ELEMENTS) as f64;
            set.add(score, &text(index, 16), AddOptions::default(), &LIMITS)
                .expect("a number");
        }
        vec![set.into()]
    });
    measure("element of a list (16)", ELEMENTS, || {
        let mut list = List::new();
        (0..ELEMENTS).for_each(|index| list.push(End::Back, &text(index, 16), &LIMITS));
        vec![list.into()]
    });
    measure("entry of a stream, 2 x (5, 16)", ELEMENTS, || {
        let mut stream = Stream::new();
        for index in 0..ELEMENTS {
            let value = text(index, 16);
            let fields: [(&[u8], &[u8]); 2] = [(b"first", &value), (b"other", &value)];
            stream
                .add(NewId::Auto, index as u64, &fields, &LIMITS)
                .expect("ascending ids");
        }
        vec![stream.into()]
    });
}
