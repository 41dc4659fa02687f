//! A bound on the bytes that a device takes in a second, as disks of clouds have one.
//!
//! The block layer keeps it, by control groups: `io.max` of version 2 (admin-guide/cgroup-v2 of the kernel's
//! documentation, "IO"), `blkio.throttle.*` of version 1 (admin-guide/cgroup-v1/blkio-controller).

use anyhow::{Context as _, bail};
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const V2: &str = "/sys/fs/cgroup";
const V1: &str = "/sys/fs/cgroup/blkio";

/// The bound of one device, taken away when dropped.
pub(super) struct Limit {
    /// What to write where so that there is no bound.
    undo: Vec<(PathBuf, String)>,
}

impl Limit {
    /// Bounds what this process, those it starts from now on, and the kernel on their behalf write to
    /// `device`. Reads are not bounded.
    pub(super) fn set(device: &Path, bytes_per_s: u64) -> anyhow::Result<Limit> {
        let number = std::fs::metadata(device)?.st_rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = format!("{major}:{minor}");
        let groups = std::fs::read_to_string("/proc/self/cgroup")?;
        let mut limit = Limit { undo: Vec::new() };
        if let Some(own) = of_version_1(&groups) {
            // What the page cache writes back counts for the root, whoever wrote it.
            let own = Path::new(V1).join(own.trim_start_matches('/'));
            for group in [PathBuf::from(V1), own] {
                let file = group.join("blkio.throttle.write_bps_device");
                limit.write(file, &device, &bytes_per_s.to_string(), "0")?;
            }
        } else {
            let group = own_group(&groups)?;
            let wanted = format!("wbps={bytes_per_s}");
            limit.write(group.join("io.max"), &device, &wanted, "wbps=max")?;
        }
        Ok(limit)
    }

    fn write(&mut self, file: PathBuf, device: &str, set: &str, undo: &str) -> anyhow::Result<()> {
        if self.undo.iter().any(|(done, _)| *done == file) {
            return Ok(());
        }
        std::fs::write(&file, format!("{device} {set}"))
            .with_context(|| format!("{} does not take a bound", file.display()))?;
        self.undo.push((file, format!("{device} {undo}")));
        Ok(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        for (file, text) in &self.undo {
            if let Err(error) = std::fs::write(file, text) {
                eprintln!("a bound is left in {}: {error}", file.display());
            }
        }
    }
}

/// The group of this process in the hierarchy that has `blkio`.
fn of_version_1(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let known = controllers.split(',').any(|one| one == "blkio");
        known.then_some(path)
    })
}

/// A group of version 2 for this process alone; the root has no bounds. It goes away with the next bench,
/// as the process that is in it cannot remove it.
fn own_group(groups: &str) -> anyhow::Result<PathBuf> {
    let Some(old) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        bail!("no control groups: a disk cannot be bounded here");
    };
    let name = |pid: u32| format!("holdfast-bench-{pid}");
    let own = Path::new(V2).join(name(std::process::id()));
    if Path::new(V2).join(old.trim_start_matches('/')) == own {
        return Ok(own);
    }
    for entry in std::fs::read_dir(V2)?.flatten() {
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("holdfast-bench-")
        {
            // One that is in use stays.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    std::fs::write(Path::new(V2).join("cgroup.subtree_control"), "+io").context(
        "control groups of this machine do not bound disks (the controller io is not there)",
    )?;
    std::fs::create_dir(&own)?;
    std::fs::write(own.join("cgroup.procs"), std::process::id().to_string())?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::of_version_1;

    #[test]
    fn the_group_of_version_1_is_found_among_others() {
        let groups = "8:pids:/\n7:blkio,other:/a/b\n0::/user.slice\n";
        assert_eq!(of_version_1(groups), Some("/a/b"));
        assert_eq!(of_version_1("0::/user.slice\n"), None);
    }
}
