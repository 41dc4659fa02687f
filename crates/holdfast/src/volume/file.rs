//! Block devices as files of a mount, and one of them at a loop device, until stopped.

use super::loops::{Loop, Sector};
use super::mount::{Wake, prepare, unmount, watch};
use crate::engine::refusal;
use crate::failure::{Failure, Outcome};
use crate::signals::{self, Signals};
use crate::{notify, preflight, screen};
use ::mount::Session;
use ::mount::fixed::{Content, Fixed};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Threads that serve requests: as many writes as a loop device has in flight gain from it.
const THREADS: usize = 4;

/// How often a loop device is looked at while it is let go.
const LOOK: Duration = Duration::from_millis(20);

/// How a file is shown.
#[derive(Clone, Debug, clap::Args)]
pub struct Shown {
    /// Attach a loop device to the file, say which, and detach it at the end
    #[arg(long = "loop")]
    pub at_loop: bool,
    /// Bytes of a sector of that loop device: 512 or 4096
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = Sector::parse)]
    pub sector_bytes: Sector,
}

/// Serves files on a directory until a signal or an unmount; the first is the one for `--loop`.
/// When it returns nobody uses them any more.
///
/// # Errors
/// The directory cannot be mounted on, or there is no loop device.
pub(super) fn serve(
    directory: &Path,
    shown: &Shown,
    files: Vec<(&str, Box<dyn Content>)>,
) -> Outcome<()> {
    preflight::need_root(&preflight::Machine::look())?;
    prepare(directory)?;
    // The mount must not be kept busy by where this was started.
    let directory = std::path::absolute(directory)
        .map_err(|error| Failure::unexpected(directory.display(), &error))?;
    std::env::set_current_dir("/").map_err(|error| Failure::unexpected("/", &error))?;
    let first = files.first().map_or("", |(name, _)| name);
    let path = directory.join(first);
    let files = files.into_iter();
    let layer = Fixed::new(
        files
            .map(|(name, file)| (OsString::from(name), file))
            .collect(),
    );
    let options = ::mount::Options {
        threads: THREADS,
        ..::mount::Options::default()
    };
    let (wake, woken) = channel();
    let on_signal = wake.clone();
    let signals = Signals::forward("the disk", move |signal| {
        let _ended = on_signal.send(Wake::Signal(signal));
    })?;
    let session = Session::start(Arc::new(layer), &directory, &options)
        .map_err(|error| refusal::mounting(&error))?;
    let session = Arc::new(session);
    watch(&session, wake)?;
    let attached = match shown.at_loop {
        true => Some(Loop::attach(&path, shown.sector_bytes)?),
        false => None,
    };
    let at = match &attached {
        Some(device) => format!(" at {}", device.path().display()),
        None => String::new(),
    };
    screen::print(&format!("serving {}{at}\n", path.display()))?;
    notify::ready(&format!("serving {}{at}", path.display()));
    match woken.recv() {
        Ok(Wake::Signal(signal)) => {
            let name = signals::name(signal);
            screen::print(&format!("\nstopping ({name})\n"))?;
        }
        Ok(Wake::Unmounted) | Err(_) => screen::print(&format!(
            "{} was unmounted from outside: stopping\n",
            directory.display()
        ))?,
    }
    notify::stopping();
    if let Some(device) = attached {
        let_go(device, &woken)?;
    }
    let unmounted = unmount(&session);
    drop(signals);
    unmounted
}

/// Detaches a loop device, and goes on serving until the kernel has really let it go: what is
/// mounted on it would lose its disk otherwise.
fn let_go(device: Loop, woken: &Receiver<Wake>) -> Outcome<()> {
    device.detach()?;
    let mut said = false;
    while device.is_attached() {
        if !said && let Some(user) = device.user() {
            screen::print(&format!(
                "{} is in use ({user}): serving until it is not; unmount what is on it\n",
                device.path().display()
            ))?;
            said = true;
        }
        // A wake says nothing new: the end of the mount cannot come before that of the loop.
        if woken.recv_timeout(LOOK).is_err() {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}
