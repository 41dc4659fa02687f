//! Rules for source files.

use super::{files, has_extension, none, read, root};
use std::path::{Path, PathBuf};

/// Most lines of a file; most should have about 150.
const LINES_MAX: usize = 800;

fn sources() -> Vec<PathBuf> {
    let script = |path: &Path| {
        let named = path.file_name().is_some_and(|name| name == "Makefile");
        let in_scripts = ["scripts", "tour", "tests", ".ci"]
            .iter()
            .any(|dir| path.starts_with(dir));
        named || in_scripts
    };
    files()
        .into_iter()
        .filter(|path| has_extension(path, &["rs", "toml", "sh", "service"]) || script(path))
        .collect()
}

#[test]
fn no_file_is_longer_than_800_lines() {
    let long = sources().into_iter().filter_map(|path| {
        let lines = read(&path).lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", path.display()))
    });
    none(long.collect());
}

#[test]
fn source_is_ascii() {
    let mut found = Vec::new();
    for path in sources() {
        for (number, line) in (1..).zip(read(&path).lines()) {
            if !line.is_ascii() {
                found.push(format!("{}:{number}: {line}", path.display()));
            }
        }
    }
    none(found);
}

#[test]
fn nothing_is_left_over() {
    // In two halves, so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("db", "g!("),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("#[", "allow("),
    ];
    let mut found = Vec::new();
    for path in sources() {
        let text = read(&path);
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(mark) = marks.iter().find(|mark| line.contains(**mark)) {
                found.push(format!("{}:{number}: {mark}", path.display()));
            }
        }
    }
    none(found);
}

#[test]
fn no_path_of_a_developers_machine_is_named() {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let texts = files().into_iter().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        has_extension(path, &["md", "snap", "trycmd"]) || name.is_some_and(|n| !n.contains("lock"))
    });
    let mut found = Vec::new();
    for path in texts {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(place) = places.iter().find(|place| line.contains(**place)) {
                found.push(format!("{}:{number}: {place}", path.display()));
            }
        }
    }
    none(found);
}

#[test]
fn every_crate_root_has_the_five_headings_and_a_doc_test() {
    const HEADINGS: [&str; 5] = [
        "# Promise",
        "# What it rests on",
        "# Invariants",
        "# On disk",
        "# How it is tested",
    ];
    let roots = files()
        .into_iter()
        .filter(|path| path.starts_with("crates") && path.ends_with("src/lib.rs"));
    let mut missing = Vec::new();
    for path in roots {
        let text = read(&path);
        let docs: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .map(str::trim)
            .collect();
        let lacks = |wanted: &&&str| !docs.contains(*wanted);
        let mut here: Vec<String> = HEADINGS
            .iter()
            .filter(lacks)
            .map(|heading| format!("{}: no heading \"{heading}\"", path.display()))
            .collect();
        if !docs.iter().any(|line| line.starts_with("```")) {
            here.push(format!("{}: no doc test", path.display()));
        }
        missing.append(&mut here);
    }
    none(missing);
}
