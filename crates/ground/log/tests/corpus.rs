//! The fuzz target of this crate, over the inputs that were kept.

extern crate holdfast_log as log;

#[path = "../../codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/segment.rs"]
mod segment;

#[test]
fn segments() {
    corpus::replay("segment", segment::check);
}
