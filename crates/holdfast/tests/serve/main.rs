//! The main job with real processes and a real mount: start, refusals beside it, stop, SIGKILL, and
//! what happens to the stores meanwhile. Needs root and /dev/fuse.

mod behind;
mod damage;
mod disks;
mod encoding;
mod images;
mod place;

use place::{Place, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn sync(path: &Path) {
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .expect("fsync");
}

#[test]
fn a_set_is_served_asked_and_stopped() {
    let mut place = Place::new();
    place.up();
    assert!(
        place
            .log()
            .contains("redundant: yes, may lose 1 more store")
    );
    fs::write(place.path("mnt/letter"), "kept").expect("a write");

    let status = place.run(&["status", "--json"]);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status.stderr));
    let status: redundancy::status::Status =
        serde_json::from_slice(&status.stdout).expect("the status");
    assert!(status.redundant && status.writable);
    assert_eq!(status.stores.len(), 3);

    let second = place.run(&["up", "mnt", "--store", "d", "--store", "e"]);
    assert_eq!(second.status.code(), Some(23), "{}", text(&second.stderr));
    fs::create_dir(place.path("other")).expect("a new directory");
    let same_stores = ["up", "other", "--store", "a", "--store", "b"];
    let second = place.run(&same_stores);
    assert_eq!(second.status.code(), Some(15), "{}", text(&second.stderr));

    let check = place.run(&["check"]);
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stderr));

    let open = fs::File::open(place.path("mnt/letter")).expect("the file");
    let busy = place.run(&["down"]);
    assert_eq!(busy.status.code(), Some(25), "{}", text(&busy.stderr));
    drop(open);
    let down = place.run(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", text(&down.stderr));
    assert_eq!(place.ended(), Some(0), "{}", place.log());

    let copies = ["a", "b", "c"].map(|store| place.path(store).join("data/letter"));
    let held: Vec<&PathBuf> = copies.iter().filter(|path| path.exists()).collect();
    assert_eq!(held.len(), 2, "two copies, as plain files");
    for path in held {
        assert_eq!(fs::read_to_string(path).expect("a plain file"), "kept");
        let shown = place.run(&["inspect", path.to_str().expect("UTF-8")]);
        assert!(text(&shown.stdout).contains("home store"), "{shown:?}");
    }
    let nobody = place.run(&["status"]);
    assert_eq!(nobody.status.code(), Some(5), "{}", text(&nobody.stderr));
}

#[test]
fn after_sigkill_the_next_start_clears_the_mount_and_has_what_was_synced() {
    let mut place = Place::new();
    place.up();
    fs::write(place.path("mnt/letter"), "kept").expect("a write");
    sync(&place.path("mnt/letter"));
    place.signal(rustix::process::Signal::KILL);
    assert_eq!(place.ended(), None, "killed by a signal");
    assert!(
        fs::metadata(place.path("mnt")).is_err(),
        "the mount is dead"
    );
    place.up();
    assert!(place.log().contains("cleared"), "{}", place.log());
    let read = fs::read_to_string(place.path("mnt/letter")).expect("the file");
    assert_eq!(read, "kept");
    place.signal(rustix::process::Signal::TERM);
    assert_eq!(place.ended(), Some(0), "{}", place.log());
}

#[test]
fn an_unmount_from_outside_ends_the_process_cleanly() {
    let mut place = Place::new();
    place.up();
    rustix::mount::unmount(place.path("mnt"), rustix::mount::UnmountFlags::empty())
        .expect("nobody uses it");
    assert_eq!(place.ended(), Some(0), "{}", place.log());
    assert!(place.log().contains("unmounted from outside"));
}

#[test]
fn another_user_is_told_to_be_root() {
    let mut place = Place::new();
    place.up();
    for open in ["", "run"] {
        fs::set_permissions(place.path(open), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let binary = place.path("holdfast");
    fs::copy(env!("CARGO_BIN_EXE_holdfast"), &binary).expect("a copy that all may run");
    for words in [
        &["status"][..],
        &["down"],
        &["check", "mnt"],
        &["repair", "mnt"],
    ] {
        let output = Command::new(&binary)
            .args(words)
            .current_dir(place.path(""))
            .env("HOLDFAST_RUNTIME_DIR", place.path("run"))
            .uid(65_534)
            .output()
            .expect("it can be run");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(21), "{words:?}: {said}");
        assert!(said.contains("root"), "{said}");
    }
    place.down();
}
