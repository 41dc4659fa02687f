//! A disk that is really full: a small tmpfs. Needs root, as `make test` does.

use env::errno::ErrorKind;
use holdfast_vlog::{Directory, Options, Sync, Vlog, VlogError, VlogId};
use std::path::Path;
use std::time::Duration;

/// A mounted tmpfs, unmounted at the end also when the test fails.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Nothing else can be done where this fails.
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

fn mount(path: &Path) {
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", path, "tmpfs", flags, c"size=1m").expect("root may mount");
}

fn enlarge(path: &Path) {
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount_remount(path, flags, c"size=8m").expect("root may mount");
}

#[test]
fn appends_are_refused_while_the_disk_is_full_and_nothing_that_was_taken_is_lost() {
    let home = tempfile::tempdir().unwrap();
    mount(home.path());
    let mounted = Mounted(home.path());
    let directory = || vec![Directory::open(home.path().to_str().unwrap()).unwrap()];
    let options = || Options {
        segment_bytes: 256 << 10,
        pending_bytes_max: 64 << 10,
        sync: Sync::Every(Duration::from_millis(5)),
        ..Options::default()
    };
    Vlog::create("db", directory(), VlogId(1)).unwrap();
    let (log, _) = Vlog::open_all("db", directory(), options()).unwrap();
    let mut taken = 0u32;
    let error = loop {
        assert!(taken < 10_000, "it never fills");
        match log.append(0, &taken.to_le_bytes().repeat(250), None) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(matches!(error, VlogError::Full { .. }), "{error}");
    assert_eq!(log.accepts(), Err(error));
    let refuses = log.status().refuses.expect("it says so");
    assert!(refuses.contains("make room"), "{refuses}");
    enlarge(home.path());
    // Its thread tries again by itself.
    for receipt in log.receipts() {
        log.durable(receipt).unwrap();
    }
    log.accepts().unwrap();
    log.append(0, b"there is room", None).unwrap();
    log.close().unwrap();
    let (log, records) = Vlog::open_all("db", directory(), options()).unwrap();
    assert_eq!(records.len() as u32, taken + 1);
    drop(log);
    drop(mounted);
}
