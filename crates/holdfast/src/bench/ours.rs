//! Our side of a benchmark: the real binary on fresh stores, as a user runs it.

use super::memory::Watched;
use super::process::{self, Running};
use anyhow::{Context as _, bail};
use redundancy::status::Status;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bound on start and stop; both take well under a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit code of `holdfast status` where the set serves and is not redundant.
const DEGRADED: i32 = 4;

/// A mounted set of stores below one directory; taken down when dropped.
pub(crate) struct Ours {
    directory: PathBuf,
    stores: Vec<PathBuf>,
    copies: u8,
    flags: Vec<String>,
    serving: Option<Running>,
}

impl Ours {
    /// Makes `stores` store directories below `directory` and mounts them with `copies` copies of
    /// each file.
    pub(crate) fn up(directory: &Path, stores: usize, copies: u8) -> anyhow::Result<Ours> {
        let mut ours = Ours {
            directory: directory.to_path_buf(),
            stores: (0..stores)
                .map(|index| directory.join(format!("store{index}")))
                .collect(),
            copies,
            flags: Vec::new(),
            serving: None,
        };
        std::fs::create_dir_all(ours.mount())?;
        for store in &ours.stores {
            std::fs::create_dir_all(store)?;
        }
        ours.serve()?;
        Ok(ours)
    }

    /// Where the set is mounted.
    pub(crate) fn mount(&self) -> PathBuf {
        self.directory.join("mnt")
    }

    /// The stores.
    pub(crate) fn stores(&self) -> &[PathBuf] {
        &self.stores
    }

    /// The serving process.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        let serving = self.serving.as_ref().context("the mount is down")?;
        Ok(serving.id())
    }

    /// The serving process and its own files on the stores.
    pub(crate) fn watched(&self) -> anyhow::Result<Watched> {
        let system = redundancy::store::local::SYSTEM;
        Ok(Watched {
            pid: self.pid()?,
            own_files: self.stores.iter().map(|store| store.join(system)).collect(),
        })
    }

    /// What `holdfast status --json` says.
    pub(crate) fn status(&self) -> anyhow::Result<Status> {
        let output = binary()?
            .args(["status", "--json", "--mount"])
            .arg(self.mount())
            .output()?;
        // A degraded set is not a failure to answer, though the exit code tells.
        if !matches!(output.status.code(), Some(0 | DEGRADED)) {
            bail!(
                "holdfast status failed ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("holdfast status --json is not understood")
    }

    /// Stops the set and starts it with other flags of `holdfast up`, which it keeps from then on.
    pub(crate) fn restart_with(&mut self, flags: &[String]) -> anyhow::Result<()> {
        self.flags = flags.to_vec();
        self.restart()
    }

    /// Waits until the status is as wanted.
    pub(crate) fn until(
        &self,
        what: &str,
        limit: Duration,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> anyhow::Result<()> {
        process::wait_until(what, limit, || Ok(wanted(&self.status()?)))
    }

    /// Takes in what is now in the place of a store.
    pub(crate) fn attach(&self, store: &Path) -> anyhow::Result<()> {
        let mut attach = binary()?;
        attach.arg("attach").arg(store);
        attach.arg("--mount").arg(self.mount());
        process::run(&mut attach, LIMIT, &self.log())
    }

    /// Stops and starts the set, so that neither the kernel nor the process remembers an inode.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.stop()?;
        self.serve()
    }

    fn log(&self) -> PathBuf {
        self.directory.join("holdfast.log")
    }

    fn serve(&mut self) -> anyhow::Result<()> {
        let mut command = binary()?;
        command.arg("up").arg(self.mount());
        for store in &self.stores {
            command.arg("--store").arg(store);
        }
        command.arg("--copies").arg(self.copies.to_string());
        command.args(&self.flags);
        let mut serving = Running::start(&mut command, &self.log(), Duration::from_secs(20))?;
        process::wait_until("holdfast up to be ready", LIMIT, || {
            if let Some(status) = serving.ended()? {
                bail!(
                    "holdfast up ended ({status}): {}",
                    process::tail(&self.log())
                );
            }
            Ok(self.status().is_ok())
        })?;
        self.serving = Some(serving);
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut serving) = self.serving.take() else {
            return Ok(());
        };
        let mut down = binary()?;
        down.arg("down").arg(self.mount());
        process::run(&mut down, LIMIT, &self.log())?;
        match serving.wait(LIMIT, false)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!(
                "holdfast up ended badly ({status}): {}",
                process::tail(&self.log())
            ),
            None => bail!("holdfast up still ran {} s after down", LIMIT.as_secs()),
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // SIGTERM is a clean stop; the lazy unmount is for a process that died.
        self.serving = None;
        if is_mount_point(&self.mount()) {
            let _ = Command::new("umount").arg("-l").arg(self.mount()).output();
        }
    }
}

/// A command that runs this very program.
fn binary() -> anyhow::Result<Command> {
    Ok(Command::new(
        std::env::current_exe().context("cannot find the path of the running program")?,
    ))
}

/// Whether something is mounted at exactly `path`; does not touch the mount, which may be dead.
fn is_mount_point(path: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mounts").is_ok_and(|mounts| {
        mounts
            .lines()
            .any(|line| line.split(' ').nth(1) == path.to_str())
    })
}
