//! Programs that run to their end: ours, and tools of others.

use std::process::Command;

/// Runs ours, wants this exit code, and gives back what it said.
pub(crate) fn ends_with(code: i32, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .env_remove("HOLDFAST_LOG")
        .args(words)
        .output()
        .expect("holdfast runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = printed + &said;
    assert_eq!(output.status.code(), Some(code), "{words:?}: {all}");
    all
}

/// A tool of others, which has to succeed; what it printed.
pub(crate) fn tool(name: &str, words: &[&str]) -> String {
    let output = Command::new(name)
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{name} (make test installs it): {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name} {words:?}: {printed}{said}");
    printed + &said
}
