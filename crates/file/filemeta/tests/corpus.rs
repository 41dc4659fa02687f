//! The fuzz targets of this crate, over the inputs that were kept.

extern crate holdfast_filemeta as filemeta;

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/metadata_attribute.rs"]
mod metadata_attribute;
#[path = "../../../../fuzz/checks/metadata_object.rs"]
mod metadata_object;
#[path = "../../../../fuzz/checks/metadata_record.rs"]
mod metadata_record;

#[test]
fn attributes() {
    corpus::replay("metadata_attribute", metadata_attribute::check);
}

#[test]
fn objects() {
    corpus::replay("metadata_object", metadata_object::check);
}

#[test]
fn records() {
    corpus::replay("metadata_record", metadata_record::check);
}
