//! Structured logs on standard error.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// The levels, as `warn` or `info,redundancy=debug`.
pub const LEVELS_VARIABLE: &str = "HOLDFAST_LOG";

/// Warnings and errors, but for one of fuser's: the kernel takes no answer to an interrupt whose request
/// has ended meanwhile (ENOENT), which is nothing to look at, and programs that are interrupted often, as
/// MariaDB is, bring one each second.
const LEVELS: &str = "warn,fuser::reply=off";

/// Starts logging for the life of the process. Without the variable, warnings and errors are
/// shown. A second call changes nothing.
pub fn start(format: Format) {
    let filter =
        EnvFilter::try_from_env(LEVELS_VARIABLE).unwrap_or_else(|_| EnvFilter::new(LEVELS));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        Format::Human => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Format::Json => log.json().try_init(),
    };
    if let Err(error) = started {
        eprintln!("holdfast: logging was started before: {error}");
    }
}
