//! `holdfast simulate redundancy`: the policy of adaptive encoding and delayed parity over a
//! block trace. How a trace becomes files, stores and rounds, and what is counted, is in
//! docs/decisions/0008-encoding-policy.md.

mod buffer;
mod layout;
mod report;
mod run;
pub mod scenario;
mod source;
mod space;

use super::trace::{Format, TimeUnit};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use redundancy::encoding::{
    CHUNK_BYTES_MAX, ChunkBytes, Geometry, ParameterError, ReadWeight, Share,
};
use scenario::{Choice, Lists};
use source::Source;
use std::path::PathBuf;

/// Flags.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// The trace: a file of one request a line
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The trace's format, in place of the one that its first line shows
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What the times of a CloudPhysics trace count
    #[arg(long, value_enum, default_value_t)]
    time_unit: TimeUnit,
    /// Go on without up to N lines that are not understood
    #[arg(long, value_name = "N", default_value_t = 0)]
    bad_lines: u64,
    /// Ways to choose what to encode, with commas between
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES",
          default_values = ["adaptive", "random", "modified"])]
    choice: Vec<Choice>,
    /// Sizes of a chunk: powers of two from 64K to 64M, with commas between
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = chunk,
          default_values = ["512K", "4M", "64M"])]
    chunk: Vec<ChunkBytes>,
    /// What a read counts beside a write (a): 0 ignores reads
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_values = ["0", "1"])]
    read_weight: Vec<ReadWeight>,
    /// Most of the load that encoded chunks may have (L), from 0 to 1; 1 is no limit
    #[arg(long, value_delimiter = ',', value_name = "SHARES", default_values = ["0.1", "1"])]
    load_limit: Vec<Share>,
    /// Most of the capacity to encode (R), from 0 to 1
    #[arg(long, value_delimiter = ',', value_name = "SHARES", default_values = ["0.9", "1"])]
    target_rate: Vec<Share>,
    /// Most of the capacity that differential pages take (B), from 0 to 1
    #[arg(long, value_delimiter = ',', value_name = "SHARES",
          default_values = ["0.001", "0.005", "0.01", "0.02"])]
    differential_share: Vec<Share>,
    /// A round after each SECONDS, instead of one after six sevenths of the trace
    #[arg(long, value_name = "SECONDS")]
    interval: Option<f64>,
    /// Data shards of a stripe
    #[arg(long, value_name = "N", default_value_t = 2)]
    data: u8,
    /// Parity shards of a stripe
    #[arg(long, value_name = "N", default_value_t = 1)]
    parity: u8,
    /// Copies of what is not encoded; one more than parity shards where not given
    #[arg(long, value_name = "N")]
    copies: Option<u8>,
    /// Stores
    #[arg(long, value_name = "N", default_value_t = 3)]
    stores: u8,
    /// The unit in which space counts as used, a file on one store: a power of two from the
    /// largest chunk to 64M
    #[arg(long, value_name = "SIZE", value_parser = chunk, default_value = "64M")]
    extent: ChunkBytes,
    /// Where the random choice comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One JSON object a line in place of a table
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Formats: MSR Cambridge (timestamp in 100 ns, host, disk, Read or Write, offset, size, response time)
and CloudPhysics as CSV (version, time, SCSI code, size, block of 512 bytes).

Columns: write and read hits are the share of requests that find their chunk with copies; encoded is
the share of the capacity; parity updates are 4 KiB pages, without delayed parity and at each B.

Exit codes: 0 done, 2 parameters that do not fit together, 33 a trace that cannot be used.";

/// A size such as 512K.
fn chunk(text: &str) -> Result<ChunkBytes, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or("a size is a number of bytes, or with K or M of KiB or MiB")?;
    ChunkBytes::new(bytes).map_err(|error| error.to_string())
}

/// Simulates and prints.
///
/// # Errors
/// The parameters do not fit together, or the trace cannot be used.
pub fn run(args: &Args) -> Outcome<()> {
    let setup = setup(args)?;
    let source = Source::open(&args.trace, args.format, args.time_unit, args.bad_lines)?;
    let result = run::run(&source, &setup)?;
    if args.json {
        for line in report::json(&setup, &result) {
            screen::print_json(&line)?;
        }
        return Ok(());
    }
    screen::print(&report::text(&setup, &result))
}

fn setup(args: &Args) -> Outcome<run::Setup> {
    let copies = args.copies.unwrap_or(args.parity.saturating_add(1));
    let geometry =
        Geometry::new(args.data, args.parity, copies, args.stores).map_err(wrong_geometry)?;
    let extent = args.extent.get();
    if let Some(chunk) = args.chunk.iter().find(|chunk| chunk.get() > extent) {
        return Err(Failure::refuse(
            Exit::Usage,
            format!(
                "a chunk of {} bytes is larger than an extent of {extent}",
                chunk.get()
            ),
            format!("give --extent at least the largest --chunk (at most {CHUNK_BYTES_MAX})"),
        ));
    }
    let interval = args.interval.map(interval).transpose()?;
    Ok(run::Setup {
        geometry,
        extent,
        interval,
        seed: args.seed,
        lists: Lists {
            choices: args.choice.clone(),
            chunks: args.chunk.clone(),
            read_weights: args.read_weight.clone(),
            load_limits: args.load_limit.clone(),
            target_rates: args.target_rate.clone(),
        },
        differential: args.differential_share.clone(),
    })
}

fn wrong_geometry(error: ParameterError) -> Failure {
    let next = "give --data, --parity, --copies and --stores that fit together,\n\
                such as --data 2 --parity 1 --stores 3 or --data 6 --parity 2 --stores 8";
    Failure::refuse(Exit::Usage, error.to_string(), next)
}

/// Seconds as ticks.
fn interval(seconds: f64) -> Outcome<u64> {
    let ticks = seconds * super::trace::Ticks::SECOND as f64;
    if ticks >= 1.0 && ticks < u64::MAX as f64 {
        return Ok(ticks as u64);
    }
    Err(Failure::refuse(
        Exit::Usage,
        format!("--interval {seconds} is not a length of time"),
        "give a positive number of seconds",
    ))
}

#[cfg(test)]
mod tests;
