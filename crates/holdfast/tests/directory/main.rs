//! `holdfast volume mount` as a user has it: the binary, a real mount, and programs on it. Needs
//! root and /dev/fuse.

#[path = "../support/accounts.rs"]
mod accounts;
mod atomic;
#[path = "../support/commands.rs"]
mod commands;
mod databases;
mod lives;
mod sqlite;

pub(crate) use commands::ends_with;
use commands::tool;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A volume in a file, and a directory to mount it on.
pub(crate) struct Home {
    place: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new(mib: u64) -> Home {
        let home = Home {
            place: tempfile::tempdir().expect("a temporary directory"),
        };
        std::fs::create_dir(home.directory()).expect("a new directory");
        let bytes = format!("{mib}M");
        let volume = home.volume();
        let words = ["volume", "create", &volume, "--file-bytes", &bytes];
        ends_with(
            0,
            &[&words[..], &["--directory", "--segment-bytes", "256K"]].concat(),
        );
        home
    }

    pub(crate) fn volume(&self) -> String {
        let path = self.place.path().join("volume");
        path.to_str().expect("a UTF-8 path").to_owned()
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("mount")
    }

    /// Mounts it; where one that was killed still has it, because its writes take long to end, once
    /// that has let it go.
    pub(crate) fn mount(&self) -> Mount {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            match self.try_mount() {
                Ok(mount) => return mount,
                Err(Some(41)) if Instant::now() < end => {}
                Err(code) => panic!("it does not serve, and ends with {code:?}"),
            }
        }
    }

    fn try_mount(&self) -> Result<Mount, Option<i32>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .env_remove("HOLDFAST_LOG")
            .args(["volume", "mount", &self.volume()])
            .arg(self.directory())
            .stdout(Stdio::piped())
            .spawn()
            .expect("holdfast runs");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        // It says where it serves once it does, or ends.
        let mut line = String::new();
        while !line.starts_with("serving ") {
            line.clear();
            if out.read_line(&mut line).expect("a line") == 0 {
                return Err(child.wait().expect("it ends").code());
            }
        }
        Ok(Mount {
            child,
            _out: out,
            directory: self.directory(),
            stays: false,
        })
    }

    /// What `volume check` says of it, which has to find nothing.
    pub(crate) fn check(&self) -> String {
        ends_with(0, &["volume", "check", &self.volume()])
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        take_away(&self.directory());
    }
}

/// A process that serves a mount; killed when it is dropped.
pub(crate) struct Mount {
    child: Child,
    /// Kept open, so that it can say that it stops.
    _out: BufReader<std::process::ChildStdout>,
    directory: PathBuf,
    stays: bool,
}

impl Mount {
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What the process had in memory is gone. The dead mount stays, so that programs that go on
    /// get errors and do not write to the directory below; the next mount clears it.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.stays = true;
    }

    /// As a service manager does.
    pub(crate) fn stop(mut self) {
        tool("kill", &["-TERM", &self.child.id().to_string()]);
        let ended = self.child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(0));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Gone already where it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.stays {
            take_away(&self.directory);
        }
    }
}

/// Takes a mount out of the tree, whatever its state; nothing where there is none.
fn take_away(directory: &Path) {
    let _ = rustix::mount::unmount(directory, rustix::mount::UnmountFlags::DETACH);
}
