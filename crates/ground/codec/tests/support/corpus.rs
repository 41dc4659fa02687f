//! Replays the corpus of a fuzz target.

/// Calls `check` with each file of fuzz/corpus/`target`.
pub(crate) fn replay(target: &str, check: fn(&[u8])) {
    let path = format!(
        "{}/../../../fuzz/corpus/{target}",
        env!("CARGO_MANIFEST_DIR")
    );
    let files = std::fs::read_dir(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let mut count = 0;
    for file in files {
        let file = file.unwrap().path();
        println!("{}", file.display());
        check(&std::fs::read(file).unwrap());
        count += 1;
    }
    assert!(count > 0, "{path} is empty");
}
