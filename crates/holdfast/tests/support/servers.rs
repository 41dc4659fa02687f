//! Private servers of databases, on a directory and a socket of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// A user of this machine.
#[derive(Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    pub(crate) fn root() -> User {
        User { uid: 0, gid: 0 }
    }

    /// The one of this name, which its package has made.
    pub(crate) fn named(name: &str) -> User {
        let number = |flag: &str| {
            let output = Command::new("id")
                .args([flag, name])
                .output()
                .expect("id runs");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            printed.trim().parse().expect("a user with this name")
        };
        User {
            uid: number("-u"),
            gid: number("-g"),
        }
    }

    /// A program that runs as it, with nobody's settings.
    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.uid(self.uid).gid(self.gid).current_dir("/");
        command
    }
}

/// Runs a program to its end: what it printed, or why it failed.
pub(crate) fn finish(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("{command:?}: {} {printed}{said}", output.status)),
    }
}

/// A server; ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Reads what it says, or it would wait for somebody to do so.
    log: Option<JoinHandle<String>>,
    stop: rustix::process::Signal,
}

impl Server {
    /// Starts one, and waits until it says that it is ready.
    ///
    /// # Errors
    /// What it said before it ended.
    pub(crate) fn start(
        command: &mut Command,
        ready: &str,
        stop: rustix::process::Signal,
    ) -> Result<Server, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        let mut last = 0;
        while !said[last..].contains(ready) {
            last = said.len();
            if read_line(&mut log, &mut said) == 0 {
                let ended = child.wait().expect("it ends");
                return Err(format!("the server ended with {ended}: {said}"));
            }
        }
        let log = std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = log.read_to_end(&mut rest);
            said + &String::from_utf8_lossy(&rest)
        });
        Ok(Server {
            child,
            log: Some(log),
            stop,
        })
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Errors
    /// What it said, where it did not end well.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.signal(self.stop);
        let ended = self.child.wait().expect("it ends");
        let log = self.log.take().map(JoinHandle::join);
        match ended.success() {
            true => Ok(()),
            false => Err(format!("the server ended with {ended}: {log:?}")),
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // Gone already where that fails.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            // At once, and with its children.
            self.signal(rustix::process::Signal::QUIT);
            let _ = self.child.wait();
        }
    }
}

/// A line, of bytes of any kind.
fn read_line(log: &mut BufReader<ChildStderr>, said: &mut String) -> usize {
    let mut line = Vec::new();
    let read = log.read_until(b'\n', &mut line).unwrap_or(0);
    said.push_str(&String::from_utf8_lossy(&line));
    read
}

/// A client that takes statements one after the other.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Client {
    pub(crate) fn start(command: &mut Command) -> Client {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client runs");
        Client {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    /// Runs statements of which the last one gives one row of one line.
    ///
    /// # Errors
    /// What the client said, where it has ended.
    pub(crate) fn ask(&mut self, statements: &str) -> Result<String, String> {
        let written = self.input.as_mut().map(|input| {
            input.write_all(statements.as_bytes())?;
            input.write_all(b"\n")?;
            input.flush()
        });
        match written {
            Some(Ok(())) => self.more(),
            _ => Err("the client takes no statement".to_owned()),
        }
    }

    /// The next line of an answer.
    ///
    /// # Errors
    /// What the client said, where it has ended.
    pub(crate) fn more(&mut self) -> Result<String, String> {
        let mut line = String::new();
        if let Ok(1..) = self.output.read_line(&mut line) {
            return Ok(line.trim().to_owned());
        }
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        Err(format!("the client has ended: {said}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Files below a directory whose names end so.
pub(crate) fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("it can be read") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy();
        if name.ends_with(ending) {
            found.push(path);
        }
    }
    found
}
