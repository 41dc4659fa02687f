//! What databases stand on: a loop device each, with an ext4 or a volume on it. The block layer counts
//! what reaches the device.

use super::limit::Limit;
use crate::bench::process::{self, Running};
use anyhow::{Context as _, bail};
use rustix::mount::{UnmountFlags, unmount};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bound on making, mounting and unmounting.
const LIMIT: Duration = Duration::from_secs(60);

/// What a device was asked for since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Written {
    pub(super) bytes: u64,
    pub(super) flushes: u64,
}

impl Written {
    pub(super) fn since(self, before: Written) -> Written {
        Written {
            bytes: self.bytes - before.bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

/// A loop device over a file whose blocks are all written, past the page cache.
struct Loop {
    path: PathBuf,
}

impl Loop {
    fn new(backing: &Path, mib: u64) -> anyhow::Result<Loop> {
        let mut file = std::fs::File::create(backing)
            .with_context(|| format!("cannot make {}", backing.display()))?;
        for _ in 0..mib {
            process::check_stop()?;
            file.write_all(&[0; 1 << 20])?;
        }
        file.sync_all()?;
        drop(file);
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(backing)
            .output()
            .context("cannot run losetup")?;
        if !output.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&output.stderr));
        }
        let path = String::from_utf8(output.stdout)?.trim().into();
        Ok(Loop { path })
    }

    /// Fields 7 and 16 of Documentation/block/stat.rst: sectors of 512 bytes written, and flushes.
    fn written(&self) -> anyhow::Result<Written> {
        let name = self.path.file_name().context("a device has a name")?;
        let path = Path::new("/sys/block").join(name).join("stat");
        let text = std::fs::read_to_string(path)?;
        let field = |number: usize| -> anyhow::Result<u64> {
            let field = text.split_whitespace().nth(number - 1);
            Ok(field
                .context("the kernel does not count flushes")?
                .parse()?)
        };
        Ok(Written {
            bytes: field(7)? * 512,
            flushes: field(16)?,
        })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("-d").arg(&self.path).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} is left attached", self.path.display());
        }
    }
}

/// What a device is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// Its length in MiB.
    pub(super) mib: u64,
    /// The bytes that it takes in a second, where that is bounded.
    pub(super) write_bytes_per_s: Option<u64>,
}

/// A directory on a device of its own; taken down when dropped.
pub(super) struct Ground {
    directory: PathBuf,
    backing: PathBuf,
    // Fields go in this order: the mount before the device.
    _mounted: Mounted,
    _limit: Option<Limit>,
    device: Loop,
}

enum Mounted {
    Ext4(PathBuf),
    /// The process that serves; its end takes the mount away.
    Volume {
        _serving: Running,
    },
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Mounted::Ext4(path) = self
            && unmount(&*path, UnmountFlags::empty()).is_err()
        {
            eprintln!("{} is left mounted", path.display());
        }
    }
}

impl Ground {
    /// An ext4 as mkfs.ext4 makes it.
    pub(super) fn ext4(scratch: &Path, name: &str, of: Device) -> anyhow::Result<Ground> {
        let (backing, directory, device, limit) = place(scratch, name, of)?;
        let log = scratch.join("mkfs.log");
        process::run(
            Command::new("mkfs.ext4").arg("-q").arg(&device.path),
            LIMIT,
            &log,
        )?;
        let mut mount = Command::new("mount");
        mount.arg(&device.path).arg(&directory);
        process::run(&mut mount, LIMIT, &log)?;
        Ok(Ground {
            _mounted: Mounted::Ext4(directory.clone()),
            _limit: limit,
            directory,
            backing,
            device,
        })
    }

    /// A volume as `holdfast volume create --directory` makes it, mounted by the real binary.
    pub(super) fn volume(scratch: &Path, name: &str, of: Device) -> anyhow::Result<Ground> {
        let (backing, directory, device, limit) = place(scratch, name, of)?;
        let holdfast = std::env::current_exe()?;
        let log = scratch.join(format!("{name}.log"));
        let mut create = Command::new(&holdfast);
        create.args(["volume", "create", "--directory"]);
        process::run(create.arg(&device.path), LIMIT, &log)?;
        let mut mount = Command::new(&holdfast);
        mount.args(["volume", "mount"]);
        mount.arg(&device.path).arg(&directory);
        let mut serving = Running::start(&mut mount, &log, Duration::from_secs(30))?;
        process::wait_until("holdfast volume mount to serve", LIMIT, || {
            if let Some(status) = serving.ended()? {
                bail!(
                    "holdfast volume mount ended ({status}): {}",
                    process::tail(&log)
                );
            }
            let said = std::fs::read_to_string(&log)?;
            Ok(said.lines().any(|line| line.starts_with("serving ")))
        })?;
        Ok(Ground {
            _mounted: Mounted::Volume { _serving: serving },
            _limit: limit,
            directory,
            backing,
            device,
        })
    }

    /// Where it is mounted.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What has reached the device, all that programs have written included.
    pub(super) fn written(&self) -> anyhow::Result<Written> {
        let directory = std::fs::File::open(&self.directory)?;
        match self._mounted {
            Mounted::Ext4(_) => rustix::fs::syncfs(&directory)?,
            Mounted::Volume { .. } => rustix::fs::fsync(&directory)?,
        }
        self.device.written()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The space comes back when the device is gone.
        if let Err(error) = std::fs::remove_file(&self.backing) {
            eprintln!("{} is left: {error}", self.backing.display());
        }
    }
}

type Place = (PathBuf, PathBuf, Loop, Option<Limit>);

fn place(scratch: &Path, name: &str, of: Device) -> anyhow::Result<Place> {
    let directory = scratch.join(name);
    std::fs::create_dir(&directory)?;
    let backing = scratch.join(format!("{name}.device"));
    let device = Loop::new(&backing, of.mib)?;
    let limit = match of.write_bytes_per_s {
        Some(bytes) => Some(Limit::set(&device.path, bytes)?),
        None => None,
    };
    Ok((backing, directory, device, limit))
}
