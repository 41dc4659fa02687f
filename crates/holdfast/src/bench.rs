//! `holdfast bench NAME`: our side and a peer's on the same data in one run.
//!
//! Each part registers its own in [`BENCHES`].

use crate::failure::{Failure, Outcome};
use crate::screen;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;

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
pub static BENCHES: &[Bench] = &[];

/// How to run one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// A run of about a minute, whose numbers only show that everything works.
    pub quick: bool,
    /// Where the data goes; a temporary directory where none is given.
    pub dir: Option<PathBuf>,
}

/// Which values are the good ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Such as operations a second.
    Higher,
    /// Such as latency.
    Lower,
}

/// One result: a line of JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name of the benchmark.
    pub bench: String,
    /// What was done, such as `random write 8 KiB, depth 16`.
    pub case: String,
    /// One of the shared metric names (docs/benchmarks.md).
    pub metric: String,
    /// Unit of `ours` and `peer`.
    pub unit: String,
    /// Which values are the good ones.
    pub better: Better,
    /// Our median.
    pub ours: f64,
    /// The peer's median; `None` where the peer is not installed.
    pub peer: Option<f64>,
    /// Who the peer is; where it is missing, with the Debian package that brings it.
    pub peer_name: String,
    /// Ours over peer.
    pub ratio: Option<f64>,
    /// Runs of each side.
    pub runs: u32,
    /// Greatest less least of our runs, over the median.
    pub spread: f64,
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
    let peer = row.peer.map_or("-".to_owned(), |peer| format!("{peer:.1}"));
    let ratio = row
        .ratio
        .map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let (case, metric, unit) = (&row.case, &row.metric, &row.unit);
    format!(
        "{case:<34} {metric:<16} {:>10.1} {unit:<5} {}: {peer} (ratio {ratio})\n",
        row.ours, row.peer_name
    )
}
