//! The fuzz target of this crate, over the inputs that were kept.

extern crate holdfast_transfer as transfer;

use transfer::{Chunk, Entry, Meta, Piece, ToReceiver, ToSender, TreePath, What};

#[path = "../../../../fuzz/checks/transfer.rs"]
mod trees;

#[test]
fn messages_and_notes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/transfer");
    let mut count = 0;
    for file in std::fs::read_dir(path).expect("the corpus") {
        let file = file.expect("an entry").path();
        println!("{}", file.display());
        trees::check(&std::fs::read(file).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{path} is empty");
}

#[test]
fn a_message_of_our_own_passes_the_check() {
    let entry = Entry {
        path: TreePath::root().join(b"a").join(b"b"),
        meta: Meta::default(),
        what: What::Pipe,
    };
    let entries = vec![entry];
    let offer = ToReceiver::Offer { first: 3, entries };
    trees::check(&rpc::encode(&offer).expect("a message"));
    let pieces = vec![
        Piece::Sent(7),
        Piece::Old {
            from: 9,
            bytes: 4089,
        },
    ];
    let mixed = ToReceiver::Mixed {
        index: 3,
        offset: 4096,
        sums: vec![1],
        pieces,
    };
    trees::check(&rpc::encode(&mixed).expect("a message"));
    let chunk = Chunk {
        offset: 5,
        bytes: 6,
        hash: [7; 32],
    };
    let chunks = ToSender::Chunks {
        index: 3,
        chunks: vec![chunk; 3],
        last: true,
    };
    trees::check(&rpc::encode(&chunks).expect("a message"));
}
