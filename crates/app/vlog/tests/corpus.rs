//! The fuzz target of this crate, over the inputs that were kept.

extern crate holdfast_vlog as vlog;

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/vlog.rs"]
mod files;

#[test]
fn files_of_logs() {
    corpus::replay("vlog", files::check);
}
