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

/// What to say where other programs keep all cores busy now, and this one has no real-time priority.
pub(super) fn warning() -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    busy(&load, &stat, cores)
}

/// `load` is /proc/loadavg, `stat` is /proc/PID/stat.
fn busy(load: &str, stat: &str, cores: usize) -> Option<String> {
    let load: f64 = load.split(' ').next()?.parse().ok()?;
    let real_time = [FIFO, ROUND_ROBIN].contains(&policy(stat)?);
    (load >= cores as f64 && !real_time).then(|| {
        format!(
            "warning: other programs keep this machine busy (load {load} on {cores} cores), so that each \
             wait for a disk may last until the next tick of the scheduler, on all sides: run it alone or \
             as `chrt -f 1 holdfast bench ...` (docs/benchmarks.md)"
        )
    })
}

/// The scheduling policy. The name, which may hold anything, ends with the last parenthesis; field 3
/// follows.
fn policy(stat: &str) -> Option<u32> {
    let fields = stat.rsplit_once(") ")?.1;
    fields.split(' ').nth(POLICY - 3)?.parse().ok()
}

/// Number of the field with the scheduling policy, and two of its values (proc_pid_stat(5),
/// sched(7)).
const POLICY: usize = 41;
const FIFO: u32 = 1;
const ROUND_ROBIN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of /proc/PID/stat with this policy.
    fn stat(policy: u32) -> String {
        let mut fields = vec!["0".to_string(); 52];
        fields[0] = "7".into();
        fields[1] = "(a) b)".into();
        fields[2] = "R".into();
        fields[POLICY - 1] = policy.to_string();
        fields.join(" ")
    }

    #[test]
    fn a_busy_machine_is_told_of_unless_the_priority_is_real_time() {
        let normal = busy("2.50 1.00 0.50 3/150 99", &stat(0), 2).unwrap();
        assert!(normal.contains("load 2.5 on 2 cores"), "{normal}");
        assert_eq!(busy("1.90 4.00 4.00 3/150 99", &stat(0), 2), None);
        assert_eq!(busy("2.50 1.00 0.50 3/150 99", &stat(FIFO), 2), None);
        assert_eq!(busy("", "", 2), None);
    }

    #[test]
    fn the_policy_is_where_the_kernel_writes_it() {
        // SCHED_BATCH is 3, and anybody may take it.
        let output = std::process::Command::new("chrt")
            .args(["--batch", "0", "cat", "/proc/self/stat"])
            .output()
            .unwrap();
        assert_eq!(policy(&String::from_utf8(output.stdout).unwrap()), Some(3));
    }
}
