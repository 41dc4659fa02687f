//! What database servers have in common: a user that is not root, programs off the usual path, and a
//! clean end.

use crate::bench::process::{self, Running};
use anyhow::{Context as _, bail};
use rustix::fs::{Gid, Mode, Uid, chmod, chown};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bound on a start, a clean stop, and filling a database.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// The user that servers run as, and its group, by the numbers of Debian: nobody and nogroup.
const USER: (u32, u32) = (65534, 65534);

/// Lets that user pass through a directory of ours.
pub(super) fn let_in(directory: &Path) -> anyhow::Result<()> {
    Ok(chmod(directory, Mode::from_raw_mode(0o755))?)
}

/// Makes a directory for that user.
pub(super) fn make_directory(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(directory)?;
    chmod(directory, Mode::from_raw_mode(0o700))?;
    let (user, group) = (Uid::from_raw(USER.0), Gid::from_raw(USER.1));
    Ok(chown(directory, Some(user), Some(group))?)
}

/// Where programs of databases are, besides the usual path.
fn path() -> OsString {
    let mut places: Vec<PathBuf> = vec!["/usr/sbin".into()];
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let version = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = (versions.flatten().map(|entry| entry.path())).max_by_key(version);
    places.extend(newest.map(|path| path.join("bin")));
    if let Some(usual) = std::env::var_os("PATH") {
        places.extend(std::env::split_paths(&usual));
    }
    std::env::join_paths(places).unwrap_or_default()
}

/// The first of these programs that is not installed.
pub(super) fn missing(programs: &[&'static str]) -> Option<&'static str> {
    let path = path();
    let has =
        |program: &str| std::env::split_paths(&path).any(|place| place.join(program).is_file());
    programs.iter().copied().find(|program| !has(program))
}

/// A client of a server.
pub(super) fn client(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", path());
    command
}

/// A server, or what makes its files: as that user.
pub(super) fn as_user(program: &str) -> Command {
    let mut command = client("setpriv");
    let (user, group) = USER;
    command.args([
        format!("--reuid={user}"),
        format!("--regid={group}"),
        "--clear-groups".to_owned(),
        program.to_owned(),
    ]);
    command.current_dir("/");
    command
}

/// A server at work; ended when dropped.
pub(super) struct Server {
    running: Running,
    log: PathBuf,
}

impl Server {
    /// Starts it and waits until `ready` says yes.
    pub(super) fn start(
        command: &mut Command,
        log: &Path,
        mut ready: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<Server> {
        let running = Running::start(command, log, Duration::from_secs(30))?;
        let mut server = Server {
            running,
            log: log.to_path_buf(),
        };
        process::wait_until("a database server", LIMIT, || {
            server.need()?;
            ready()
        })?;
        Ok(server)
    }

    fn need(&mut self) -> anyhow::Result<()> {
        match self.running.ended()? {
            None => Ok(()),
            Some(status) => bail!("it ended ({status}): {}", process::tail(&self.log)),
        }
    }

    /// Asks it to end by a signal, and waits until it has written everything.
    pub(super) fn stop(mut self, signal: Signal) -> anyhow::Result<()> {
        let id = i32::try_from(self.running.id()).ok();
        let id = id.and_then(Pid::from_raw).context("a process id")?;
        kill_process(id, signal)?;
        match self.running.wait(LIMIT, true)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("it ended with {status}: {}", process::tail(&self.log)),
            None => bail!("a database server does not end"),
        }
    }
}

/// What a program prints.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {text}{said}", output.status);
    }
    Ok(text)
}
