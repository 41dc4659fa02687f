//! Whole trees, compared by a checker that shares nothing with what it looks at.
//!
//! `HOLDFAST_TREE` is a tree to send, such as /usr, in place of a smaller one; `HOLDFAST_SMALL_FILES`
//! the number of small files in the tree of what is hard, such as 100000.

use crate::{Place, text, text_of};
use std::process::{Command, Output};

/// What the environment says, or what is usual.
fn or(variable: &str, usually: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usually.to_owned())
}

/// What makes trees and compares them, and shares nothing with what it looks at.
pub(crate) fn tree(words: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transfer/tree.py");
    let output = Command::new("python3").arg(script).args(words).output();
    output.expect("python3 runs")
}

/// Sends a tree; the checker finds it as it was, and `verify` by its manifest, of as many objects.
fn arrives(source: &str) {
    let place = Place::new();
    let (to, manifest) = (text_of(&place.path("to")), text_of(&place.path("manifest")));
    let holdfast = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(words)
            .output()
            .expect("a process");
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    holdfast(&["send", source, &to, "--manifest", &manifest]);
    let compared = tree(&["compare", source, &to]);
    assert!(compared.status.success(), "{}", text(&compared));
    let said = holdfast(&["verify", &manifest, &to, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let count = |name: &str| said[name].as_u64().expect("a number");
    let objects = format!("{} objects", count("files") + count("others"));
    assert!(
        text(&compared).contains(&objects),
        "{objects}, {}",
        text(&compared)
    );
}

#[test]
fn a_tree_of_what_is_hard_arrives_as_an_independent_checker_sees_it() {
    let place = Place::new();
    let source = place.path("hard");
    let source = source.to_str().expect("text");
    let made = tree(&["make", source, &or("HOLDFAST_SMALL_FILES", "3000")]);
    assert!(made.status.success(), "{}", text(&made));
    arrives(source);
}

/// The canary of the checker.
#[test]
fn the_independent_checker_sees_what_is_wrong() {
    let place = Place::new();
    let shell = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(place.home.path());
        assert!(shell.status().expect("sh").success(), "{line}");
    };
    shell(
        "mkdir -p a/dir; echo long > a/file; ln a/file a/dir/same; mkfifo a/pipe; ln -s x a/link",
    );
    shell("chmod 4755 a/file; setfattr -n user.x -v y a/file; truncate -s 9M a/hole");
    for (spoil, code) in [
        ("true", 0),
        (
            "printf '?' | dd of=b/file conv=notrunc status=none; touch -r a/file b/file",
            1,
        ),
        ("chmod u-s b/file", 1),
        ("setfattr -x user.x b/file", 1),
        (
            "cp -a b/file b/new; rm b/dir/same; mv b/new b/dir/same; touch -r a/dir b/dir",
            1,
        ),
        ("rm b/pipe; touch b/pipe", 1),
        ("ln -sfn y b/link; touch -hr a/link b/link", 1),
        ("touch -d @1 b/dir", 1),
        ("rm b/hole; touch -r a b", 1),
        (
            "dd if=/dev/zero of=b/hole bs=1M count=9 status=none; touch -r a/hole b/hole",
            1,
        ),
    ] {
        shell("rm -rf b; cp -a a b");
        shell(spoil);
        let (a, b) = (place.path("a"), place.path("b"));
        let words = [
            "compare",
            a.to_str().expect("text"),
            b.to_str().expect("text"),
        ];
        let compared = tree(&words);
        assert_eq!(
            compared.status.code(),
            Some(code),
            "{spoil}: {}",
            text(&compared)
        );
    }
}

#[test]
fn a_real_tree_arrives_as_an_independent_checker_sees_it() {
    arrives(&or("HOLDFAST_TREE", "/usr/lib/python3"));
}
