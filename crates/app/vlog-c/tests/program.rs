//! The header as a C compiler sees it, and a C program that makes every call.

use ffi::testing::{Library, run};
use std::process::Command;
use vlog::VlogError;

const LIBRARY: Library<'_> = Library {
    crate_dir: env!("CARGO_MANIFEST_DIR"),
    library: "libholdfast_vlog_c.a",
    header: "holdfast_vlog.h",
};

#[test]
fn a_c_program_makes_every_call_and_finds_what_it_had() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let program = place.path().join("program");
    LIBRARY.compile(&[], &program);
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
    LIBRARY.read_as_cpp();
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_library() {
    let mut defined = LIBRARY.numbers("HVL_");
    defined.retain(|(name, _)| !name.starts_with("HVL_SYNC_"));
    let number = |name: &str| defined.iter().find(|d| d.0 == name).map(|d| d.1);
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
    let all: Vec<i32> = defined.iter().map(|d| d.1).collect();
    let expected: Vec<i32> = (0..=15).chain(100..=101).collect();
    assert_eq!(all, expected, "each number once, in order");
}
