//! A set of stores that a test serves.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a start or a stop, on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A directory with three stores and a mount point; whatever serves it ends with it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    serving: Option<Child>,
    /// The stores, from the directory.
    pub(crate) stores: [String; 3],
    /// Further flags of `up`.
    pub(crate) flags: Vec<String>,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir_in("/var/tmp").expect("a temporary directory on a disk");
        fs::create_dir(dir.path().join("mnt")).expect("a new directory");
        Place {
            dir,
            serving: None,
            stores: ["a", "b", "c"].map(str::to_owned),
            flags: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command
            .args(words)
            .current_dir(self.dir.path())
            .env_remove("HOLDFAST_CONFIG")
            .env("HOLDFAST_RUNTIME_DIR", self.path("run"));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the binary can be run")
    }

    /// A command that is given the mount and the stores.
    pub(crate) fn of_set(&self, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command.arg("mnt");
        for store in &self.stores {
            command.args(["--store", store]);
        }
        command
    }

    /// What is in a store under a name of the tree.
    pub(crate) fn copy(&self, store: usize, name: &str) -> PathBuf {
        self.path(&self.stores[store]).join("data").join(name)
    }

    /// The stores whose directory has a name of the tree, whatever it is there.
    pub(crate) fn holders(&self, name: &str) -> Vec<usize> {
        (0..self.stores.len())
            .filter(|store| self.copy(*store, name).symlink_metadata().is_ok())
            .collect()
    }

    /// The store that decides for a file.
    pub(crate) fn home(&self, name: &str) -> usize {
        self.label(name, "home store").parse().expect("a number")
    }

    /// A field of a file's label.
    pub(crate) fn label(&self, name: &str, field: &str) -> String {
        let held = self.holders(name);
        let copy = self.copy(*held.first().expect("a copy"), name);
        let shown = self.run(&["inspect", "--json", copy.to_str().expect("UTF-8")]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let fields = shown["fields"].as_array().expect("fields");
        let found = fields.iter().find(|f| f[0] == field).expect("the field");
        found[1].as_str().expect("text").to_owned()
    }

    pub(crate) fn status(&self) -> redundancy::status::Status {
        let shown = self.run(&["status", "--json"]);
        serde_json::from_slice(&shown.stdout).expect("a status")
    }

    /// Waits until the status is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&redundancy::status::Status) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return;
            }
            assert!(
                began.elapsed() < LIMIT,
                "{what}: {status:?}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops what serves.
    pub(crate) fn down(&mut self) {
        let down = self.run(&["down"]);
        assert_eq!(down.status.code(), Some(0), "{}", text(&down.stderr));
        assert_eq!(self.ended(), Some(0), "{}", self.log());
    }

    /// Compares all copies; the exit code and what was said.
    pub(crate) fn check(&self) -> (Option<i32>, String) {
        self.of(&["check"])
    }

    /// Runs a command of the set; the exit code and what was said.
    pub(crate) fn of(&self, command: &[&str]) -> (Option<i32>, String) {
        let output = self
            .of_set(command)
            .output()
            .expect("the binary can be run");
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    }

    /// Starts to serve from the stores, and returns when the process says that it is ready.
    pub(crate) fn up(&mut self) {
        if let Err((code, said)) = self.try_up() {
            panic!("not ready, exit code {code:?}: {said}");
        }
    }

    /// Starts to serve; where it ends before it is ready, its exit code and what it said.
    pub(crate) fn try_up(&mut self) -> Result<(), (Option<i32>, String)> {
        let notify = self.path("notify");
        let _none = fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify).expect("a socket");
        let turn = Some(Duration::from_millis(50));
        ready.set_read_timeout(turn).expect("a time limit");
        let log = fs::File::create(self.path("log")).expect("a log");
        let child = self
            .of_set(&["up"])
            .args(&self.flags)
            .env("NOTIFY_SOCKET", &notify)
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary can be run");
        let child = self.serving.insert(child);
        let mut buffer = [0; 256];
        let began = Instant::now();
        loop {
            if let Ok(length) = ready.recv(&mut buffer) {
                assert!(buffer[..length].starts_with(b"READY=1\n"));
                return Ok(());
            }
            if let Some(ended) = child.try_wait().expect("our child") {
                self.serving = None;
                return Err((ended.code(), self.log()));
            }
            assert!(began.elapsed() < LIMIT, "not ready: {}", self.log());
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits for the end of what serves; its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut child = self.serving.take().expect("something serves");
        child.wait().expect("a child").code()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
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

/// Output of a command as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
