//! `holdfast torture NAME`: a real run under faults that looks for a broken promise.
//!
//! Each part registers its own in [`TORTURES`]. All take the same [`Options`], and may add
//! options of their own.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

pub mod redundancy;

/// One torture.
pub struct Torture {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does to what, in a line.
    pub about: &'static str,
    /// Adds options beyond [`Options`].
    pub options: fn(Command) -> Command,
    /// Runs it; an error is a run that could not be made, not a broken promise.
    pub run: fn(&Plan, &ArgMatches) -> anyhow::Result<Report>,
}

/// All tortures.
pub static TORTURES: &[Torture] = &[redundancy::TORTURE];

/// The options that all take.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Replay the choices of an earlier run
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How long, in minutes; parts of a minute are fine
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    pub minutes: f64,
    /// Where stores and mount go; a temporary directory where none is given
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// One JSON object in place of text
    #[arg(long)]
    pub json: bool,
}

/// What a run is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where every choice comes from: the same seed makes the same choices.
    pub seed: u64,
    /// How long.
    pub duration: Duration,
    /// Where stores and mount go; a temporary directory where none is given.
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

/// The command with one subcommand for each torture.
pub fn command(torture: Command) -> Command {
    TORTURES.iter().fold(torture, |command, one| {
        let options = Options::augment_args(Command::new(one.name).about(one.about));
        command.subcommand((one.options)(options))
    })
}

/// Runs the one that was named.
///
/// # Errors
/// It could not be run.
pub fn run(matches: &ArgMatches) -> Outcome<Exit> {
    let named = matches.subcommand().and_then(|(name, options)| {
        let torture = TORTURES.iter().find(|torture| torture.name == name)?;
        Some((torture, options))
    });
    let Some((torture, given)) = named else {
        let rows = TORTURES.iter().map(|torture| (torture.name, torture.about));
        return screen::print(&crate::cli::table("tortures", rows)).map(|()| Exit::Done);
    };
    let options = Options::from_arg_matches(given)
        .map_err(|error| Failure::unexpected("command line", &error))?;
    let plan = plan(&options)?;
    eprintln!("torture {}, seed {}", torture.name, plan.seed);
    let report = (torture.run)(&plan, given).map_err(|error| {
        let doing = format!("torture {} --seed {}", torture.name, plan.seed);
        Failure::unexpected(doing, &format!("{error:#}"))
    })?;
    if options.json {
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

fn plan(options: &Options) -> Outcome<Plan> {
    let duration = Duration::try_from_secs_f64(options.minutes * 60.0).map_err(|_| {
        Failure::refuse(
            Exit::Usage,
            format!("--minutes {} is not a length of time", options.minutes),
            "give a positive number",
        )
    })?;
    Ok(Plan {
        seed: options.seed.unwrap_or_else(fresh_seed),
        duration,
        dir: options.dir.clone(),
    })
}

/// A seed that differs from run to run, short enough to type.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_comes_with_its_seed() {
        let report = Report {
            torture: "redundancy".to_owned(),
            seed: 42,
            checked: 1000,
            faults: 1,
            broken: vec!["/a/b: byte 4096 was synced as 0x41 and reads as 0x00".to_owned()],
        };
        insta::assert_snapshot!(text(&report));
    }

    #[test]
    fn a_length_of_time_must_be_one() {
        let options = Options {
            seed: Some(1),
            minutes: -1.0,
            dir: None,
            json: false,
        };
        let failure = plan(&options).expect_err("negative");
        assert_eq!(failure.exit, Exit::Usage);
    }
}
