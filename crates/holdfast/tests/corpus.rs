//! The fuzz target of this crate, over the inputs that were kept.

#[path = "../../../fuzz/checks/trace.rs"]
mod trace;

#[test]
fn traces() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/trace");
    let mut count = 0;
    for file in std::fs::read_dir(path).expect("the corpus") {
        let file = file.expect("an entry").path();
        println!("{}", file.display());
        trace::check(&std::fs::read(file).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{path} is empty");
}
