//! The fuzz target of this crate, over the inputs that were kept.

extern crate holdfast_parity as parity;

#[path = "../../codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/parity.rs"]
mod parity_check;

#[test]
fn stripes() {
    corpus::replay("parity", parity_check::check);
}
