//! `holdfast volume mount`: the directory of a volume.

use super::upkeep::Upkeep;
use super::{explain, open};
use crate::engine::refusal;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::signals::{self, Signals};
use crate::{notify, preflight, screen};
use ::mount::{MountError, Session};
use ::volume::directory::Tree;
use env::errno::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long requests may take to end at a stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `holdfast volume mount`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The files or block devices of the volume, in order
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// An empty directory to mount it on
    #[arg(required = true, value_name = "DIR")]
    pub directory: PathBuf,
    /// Threads that serve requests
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub threads: u16,
    /// Priority, as of nice(1) (default: as this is started)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice: Option<i32>,
}

/// What wakes the main thread.
pub(super) enum Wake {
    Signal(i32),
    Unmounted,
}

/// Serves until a signal, or until somebody unmounts it.
///
/// # Errors
/// The volume cannot be opened or has no directory, the directory cannot be mounted on, or the
/// last changes could not be made durable.
pub(super) fn run(args: &Args) -> Outcome<()> {
    preflight::need_root(&preflight::Machine::look())?;
    // Threads that are started from here on inherit it.
    if let Some(nice) = args.nice
        && let Err(error) = rustix::process::setpriority_process(None, nice)
    {
        tracing::warn!(%error, "the priority stays as it is");
    }
    let volume = open(&args.devices, true)?;
    let tree = Tree::open(volume).map_err(|error| explain(&args.devices, &error))?;
    let tree = Arc::new(tree);
    prepare(&args.directory)?;
    // The mount must not be kept busy by where this was started.
    let directory = std::path::absolute(&args.directory)
        .map_err(|error| Failure::unexpected(args.directory.display(), &error))?;
    std::env::set_current_dir("/").map_err(|error| Failure::unexpected("/", &error))?;
    let (wake, woken) = channel();
    let on_signal = wake.clone();
    let signals = Signals::forward("the volume", move |signal| {
        let _ended = on_signal.send(Wake::Signal(signal));
    })?;
    let options = ::mount::Options {
        threads: args.threads.into(),
        ..::mount::Options::default()
    };
    let session = Session::start(tree.clone(), &directory, &options)
        .map_err(|error| refusal::mounting(&error))?;
    let session = Arc::new(session);
    watch(&session, wake)?;
    let upkeep = Upkeep::start(tree.clone())?;
    screen::print(&format!("serving {}\n", directory.display()))?;
    notify::ready(&format!("serving {}", directory.display()));
    match woken.recv() {
        Ok(Wake::Signal(signal)) => {
            let name = signals::name(signal);
            screen::print(&format!("\nstopping ({name}): making everything durable\n"))?;
        }
        Ok(Wake::Unmounted) | Err(_) => screen::print(&format!(
            "{} was unmounted from outside: stopping\n",
            directory.display()
        ))?,
    }
    notify::stopping();
    let unmounted = unmount(&session);
    upkeep.stop();
    let settled = tree.settle().map_err(unsettled);
    drop(signals);
    unmounted?;
    settled?;
    let stats = tree.volume().stats();
    let (amplification, work) = (stats.write_amplification, stats.counters);
    tracing::info!(amplification, ?work, "blocks written since the start");
    screen::print(&format!(
        "stopped: {} is unmounted, everything is on the volume\n",
        directory.display()
    ))
}

/// Takes away what a dead process left, and wants an empty directory.
pub(super) fn prepare(directory: &Path) -> Outcome<()> {
    let cleared = Session::clear_stale(directory).map_err(|error| refusal::mounting(&error))?;
    if cleared {
        screen::print(&format!(
            "cleared {}: a holdfast that died had left its mount there\n",
            directory.display()
        ))?;
    }
    let Ok(mut entries) = std::fs::read_dir(directory) else {
        // What is wrong with it is said when it is mounted.
        return Ok(());
    };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::refuse(
            Exit::MountPoint,
            format!(
                "the mount point {} is not empty; a mount would hide what is there",
                directory.display()
            ),
            "name an empty directory",
        )),
    }
}

/// Unmounts; where programs still use it, out of the tree at least, so that nobody finds it.
pub(super) fn unmount(session: &Session) -> Outcome<()> {
    let done = match session.unmount(PATIENCE) {
        Err(MountError::Busy { .. }) => session.detach().and_then(|()| session.wait_for(PATIENCE)),
        other => other,
    };
    match done {
        Ok(true) => Ok(()),
        Ok(false) => {
            tracing::warn!(
                "the mount is gone here, but programs or another mount namespace still have it; \
                 they are cut off as this process ends"
            );
            Ok(())
        }
        Err(error) => Err(refusal::mounting(&error)),
    }
}

fn unsettled(errno: Errno) -> Failure {
    Failure {
        what: format!("the last changes could not be made durable: {errno}"),
        safe: "what was synced is on the volume".to_owned(),
        next:
            "look at the kernel's messages about the device, or make room where it is a file on a\n\
             full file system, then mount it again: what is there after that is what was there at\n\
             some moment, not before the last sync"
                .to_owned(),
        exit: Exit::Failed,
    }
}

/// Tells when the mount is gone, whoever took it away.
pub(super) fn watch(session: &Arc<Session>, wake: Sender<Wake>) -> Outcome<()> {
    let session = session.clone();
    std::thread::Builder::new()
        .name("mount".to_owned())
        .spawn(move || {
            if let Err(error) = session.wait() {
                tracing::error!(%error, "the mount ended with an error");
            }
            // The main thread may be at the end already.
            let _ended = wake.send(Wake::Unmounted);
        })
        .map(drop)
        .map_err(|error| Failure::unexpected("starting a thread", &error))
}
