//! `holdfast bench NAME`: our side and a peer's on the same data in one run.
//!
//! Each part registers its own in [`BENCHES`].

use crate::failure::{Failure, Outcome};
use crate::screen;
use std::io::Write;
use std::path::PathBuf;

mod fio;
mod gluster;
mod load;
mod memory;
mod ours;
mod process;
mod redundancy;
pub mod row;
mod tree;

pub use row::{Better, Row};

/// One benchmark.
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures against what, in a line.
    pub about: &'static str,
    /// Runs it and hands out each row as soon as it is known.
    pub run: fn(&Options, &mut dyn FnMut(Row)) -> anyhow::Result<()>,
}

/// All benchmarks.
pub static BENCHES: &[Bench] = &[Bench {
    name: redundancy::NAME,
    about: "files through the mount, beside the bare directory below and GlusterFS",
    run: redundancy::run,
}];

/// How to run one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// A run of about a minute, whose numbers only show that everything works.
    pub quick: bool,
    /// Where the data goes; a temporary directory where none is given.
    pub dir: Option<PathBuf>,
    /// Only these groups of measurements; all but the long ones where empty.
    pub cases: Vec<String>,
    /// Peers to leave out.
    pub without: Vec<String>,
    /// Length of a case that runs as long as wanted.
    pub minutes: Option<u64>,
    /// Number of files of a case that makes as many as wanted.
    pub files: Option<u64>,
    /// A directory to measure in place of a mount of our own.
    pub mounted: Option<PathBuf>,
}

/// Arguments of `holdfast bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The benchmark; without one, all are listed
    pub name: Option<String>,
    /// About a minute, only to see that everything works
    #[arg(long)]
    pub quick: bool,
    /// Write one JSON object a row to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Where the data goes
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Only this group of measurements; may be given more than once
    #[arg(long, value_name = "CASE")]
    pub case: Vec<String>,
    /// Leave this peer out; may be given more than once
    #[arg(long, value_name = "PEER")]
    pub without: Vec<String>,
    /// How long the endurance case runs
    #[arg(long, value_name = "N")]
    pub minutes: Option<u64>,
    /// How many files the memory case makes
    #[arg(long, value_name = "N")]
    pub files: Option<u64>,
    /// Measure this directory in place of a mount of our own
    #[arg(long, value_name = "DIR")]
    pub mounted: Option<PathBuf>,
}

/// Runs a benchmark, or lists all.
///
/// # Errors
/// No such benchmark, or it could not be run.
pub fn run(args: &Args) -> Outcome<()> {
    let Some(name) = &args.name else {
        let list = BENCHES.iter().map(|bench| (bench.name, bench.about));
        return screen::print(&crate::cli::table("benchmarks", list));
    };
    let bench = BENCHES
        .iter()
        .find(|bench| bench.name == name)
        .ok_or_else(|| crate::cli::no_such("benchmark", name, "holdfast bench"))?;
    let options = Options {
        quick: args.quick,
        dir: args.dir.clone(),
        cases: args.case.clone(),
        without: args.without.clone(),
        minutes: args.minutes,
        files: args.files,
        mounted: args.mounted.clone(),
    };
    let to_stdout = args.json.as_deref().is_some_and(|path| path == "-");
    let fault = |error: &dyn std::fmt::Display| Failure::unexpected("the JSON file", error);
    let mut file = match &args.json {
        Some(path) if !to_stdout => Some(std::fs::File::create(path).map_err(|e| fault(&e))?),
        _ => None,
    };
    let mut broken: Outcome<()> = Ok(());
    let mut show = |row: Row| {
        let shown = if to_stdout {
            screen::print_json(&row)
        } else {
            screen::print(&text(&row))
        };
        let kept = match (&mut file, serde_json::to_string(&row)) {
            (Some(file), Ok(line)) => writeln!(file, "{line}").map_err(|e| fault(&e)),
            (None, Ok(_)) => Ok(()),
            (_, Err(error)) => Err(fault(&error)),
        };
        if broken.is_ok() {
            broken = shown.and(kept);
        }
    };
    (bench.run)(&options, &mut show).map_err(|error| {
        Failure::unexpected(format_args!("bench {name}"), &format!("{error:#}"))
    })?;
    broken
}

/// A row for people.
fn text(row: &Row) -> String {
    let peer = row.peer.map_or_else(|| "-".to_owned(), significant);
    let ratio = row
        .ratio
        .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    format!(
        "{:<30} {:<16} {:>9} {:<4}  {}: {peer}  ratio {ratio}  spread {:.0}%\n",
        row.case,
        row.metric,
        significant(row.ours),
        row.unit,
        row.peer_name,
        row.spread * 100.0,
    )
}

/// Three significant digits or so, without an exponent.
fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
