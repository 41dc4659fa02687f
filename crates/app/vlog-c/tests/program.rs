//! The header as a C compiler sees it, and a C program that makes every call.

use std::path::{Path, PathBuf};
use std::process::Command;
use vlog::VlogError;

/// Where cargo puts the static library: beside the directory of this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let deps = test.parent().expect("a directory");
    let beside = deps.parent().expect("a directory");
    [deps, beside]
        .map(|dir| dir.join("libholdfast_vlog_c.a"))
        .into_iter()
        .find(|path| path.is_file())
        .expect("cargo has built the static library")
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said.into_owned()
}

#[test]
fn a_c_program_makes_every_call_and_finds_what_it_had() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let program = place.path().join("program");
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(here("include"))
        .arg(here("tests/program.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    for directory in ["one", "two"] {
        std::fs::create_dir(place.path().join(directory)).expect("a directory");
    }
    for before in 0..3 {
        let said = run(Command::new(&program)
            .arg(place.path().join("one"))
            .arg(place.path().join("two"))
            .arg(before.to_string()));
        assert_eq!(said, "every call was made\n");
    }
}

#[test]
fn the_header_is_c_plus_plus_too() {
    let output = Command::new("c++").arg("--version").output();
    if output.is_err() {
        eprintln!("no C++ compiler is installed: the header was not tried with one");
        return;
    }
    let flags = ["-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
    run(Command::new("c++")
        .args(flags)
        .arg(here("include/holdfast_vlog.h")));
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_library() {
    let header = std::fs::read_to_string(here("include/holdfast_vlog.h")).expect("the header");
    let number = |name: &str| -> Option<i32> {
        let line = header.lines().find_map(|line| {
            line.strip_prefix("#define ")?
                .strip_prefix(name)?
                .strip_prefix(' ')
        })?;
        line.split_whitespace().next()?.parse().ok()
    };
    let file = String::new;
    let numbers = [
        (VlogError::Exists { file: file() }, "HVL_EXISTS"),
        (VlogError::Missing { file: file() }, "HVL_MISSING"),
        (VlogError::Busy { file: file() }, "HVL_BUSY"),
        (VlogError::Foreign { file: file() }, "HVL_FOREIGN"),
        (
            VlogError::Directories {
                expected: 1,
                found: 2,
            },
            "HVL_DIRECTORIES",
        ),
        (
            VlogError::Version {
                file: file(),
                found: 2,
                known: 1,
            },
            "HVL_VERSION",
        ),
        (VlogError::TooLong { found: 1, max: 0 }, "HVL_TOO_LONG"),
        (VlogError::NotLive, "HVL_NOT_LIVE"),
        (VlogError::Segments, "HVL_SEGMENTS"),
        (VlogError::Lost { file: file() }, "HVL_LOST"),
    ];
    for (error, name) in numbers {
        assert_eq!(number(name), Some(error.code()), "{name}");
    }
    let all: Vec<i32> = header
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("#define HVL_")?;
            if line.starts_with("SYNC_") {
                return None;
            }
            line.split_whitespace().nth(1)?.parse().ok()
        })
        .collect();
    let expected: Vec<i32> = (0..=15).chain(100..=101).collect();
    assert_eq!(all, expected, "each number once, in order");
}
