//! The fuzz targets of this crate, over the inputs that were kept.

extern crate holdfast_volume as volume;

#[path = "../../../ground/codec/tests/support/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/checks/volume.rs"]
mod disk;
#[path = "../../../../fuzz/checks/nbd.rs"]
mod nbd;
#[path = "../../../../fuzz/checks/recording.rs"]
mod recording;
#[path = "../../../../fuzz/checks/tree.rs"]
mod tree;

#[test]
fn trees() {
    corpus::replay("tree", tree::check);
}

#[test]
fn disks() {
    corpus::replay("volume", disk::check);
}

#[test]
fn clients() {
    corpus::replay("nbd", nbd::check);
}

#[test]
fn recordings() {
    corpus::replay("recording", recording::check);
}
