//! The main job with real processes and a real mount: start, refusals beside it, stop, SIGKILL.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Longest wait for a start or a stop, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory with three stores and a mount point; whatever serves it ends with it.
struct Place {
    dir: tempfile::TempDir,
    serving: Option<Child>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary directory on a disk");
        fs::create_dir(dir.path().join("mnt")).expect("a new directory");
        Place { dir, serving: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command
            .args(words)
            .current_dir(self.dir.path())
            .env_remove("HOLDFAST_CONFIG")
            .env("HOLDFAST_RUNTIME_DIR", self.path("run"));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the binary can be run")
    }

    /// Starts to serve, and returns when the process says that it is ready.
    fn up(&mut self) {
        let notify = self.path("notify");
        let _none = fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify).expect("a socket");
        ready.set_read_timeout(Some(LIMIT)).expect("a time limit");
        let log = fs::File::create(self.path("log")).expect("a log");
        let child = self
            .command(&["up", "mnt", "--store", "a", "--store", "b", "--store", "c"])
            .env("NOTIFY_SOCKET", &notify)
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary can be run");
        self.serving = Some(child);
        let mut buffer = [0; 256];
        let length = ready.recv(&mut buffer).unwrap_or_else(|error| {
            panic!("not ready ({error}): {}", self.log());
        });
        assert!(buffer[..length].starts_with(b"READY=1\n"));
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits for the end of what serves; its exit code.
    fn ended(&mut self) -> Option<i32> {
        let mut child = self.serving.take().expect("something serves");
        child.wait().expect("a child").code()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let child = self.serving.as_ref().expect("something serves");
        let pid = i32::try_from(child.id()).expect("a process id");
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("our child");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut child) = self.serving.take() {
            // Only after a failure: the test has waited for the end otherwise.
            let _gone = child.kill();
            let _gone = child.wait();
        }
        let flags = rustix::mount::UnmountFlags::DETACH;
        let _not_mounted = rustix::mount::unmount(self.path("mnt"), flags);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
