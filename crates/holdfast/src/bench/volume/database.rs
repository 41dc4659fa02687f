//! Databases on a mounted volume without what protects them from torn pages, beside the same databases
//! on ext4 with and without it.

mod mariadb;
mod postgresql;
mod server;
mod sqlite;

use super::ground::{Device, Ground, Written};
use super::{Args, NAME};
use crate::bench::process;
use crate::bench::row::{Better, Report, Row, compare};
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// Which database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Name {
    Mariadb,
    Postgresql,
    Sqlite,
}

impl Name {
    pub(super) const ALL: [Name; 3] = [Name::Mariadb, Name::Postgresql, Name::Sqlite];
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
struct Amount {
    device: Device,
    /// Seconds of a run of SQLite.
    seconds: u64,
    /// Transactions of a run of a server: the same on all sides, for the more there are between two checkpoints,
    /// the fewer pages each of them has to itself.
    transactions: u64,
    quick: bool,
}

/// What one run of one side measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    tx_per_s: f64,
    /// Microseconds.
    p90: f64,
    /// Microseconds.
    p99: f64,
    bytes_per_tx: f64,
    flushes_per_tx: f64,
}

/// How fast a load ran.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pace {
    transactions: u64,
    seconds: f64,
    /// Microseconds.
    p90: f64,
    /// Microseconds.
    p99: f64,
}

impl Pace {
    fn with(self, written: Written) -> Sample {
        let count = self.transactions as f64;
        Sample {
            tx_per_s: count / self.seconds,
            p90: self.p90,
            p99: self.p99,
            bytes_per_tx: written.bytes as f64 / count,
            flushes_per_tx: written.flushes as f64 / count,
        }
    }
}

/// A database in one of its modes, on a device of its own.
trait Database {
    /// Fills it.
    fn prepare(&self) -> anyhow::Result<()>;
    /// Runs the load once. What is written is counted until all of it is on the device.
    fn measure(&self) -> anyhow::Result<Sample>;
}

struct Side {
    name: &'static str,
    /// What a commit that was acknowledged is worth.
    worth: &'static str,
    database: Box<dyn Database>,
    samples: Vec<Sample>,
}

/// The first side is ours.
struct Contest {
    case: &'static str,
    /// What is common to all sides.
    note: &'static str,
    sides: Vec<Side>,
}

/// What is aimed at beside a side of this name.
struct Aim {
    case: &'static str,
    peer: &'static str,
    metric: &'static str,
    /// The worst ratio that meets it.
    bound: f64,
}

const AIMS: [Aim; 6] = [
    aim(mariadb::CASE, mariadb::PEER, "bytes_written_per_op", 0.6),
    aim(mariadb::CASE, mariadb::PEER, "tx_per_s", 1.0),
    aim(
        postgresql::CASE,
        postgresql::PEER,
        "bytes_written_per_op",
        0.6,
    ),
    aim(postgresql::CASE, postgresql::PEER, "tx_per_s", 1.0),
    aim(sqlite::CASE, sqlite::WAL, "tx_per_s", 1.0),
    aim(sqlite::CASE, sqlite::DELETE, "tx_per_s", 2.0),
];

const fn aim(case: &'static str, peer: &'static str, metric: &'static str, bound: f64) -> Aim {
    Aim {
        case,
        peer,
        metric,
        bound,
    }
}

/// A directory that goes away with this.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

/// Runs these databases.
pub(super) fn run(args: &Args, names: &[Name], report: &mut Report) -> anyhow::Result<()> {
    let quick = args.runs.quick;
    let amount = Amount {
        device: Device {
            mib: if quick { 768 } else { 3072 },
            write_bytes_per_s: args.disk_write_mib_per_s.map(|mib| mib.get() << 20),
        },
        seconds: if quick { 5 } else { 20 },
        transactions: if quick { 8_000 } else { 32_000 },
        quick,
    };
    for name in names {
        let place = format!("holdfast-bench-databases-{}", std::process::id());
        let scratch = Scratch(args.runs.dir.join(place));
        std::fs::create_dir(&scratch.0)
            .with_context(|| format!("cannot make {}", scratch.0.display()))?;
        server::let_in(&scratch.0)?;
        let contest = match name {
            Name::Mariadb => mariadb::contest(&scratch.0, amount)?,
            Name::Postgresql => postgresql::contest(&scratch.0, amount)?,
            Name::Sqlite => {
                let library = args.sqlite_library.as_deref();
                sqlite::contest(&scratch.0, amount, library)?
            }
        };
        match contest {
            Ok(contest) => contest.hold(args.runs.rounds(), amount.device, report)?,
            Err(Missing(what)) => println!("left out: {what}"),
        }
    }
    for aim in &AIMS {
        let of = |row: &&Row| {
            row.case == aim.case && row.peer_name == aim.peer && row.metric == aim.metric
        };
        let row = report.rows().iter().find(of);
        if let Some((row, ratio)) = row.and_then(|row| Some((row, row.ratio?))) {
            let (met, bound) = match row.better {
                Better::Higher => (ratio >= aim.bound, "or more"),
                Better::Lower => (ratio <= aim.bound, "or less"),
            };
            println!(
                "{}: {} {}, {ratio:.2} of \"{}\", aim {} {bound}",
                if met { "hit " } else { "miss" },
                aim.case,
                aim.metric,
                aim.peer,
                aim.bound
            );
        }
    }
    Ok(())
}

/// A program that is not there.
struct Missing(String);

impl Contest {
    /// Runs all sides in turn; the one that begins changes.
    fn hold(mut self, rounds: usize, on: Device, report: &mut Report) -> anyhow::Result<()> {
        let bound = match on.write_bytes_per_s {
            Some(bytes) => format!("; each device takes {} MiB/s at most", bytes >> 20),
            None => String::new(),
        };
        for side in &self.sides {
            side.database.prepare()?;
        }
        let count = self.sides.len();
        for round in 0..rounds {
            for turn in 0..count {
                process::check_stop()?;
                let side = &mut self.sides[(round + turn) % count];
                side.samples.push(side.database.measure()?);
            }
        }
        let Some((ours, peers)) = self.sides.split_first() else {
            return Ok(());
        };
        for peer in peers {
            for (metric, unit, better, of) in METRICS {
                let values = |side: &Side| side.samples.iter().map(of).collect::<Vec<f64>>();
                let compared = compare(&values(ours), &values(peer))?;
                report.add(Row {
                    bench: NAME.into(),
                    case: self.case.into(),
                    metric: metric.into(),
                    unit: unit.into(),
                    better,
                    ours: compared.ours,
                    peer: compared.peer,
                    peer_name: peer.name.into(),
                    ratio: compared.ratio,
                    runs: compared.runs,
                    spread: compared.spread,
                    note: format!(
                        "{}{bound}; ours: {}; {}: {}",
                        self.note, ours.worth, peer.name, peer.worth
                    ),
                })?;
            }
        }
        Ok(())
    }
}

/// Name, unit, direction, and where a sample has it.
type Metric = (&'static str, &'static str, Better, fn(&Sample) -> f64);

const METRICS: [Metric; 5] = [
    ("tx_per_s", "1/s", Better::Higher, |one| one.tx_per_s),
    ("latency_us_p90", "us", Better::Lower, |one| one.p90),
    ("latency_us_p99", "us", Better::Lower, |one| one.p99),
    ("bytes_written_per_op", "B", Better::Lower, |one| {
        one.bytes_per_tx
    }),
    ("flushes_per_op", "", Better::Lower, |one| {
        one.flushes_per_tx
    }),
];

/// A place for a database: on ext4, or on ours.
fn ground(scratch: &Path, name: &str, ours: bool, amount: Amount) -> anyhow::Result<Ground> {
    let ground = match ours {
        true => Ground::volume(scratch, name, amount.device)?,
        false => Ground::ext4(scratch, name, amount.device)?,
    };
    Ok(ground)
}
