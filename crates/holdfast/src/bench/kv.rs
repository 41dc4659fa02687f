//! `holdfast bench kv`: the database in memory beside Redis, with the loads of YCSB.

use super::process::{catch_stop_signals, installed};
use super::row::Report;
use super::runs::Runs;
use anyhow::Context as _;
use server::{Program, Server, Setup};
use sides::Pair;
use std::path::{Path, PathBuf};

mod checkpoint;
mod collection;
mod content;
mod driver;
mod keys;
mod memory;
mod resp;
mod restart;
mod server;
mod sides;
#[cfg(test)]
mod tests;
mod throughput;
mod workload;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "kv";

/// The Redis protocol server, beside Redis: throughput, latency, checkpoints, restarts, memory
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
    /// Only these cases (default: all)
    #[arg(long = "case", value_enum, value_name = "CASE")]
    cases: Vec<Case>,
    /// Only these loads of the first two cases, such as a or updates-uniform (default: all)
    #[arg(long = "load", value_name = "LOAD")]
    loads: Vec<String>,
    /// The Redis to compare with
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    redis: PathBuf,
    /// Keys of the database (default: 500000 of 1000 bytes, with --quick 100000)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    keys: Option<u64>,
    /// Seconds of each run of a load (default: 3, with --quick 1)
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Connections of the driver
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Case {
    /// YCSB A to F with a sync each second
    Everysec,
    /// YCSB A and updates alone, each answered when it is durable
    Always,
    /// Latency, memory and files while the log is compacted or rewritten
    Checkpoint,
    /// From the start of the process to the first answer
    Restart,
    /// Bytes of memory for each key
    Memory,
    /// The longest wait while one collection of 100 MB changes
    Collection,
}

const CASES: [Case; 6] = [
    Case::Everysec,
    Case::Always,
    Case::Checkpoint,
    Case::Restart,
    Case::Memory,
    Case::Collection,
];

impl Args {
    fn keys(&self) -> u64 {
        self.keys.unwrap_or(match self.runs.quick {
            true => 100_000,
            false => 500_000,
        })
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(if self.runs.quick { 1 } else { 3 })
    }
}

/// Bytes of the values of all cases but the one about memory.
const VALUE_BYTES: usize = 1000;

/// A directory that goes with this.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// What all cases need.
struct Scene<'a> {
    args: &'a Args,
    home: &'a Path,
    /// The peer, if it is installed.
    redis: Option<PathBuf>,
    made: u32,
}

impl Scene<'_> {
    /// A server of each side, empty.
    fn servers(&mut self, sync: &'static str) -> anyhow::Result<Pair<Server>> {
        self.made += 1;
        let home = |side: &str| self.home.join(format!("{side}-{}", self.made));
        let setup = |program, side| Setup {
            program,
            sync,
            home: home(side),
        };
        Ok(Pair {
            ours: Server::start(&setup(Program::Holdfast, "ours"))?,
            peer: match &self.redis {
                Some(path) => Some(Server::start(&setup(
                    Program::Redis(path.clone()),
                    "redis",
                ))?),
                None => None,
            },
        })
    }
}

/// Runs the cases.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    catch_stop_signals()?;
    let home = args
        .runs
        .dir
        .join(format!("holdfast-bench-kv-{}", std::process::id()));
    std::fs::create_dir(&home)
        .with_context(|| format!("cannot work in {}", args.runs.dir.display()))?;
    let home = Home(home);
    let found = args.redis.components().count() > 1 || args.redis.to_str().is_some_and(installed);
    if !found {
        eprintln!("there is no redis-server (Debian: redis-server): ours alone is measured");
    }
    let mut scene = Scene {
        args,
        home: &home.0,
        redis: found.then(|| args.redis.clone()),
        made: 0,
    };
    let mut report = Report::new(args.runs.json.as_deref())?;
    for case in CASES {
        if !args.cases.is_empty() && !args.cases.contains(&case) {
            continue;
        }
        match case {
            Case::Everysec => throughput::run(&mut scene, &mut report, "everysec")?,
            Case::Always => throughput::run(&mut scene, &mut report, "always")?,
            Case::Checkpoint => checkpoint::run(&mut scene, &mut report)?,
            Case::Restart => restart::run(&mut scene, &mut report)?,
            Case::Memory => memory::run(&mut scene, &mut report)?,
            Case::Collection => collection::run(&mut scene, &mut report)?,
        }
    }
    Ok(())
}
