//! Running other programs from a benchmark: bounded, interruptible, and never left behind.

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How often a wait looks at the interrupt flag.
const TICK: Duration = Duration::from_millis(100);

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on SIGINT, SIGTERM and SIGHUP make [`check_stop`] fail instead of ending the process,
/// so that the guards on the stack take down what was set up.
pub(crate) fn catch_stop_signals() -> anyhow::Result<()> {
    let flag = Arc::clone(STOP.get_or_init(Arc::default));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .context("cannot catch stop signals")?;
    }
    Ok(())
}

/// Fails once a stop signal has come.
pub(crate) fn check_stop() -> anyhow::Result<()> {
    match STOP.get() {
        Some(flag) if flag.load(Ordering::Relaxed) => bail!("stopped by a signal"),
        _ => Ok(()),
    }
}

/// A child process in a process group of its own (a Ctrl-C at the terminal reaches only us),
/// ended when dropped.
pub(crate) struct Running {
    child: Child,
    grace: Duration,
}

impl Running {
    /// Starts `command` with its output appended to `log`. On drop it gets SIGTERM and, after
    /// `grace`, SIGKILL.
    pub(crate) fn start(
        command: &mut Command,
        log: &Path,
        grace: Duration,
    ) -> anyhow::Result<Running> {
        let output = append(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program(command)))?;
        Ok(Running { child, grace })
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits at most `limit`; `None` where it still runs then. With `heed_stop`, fails when a
    /// stop signal comes.
    pub(crate) fn wait(
        &mut self,
        limit: Duration,
        heed_stop: bool,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if heed_stop {
                check_stop()?;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            wait_for_exit(&self.child, left.min(TICK))?;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The child has not been waited for, so the number still means it.
            let _ = kill_process(pid, Signal::TERM);
        }
        if !matches!(self.wait(self.grace, false), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn wait_for_exit(child: &Child, limit: Duration) -> anyhow::Result<()> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("a child without a process id")?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let limit = Timespec::try_from(limit).context("a wait that is too long")?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Runs `command` to its end, output appended to `log`. Fails on a non-zero exit (with the end of
/// the log), after `limit`, and when a stop signal comes.
pub(crate) fn run(command: &mut Command, limit: Duration, log: &Path) -> anyhow::Result<()> {
    let name = program(command);
    let mut running = Running::start(command, log, Duration::from_secs(5))?;
    match running.wait(limit, true)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{name} failed ({status}): {}", tail(log)),
        None => bail!("{name} did not end within {} s", limit.as_secs()),
    }
}

/// Whether a program of this name is on the path.
pub(crate) fn installed(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    })
}

/// Calls `ready` until it answers true, at most `limit`; fails with `what` after that and when a
/// stop signal comes.
pub(crate) fn wait_until(
    what: &str,
    limit: Duration,
    mut ready: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    while !ready()? {
        check_stop()?;
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}", limit.as_secs());
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

fn program(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn append(log: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(8);
    lines.get(start..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_reported_with_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let error = run(
            Command::new("sh").args(["-c", "echo the disk is on fire; exit 3"]),
            Duration::from_secs(10),
            &log,
        )
        .unwrap_err();
        assert!(error.to_string().contains("the disk is on fire"));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_at_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let error = run(
            Command::new("sleep").arg("1000"),
            Duration::from_millis(50),
            &log,
        )
        .unwrap_err();
        assert!(error.to_string().contains("did not end"));
    }
}
