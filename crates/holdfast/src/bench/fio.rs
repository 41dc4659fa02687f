//! One fio job on one file.

use super::process;
use anyhow::Context as _;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What a job measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Measured {
    /// Reads or writes a second, over the whole job with its final fsync.
    pub(crate) ops_per_s: f64,
    /// 10^6 bytes a second, likewise.
    pub(crate) mb_per_s: f64,
    /// Median and 99th percentile in microseconds of the call that makes a write durable
    /// (fsync), where the job had one after each write; else of the read or write.
    pub(crate) latency_us: Option<(f64, f64)>,
}

/// Runs fio on `file` of `size_mb` MiB with `options` (as on its command line).
pub(crate) fn run(
    file: &Path,
    size_mb: u64,
    options: &[String],
    scratch: &Path,
) -> anyhow::Result<Measured> {
    let output = scratch.join("fio.json");
    let mut command = Command::new("fio");
    command
        .args(["--name=job", "--output-format=json", "--randrepeat=1"])
        .args(["--group_reporting", "--thread", "--invalidate=0"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--size={size_mb}M"))
        .arg(format!("--output={}", output.display()))
        .args(options)
        .current_dir(scratch);
    // The longest job is bounded by its run time or by 256 MiB, on the slowest peer.
    process::run(
        &mut command,
        Duration::from_secs(180),
        &scratch.join("fio.log"),
    )?;
    let text = std::fs::read_to_string(&output)?;
    parse(&text).with_context(|| format!("fio reported something else than expected: {text}"))
}

/// Reads fio's JSON (fio 3.x); notes may stand before the first brace.
fn parse(text: &str) -> Option<Measured> {
    let start = text.find('{')?;
    let value: Value = serde_json::from_str(text.get(start..)?).ok()?;
    let job = value.get("jobs")?.get(0)?;
    let count = |part: &str| job.get(part)?.get("total_ios")?.as_f64();
    let part = if count("write")? > 0.0 {
        "write"
    } else {
        "read"
    };
    let side = job.get(part)?;
    // fio's rates are over the run time, which ends after the final fsync (measured: 512 MiB took
    // 0.09 s without --end_fsync and 1.7 s with it).
    let synced = job
        .get("sync")
        .filter(|sync| sync.get("total_ios").and_then(Value::as_f64) > Some(1.0))
        .and_then(|sync| percentiles(sync.get("lat_ns")?));
    Some(Measured {
        ops_per_s: side.get("iops")?.as_f64()?,
        mb_per_s: side.get("bw_bytes")?.as_f64()? / 1e6,
        latency_us: synced.or_else(|| percentiles(side.get("clat_ns")?)),
    })
}

fn percentiles(latency: &Value) -> Option<(f64, f64)> {
    let at = |name: &str| latency.get("percentile")?.get(name)?.as_f64();
    Some((at("50.000000")? / 1e3, at("99.000000")? / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_of_a_job_that_syncs_each_write_is_that_of_the_sync() {
        let text = r#"note: something
        {"jobs":[{
          "read":{"total_ios":0,"iops":0,"bw_bytes":0,"clat_ns":{}},
          "write":{"total_ios":10,"iops":5.5,"bw_bytes":2000000,
            "clat_ns":{"percentile":{"50.000000":1000,"99.000000":2000}}},
          "sync":{"total_ios":10,
            "lat_ns":{"percentile":{"50.000000":7000,"99.000000":9000}}}}]}"#;
        assert_eq!(
            parse(text),
            Some(Measured {
                ops_per_s: 5.5,
                mb_per_s: 2.0,
                latency_us: Some((7.0, 9.0)),
            })
        );
    }

    #[test]
    fn what_is_not_fio_output_is_refused() {
        assert_eq!(parse("fio: out of memory"), None);
        assert_eq!(parse(r#"{"jobs":[]}"#), None);
    }
}
