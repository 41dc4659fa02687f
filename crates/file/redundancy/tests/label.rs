//! The label: its documented layout, and the fuzz target over the inputs that were kept.

extern crate holdfast_redundancy as redundancy;

use redundancy::label::{LABEL_BYTES, Label, ObjectId, StoreIndex, StoreMask};

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/label.rs"]
mod label;
#[path = "../../../ground/codec/tests/support/table.rs"]
mod table;
use table::Table;

#[test]
fn corpus_of_labels() {
    corpus::replay("label", label::check);
}

#[test]
fn a_label_is_laid_out_as_documented() {
    let label = Label {
        id: ObjectId(0x0102_0304_0506_0708),
        home: StoreIndex(5),
        copies: StoreMask(0x21),
        set: 0x1122_3344_5566_7788,
    };
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
