//! The fuzz targets of this crate, over the inputs that were kept.

extern crate holdfast_redundancy as redundancy;

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/differential.rs"]
mod differential;
#[path = "../../../../fuzz/checks/intent.rs"]
mod intent;
#[path = "../../../../fuzz/checks/label.rs"]
mod label;
#[path = "../../../../fuzz/checks/shard.rs"]
mod shard;
#[path = "../../../../fuzz/checks/store_header.rs"]
mod store_header;

#[test]
fn labels() {
    corpus::replay("label", label::check);
}

#[test]
fn store_headers() {
    corpus::replay("store_header", store_header::check);
}

#[test]
fn intent_records() {
    corpus::replay("intent", intent::check);
}

#[test]
fn shards_and_merge_notes() {
    corpus::replay("shard", shard::check);
}

#[test]
fn segments_of_differentials() {
    corpus::replay("differential", differential::check);
}
