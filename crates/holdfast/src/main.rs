//! The `holdfast` binary.

mod bench;

use clap::Parser as _;

#[derive(clap::Parser)]
enum Cli {
    /// Measures ours beside its peers
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Files through the mount, beside the bare file system and GlusterFS
    Redundancy(bench::redundancy::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::Bench(Bench::Redundancy(args)) => bench::redundancy::run(&args),
    }
}
