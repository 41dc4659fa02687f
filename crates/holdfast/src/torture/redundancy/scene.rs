//! The machine that the torture plays on: small file systems on loop devices, a holdfast process
//! over them, and all that can happen to both. Dropping it takes everything away again.

use crate::control::{Answer, Request, client};
use crate::mounts;
use ::redundancy::status::Status;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Size of each store's file system.
const DISK_BYTES: u64 = 192 << 20;
/// Longest wait for a start, a stop or redundancy.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// One store's disk.
struct Disk {
    /// `/dev/loopN`.
    device: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
    mounted: bool,
}

impl Disk {
    fn store(&self) -> PathBuf {
        self.point.join("store")
    }
}

/// Everything that a run makes.
pub(super) struct Scene {
    dir: PathBuf,
    remove_dir: bool,
    disks: Vec<Disk>,
    daemon: Option<Child>,
    copies: usize,
    encodes: bool,
    starts: u32,
}

/// What keeps all copies, and gives back those that were encoded.
const PLAIN: &[&str] = &["--encode-percent=0"];

/// What lets cold data be encoded while a run goes on: often, in small chunks, whatever its load.
const ENCODE: &[&str] = &[
    "--encode-percent=90",
    "--encode-load-percent=100",
    "--encode-interval-s=1",
    "--encode-chunk-kb=16",
    "--checkpoint-ms=200",
];

fn command(program: &str, args: &[&std::ffi::OsStr]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {args:?}: {}",
        said.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

macro_rules! run {
    ($program:expr $(, $arg:expr)* $(,)?) => {
        command($program, &[$(std::ffi::OsStr::new($arg)),*])
    };
}

/// Waits until `done` says so.
pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        ensure!(
            start.elapsed() < PATIENCE,
            "{what} took more than {PATIENCE:?}"
        );
        std::thread::sleep(LOOK);
    }
    Ok(())
}

impl Scene {
    /// Makes `stores` disks below `dir`, or below a new temporary directory.
    pub(super) fn new(
        dir: Option<&Path>,
        stores: usize,
        copies: usize,
        encodes: bool,
    ) -> Result<Scene> {
        let remove_dir = dir.is_none();
        let dir = match dir {
            Some(dir) => std::path::absolute(dir)?,
            None => std::env::temp_dir().join(format!("holdfast-torture-{}", std::process::id())),
        };
        for below in ["mount", "run"] {
            fs::create_dir_all(dir.join(below))?;
        }
        File::create(dir.join("holdfast.toml"))?;
        let mut scene = Scene {
            dir,
            remove_dir,
            disks: Vec::new(),
            daemon: None,
            copies,
            encodes,
            starts: 0,
        };
        for index in 0..stores {
            scene.add_disk(index)?;
        }
        Ok(scene)
    }

    fn add_disk(&mut self, index: usize) -> Result<()> {
        let image = self.dir.join(format!("disk-{index}.img"));
        File::create(&image)?.set_len(DISK_BYTES)?;
        run!("mkfs.ext4", "-q", "-F", "-e", "remount-ro", &image)?;
        let device = run!("losetup", "--find", "--show", &image)?;
        let point = self.dir.join(format!("disk-{index}"));
        fs::create_dir_all(&point)?;
        self.disks.push(Disk {
            device: device.into(),
            point,
            mounted: false,
        });
        self.mount_disk(index)?;
        fs::create_dir(self.disks[index].store())?;
        Ok(())
    }

    /// Where applications work.
    pub(super) fn mount(&self) -> PathBuf {
        self.dir.join("mount")
    }

    fn runtime(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// Number of disks.
    pub(super) fn disks(&self) -> usize {
        self.disks.len()
    }

    /// The plain files of each store.
    pub(super) fn data(&self) -> Vec<PathBuf> {
        self.disks.iter().map(|d| d.store().join("data")).collect()
    }

    /// The binary with the options that every call takes.
    fn holdfast(&self, verb: &str) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(verb)
            .arg("--config")
            .arg(self.dir.join("holdfast.toml"))
            .arg("--runtime-dir")
            .arg(self.runtime())
            .stdin(Stdio::null());
        Ok(command)
    }

    fn with_set(&self, mut command: Command) -> Command {
        command.arg(self.mount());
        for disk in &self.disks {
            command.arg("--store").arg(disk.store());
        }
        command.arg("--copies").arg(self.copies.to_string());
        command
    }

    /// Starts the process and waits until it serves.
    pub(super) fn up(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("daemon.log"))?;
        let mut command = self.with_set(self.holdfast("up")?);
        command.args(if self.encodes { ENCODE } else { PLAIN });
        self.starts += 1;
        if self.encodes && self.starts.is_multiple_of(2) {
            // What is written to encoded chunks is merged as it comes; else it waits.
            command.arg("--encode-differential-permille=0");
        }
        let child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        self.daemon = Some(child);
        wait_until("the start", || {
            if let Some(child) = &mut self.daemon
                && let Some(status) = child.try_wait()?
            {
                self.daemon = None;
                bail!("`holdfast up` ended with {status}: {}", self.log_tail());
            }
            Ok(self.is_mounted()? && self.status().is_ok())
        })
    }

    pub(super) fn encodes(&self) -> bool {
        self.encodes
    }

    /// From the next start on nothing is encoded.
    pub(super) fn stop_encoding(&mut self) {
        self.encodes = false;
    }

    fn is_mounted(&self) -> Result<bool> {
        let mount = self.mount();
        let all = mounts::parse(&fs::read("/proc/self/mountinfo")?);
        Ok(all.iter().any(|m| m.point == mount && m.is_ours()))
    }

    /// The end of what the process has said.
    pub(super) fn log_tail(&self) -> String {
        let text = fs::read(self.dir.join("daemon.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Keeps what the process has said, where the end of the run does not remove it.
    pub(super) fn keep_log(&self, seed: u64) -> Result<PathBuf> {
        let name = format!("holdfast-torture-{seed}-{}.log", std::process::id());
        let kept = std::env::temp_dir().join(name);
        fs::copy(self.dir.join("daemon.log"), &kept).with_context(|| kept.display().to_string())?;
        Ok(kept)
    }

    /// What the process says of itself.
    pub(super) fn status(&self) -> Result<Status> {
        let limit = Duration::from_secs(10);
        match client::ask(&self.runtime(), &self.mount(), &Request::Status, limit) {
            Ok(Answer::Status(status)) => Ok(*status),
            Ok(other) => bail!("{other:?} in place of a status"),
            Err(failure) => bail!("{failure}"),
        }
    }

    /// What the status says of each store, for the report of a failure.
    pub(super) fn details(&self) -> String {
        match self.status() {
            Ok(status) => status
                .stores
                .iter()
                .map(|store| format!("store {}: {:?}: {}", store.index, store.state, store.detail))
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => format!("no status: {error:#}"),
        }
    }

    /// Whether the process has ended by itself.
    pub(super) fn has_died(&mut self) -> Result<bool> {
        match &mut self.daemon {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(false),
        }
    }

    /// Kills the process at once.
    pub(super) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.daemon.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Stops the process in good order.
    pub(super) fn down(&mut self) -> Result<()> {
        let mut stop = self.holdfast("down")?;
        let output = stop.arg(self.mount()).arg("--force").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`holdfast down`: {}", said.trim());
        wait_until("the stop", || self.has_died())?;
        self.daemon = None;
        Ok(())
    }

    /// Runs `holdfast check`; what it found where the copies differ.
    pub(super) fn check(&self) -> Result<Option<String>> {
        let output = self.with_set(self.holdfast("check")?).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(None),
            _ => Ok(Some(format!(
                "`holdfast check`: {}{}",
                text.trim(),
                said.trim()
            ))),
        }
    }

    fn mount_disk(&mut self, index: usize) -> Result<()> {
        let disk = &mut self.disks[index];
        run!("mount", "-t", "ext4", &disk.device, &disk.point)?;
        disk.mounted = true;
        Ok(())
    }

    /// Takes a disk's file system away under the process.
    pub(super) fn unmount_disk(&mut self, index: usize) -> Result<()> {
        let disk = &mut self.disks[index];
        rustix::mount::unmount(&disk.point, rustix::mount::UnmountFlags::DETACH)?;
        disk.mounted = false;
        Ok(())
    }

    /// Brings it back.
    pub(super) fn remount_disk(&mut self, index: usize) -> Result<()> {
        self.mount_disk(index)
    }

    /// Moves a store's directory away, or back.
    pub(super) fn move_store(&self, index: usize, away: bool) -> Result<()> {
        let store = self.disks[index].store();
        let aside = store.with_file_name("away");
        let (from, to) = if away {
            (&store, &aside)
        } else {
            (&aside, &store)
        };
        fs::rename(from, to).with_context(|| format!("moving {}", from.display()))
    }

    /// Puts an empty store where one was moved away, and offers it.
    pub(super) fn replace_store(&self, index: usize) -> Result<()> {
        let store = self.disks[index].store();
        fs::create_dir(&store)?;
        wait_until("the attach of an empty store", || {
            let output = self
                .holdfast("attach")?
                .arg(&store)
                .arg("--mount")
                .arg(self.mount())
                .output()?;
            Ok(output.status.success())
        })?;
        fs::remove_dir_all(store.with_file_name("away"))?;
        Ok(())
    }

    /// Makes a disk's file system turn read-only, as after an error of its own, or mounts it anew.
    /// (`mount -o remount,ro` waits for files that are open for writing, and some always are.)
    pub(super) fn set_read_only(&mut self, index: usize, read_only: bool) -> Result<()> {
        let device = &self.disks[index].device;
        let name = device.file_name().context("a device without a name")?;
        let alive = Path::new("/sys/fs/ext4").join(name);
        if read_only {
            let trigger = alive.join("trigger_fs_error");
            return fs::write(&trigger, "1").with_context(|| trigger.display().to_string());
        }
        self.unmount_disk(index)?;
        // Files of it that are still open keep the old file system alive for a moment, and a mount
        // would give that one again.
        wait_until("the end of a file system that failed", || {
            Ok(!alive.exists())
        })?;
        self.mount_disk(index)
    }

    /// Fills a disk to the last block, or frees it again.
    pub(super) fn fill(&self, index: usize, full: bool) -> Result<()> {
        let filler = self.disks[index].point.join("filler");
        if !full {
            fs::remove_file(&filler)?;
            return Ok(());
        }
        let mut file = File::create(&filler)?;
        let block = vec![0xF1; 1 << 20];
        let mut size = block.len();
        while size > 0 {
            match file.write(&block[..size]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
                Err(error) => return Err(error).context("filling a disk"),
            }
        }
        Ok(())
    }

    /// Flips a byte of the same plain file in every store that has it; how many had.
    pub(super) fn corrupt(&self, below_data: &Path) -> Result<usize> {
        let mut count = 0;
        for data in self.data() {
            let path = data.join(below_data);
            if let Ok(mut bytes) = fs::read(&path)
                && let Some(byte) = bytes.first_mut()
            {
                *byte ^= 0xFF;
                fs::write(&path, &bytes)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Each step is tried, whatever became of the one before: nothing must be left behind.
        let mut failed = Vec::new();
        let mut note = |what: &str, result: Result<()>| {
            if let Err(error) = result {
                failed.push(format!("{what}: {error:#}"));
            }
        };
        note("ending the process", self.kill());
        while self.is_mounted().unwrap_or(false) {
            let flags = rustix::mount::UnmountFlags::DETACH;
            let result = rustix::mount::unmount(self.mount(), flags);
            note("unmounting", result.map_err(Into::into));
            if result.is_err() {
                break;
            }
        }
        for index in 0..self.disks.len() {
            if self.disks[index].mounted {
                note("unmounting a disk", self.unmount_disk(index));
            }
            let device = &self.disks[index].device;
            note(
                "freeing a loop device",
                run!("losetup", "-d", device).map(drop),
            );
        }
        for index in 0..self.disks.len() {
            let image = self.dir.join(format!("disk-{index}.img"));
            note(
                "removing an image",
                fs::remove_file(image).map_err(Into::into),
            );
        }
        if self.remove_dir {
            note(
                "removing the directory",
                fs::remove_dir_all(&self.dir).map_err(Into::into),
            );
        }
        for what in failed {
            eprintln!("torture: cleaning up: {what}");
        }
    }
}
