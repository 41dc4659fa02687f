use super::super::dirty::Manner;
use super::*;
use crate::label::{StoreIndex, StoreMask};
use crate::store::Node;

const DOCUMENT: &str = include_str!("../../../../../../docs/formats/intent-journal.md");

fn id(number: u64) -> ObjectId {
    ObjectId(number)
}

fn node(bytes: &[u8]) -> Node {
    Node(bytes.iter().copied().collect())
}

fn place(name: &[u8]) -> Place {
    Place {
        nodes: vec![
            (StoreIndex(0), node(&[0xa0, 0xa1])),
            (StoreIndex(2), node(&[0xc0])),
        ],
        parent: vec![(StoreIndex(0), node(&[0xd0]))],
        name: name.to_vec(),
    }
}

fn rename() -> Rename {
    Rename {
        moving: id(7),
        target: id(8),
        from: id(1),
        from_name: b"a".to_vec(),
        to: id(300),
        to_name: b"bc".to_vec(),
        manner: Manner::Exchange,
    }
}

/// Each kind of record and entry with the bytes of version 1, as on the page.
fn golden() -> Vec<(Record, &'static str)> {
    let touch = |entry, mask| Record::Touch(vec![(entry, mask)], Vec::new());
    vec![
        (Record::Base(id(0x0100_0000_0000)), "00 80 80 80 80 80 20"),
        (Record::BaseEnd, "01"),
        (touch(Entry::Names(id(1)), 0xff), "02 01 00 01 ff 00"),
        (
            touch(Entry::Attributes(id(300)), 0xff),
            "02 01 01 ac 02 ff 00",
        ),
        (
            touch(Entry::Region(id(7), 200), 0x81),
            "02 01 02 07 c8 01 81 00",
        ),
        (touch(Entry::Tail(id(7), 2), 0xff), "02 01 03 07 02 ff 00"),
        (
            Record::Touch(Vec::new(), vec![(id(7), place(b"f"))]),
            "02 00 01 07 02 00 02 a0 a1 02 01 c0 01 00 01 d0 01 66",
        ),
        (
            Record::Rename(rename()),
            "03 07 08 01 01 61 ac 02 02 62 63 01",
        ),
        (Record::Mark(id(0)), "04 00"),
        (Record::Settled(id(9)), "05 09"),
        (
            Record::Rename(Rename {
                manner: Manner::Replace {
                    both: StoreMask(0x81),
                },
                ..rename()
            }),
            "03 07 08 01 01 61 ac 02 02 62 63 00 81 01",
        ),
        (Record::Checkpoint(300), "06 ac 02"),
    ]
}

fn hex(bytes: &[u8]) -> String {
    let each: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    each.join(" ")
}

fn added_up(records: impl IntoIterator<Item = Record>) -> DirtySet {
    let mut replay = Replay::default();
    for record in records {
        replay.apply(record);
    }
    replay.state
}

#[test]
fn records_have_the_bytes_of_version_1_and_the_page_shows_them() {
    for (record, bytes) in golden() {
        assert_eq!(hex(&record.encode()), bytes, "{record:?}");
        assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
        assert!(DOCUMENT.contains(&format!("`{bytes}`")), "{bytes}");
    }
}

#[test]
fn a_record_that_is_cut_or_followed_by_more_is_refused() {
    for (record, _) in golden() {
        let bytes = record.encode();
        for cut in 0..bytes.len() {
            assert_eq!(
                Record::decode(&bytes[..cut]),
                None,
                "{record:?} cut at {cut}"
            );
        }
        let longer = [bytes, vec![0]].concat();
        assert_eq!(Record::decode(&longer), None, "{record:?}");
    }
}

#[test]
fn a_record_of_another_kind_is_refused_with_its_number() {
    let payload = Record::BaseEnd.encode();
    let error = Record::of_log(9, 2, &payload).unwrap_err();
    assert_eq!(
        error,
        RecordError::Kind {
            sequence: 9,
            kind: 2
        }
    );
    assert_eq!(
        error.to_string(),
        "record 9 is of kind 2, and this version knows kind 1 only; start the version that wrote it"
    );
    let error = Record::of_log(9, KIND, &[77]).unwrap_err();
    assert_eq!(error, RecordError::Encoding { sequence: 9 });
}

#[test]
fn an_empty_journal_says_that_nothing_is_active() {
    let state = added_up([]);
    assert!(state.is_empty());
    assert_eq!(state.mark, id(u64::MAX));
}

#[test]
fn a_complete_base_replaces_what_came_before() {
    let before = Record::Touch(vec![(Entry::Names(id(1)), 0xff)], Vec::new());
    let after = Record::Touch(vec![(Entry::Names(id(2)), 0xff)], Vec::new());
    let state = added_up([
        Record::Base(id(5)),
        before,
        Record::BaseEnd,
        Record::Base(id(9)),
        after,
        Record::BaseEnd,
    ]);
    assert_eq!(state.mark, id(9));
    let entries: Vec<_> = state.entries.keys().copied().collect();
    assert_eq!(entries, [Entry::Names(id(2))]);
}

#[test]
fn an_incomplete_base_adds_to_what_came_before() {
    let before = Record::Touch(vec![(Entry::Names(id(1)), 0xff)], Vec::new());
    let after = Record::Touch(vec![(Entry::Names(id(2)), 0xff)], Vec::new());
    let records = [
        Record::Base(id(5)),
        before,
        Record::BaseEnd,
        Record::Base(id(9)),
        after,
        Record::Rename(rename()),
    ];
    let state = added_up(records);
    assert_eq!(state.mark, id(5), "the older mark is the lower one");
    assert_eq!(state.entries.len(), 2);
    assert_eq!(state.renames, [rename()]);
}

#[test]
fn an_end_without_a_base_changes_nothing() {
    let touch = Record::Touch(vec![(Entry::Names(id(1)), 0xff)], Vec::new());
    let state = added_up([touch, Record::BaseEnd]);
    assert_eq!(state.entries.len(), 1);
}

#[test]
fn marks_only_fall_and_masks_only_grow() {
    let touch = |mask| Record::Touch(vec![(Entry::Region(id(7), 0), mask)], Vec::new());
    let state = added_up([
        Record::Mark(id(8)),
        touch(1),
        Record::Mark(id(5)),
        touch(4),
        Record::Mark(id(9)),
    ]);
    assert_eq!(state.mark, id(5));
    assert_eq!(state.entries[&Entry::Region(id(7), 0)], 5);
}

#[test]
fn the_number_of_a_checkpoint_stays_until_the_next_base() {
    let first = [Record::Base(id(5)), Record::Checkpoint(3), Record::BaseEnd];
    let touch = Record::Touch(vec![(Entry::Names(id(1)), 0xff)], Vec::new());
    let records = first.into_iter().chain([touch, Record::Base(id(9))]);
    assert_eq!(added_up(records.clone()).checkpoint, 3);
    let next = [Record::Checkpoint(4), Record::BaseEnd];
    assert_eq!(added_up(records.chain(next)).checkpoint, 4);
    assert_eq!(added_up([]).checkpoint, 0, "none is known");
}

#[test]
fn the_last_place_counts() {
    let at = |name: &[u8]| Record::Touch(Vec::new(), vec![(id(7), place(name))]);
    let state = added_up([at(b"old"), at(b"new")]);
    assert_eq!(state.places[&id(7)].name, b"new");
}

/// The corpus of the fuzz target begins with a record of each kind.
#[test]
fn the_corpus_holds_each_golden_record() {
    for (at, (record, _)) in golden().into_iter().enumerate() {
        let path = format!(
            "{}/../../../fuzz/corpus/intent/golden-{at}",
            env!("CARGO_MANIFEST_DIR")
        );
        assert_eq!(std::fs::read(&path).ok(), Some(record.encode()), "{path}");
    }
}
