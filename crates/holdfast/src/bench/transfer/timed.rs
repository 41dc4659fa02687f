//! What a run of other processes costs.

use anyhow::{Context as _, bail};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Seconds of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// On the wall.
    pub(super) wall_s: f64,
    /// Of all processes that were waited for, in user and kernel mode. What the kernel does for
    /// them later, such as writing back, is in nobody's.
    pub(super) cpu_s: f64,
}

/// Runs `work`, which waits for all the processes that it starts.
pub(super) fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Cost> {
    let before = children_s()?;
    let begun = Instant::now();
    work()?;
    Ok(Cost {
        wall_s: begun.elapsed().as_secs_f64(),
        cpu_s: children_s()? - before,
    })
}

/// The CPU time of all children that have ended, and of theirs: fields 16 and 17 of proc_pid_stat(5),
/// in hundredths of a second (USER_HZ).
fn children_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("no /proc")?;
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| -> anyhow::Result<f64> {
        Ok(fields.get(index).context("/proc/self/stat")?.parse()?)
    };
    Ok((ticks(13)? + ticks(14)?) / 100.0)
}

/// A program that is not installed.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not installed")]
struct Missing(String);

pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    error.is::<Missing>()
}

/// Runs a command to its end.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = match command.stderr(Stdio::piped()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Missing(program).into());
        }
        output => output.with_context(|| format!("{program} cannot be started"))?,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} ended with {}: {said}", output.status);
    }
    Ok(())
}

/// Runs a line of the shell to its end; all parts of a pipe have to succeed.
pub(super) fn shell(line: &str, arguments: &[&std::path::Path]) -> anyhow::Result<()> {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", line, "bash"]);
    run(command.args(arguments))
}
