//! The fuzz targets of this crate, over the inputs that were kept.

extern crate holdfast_values as values;

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/redis_file.rs"]
mod redis_file;
#[path = "../../../../fuzz/checks/redis_payload.rs"]
mod redis_payload;

#[test]
fn payloads() {
    corpus::replay("redis_payload", redis_payload::check);
}

#[test]
fn files() {
    corpus::replay("redis_file", redis_file::check);
}
