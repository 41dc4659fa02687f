//! Everything that can be refused before anything is changed.

use crate::config::InForce;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::mounts::{self, Mounted};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

mod point;
mod stores;
#[cfg(test)]
mod tests;

/// What the checks need to know of the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Effective user id of this process.
    pub euid: u32,
    /// The kernel's FUSE device.
    pub fuse: PathBuf,
    /// What is mounted.
    pub mounts: Vec<Mounted>,
}

impl Machine {
    /// This machine, now.
    pub fn look() -> Machine {
        let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        Machine {
            euid: rustix::process::geteuid().as_raw(),
            fuse: PathBuf::from("/dev/fuse"),
            mounts: mounts::parse(&mountinfo),
        }
    }
}

/// What has to be done before the engine starts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Directories to make, parents first.
    pub make: Vec<PathBuf>,
    /// A mount that a dead holdfast left, to be taken away.
    pub clear: Option<PathBuf>,
    /// What the operator should know, though it does not stop the start.
    pub notes: Vec<String>,
}

/// Checks a configuration against the machine.
///
/// # Errors
/// The first thing that stops a start, with advice.
pub fn check(in_force: &InForce, machine: &Machine) -> Outcome<Plan> {
    let config = &in_force.settings.redundancy;
    config.validate().map_err(|error| stores::invalid(&error))?;
    need_root(machine)?;
    need_fuse(&machine.fuse)?;
    let mut plan = Plan::default();
    point::check(
        &config.mount,
        in_force.is_default("mount"),
        machine,
        &mut plan,
    )?;
    stores::check(config, in_force.is_default("stores"), &mut plan)?;
    stores::apart_from_all(config, &machine.mounts)?;
    Ok(plan)
}

/// The part of [`check`] that concerns the stores alone, for commands that do not mount.
///
/// # Errors
/// The first thing that makes a store unusable, with advice.
pub fn check_stores(in_force: &InForce) -> Outcome<()> {
    let config = &in_force.settings.redundancy;
    config.validate().map_err(|error| stores::invalid(&error))?;
    stores::check(config, true, &mut Plan::default())
}

/// Refuses where a living process holds one of the stores: it may have taken it since the check.
///
/// # Errors
/// A store is in use.
pub fn need_free(config: &redundancy::Config) -> Outcome<()> {
    stores::need_free(config.stores.iter())
}

/// Refuses where this process is not root.
///
/// # Errors
/// Not root.
pub fn need_root(machine: &Machine) -> Outcome<()> {
    if machine.euid == 0 {
        return Ok(());
    }
    Err(Failure::refuse(
        Exit::NoPermission,
        format!(
            "this needs root, and the process runs as user {}",
            machine.euid
        ),
        "run it with sudo: Holdfast keeps owners and its own labels (trusted.* attributes) on \
         every copy, which only root may write",
    ))
}

/// Character device 10:229, as the kernel's list of devices has it
/// (Documentation/admin-guide/devices.txt).
const FUSE_DEVICE: (u32, u32) = (10, 229);

fn is_fuse(device: u64) -> bool {
    (rustix::fs::major(device), rustix::fs::minor(device)) == FUSE_DEVICE
}

fn need_fuse(device: &Path) -> Outcome<()> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(device);
    let why = match opened.and_then(|file| file.metadata()) {
        Ok(found) if found.file_type().is_char_device() && is_fuse(found.rdev()) => {
            return Ok(());
        }
        Ok(_) => "is not the kernel's".to_owned(),
        Err(error) => format!("cannot be opened: {}", crate::os::words(&error)),
    };
    Err(Failure::refuse(
        Exit::NoFuse,
        format!("the FUSE device {} {why}", device.display()),
        "load the module: `modprobe fuse`\n\
         in a container: pass the device (docker run --device /dev/fuse --cap-add SYS_ADMIN)",
    ))
}

impl Plan {
    /// Carries the plan out.
    ///
    /// # Errors
    /// A directory that cannot be made, a mount that cannot be taken away.
    pub fn carry_out(&self) -> Outcome<()> {
        if let Some(point) = &self.clear {
            rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH).map_err(
                |error| {
                    Failure::unexpected(
                        format_args!("clearing the dead mount {}", point.display()),
                        &error,
                    )
                },
            )?;
        }
        for dir in &self.make {
            make(dir).map_err(|error| {
                Failure::refuse(
                    Exit::StorePath,
                    format!(
                        "{} cannot be made: {}",
                        dir.display(),
                        crate::os::words(&error)
                    ),
                    "name a directory on a file system that takes files: ext4, XFS or btrfs",
                )
            })?;
        }
        Ok(())
    }
}

/// Makes a directory that only root may enter where it is a store, and any user where it is the
/// mount point: the mount's own permissions decide there. Both start at 0755 minus the umask;
/// the engine closes its stores.
fn make(dir: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
