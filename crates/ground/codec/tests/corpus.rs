//! The fuzz targets of this crate, over the inputs that were kept.

extern crate holdfast_codec as codec;

#[path = "support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/frame.rs"]
mod frame;
#[path = "../../../../fuzz/checks/object.rs"]
mod object;
#[path = "../../../../fuzz/checks/page.rs"]
mod page;

#[test]
fn objects() {
    corpus::replay("object", object::check);
}

#[test]
fn frames() {
    corpus::replay("frame", frame::check);
}

#[test]
fn pages() {
    corpus::replay("page", page::check);
}
