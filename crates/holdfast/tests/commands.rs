//! Runs the binary as a user does. Each case is a file in `tests/cmd`.

#[test]
fn commands_answer_as_recorded() {
    let runtime = tempfile::tempdir().expect("a temporary directory");
    let runtime = runtime.path().to_str().expect("a UTF-8 path");
    let cases = trycmd::TestCases::new();
    cases
        .env("HOLDFAST_RUNTIME_DIR", runtime)
        .env("HOLDFAST_LOG", "warn")
        .insert_var("[VERSION]", env!("CARGO_PKG_VERSION"))
        .expect("a valid variable name")
        .case("tests/cmd/*.trycmd");
    cases.run();
}
