//! The fuzz target of this crate, over the inputs that were kept.

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/kv.rs"]
mod requests;

#[test]
fn requests_records_and_users() {
    corpus::replay("kv", requests::check);
}
