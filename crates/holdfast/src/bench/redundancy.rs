//! `holdfast bench redundancy`: files through our mount (two copies, three stores), beside the
//! bare directory below and a GlusterFS replica-2 volume, all on one file system of this machine.
//!
//! Replica 2 is the GlusterFS volume that keeps as many copies as ours. It has no third brick to
//! vote, so it does less work than the replica 3 that its makers advise: the comparison favours it.
//! What an acknowledgement means on each side is in the note of each row.

mod ec;
mod jobs;
mod machine;
mod run;
mod side;

use super::gluster::{self, Gluster, Kind};
use super::memory::Sample;
use super::ours::Ours;
use super::process;
use super::row::Report;
use super::runs::Runs;
use super::{load, memory, tree};
use anyhow::{Context as _, bail};
use run::{Bench, Metric};
use side::Side;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "redundancy";
/// Copies of each file on our side, and bricks of the GlusterFS volume.
const COPIES: u8 = 2;
/// The GlusterFS volume beside it.
const REPLICA: Kind = Kind::Replica(COPIES as usize);
/// The aim for resident memory while a million files are walked, 200 MiB in 10^6 bytes.
pub(super) const MEMORY_LIMIT_MB: f64 = 209.7;
/// Stores on our side.
const STORES: usize = 3;

/// One group of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Case {
    /// Random and sequential I/O on one file, with fio.
    Io,
    /// Unpack and search a tree of small files.
    Tree,
    /// Create small files.
    Create,
    /// Resident memory while many files are made and walked.
    Memory,
    /// Growth of memory, open descriptors and own files under a long mixed load; runs only when
    /// asked for.
    Endurance,
}

/// Files through the mount, beside the bare directory below and GlusterFS
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
    /// Only this group of measurements; may be given more than once (default: all but endurance)
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// How long the endurance case runs
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// How many files the memory case makes (default: 1000000, with --quick 20000)
    #[arg(long, value_name = "N")]
    files: Option<u64>,
    /// Encoded data in place of these: writes, reads, encoding, rebuild and metadata of a set with
    /// parity (2+1), beside the same set without and a GlusterFS disperse volume
    #[arg(long, conflicts_with_all = ["case", "mounted"])]
    ec: bool,
    /// MiB of data with --ec (default: 768, with --quick 384)
    #[arg(long, value_name = "MIB", requires = "ec", value_parser = clap::value_parser!(u64).range(384..))]
    mib: Option<u64>,
    /// Leave the GlusterFS peer out
    #[arg(long)]
    no_gluster: bool,
    /// Measure this directory in place of a mount of our own
    #[arg(long, value_name = "DIR")]
    mounted: Option<PathBuf>,
}

impl Args {
    fn wants(&self, case: Case) -> bool {
        if self.case.is_empty() {
            case != Case::Endurance
        } else {
            self.case.contains(&case)
        }
    }

    fn needs_peers(&self) -> bool {
        [Case::Io, Case::Tree, Case::Create]
            .iter()
            .any(|case| self.wants(*case))
    }
}

/// Runs the benchmark and takes down everything that it set up, also after a failure or a stop
/// signal.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    process::catch_stop_signals()?;
    if !args.ec && args.needs_peers() && !process::installed("fio") {
        bail!("this benchmark drives its load with fio: apt-get install fio");
    }
    let below = machine::file_system(&args.runs.dir)?;
    eprintln!("{}", machine::line(below));
    if let Some(warning) = machine::warning() {
        eprintln!("{warning}");
    }
    let scratch = Scratch::new(&args.runs.dir)?;
    let mut report = Report::new(args.runs.json.as_deref())?;
    if args.ec {
        ec::run(args, &scratch.0, &mut report)?;
    } else {
        measure(args, below, &scratch.0, &mut report)?;
    }
    run::print_aims(report.rows());
    Ok(())
}

fn measure(
    args: &Args,
    below: &'static str,
    scratch: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    // Declared first, so that it goes last.
    let _stand_in = args
        .mounted
        .as_ref()
        .map(|directory| Scratch(directory.join(side::WORK)));
    let mut ours = match &args.mounted {
        Some(_) => None,
        None => Some(Ours::up(&scratch.join("ours"), STORES, COPIES)?),
    };
    if args.needs_peers() {
        let gluster = if !args.no_gluster && Gluster::installed() {
            Some(Gluster::up(&scratch.join("gluster"), REPLICA)?)
        } else {
            None
        };
        let mut sides = vec![
            Side::ours(ours.as_ref(), args.mounted.as_deref(), scratch)?,
            Side::below(below, &scratch.join("below"))?,
        ];
        if !args.no_gluster {
            sides.push(Side::gluster(REPLICA, gluster.as_ref())?);
        }
        let mut bench = Bench::new(sides, report, args.runs.quick, args.runs.rounds(), scratch);
        if args.wants(Case::Io) {
            jobs::run(&mut bench)?;
        }
        if args.wants(Case::Tree) {
            trees(&mut bench)?;
        }
        if args.wants(Case::Create) {
            creation(&mut bench)?;
        }
    }
    if let Some(ours) = &mut ours {
        if args.wants(Case::Memory) {
            let files = args
                .files
                .unwrap_or(if args.runs.quick { 20_000 } else { 1_000_000 });
            memory_of_a_walk(report, ours, files)?;
        }
        if args.wants(Case::Endurance) {
            endurance(report, ours, args.minutes)?;
        }
    }
    if !args.no_gluster && args.needs_peers() {
        tell_if_absent();
    }
    Ok(())
}

/// Says how to get the peer where it is not installed.
fn tell_if_absent() {
    if !Gluster::installed() {
        eprintln!(
            "The GlusterFS peer is not installed; its rows are empty: apt-get install {}",
            gluster::PACKAGES
        );
    }
}

fn trees(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let tar = bench.scratch().join("doc.tar");
    let log = bench.scratch().join("tar.log");
    let wanted = if bench.quick() { 300 } else { 3000 };
    let (files, bytes) = tree::make_tar(&tar, wanted, &log)?;
    let note = format!(
        "{files} files, {:.1} MB, of /usr/share/doc; page cache on every side, no fsync; grep_first after \
         the pages were dropped (names and attributes stay known)",
        bytes as f64 / 1e6
    );
    let metrics = [
        Metric::time("untar"),
        Metric::time("grep_first"),
        Metric::time("grep_second"),
    ];
    bench.compare(&metrics, &note, true, |side, round| {
        let directory = side.work.join(format!("tree{round}"));
        std::fs::create_dir_all(&directory)?;
        let mut untar = std::process::Command::new("tar");
        untar.arg("-C").arg(&directory).arg("-xf").arg(&tar);
        let untar = run::timed(&mut untar, &log)?;
        side.sync()?;
        side.drop_pages()?;
        // grep's exit code 1 says that nothing matched, which is what is wanted: it reads all.
        let grep = || {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", "grep -rF holdfast-is-not-in-here . ; test $? -le 1"])
                .current_dir(&directory);
            run::timed(&mut command, &log)
        };
        let times = vec![untar, grep()?, grep()?];
        // The tree stays until the end: an ext4 without a journal does not use the inodes of removed
        // files for minutes, and looks at each of them for every new one, on all sides alike.
        Ok(times)
    })
}

fn creation(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let quick = bench.quick();
    let rates = [
        (
            "create_1k",
            false,
            "files of 1 KiB in one directory; page cache on every side, no fsync",
        ),
        (
            "create_1k_fsync",
            true,
            "files of 1 KiB in one directory, fsync each; on the medium of every copy",
        ),
    ];
    for (case, durable, note) in rates {
        bench.compare(&[Metric::ops(case)], note, false, |side, round| {
            let count = match (durable, quick) {
                (false, false) => 2000,
                (false, true) | (true, false) => 300,
                (true, true) => 50,
            };
            let count = if side.is_fast { count } else { count.min(500) };
            let directory = side.work.join(format!("{case}{round}"));
            let rate = tree::create_files(&directory, count, 1024, durable)?;
            // As above, the files stay.
            side.sync()?;
            Ok(vec![rate])
        })?;
    }
    Ok(())
}

fn memory_of_a_walk(report: &mut Report, ours: &mut Ours, files: u64) -> anyhow::Result<()> {
    let tick = Duration::from_millis(100);
    let root = ours.mount().join("many");
    let ((), made) = memory::during(&ours.watched()?, tick, || tree::create_empty(&root, files))?;
    ours.restart()?;
    let (seen, walked) = memory::during(&ours.watched()?, tick, || {
        tree::walk(&root, &[], &mut |_, _| Ok(()))
    })?;
    anyhow::ensure!(seen == files, "walked {seen} files of {files}");
    let note = format!("resident set of the serving process; {files} empty files");
    report.add(run::alone(
        "memory_create",
        "memory_peak_mb",
        "MB",
        memory::peak(&made, |s| s.resident_mb),
        &note,
    ))?;
    report.add(run::alone(
        "memory_walk",
        "memory_peak_mb",
        "MB",
        memory::peak(&walked, |s| s.resident_mb),
        &format!("{note}, started anew, each looked up and inspected"),
    ))
}

fn endurance(report: &mut Report, ours: &mut Ours, minutes: u64) -> anyhow::Result<()> {
    let root = ours.mount().join("endurance");
    let time = Duration::from_secs(minutes.saturating_mul(60));
    let tick = Duration::from_secs(5);
    let (operations, samples) = memory::during(&ours.watched()?, tick, || {
        load::mixed_load(&root, 4096, time)
    })?;
    let note = format!("{operations} mixed operations in {minutes} min");
    let slope = format!("{note}; slope without the first fifth of the time");
    type Value = fn(&Sample) -> f64;
    let growths: [(&str, &str, Value); 3] = [
        ("memory_growth_mb_per_hour", "MB/h", |s| s.resident_mb),
        ("descriptors_growth_per_hour", "1/h", |s| s.descriptors),
        ("own_files_growth_mb_per_hour", "MB/h", |s| s.own_files_mb),
    ];
    for (metric, unit, value) in growths {
        let growth = memory::growth_per_hour(&samples, value)
            .context("too short a run to tell growth: --minutes 1 or more")?;
        report.add(run::alone("endurance", metric, unit, growth, &slope))?;
    }
    let peaks: [(&str, &str, Value); 3] = [
        ("memory_peak_mb", "MB", |s| s.resident_mb),
        ("descriptors_peak", "1", |s| s.descriptors),
        ("own_files_peak_mb", "MB", |s| s.own_files_mb),
    ];
    for (metric, unit, value) in peaks {
        let peak = memory::peak(&samples, value);
        report.add(run::alone("endurance", metric, unit, peak, &note))?;
    }
    Ok(())
}

/// A directory of this run's own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> anyhow::Result<Scratch> {
        let path = below
            .canonicalize()?
            .join(format!("holdfast-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| {
            format!(
                "cannot work in {}; name a writable directory with --dir",
                below.display()
            )
        })?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}
