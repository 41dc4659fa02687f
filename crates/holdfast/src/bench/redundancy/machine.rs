//! What the numbers were measured on.

use anyhow::{Context as _, bail};
use std::path::Path;

/// Name of the file system of `directory`; refuses one that is not on a disk.
pub(super) fn file_system(directory: &Path) -> anyhow::Result<&'static str> {
    let space = rustix::fs::statfs(directory)
        .with_context(|| format!("cannot work in {}", directory.display()))?;
    // Magic numbers: include/uapi/linux/magic.h of the kernel.
    match space.f_type {
        0xef53 => Ok("ext4"),
        0x5846_5342 => Ok("xfs"),
        0x9123_683e => Ok("btrfs"),
        0x0102_1994 | 0x794c_7630 => bail!(
            "{} is on tmpfs or overlayfs, which has nothing durable to measure; name a directory on a \
             disk with --dir",
            directory.display()
        ),
        _ => Ok("the directory below"),
    }
}

/// One line: processor, cores, memory, kernel, file system.
pub(super) fn line(file_system: &str) -> String {
    let value = |file: &str, key: &str| -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let processor = value("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory_gib = value("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .unwrap_or(0)
        >> 20;
    let kernel = rustix::system::uname();
    format!(
        "machine: {processor}, {cores} cores, {memory_gib} GiB, Linux {}, all sides on one {file_system}",
        kernel.release().to_string_lossy()
    )
}
