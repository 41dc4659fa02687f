//! The header as a C compiler sees it, and a C program that makes every call.

use ffi::testing::{Library, run};
use std::process::Command;

const LIBRARY: Library<'_> = Library {
    crate_dir: env!("CARGO_MANIFEST_DIR"),
    library: "libholdfast_filemeta_c.a",
    header: "holdfast_filemeta.h",
};

#[test]
fn a_c_program_makes_every_call() {
    // On a disk: file handles are needed.
    let place = tempfile::tempdir_in("/var/tmp").expect("a temporary directory");
    let program = place.path().join("program");
    LIBRARY.compile(&["-D_GNU_SOURCE"], &program);
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
    LIBRARY.read_as_cpp();
}

#[test]
fn the_numbers_of_the_header_are_those_of_the_library() {
    let defined = LIBRARY.numbers("HFM_");
    let number = |name: &str| defined.iter().find(|d| d.0 == name).map(|d| d.1);
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
    let all: Vec<i32> = defined.iter().map(|d| d.1).collect();
    let expected: Vec<i32> = (0..=25).chain(100..=102).collect();
    assert_eq!(all, expected, "each number once, in order");
}
