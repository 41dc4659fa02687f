//! `holdfast attach` and `holdfast detach`: one store of a running set.

use crate::control::{Answer, Request, TIME_LIMIT, client};
use crate::failure::{Failure, Outcome};
use crate::screen;
use std::path::{Path, PathBuf};

/// Arguments of `holdfast attach`.
#[derive(Clone, Debug, clap::Args)]
pub struct AttachArgs {
    /// A store of this set that has come back, or an empty directory in place of a lost one
    #[arg(value_name = "DIR")]
    pub store: PathBuf,
    /// The mount of the set; not needed where only one is served
    #[arg(long)]
    pub mount: Option<PathBuf>,
}

/// Arguments of `holdfast detach`.
#[derive(Clone, Debug, clap::Args)]
pub struct DetachArgs {
    /// The store's number, as `holdfast status` shows it
    pub index: u8,
    /// The mount of the set; not needed where only one is served
    #[arg(long)]
    pub mount: Option<PathBuf>,
}

/// Takes in a store.
///
/// # Errors
/// Nothing runs, or the set refuses the store.
pub fn attach(args: &AttachArgs, runtime: &Path) -> Outcome<()> {
    let mount = client::choose(runtime, args.mount.as_deref())?;
    let path = std::path::absolute(&args.store)
        .map_err(|error| Failure::unexpected("path of the store", &error))?;
    match client::ask(runtime, &mount, &Request::Attach { path }, TIME_LIMIT)? {
        Answer::Attached { index } => screen::print(&format!(
            "store {index} is attached and being brought up to date: `holdfast status --watch`\n"
        )),
        other => Err(Failure::unexpected("attach", &format!("{other:?}"))),
    }
}

/// Stops using a store.
///
/// # Errors
/// Nothing runs, or the set needs the store.
pub fn detach(args: &DetachArgs, runtime: &Path) -> Outcome<()> {
    let mount = client::choose(runtime, args.mount.as_deref())?;
    let index = args.index;
    client::ask(runtime, &mount, &Request::Detach { index }, TIME_LIMIT)?;
    screen::print(&format!(
        "store {index} is no longer used; its disk may be taken out\n"
    ))
}
