//! Resident memory of a process, over time.

use anyhow::Context as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// One reading.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    /// Seconds since sampling began.
    pub(crate) at_s: f64,
    /// Resident set in 10^6 bytes.
    pub(crate) resident_mb: f64,
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

/// Runs `work` while sampling `pid` every `interval`; gives what `work` gave and the samples, at
/// least two of them (first and last).
pub(crate) fn during<T>(
    pid: u32,
    interval: Duration,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Vec<Sample>)> {
    let (finished, done) = channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || -> anyhow::Result<Vec<Sample>> {
            let start = Instant::now();
            let mut samples = Vec::new();
            loop {
                samples.push(Sample {
                    at_s: start.elapsed().as_secs_f64(),
                    resident_mb: resident_mb(pid)?,
                });
                match done.recv_timeout(interval) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            samples.push(Sample {
                at_s: start.elapsed().as_secs_f64(),
                resident_mb: resident_mb(pid)?,
            });
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

/// Largest of the samples.
pub(crate) fn peak_mb(samples: &[Sample]) -> f64 {
    samples
        .iter()
        .map(|sample| sample.resident_mb)
        .fold(0.0, f64::max)
}

/// Slope of the least-squares line through the samples, without the first fifth of the time
/// (caches fill then), in 10^6 bytes an hour. `None` for fewer than three samples.
pub(crate) fn growth_mb_per_hour(samples: &[Sample]) -> Option<f64> {
    let warm_up = samples.last()?.at_s / 5.0;
    let kept: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.at_s >= warm_up)
        .collect();
    if kept.len() < 3 {
        return None;
    }
    let count = kept.len() as f64;
    let mean_at = kept.iter().map(|s| s.at_s).sum::<f64>() / count;
    let mean_size = kept.iter().map(|s| s.resident_mb).sum::<f64>() / count;
    let covariance: f64 = kept
        .iter()
        .map(|s| (s.at_s - mean_at) * (s.resident_mb - mean_size))
        .sum();
    let variance: f64 = kept.iter().map(|s| (s.at_s - mean_at).powi(2)).sum();
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
            })
            .collect()
    }

    #[test]
    fn growth_is_the_slope_after_the_warm_up() {
        assert!((growth_mb_per_hour(&line(0.01)).unwrap() - 36.0).abs() < 0.5);
        assert!(growth_mb_per_hour(&line(0.0)).unwrap().abs() < 0.5);
        assert_eq!(growth_mb_per_hour(&line(1.0)[..2]), None);
    }

    #[test]
    fn sampling_sees_memory_that_the_work_takes() {
        let (kept, samples) = during(std::process::id(), Duration::from_millis(5), || {
            Ok(std::hint::black_box(vec![7u8; 64 << 20]))
        })
        .unwrap();
        assert!(samples.len() >= 2);
        let growth = peak_mb(&samples) - samples[0].resident_mb;
        assert!(growth > 30.0, "saw {growth} MB of {}", kept.len());
    }

    #[test]
    fn vm_rss_is_read_in_kibibytes() {
        assert_eq!(parse("Name:\tx\nVmRSS:\t   1000 kB\n"), Some(1.024));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
