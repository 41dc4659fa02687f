//! The mount point.

use super::{Machine, Plan};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::mounts;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(super) fn check(
    point: &Path,
    may_make: bool,
    machine: &Machine,
    plan: &mut Plan,
) -> Outcome<()> {
    // Attributes of a dead mount's root may still be in the kernel's cache; statfs(2) always asks.
    if let Err(errno) = rustix::fs::statfs(point)
        && is_dead(&errno.into())
    {
        return stale(point, machine, plan);
    }
    match std::fs::metadata(point) {
        Ok(found) if !found.is_dir() => Err(Failure::refuse(
            Exit::MountPoint,
            format!("the mount point {} is not a directory", point.display()),
            "name a directory: `holdfast up DIR`",
        )),
        Ok(_) => usable(point, machine),
        Err(error) if is_dead(&error) => stale(point, machine, plan),
        Err(error) if error.kind() == ErrorKind::NotFound && may_make => {
            plan.make.extend(missing_levels(point));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::refuse(
            Exit::MountPoint,
            format!("the mount point {} does not exist", point.display()),
            format!("make it: `mkdir -p {}`", point.display()),
        )),
        Err(error) => Err(Failure::refuse(
            Exit::MountPoint,
            format!(
                "the mount point {} cannot be used: {}",
                point.display(),
                crate::os::words(&error)
            ),
            "name another directory: `holdfast up DIR`",
        )),
    }
}

/// `path` and those of its parents that do not exist, parents first.
pub(super) fn missing_levels(path: &Path) -> Vec<PathBuf> {
    let mut levels: Vec<PathBuf> = path
        .ancestors()
        .take_while(|level| !level.exists())
        .map(Path::to_path_buf)
        .collect();
    levels.reverse();
    levels
}

/// Whether the process behind a FUSE mount is gone: the kernel answers so once the connection
/// was aborted (fs/fuse/dev.c), and it never comes back to life.
fn is_dead(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::NOTCONN.raw_os_error()) || errno == Some(Errno::CONNABORTED.raw_os_error())
}

fn usable(point: &Path, machine: &Machine) -> Outcome<()> {
    let real = std::fs::canonicalize(point).unwrap_or_else(|_| point.to_path_buf());
    if let Some(mounted) = mounts::at(&machine.mounts, &real) {
        let next = if mounted.is_ours() {
            let shown = point.display();
            format!("see it: `holdfast status --mount {shown}`\nstop it: `holdfast down {shown}`")
        } else {
            "name another directory: `holdfast up DIR`".to_owned()
        };
        return Err(Failure::refuse(
            Exit::MountInUse,
            format!(
                "a file system is mounted on {} already ({} from {})",
                point.display(),
                mounted.kind,
                mounted.source
            ),
            next,
        ));
    }
    let first = std::fs::read_dir(point)
        .map_err(|error| Failure::unexpected(format_args!("reading {}", point.display()), &error))?
        .next();
    match first {
        None => Ok(()),
        Some(entry) => Err(Failure::refuse(
            Exit::MountPoint,
            format!(
                "the mount point {} is not empty{}; a mount would hide what is there",
                point.display(),
                entry.map_or_else(
                    |_| String::new(),
                    |entry| format!(" (it holds {})", entry.file_name().to_string_lossy())
                )
            ),
            "name an empty directory: `holdfast up DIR`\n\
             to protect these files, move them aside, start, and copy them into the mount",
        )),
    }
}

fn stale(point: &Path, machine: &Machine, plan: &mut Plan) -> Outcome<()> {
    let ours = mounts::at(&machine.mounts, point).is_some_and(mounts::Mounted::is_ours);
    if ours {
        plan.clear = Some(point.to_path_buf());
        plan.notes.push(format!(
            "cleared {}: a holdfast that died had left its mount there",
            point.display()
        ));
        return Ok(());
    }
    Err(Failure::refuse(
        Exit::StaleMount,
        format!(
            "the process that served the mount at {} is dead, and it was not a holdfast",
            point.display()
        ),
        format!(
            "take the dead mount away: `umount --lazy {}`",
            point.display()
        ),
    ))
}
