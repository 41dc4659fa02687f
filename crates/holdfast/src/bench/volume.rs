//! `holdfast bench volume`: what atomic groups cost, and what databases gain from them.

mod database;
mod ground;
mod limit;
mod micro;
mod nbd;

use super::process;
use super::row::Report;
use super::runs::Runs;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Name on the command line and in the rows.
pub(super) const NAME: &str = "volume";

/// 64 writes as one beside direct I/O in place, NBD beside qemu-nbd, and databases beside themselves on ext4
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    runs: Runs,
    /// Only these databases, and nothing else
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_enum)]
    databases: Vec<database::Name>,
    /// Only the block device by NBD
    #[arg(long, conflicts_with = "databases")]
    nbd: bool,
    /// An SQLite with atomic writes, for Python to load (see scripts/sqlite-library)
    #[arg(long, value_name = "FILE")]
    sqlite_library: Option<PathBuf>,
    /// Bounds what the device under a database takes in a second, as disks of clouds are bounded
    #[arg(long, value_name = "MIB", requires = "databases")]
    disk_write_mib_per_s: Option<NonZeroU64>,
}

/// Runs all cases, or those that were asked for.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    process::catch_stop_signals()?;
    let mut report = Report::new(args.runs.json.as_deref())?;
    if args.nbd {
        nbd::run(args, &mut report)
    } else if args.databases.is_empty() {
        micro::run(args, &mut report)?;
        nbd::run(args, &mut report)?;
        database::run(args, &database::Name::ALL, &mut report)
    } else {
        database::run(args, &args.databases, &mut report)
    }
}
