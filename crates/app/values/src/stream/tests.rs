use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Thresholds;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone)]
enum Edit {
    Add(u64, Fields),
    Delete(usize),
    TrimLength(usize),
    TrimId(usize),
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(b'a'..b'd', 0..3),
        any::<i16>().prop_map(|n| n.to_string().into_bytes())
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        8 => (0u64..4, prop::collection::vec((text(), text()), 0..3)).prop_map(|(step, fields)| Edit::Add(step, fields)),
        2 => (0usize..40).prop_map(Edit::Delete),
        1 => (0usize..40).prop_map(Edit::TrimLength),
        1 => (0usize..10).prop_map(Edit::TrimId),
    ]
}

fn owned(entry: StreamEntry<'_>) -> (StreamId, Fields) {
    let fields = entry
        .fields
        .into_iter()
        .map(|(field, value)| (field.to_vec(), value.to_vec()));
    (entry.id, fields.collect())
}

proptest! {
    #[test]
    fn edits_are_those_of_a_map(edits in prop::collection::vec(edit(), 0..120), most in 1usize..8) {
        let limits = Thresholds { stream_node_max_entries: most, ..Thresholds::REDIS };
        let (mut stream, mut model) = (Stream::new(), BTreeMap::<StreamId, Fields>::new());
        let (mut now, mut added) = (1u64, 0u64);
        for edit in edits {
            let nth = |index: usize| model.keys().nth(index).copied();
            match edit {
                Edit::Add(step, fields) => {
                    now += step;
                    let given: Vec<_> = fields.iter().map(|(f, v)| (f.as_slice(), v.as_slice())).collect();
                    let last = stream.last_id();
                    let id = stream.add(NewId::Auto, now, &given, &limits).unwrap();
                    prop_assert!(id > last && id.ms >= now);
                    model.insert(id, fields);
                    added += 1;
                }
                Edit::Delete(index) => {
                    let id = nth(index).unwrap_or(StreamId::new(0, 5));
                    prop_assert_eq!(stream.delete(id), model.remove(&id).is_some());
                }
                Edit::TrimLength(length) => {
                    let goes = model.len().saturating_sub(length);
                    prop_assert_eq!(stream.trim(TrimBy::Length(length), false, 0), goes);
                    for _ in 0..goes { model.pop_first(); }
                }
                Edit::TrimId(index) => {
                    let id = nth(index).unwrap_or(StreamId::MAX);
                    let kept = model.split_off(&id);
                    prop_assert_eq!(stream.trim(TrimBy::Id(id), false, 0), model.len());
                    model = kept;
                }
            }
            prop_assert_eq!(stream.len(), model.len());
            prop_assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
        }
        let all: Vec<_> = stream.iter(StreamId::MIN, StreamId::MAX).map(owned).collect();
        let expected: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(&all, &expected);
        let mut back: Vec<_> = stream.iter_back(StreamId::MIN, StreamId::MAX).map(owned).collect();
        back.reverse();
        prop_assert_eq!(back, expected);
        prop_assert_eq!(stream.entries_added(), added);
        for (master, pack) in stream.nodes() {
            prop_assert_eq!(node::checked_count(master, pack), Some(node::present(pack)));
        }
        for (id, fields) in &model {
            let around: Vec<_> = stream.iter(*id, StreamId::new(id.ms + 2, 0)).map(owned).collect();
            let expected: Vec<_> = model.range(*id..=StreamId::new(id.ms + 2, 0)).map(|(id, fields)| (*id, fields.clone())).collect();
            prop_assert_eq!(around, expected);
            prop_assert_eq!(stream.get(*id).map(owned), Some((*id, fields.clone())));
        }
    }

    /// What is pending for a group is what is pending for its consumers.
    #[test]
    fn deliveries_have_one_owner(steps in prop::collection::vec((0u8..6, 0usize..3, 0u64..30), 0..80)) {
        let mut stream = Stream::new();
        stream.create_group(b"g", StreamId::MIN, None);
        for (now, (step, who, number)) in (100u64..).zip(steps) {
            let name = [b"a".as_slice(), b"b", b"c"][who];
            let id = StreamId::new(100 + number, 0);
            match step {
                0 | 1 => { stream.add(NewId::Auto, now, &[(b"f", b"v")], &Thresholds::REDIS).unwrap(); }
                2 => { stream.deliver(b"g", name, 3, false, now); }
                3 => { stream.claim(b"g", name, &[id], Claim { force: true, ..Claim::default() }, now); }
                4 => { stream.group_mut(b"g").unwrap().acknowledge(id); stream.delete(id); }
                _ => { stream.group_mut(b"g").unwrap().delete_consumer(name); }
            }
            let group = stream.group(b"g").unwrap();
            let of_group: Vec<_> = group.pending(StreamId::MIN, StreamId::MAX).map(|one| (one.id, one.consumer.to_vec())).collect();
            let mut of_consumers: Vec<_> = group.consumers()
                .flat_map(|one| one.pending().map(|id| (id, one.name().to_vec())).collect::<Vec<_>>()).collect();
            of_consumers.sort();
            prop_assert_eq!(of_group, of_consumers);
        }
    }
}

#[test]
fn ids_are_read_and_bounded() {
    assert_eq!(StreamId::parse(b"5-7", 0), Ok(StreamId::new(5, 7)));
    assert_eq!(
        StreamId::parse(b"5", u64::MAX),
        Ok(StreamId::new(5, u64::MAX))
    );
    for bad in [
        "",
        "-",
        "5-",
        "-5",
        "a",
        "5-7-9",
        "05",
        "5-x",
        "18446744073709551616",
    ] {
        assert_eq!(
            StreamId::parse(bad.as_bytes(), 0),
            Err(ValueError::StreamId),
            "{bad}"
        );
    }
    assert_eq!(StreamId::MAX.next(), None);
    assert_eq!(StreamId::MIN.previous(), None);
    assert_eq!(StreamId::new(5, u64::MAX).next(), Some(StreamId::new(6, 0)));
    let mut stream = Stream::new();
    let mut add = |wanted| stream.add(wanted, 10, &[(b"f", b"v")], &Thresholds::REDIS);
    assert_eq!(
        add(NewId::Exact(StreamId::MIN)),
        Err(ValueError::StreamIdZero)
    );
    assert_eq!(add(NewId::AutoSequence(0)), Ok(StreamId::new(0, 1)));
    assert_eq!(add(NewId::Auto), Ok(StreamId::new(10, 0)));
    assert_eq!(add(NewId::Auto), Ok(StreamId::new(10, 1)));
    assert_eq!(
        add(NewId::Exact(StreamId::new(10, 1))),
        Err(ValueError::StreamIdSmall)
    );
    assert_eq!(add(NewId::Exact(StreamId::MAX)), Ok(StreamId::MAX));
    assert_eq!(add(NewId::Auto), Err(ValueError::StreamExhausted));
}

#[test]
fn an_approximate_trim_removes_whole_nodes() {
    let limits = Thresholds {
        stream_node_max_entries: 10,
        ..Thresholds::REDIS
    };
    let mut stream = Stream::new();
    for now in 1..=95 {
        stream
            .add(NewId::Auto, now, &[(b"f", b"v")], &limits)
            .unwrap();
    }
    assert_eq!(stream.trim(TrimBy::Length(44), true, 0), 50);
    assert_eq!(stream.trim(TrimBy::Length(0), true, 25), 20);
    assert_eq!(stream.trim(TrimBy::Length(0), true, 0), 25);
    assert!(stream.is_empty());
    assert_eq!(stream.last_id(), StreamId::new(95, 0));
    assert_eq!(stream.set_id(StreamId::new(3, 0), None, None), Ok(()));
}
