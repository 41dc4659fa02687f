//! `holdfast status`.

use crate::control::{Answer, Request, TIME_LIMIT, client};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use redundancy::status::Status;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub mod table;

/// Time between two looks of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `holdfast status`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The mount; not needed where only one is served
    #[arg(long)]
    pub mount: Option<PathBuf>,
    /// One JSON object in place of text (with --watch one a second)
    #[arg(long)]
    pub json: bool,
    /// Show it again every second until stopped
    #[arg(long)]
    pub watch: bool,
}

/// Shows the status of a running holdfast.
///
/// # Errors
/// None runs there, or it does not answer. That something is degraded is no error here: the exit
/// code says so.
pub fn run(args: &Args, runtime: &Path) -> Outcome<Exit> {
    let mount = client::choose(runtime, args.mount.as_deref())?;
    loop {
        let status = ask(runtime, &mount)?;
        if args.json {
            screen::print_json(&status)?;
        } else {
            let clear = args.watch && std::io::stdout().is_terminal();
            let head = if clear { "\x1b[2J\x1b[H" } else { "" };
            screen::print(&format!("{head}{}", table::render(&status)))?;
        }
        if !args.watch {
            return Ok(exit(&status));
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// Asks for the status of the set at `mount`.
///
/// # Errors
/// None runs there, or it does not answer.
pub fn ask(runtime: &Path, mount: &Path) -> Outcome<Status> {
    match client::ask(runtime, mount, &Request::Status, TIME_LIMIT)? {
        Answer::Status(status) => Ok(*status),
        other => Err(Failure::unexpected("status", &format!("{other:?}"))),
    }
}

fn exit(status: &Status) -> Exit {
    if status.redundant && status.writable {
        Exit::Done
    } else {
        Exit::Degraded
    }
}
