//! How a benchmark runs: what every one of them may be told.

use std::path::PathBuf;

/// How much, how often, where, and where the results go.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Runs {
    /// Less data and one run: numbers for orientation only
    #[arg(long)]
    pub(super) quick: bool,
    /// Also write the results to FILE, one JSON object a line; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Work below this directory, which must be on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub(super) dir: PathBuf,
    /// How often each side runs each case (default: 3, with --quick 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
}

impl Runs {
    /// Runs of each side.
    pub(super) fn rounds(&self) -> usize {
        match self.rounds {
            Some(rounds) => usize::from(rounds),
            None if self.quick => 1,
            None => 3,
        }
    }
}
