//! Rules, held against rsync's own understanding of them.

use crate::place::Place;
use holdfast_transfer::filter::Filter;
use holdfast_transfer::{Level, Options, Settings, local};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn names(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(root).unwrap().to_path_buf());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

#[test]
fn rules_leave_out_what_rsync_leaves_out() {
    let place = Place::new();
    for dir in [
        "src/deep/src",
        "build/src",
        "a.o",
        "foo/bar/baz",
        "x/foo/bar",
        "foo.d",
    ] {
        fs::create_dir_all(place.source.join(dir)).unwrap();
    }
    for file in [
        "a.c",
        "b.o",
        "src/a.c",
        "src/b.o",
        "src/deep/c.o",
        "src/deep/src/d",
        "build/x",
        "a.o/in",
        "build/src/y",
        "foo/bar/1",
        "foo/bar/baz/2",
        "x/foo/bar/3",
        "foo.d/[x]",
        "foo.d/back\\s",
        "foo.d/a-b",
        "foo.d/abc",
        "foo.d/adc",
        "foo.d/a]c",
        ".hidden",
        "foo.d/.hidden",
        "foobar",
    ] {
        fs::write(place.source.join(file), file).unwrap();
    }
    let sets: &[&[&str]] = &[
        &["- *.o"],
        &["- /src"],
        &["- src/"],
        &["- /src/"],
        &["- src"],
        &["+ src/b.o", "- *.o"],
        &["- foo/bar"],
        &["- /foo/bar"],
        &["- foo/*/baz"],
        &["- foo/**"],
        &["- foo/***"],
        &["- /foo/***"],
        &["- x/**/3"],
        &["- **/bar"],
        &["- foo**"],
        &["- foo*bar"],
        &["- ?.c"],
        &["- a[a-c]c"],
        &["- a[!b]c"],
        &["- a[^b]c"],
        &["- a[]]c"],
        &["- a[b-]b"],
        &["- \\[x\\]"],
        &["- [[]x*"],
        &["- back\\s"],
        &["- back\\\\*"],
        &["- .*"],
        &["+ */", "+ *.c", "- *"],
        &["+ /src/", "+ /src/deep/", "+ /src/deep/c.o", "- *"],
        &["+ src/***", "- *"],
        &["- *"],
        &["- **"],
        &["- /*"],
        &["- /*/*"],
        &["- deep/src"],
        &["- d*p/s*/d"],
        &["- src/**/d"],
        &["- a.o/"],
    ];
    let (all, mut seen) = (names(&place.source), BTreeSet::new());
    for (number, rules) in sets.iter().enumerate() {
        let (ours, theirs) = (
            place.path(&format!("o{number}")),
            place.path(&format!("t{number}")),
        );
        let rules_of = rules.iter().map(|rule| rule.parse().expect(rule));
        let options = Options {
            level: Level::Wire,
            filter: Filter::new(rules_of.collect()),
            ..Options::default()
        };
        let sent = local(
            &place.source,
            &ours,
            &options,
            &Settings::default(),
            &mut |_| (),
        );
        assert!(sent.unwrap().is_whole());
        let mut rsync = Command::new("rsync");
        rsync
            .arg("-a")
            .args(rules.iter().map(|rule| format!("--filter={rule}")));
        let source = format!("{}/", place.source.display());
        assert!(
            rsync
                .arg(source)
                .arg(&theirs)
                .status()
                .expect("rsync")
                .success()
        );
        let left = names(&ours);
        assert_eq!(left, names(&theirs), "{rules:?}");
        assert!(left.len() < all.len(), "{rules:?} leaves nothing out");
        seen.insert(left);
    }
    assert!(seen.len() > 25, "{} of {} differ", seen.len(), sets.len());
}
