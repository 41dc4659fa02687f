//! `holdfast down`.

use crate::control::client;
use crate::failure::{Failure, Outcome};
use crate::screen;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `holdfast down`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The mount to stop; not needed where only one is served
    pub mount: Option<PathBuf>,
    /// Also where programs use the mount: they get errors from then on
    #[arg(long)]
    pub force: bool,
    /// Longest wait in seconds
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub timeout: u64,
}

/// Stops a running holdfast and waits until it has.
///
/// # Errors
/// None runs there, programs use the mount, or it took too long.
pub fn run(args: &Args, runtime: &Path) -> Outcome<()> {
    let mount = client::choose(runtime, args.mount.as_deref())?;
    // This process must not be what keeps the mount busy.
    std::env::set_current_dir("/").map_err(|error| Failure::unexpected("/", &error))?;
    let limit = Duration::from_secs(args.timeout.max(1));
    let waiting = screen::Waiting::begin("making everything durable");
    client::stop(runtime, &mount, args.force, limit)?;
    drop(waiting);
    screen::print(&format!(
        "stopped: {} is unmounted, everything is on its stores\n",
        mount.display()
    ))
}
