//! What a process takes up, over time.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// One reading.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    /// Seconds since sampling began.
    pub(crate) at_s: f64,
    /// Resident set in 10^6 bytes.
    pub(crate) resident_mb: f64,
    /// Open descriptors.
    pub(crate) descriptors: f64,
    /// What its own files take up on the disk, in 10^6 bytes.
    pub(crate) own_files_mb: f64,
}

/// Whom to watch.
pub(crate) struct Watched {
    /// The process.
    pub(crate) pid: u32,
    /// Directories of files of its own.
    pub(crate) own_files: Vec<PathBuf>,
}

impl Watched {
    fn sample(&self, at_s: f64) -> anyhow::Result<Sample> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid));
        Ok(Sample {
            at_s,
            resident_mb: resident_mb(self.pid)?,
            descriptors: descriptors.context("the serving process is gone")?.count() as f64,
            own_files_mb: self.own_files.iter().map(|d| allocated(d)).sum::<u64>() as f64 / 1e6,
        })
    }
}

/// Bytes that the files below a directory take up. What goes while this looks counts nothing.
fn allocated(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// The resident set of `pid` now, in 10^6 bytes.
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .context("the serving process is gone")?;
    parse(&text).context("/proc/PID/status has no VmRSS")
}

fn parse(status: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Runs `work` while sampling `watched` every `interval`; gives what `work` gave and the samples, at
/// least two of them (first and last).
pub(crate) fn during<T>(
    watched: &Watched,
    interval: Duration,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Vec<Sample>)> {
    let (finished, done) = channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || -> anyhow::Result<Vec<Sample>> {
            let start = Instant::now();
            let mut samples = Vec::new();
            loop {
                samples.push(watched.sample(start.elapsed().as_secs_f64())?);
                match done.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            samples.push(watched.sample(start.elapsed().as_secs_f64())?);
            Ok(samples)
        });
        let result = work();
        drop(finished);
        let samples = match sampler.join() {
            Ok(samples) => samples,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((result?, samples?))
    })
}

/// Largest value of the samples.
pub(crate) fn peak(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(value).fold(0.0, f64::max)
}

/// Slope of the least-squares line through one value of the samples, without the first fifth of
/// the time (caches fill then), per hour. `None` for fewer than three samples.
pub(crate) fn growth_per_hour(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Option<f64> {
    let warm_up = samples.last()?.at_s / 5.0;
    let kept: Vec<(f64, f64)> = samples
        .iter()
        .filter(|sample| sample.at_s >= warm_up)
        .map(|sample| (sample.at_s, value(sample)))
        .collect();
    if kept.len() < 3 {
        return None;
    }
    let count = kept.len() as f64;
    let mean_at = kept.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean = kept.iter().map(|(_, value)| value).sum::<f64>() / count;
    let covariance: f64 = kept
        .iter()
        .map(|(at, value)| (at - mean_at) * (value - mean))
        .sum();
    let variance: f64 = kept.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance * 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mb_per_s: f64) -> Vec<Sample> {
        (0..100)
            .map(|second| Sample {
                at_s: f64::from(second),
                // The first fifth is a warm-up that must not count.
                resident_mb: if second < 19 {
                    0.0
                } else {
                    50.0 + mb_per_s * f64::from(second)
                },
                descriptors: 7.0,
                own_files_mb: 1.0,
            })
            .collect()
    }

    #[test]
    fn growth_is_the_slope_after_the_warm_up() {
        let growth = |samples: &[Sample]| growth_per_hour(samples, |s| s.resident_mb);
        assert!((growth(&line(0.01)).unwrap() - 36.0).abs() < 0.5);
        assert!(growth(&line(0.0)).unwrap().abs() < 0.5);
        assert_eq!(growth(&line(1.0)[..2]), None);
        assert_eq!(growth_per_hour(&line(1.0), |s| s.descriptors), Some(0.0));
    }

    #[test]
    fn sampling_sees_memory_that_the_work_takes() {
        let own = tempfile::tempdir().unwrap();
        let watched = Watched {
            pid: std::process::id(),
            own_files: vec![own.path().to_path_buf()],
        };
        let (kept, samples) = during(&watched, Duration::from_millis(5), || {
            std::fs::write(own.path().join("file"), vec![1u8; 1 << 20])?;
            Ok(std::hint::black_box(vec![7u8; 64 << 20]))
        })
        .unwrap();
        let last = samples.last().unwrap();
        assert!(last.own_files_mb >= 1.0 && last.descriptors > 2.0);
        assert!(samples.len() >= 2);
        let growth = peak(&samples, |s| s.resident_mb) - samples[0].resident_mb;
        assert!(growth > 30.0, "saw {growth} MB of {}", kept.len());
    }

    #[test]
    fn vm_rss_is_read_in_kibibytes() {
        assert_eq!(parse("Name:\tx\nVmRSS:\t   1000 kB\n"), Some(1.024));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
