use super::{get_xattr, name_to_handle, open_by_handle};
use crate::errno::Errno;
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;

/// The crate's own source directory: on a file system with handles wherever the tests run.
fn directory() -> std::os::fd::OwnedFd {
    rustix::fs::open(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        OFlags::RDONLY | OFlags::DIRECTORY,
        Mode::empty(),
    )
    .expect("the source directory opens")
}

#[test]
fn a_handle_opens_the_object_that_it_was_taken_from() {
    let dir = directory();
    let (handle, _) = name_to_handle(dir.as_fd(), c"lib.rs").expect("has a handle");
    let opened = open_by_handle(dir.as_fd(), handle.as_bytes(), OFlags::RDONLY).expect("opens");
    let expected = rustix::fs::statat(&dir, "lib.rs", rustix::fs::AtFlags::empty()).expect("stat");
    assert_eq!(
        rustix::fs::fstat(&opened).expect("fstat").st_ino,
        expected.st_ino
    );
}

#[test]
fn strange_bytes_are_stale() {
    let dir = directory();
    for bytes in [&[][..], &[1, 2, 3], &[0xff; 64], &[1; 65]] {
        assert_eq!(
            open_by_handle(dir.as_fd(), bytes, OFlags::RDONLY).err(),
            Some(Errno::STALE),
            "{bytes:?}"
        );
    }
}

#[test]
fn an_attribute_that_is_not_set_is_no_data() {
    let dir = directory();
    let result = get_xattr(dir.as_fd(), c"lib.rs", c"user.none", &mut [0; 8]);
    assert_eq!(result, Err(Errno::NODATA));
}
