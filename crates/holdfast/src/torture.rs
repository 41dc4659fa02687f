//! `holdfast torture NAME`: a real run under faults that looks for a broken promise.
//!
//! Each part registers its own in [`TORTURES`].

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// One torture.
pub struct Torture {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does to what, in a line.
    pub about: &'static str,
    /// Runs it; an error is a run that could not be made, not a broken promise.
    pub run: fn(&Options) -> anyhow::Result<Report>,
}

/// All tortures.
pub static TORTURES: &[Torture] = &[];

/// How to run one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where every choice comes from: the same seed makes the same choices.
    pub seed: u64,
    /// How long.
    pub duration: Duration,
    /// Where the stores and the mount go; a temporary directory where none is given.
    pub dir: Option<PathBuf>,
}

/// What a run found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Name of the torture.
    pub torture: String,
    /// The seed that replays it.
    pub seed: u64,
    /// Operations whose outcome was checked.
    pub checked: u64,
    /// Faults that were made.
    pub faults: u64,
    /// Broken promises, each in a sentence; empty where all were kept.
    pub broken: Vec<String>,
}

/// Arguments of `holdfast torture`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The torture; without one, all are listed
    pub name: Option<String>,
    /// Replays the choices of an earlier run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How long, in minutes; parts of a minute are fine
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    pub minutes: f64,
    /// Where the stores and the mount go
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// Runs a torture, or lists all.
///
/// # Errors
/// No such torture, or it could not be run.
pub fn run(args: &Args) -> Outcome<Exit> {
    let Some(name) = &args.name else {
        let list = TORTURES.iter().map(|torture| (torture.name, torture.about));
        return screen::print(&crate::cli::table("tortures", list)).map(|()| Exit::Done);
    };
    let torture = TORTURES
        .iter()
        .find(|torture| torture.name == name)
        .ok_or_else(|| crate::cli::no_such("torture", name, "holdfast torture"))?;
    let duration = Duration::try_from_secs_f64(args.minutes * 60.0).map_err(|_| {
        Failure::refuse(
            Exit::Usage,
            format!("--minutes {} is not a length of time", args.minutes),
            "give a positive number",
        )
    })?;
    let options = Options {
        seed: args.seed.unwrap_or_else(fresh_seed),
        duration,
        dir: args.dir.clone(),
    };
    eprintln!("torture {name}, seed {}", options.seed);
    let report = (torture.run)(&options).map_err(|error| {
        let doing = format!("torture {name} --seed {}", options.seed);
        Failure::unexpected(doing, &format!("{error:#}"))
    })?;
    if args.json {
        screen::print_json(&report)?;
    } else {
        screen::print(&text(&report))?;
    }
    Ok(if report.broken.is_empty() {
        Exit::Done
    } else {
        Exit::PromiseBroken
    })
}

/// A seed that differs from run to run; short enough to type.
fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs());
    nanos % 1_000_000
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{} checked under {}: ",
        crate::units::plural(report.checked, "operation"),
        crate::units::plural(report.faults, "fault")
    );
    if report.broken.is_empty() {
        text.push_str("every promise was kept\n");
        return text;
    }
    text.push_str("BROKEN\n");
    for one in &report.broken {
        text.push_str(&format!("  {one}\n"));
    }
    let (name, seed) = (&report.torture, report.seed);
    text.push_str(&format!("replay: holdfast torture {name} --seed {seed}\n"));
    text
}
