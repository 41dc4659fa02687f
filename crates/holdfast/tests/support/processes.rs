//! Processes of ours that serve, and what is mounted.

pub(crate) use crate::commands::{ends_with, tool};
use rustix::mount::UnmountFlags;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Room in memory that is enough for the largest of these tests, several at once.
const MEMORY_BYTES_LEAST: u64 = 4 << 30;

/// How long something may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place for files and mounts.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Home {
        Home(tempfile::tempdir().expect("a temporary directory"))
    }

    /// One in memory, where the machine has such a place with room: for what is written much and
    /// looked at once.
    pub(crate) fn in_memory() -> Home {
        let memory = "/dev/shm";
        let room = rustix::fs::statvfs(memory)
            .is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= MEMORY_BYTES_LEAST);
        let place = room.then(|| tempfile::tempdir_in(memory));
        let home = place.and_then(Result::ok).map_or_else(Home::new, Home);
        // Servers that run as users of their own pass through.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.0.path(), open).expect("its owner may");
        home
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("a UTF-8 path").to_owned()
    }

    /// A new, empty directory.
    pub(crate) fn directory(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("a new directory");
        path
    }
}

/// A process of ours that serves a mount. Killed when it is dropped, after whatever is mounted on its
/// loop device was taken away.
pub(crate) struct Serving {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
    /// The file that it shows.
    pub(crate) file: String,
    /// The loop device of that file.
    pub(crate) device: Option<String>,
}

impl Serving {
    /// Starts it and waits until it serves.
    pub(crate) fn start(words: &[&str]) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .env_remove("HOLDFAST_LOG")
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("holdfast runs");
        let out = child.stdout.take().expect("a pipe");
        let mut serving = Serving {
            child,
            out: BufReader::new(out),
            file: String::new(),
            device: None,
        };
        let line = serving.says("serving ");
        let place = line.trim_start_matches("serving ");
        match place.split_once(" at ") {
            Some((file, device)) => {
                serving.file = file.to_owned();
                serving.device = Some(device.to_owned());
            }
            None => serving.file = place.to_owned(),
        }
        serving
    }

    pub(crate) fn device(&self) -> &str {
        self.device.as_deref().expect("started with --loop")
    }

    /// Waits for a line that has this in it.
    pub(crate) fn says(&mut self, wanted: &str) -> String {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            let read = self.out.read_line(&mut line).expect("a line");
            assert_ne!(read, 0, "it ended without \"{wanted}\"");
        }
        line.trim().to_owned()
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        tool("kill", &["-TERM", &self.child.id().to_string()]);
    }

    /// Waits for its end, which has to be a clean one.
    pub(crate) fn wait(mut self) {
        let ended = self.child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(0));
    }

    pub(crate) fn stop(self) {
        self.terminate();
        self.wait();
    }

    /// The mount that it serves; a device of the kernel's is on none.
    fn directory(&self) -> Option<PathBuf> {
        let parent = Path::new(&self.file).parent();
        parent
            .filter(|parent| *parent != Path::new("/dev"))
            .map(Path::to_path_buf)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Gone already where it was stopped; else the order matters, or the loop device stays.
        if self.child.try_wait().ok().flatten().is_some() {
            return;
        }
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(directory) = self.directory() {
            take_away(&directory);
        }
    }
}

/// A file system that is mounted; taken away when it is dropped.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a device, or an image with `-o loop` before it.
    pub(crate) fn new(what: &[&str], directory: &str) -> Mounted {
        tool("mount", &[what, &[directory]].concat());
        Mounted(directory.into())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Unmounts it. A process that another test starts has its files open for a moment, between
    /// fork(2) and exec(2).
    pub(crate) fn unmount(self) {
        let until = Instant::now() + PATIENCE;
        while let Err(errno) = rustix::mount::unmount(&self.0, UnmountFlags::empty()) {
            assert_eq!(errno, rustix::io::Errno::BUSY, "{}", self.0.display());
            assert!(Instant::now() < until, "{} is in use", self.0.display());
            std::thread::yield_now();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

/// Takes a mount out of the tree, whatever its state; nothing where there is none.
fn take_away(directory: &Path) {
    let _ = rustix::mount::unmount(directory, UnmountFlags::DETACH);
}
