//! docs/formats/label.md and store-header.md say what the code does.

extern crate holdfast_redundancy as redundancy;

use redundancy::label::{LABEL_BYTES, Label, ObjectId, StoreIndex, StoreMask};
use redundancy::set::header::{Departure, FILE_NAME, OBJECT_KIND};
use redundancy::set::{Header, SetId, StoreId, Tenure};

#[path = "../../../ground/codec/tests/support/table.rs"]
mod table;
use table::Table;

#[test]
fn a_label_is_laid_out_as_documented() {
    let label = Label {
        id: ObjectId(0x0102_0304_0506_0708),
        home: StoreIndex(5),
        copies: StoreMask(0x21),
        set: 0x1122_3344_5566_7788,
    };
    let shown = codec::text(&label.fields());
    assert!(shown.contains("copies on stores  0, 5\n"), "{shown}");
    assert!(
        shown.contains("set               1122334455667788...\n"),
        "{shown}"
    );
    let bytes = label.encode();
    let table = Table::read("label.md", "## Version 1");
    assert_eq!(table.len(), LABEL_BYTES);
    let value = |field| table.value(field, &bytes);
    assert_eq!(value("version"), 1);
    assert_eq!(value("home"), 5);
    assert_eq!(table.bytes("reserved", &bytes), [0; 2]);
    assert_eq!(value("id"), label.id.0);
    assert_eq!(value("copies"), 0x21);
    assert_eq!(value("set"), label.set);
    let checksum = codec::crc32c(&table.without("checksum", &bytes));
    assert_eq!(value("checksum"), u64::from(checksum));
}

fn header() -> Header {
    let departure = Departure {
        generation: 4,
        mount_count: 6,
        mark: 0x0102_0304_0506_0708,
    };
    Header {
        set: SetId(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20),
        store: StoreId(0x2122),
        index: StoreIndex(1),
        copies: 2,
        created_s: -5,
        mount_count: 7,
        pending_starts: 0,
        members: StoreMask(0b10),
        history: vec![
            Tenure {
                generation: 5,
                epoch: 0x55,
            },
            Tenure {
                generation: 4,
                epoch: 0x44,
            },
        ],
        stores: vec![
            (StoreId(0x31), departure),
            (StoreId(0x2122), Departure::default()),
        ],
    }
}

#[test]
fn a_store_header_is_laid_out_as_documented() {
    let header = header();
    let sealed = header.encode();
    let object = codec::open_object(&sealed, OBJECT_KIND, None).unwrap();
    let payload = object.payload;
    assert_eq!((FILE_NAME, OBJECT_KIND, object.version), ("store", 2, 1));

    let head = Table::read("store-header.md", "### Head");
    let value = |field| head.value(field, payload);
    assert_eq!(head.bytes("set", payload), header.set.0.to_le_bytes());
    assert_eq!(head.bytes("store", payload), header.store.0.to_le_bytes());
    assert_eq!(value("place"), 1);
    assert_eq!(value("copies"), 2);
    assert_eq!(value("stores"), 2);
    assert_eq!(value("history"), 2);
    assert_eq!(value("pending starts"), 0);
    assert_eq!(value("created_s") as i64, -5);
    assert_eq!(value("mount_count"), 7);
    assert_eq!(value("members"), 0b10);

    let tenure = Table::read("store-header.md", "### Tenure");
    let mut rest = &payload[head.len()..];
    for expected in &header.history {
        assert_eq!(tenure.value("generation", rest), expected.generation);
        assert_eq!(tenure.value("epoch", rest), expected.epoch);
        rest = &rest[tenure.len()..];
    }
    let entry = Table::read("store-header.md", "### Entry of a store");
    for (id, departure) in &header.stores {
        assert_eq!(entry.bytes("id", rest), id.0.to_le_bytes());
        assert_eq!(entry.value("generation", rest), departure.generation);
        assert_eq!(entry.value("mount_count", rest), departure.mount_count);
        assert_eq!(entry.value("mark", rest), departure.mark);
        rest = &rest[entry.len()..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_store_header_is_sealed_for_its_set_place_and_generation() {
    let header = header();
    let sealed = header.encode();
    let identity = codec::open_object(&sealed, OBJECT_KIND, None)
        .unwrap()
        .identity;
    assert_eq!(identity.set, header.set.0.to_le_bytes());
    assert_eq!((identity.object, identity.generation), (1, 5));
}
