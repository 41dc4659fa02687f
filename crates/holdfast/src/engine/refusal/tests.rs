use super::*;
use mount::Errno;
use std::path::PathBuf;

/// All messages of a family in one snapshot, apart by empty lines.
fn together(failures: impl IntoIterator<Item = Failure>) -> String {
    let texts: Vec<String> = failures.into_iter().map(|f| f.to_string()).collect();
    texts.join("\n\n")
}

fn reasons() -> Vec<RefuseReason> {
    vec![
        RefuseReason::OtherSet {
            expected: 0x5f0c_2f6a,
            found: 0xb2a7_e6c9,
        },
        RefuseReason::Diverged { found: 4 },
        RefuseReason::Older {
            found: 2,
            found_mount: 5,
            expected: 3,
            expected_mount: 7,
        },
        RefuseReason::Place { index: 1 },
        RefuseReason::NoMajority {
            present: 1,
            members: 2,
        },
        RefuseReason::NoHeader,
    ]
}

#[test]
fn refused_stores() {
    insta::assert_snapshot!(together(reasons().iter().map(refused)));
}

#[test]
fn sets_that_do_not_open() {
    let path = || "/mnt/b/store".to_owned();
    let errors = [
        OpenError::TooFew {
            stores: 1,
            copies: 2,
        },
        OpenError::TooMany { stores: 5, most: 3 },
        OpenError::NewSet {
            path: path(),
            why: "it is on a read-only file system".to_owned(),
        },
        OpenError::Journal {
            path: path(),
            why: "record 9 is of kind 2, and this version knows kind 1 only".to_owned(),
        },
        OpenError::Images {
            paths: vec![path(), "/mnt/c/store".to_owned()],
        },
        OpenError::Store {
            path: path(),
            doing: "writing its header",
            errno: Errno::IO,
        },
        OpenError::Recovery(Errno::IO),
    ];
    insta::assert_snapshot!(together(errors.iter().map(open)));
}

#[test]
fn directories_that_cannot_be_stores() {
    let path = || PathBuf::from("/mnt/b/store");
    let errors = [
        LocalStoreError::Locked { path: path() },
        LocalStoreError::NotLaidOut {
            path: path(),
            missing: "data",
        },
        LocalStoreError::NoXattrs {
            path: path(),
            errno: Errno::OPNOTSUPP,
        },
        LocalStoreError::Io {
            operation: "open",
            path: path(),
            errno: Errno::IO,
        },
    ];
    insta::assert_snapshot!(together(errors.iter().map(store)));
}

#[test]
fn mounts_that_cannot_be_made() {
    let path = || PathBuf::from("/srv/holdfast");
    let errors = [
        MountError::NoDevice,
        MountError::Kernel {
            capability: "FUSE_EXPORT_SUPPORT".to_owned(),
        },
        MountError::AlreadyMounted { path: path() },
        MountError::Stale { path: path() },
        MountError::Busy { path: path() },
    ];
    insta::assert_snapshot!(together(errors.iter().map(mounting)));
}

#[test]
fn stores_that_are_not_attached() {
    let errors = [
        AttachError::NoPlace,
        AttachError::NoHeader,
        AttachError::Store(Errno::IO),
        AttachError::Refused(RefuseReason::Diverged { found: 4 }),
    ];
    let path = Path::new("/mnt/b/store");
    insta::assert_snapshot!(together(errors.iter().map(|e| attach(path, e))));
}
