//! `holdfast bench NAME`: our side and a peer's on the same data in one run.
//!
//! Each part registers its own in [`BENCHES`], with its own options. Every one takes `--quick`
//! and `--json FILE`, and reports rows of the form that docs/benchmarks.md describes.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};

mod filemeta;
mod fio;
mod gluster;
mod kv;
mod latency;
mod load;
mod memory;
mod ours;
mod process;
mod redundancy;
pub mod row;
mod runs;
mod stripes;
mod transfer;
mod tree;
mod vlog;
mod volume;

/// One benchmark.
pub struct Bench {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures against what, in a line.
    pub about: &'static str,
    /// Adds its options: `Args::augment_args` of its struct of options.
    pub options: fn(Command) -> Command,
    /// Runs it and reports.
    pub run: fn(&ArgMatches) -> anyhow::Result<()>,
}

/// All benchmarks.
pub static BENCHES: &[Bench] = &[
    Bench {
        name: redundancy::NAME,
        about: "Files through the mount, beside the bare directory below and GlusterFS",
        options: redundancy::Args::augment_args,
        run: |matches| redundancy::run(&redundancy::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: filemeta::NAME,
        about: "Metadata of files in one request, beside bare system calls; replay at a million files",
        options: filemeta::Args::augment_args,
        run: |matches| filemeta::run(&filemeta::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: stripes::NAME,
        about: "Parity in place of copies: encoding, merging, reading without a store",
        options: stripes::Args::augment_args,
        run: |matches| stripes::run(&stripes::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: volume::NAME,
        about: "64 writes as one, beside direct I/O in place; databases, beside themselves on ext4",
        options: volume::Args::augment_args,
        run: |matches| volume::run(&volume::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: transfer::NAME,
        about: "Trees sent with proof, local and over a link, beside rsync, rclone and tar",
        options: transfer::Args::augment_args,
        run: |matches| transfer::run(&transfer::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: vlog::NAME,
        about: "The log of an in-memory database: appends, compaction, recovery, beside plain files",
        options: vlog::Args::augment_args,
        run: |matches| vlog::run(&vlog::Args::from_arg_matches(matches)?),
    },
    Bench {
        name: kv::NAME,
        about: "The server of the Redis protocol: YCSB, checkpoints, restarts, memory, beside Redis",
        options: kv::Args::augment_args,
        run: |matches| kv::run(&kv::Args::from_arg_matches(matches)?),
    },
];

/// The command with one subcommand for each benchmark.
pub fn command(bench: Command) -> Command {
    BENCHES.iter().fold(bench, |command, one| {
        command.subcommand((one.options)(Command::new(one.name).about(one.about)))
    })
}

/// Runs the one that was named.
///
/// # Errors
/// It could not be run.
pub fn run(matches: &ArgMatches) -> Outcome<Exit> {
    let named = matches.subcommand().and_then(|(name, options)| {
        let bench = BENCHES.iter().find(|bench| bench.name == name)?;
        Some((bench, options))
    });
    let Some((bench, options)) = named else {
        let rows = BENCHES.iter().map(|bench| (bench.name, bench.about));
        return crate::screen::print(&crate::cli::table("benchmarks", rows)).map(|()| Exit::Done);
    };
    (bench.run)(options).map_err(|error| {
        Failure::unexpected(format_args!("bench {}", bench.name), &format!("{error:#}"))
    })?;
    Ok(Exit::Done)
}
