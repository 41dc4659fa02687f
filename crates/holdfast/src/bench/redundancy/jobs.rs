//! The fio jobs: I/O on one file.

use super::run::{Bench, Metric};
use crate::bench::fio::{self, Measured};

/// The state of the page cache at the start of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// No such file.
    NoFile,
    /// The file is there; its pages, and those of its copies, are not.
    Cold,
    /// The file has just been read.
    Warm,
    /// As the last job left it.
    Any,
}

/// How much a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Amount {
    /// The whole file once.
    File,
    /// Half the file, no block twice.
    Half,
    /// Seconds in a full run; one in a quick one.
    Seconds(u64),
}

/// What a job reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Result {
    Throughput,
    Ops,
    OpsAndLatency,
}

struct Job {
    case: &'static str,
    options: &'static str,
    start: Start,
    amount: Amount,
    result: Result,
    note: &'static str,
}

/// What a plain write to a file opened without O_SYNC is worth when it returns, by O_DIRECT.
const DIRECT: &str = "O_DIRECT, no fsync: ext4 acknowledges from the device's cache, holdfast from the page \
     cache of both copies, glusterfs as shipped (write-behind in the client, then both bricks): not the same \
     durability, see *_end_fsync and *_fsync_each for pairs that are";

const JOBS: &[Job] = &[
    Job {
        case: "seq_write_1m",
        options: "--rw=write --bs=1M --ioengine=psync --end_fsync=1",
        start: Start::NoFile,
        amount: Amount::File,
        result: Result::Throughput,
        note: "new file, fsync at the end: on the medium of every copy when the clock stops",
    },
    Job {
        case: "seq_read_1m_cold",
        options: "--rw=read --bs=1M --ioengine=psync",
        start: Start::Cold,
        amount: Amount::File,
        result: Result::Throughput,
        note: "buffered",
    },
    Job {
        case: "seq_read_1m_warm",
        options: "--rw=read --bs=1M --ioengine=psync --loops=4",
        start: Start::Warm,
        amount: Amount::File,
        result: Result::Throughput,
        note: "buffered",
    },
    Job {
        case: "rand_read_8k_qd1_cold",
        options: "--rw=randread --bs=8k --ioengine=psync",
        start: Start::Cold,
        amount: Amount::Half,
        result: Result::OpsAndLatency,
        note: "buffered, no block twice",
    },
    Job {
        case: "rand_read_8k_qd16_cold",
        options: "--rw=randread --bs=8k --ioengine=libaio --iodepth=16 --direct=1",
        start: Start::Cold,
        amount: Amount::Half,
        result: Result::Ops,
        note: "O_DIRECT, as buffered asynchronous reads are not asynchronous; no block twice",
    },
    Job {
        case: "rand_read_8k_qd1_warm",
        options: "--rw=randread --bs=8k --ioengine=psync --norandommap",
        start: Start::Warm,
        amount: Amount::Seconds(2),
        result: Result::OpsAndLatency,
        note: "buffered",
    },
    Job {
        case: "rand_read_8k_qd16_warm",
        options: "--rw=randread --bs=8k --ioengine=psync --norandommap --numjobs=16",
        start: Start::Warm,
        amount: Amount::Seconds(2),
        result: Result::Ops,
        note: "buffered, 16 threads",
    },
    Job {
        case: "rand_write_8k_qd1_direct",
        options: "--rw=randwrite --bs=8k --ioengine=psync --norandommap --direct=1",
        start: Start::Any,
        amount: Amount::Seconds(3),
        result: Result::Ops,
        note: DIRECT,
    },
    Job {
        case: "rand_write_8k_qd16_direct",
        options: "--rw=randwrite --bs=8k --ioengine=libaio --iodepth=16 --norandommap --direct=1",
        start: Start::Any,
        amount: Amount::Seconds(3),
        result: Result::Ops,
        note: DIRECT,
    },
    Job {
        case: "rand_write_8k_qd1_end_fsync",
        options: "--rw=randwrite --bs=8k --ioengine=psync --end_fsync=1",
        start: Start::Any,
        amount: Amount::Half,
        result: Result::Ops,
        note: "buffered, fsync at the end: on the medium of every copy when the clock stops",
    },
    Job {
        case: "rand_write_8k_fsync_each",
        options: "--rw=randwrite --bs=8k --ioengine=psync --norandommap --fsync=1",
        start: Start::Any,
        amount: Amount::Seconds(3),
        result: Result::OpsAndLatency,
        note: "fsync after each write: on the medium of every copy; the latency is that of the fsync",
    },
    Job {
        case: "rand_write_8k_qd16_fsync_each",
        options: "--rw=randwrite --bs=8k --ioengine=psync --norandommap --fsync=1 --numjobs=16",
        start: Start::Any,
        amount: Amount::Seconds(3),
        result: Result::Ops,
        note: "16 threads, fsync after each write: on the medium of every copy",
    },
];

/// Runs all jobs on all sides.
pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let size_mb = if bench.quick() { 64 } else { 256 };
    let scratch = bench.scratch().to_path_buf();
    for job in JOBS {
        let options = options(job, size_mb, bench.quick());
        bench.compare(&metrics(job), job.note, false, |side, _| {
            let file = side.work.join("fio.dat");
            match job.start {
                Start::NoFile => match std::fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error.into());
                    }
                    _ => {}
                },
                Start::Cold => side.drop_pages()?,
                Start::Warm => {
                    std::io::copy(&mut std::fs::File::open(&file)?, &mut std::io::sink())?;
                }
                Start::Any => {}
            }
            let measured = fio::run(&file, size_mb, &options, &scratch)?;
            // What is still dirty would be written in the time of the next side.
            side.sync()?;
            values(job, &measured)
        })?;
    }
    Ok(())
}

fn options(job: &Job, size_mb: u64, quick: bool) -> Vec<String> {
    let mut options: Vec<String> = job.options.split(' ').map(String::from).collect();
    match job.amount {
        Amount::File => {}
        Amount::Half => options.push(format!("--io_size={}M", size_mb / 2)),
        Amount::Seconds(seconds) => {
            let seconds = if quick { 1 } else { seconds };
            options.push("--time_based".into());
            options.push(format!("--runtime={seconds}"));
        }
    }
    options
}

fn metrics(job: &Job) -> Vec<Metric> {
    match job.result {
        Result::Throughput => vec![Metric::throughput(job.case)],
        Result::Ops => vec![Metric::ops(job.case)],
        Result::OpsAndLatency => vec![
            Metric::ops(job.case),
            Metric::latency(job.case, "latency_us_p50"),
            Metric::latency(job.case, "latency_us_p99"),
        ],
    }
}

fn values(job: &Job, measured: &Measured) -> anyhow::Result<Vec<f64>> {
    Ok(match job.result {
        Result::Throughput => vec![measured.mb_per_s],
        Result::Ops => vec![measured.ops_per_s],
        Result::OpsAndLatency => {
            let (p50, p99) = measured
                .latency_us
                .ok_or_else(|| anyhow::anyhow!("fio gave no latencies"))?;
            vec![measured.ops_per_s, p50, p99]
        }
    })
}
