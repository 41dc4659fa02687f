//! The fuzz target of this crate, over the inputs that were kept.

extern crate holdfast_rpc as rpc;

#[path = "../../../../fuzz/checks/rpc.rs"]
mod frames;

#[test]
fn frames() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/rpc");
    let mut count = 0;
    for file in std::fs::read_dir(path).expect("the corpus") {
        let file = file.expect("an entry").path();
        println!("{}", file.display());
        frames::check(&std::fs::read(file).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{path} is empty");
}
