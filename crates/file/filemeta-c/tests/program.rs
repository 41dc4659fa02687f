//! The header as a C compiler sees it, and a C program that makes every call.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the static library: beside the directory of this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let deps = test.parent().expect("a directory");
    let beside = deps.parent().expect("a directory");
    [deps, beside]
        .map(|dir| dir.join("libholdfast_filemeta_c.a"))
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
fn a_c_program_makes_every_call() {
    // On a disk: file handles are needed.
    let place = tempfile::tempdir_in("/var/tmp").expect("a temporary directory");
    let program = place.path().join("program");
    let flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
    ];
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(here("include"))
        .arg(here("tests/program.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    for file in ["letter", "other"] {
        std::fs::write(place.path().join(file), b"content").expect("a file");
    }
    let said = run(Command::new(&program)
        .arg(place.path().join("metadata"))
        .arg(place.path())
        .arg("/proc/self/stat"));
    assert_eq!(said, "every call was made\n");
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
        .arg(here("include/holdfast_filemeta.h")));
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_library() {
    let header = std::fs::read_to_string(here("include/holdfast_filemeta.h")).expect("the header");
    let number = |name: &str| -> Option<i32> {
        let line = header.lines().find_map(|line| {
            line.strip_prefix("#define ")?
                .strip_prefix(name)?
                .strip_prefix(' ')
        })?;
        line.split_whitespace().next()?.parse().ok()
    };
    use filemeta::MetaError as E;
    let errno = env::errno::Errno::IO;
    let numbers = [
        (E::NoHandles { errno }, "HFM_NO_HANDLES"),
        (E::HandleTooLong { found: 1, max: 1 }, "HFM_HANDLE_TOO_LONG"),
        (E::NoStore, "HFM_NO_STORE"),
        (E::Exists, "HFM_EXISTS"),
        (E::Busy, "HFM_BUSY"),
        (E::AttributeName, "HFM_ATTRIBUTE_NAME"),
        (E::OwnerGone, "HFM_OWNER_GONE"),
        (E::NoSuchEntry, "HFM_NO_SUCH_ENTRY"),
        (
            E::OutOfRange {
                offset: 0,
                end: 1,
                length: 0,
            },
            "HFM_OUT_OF_RANGE",
        ),
        (
            E::TooLong {
                what: "",
                found: 1,
                max: 0,
            },
            "HFM_TOO_LONG",
        ),
        (
            E::NoAttributeSpace { bytes: 1, errno },
            "HFM_NO_ATTRIBUTE_SPACE",
        ),
        (E::NoSpace { doing: "", errno }, "HFM_NO_SPACE"),
        (E::JournalFull { bytes: 1 }, "HFM_JOURNAL_FULL"),
        (E::Stopped { doing: "", errno }, "HFM_STOPPED"),
        (E::Io { doing: "", errno }, "HFM_IO"),
    ];
    for (error, name) in numbers {
        assert_eq!(number(name), Some(error.code()), "{name}");
    }
    let all: Vec<i32> = header
        .lines()
        .filter_map(|line| {
            line.strip_prefix("#define HFM_")?
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()
        })
        .collect();
    let expected: Vec<i32> = (0..=25).chain(100..=102).collect();
    assert_eq!(all, expected, "each number once, in order");
}
