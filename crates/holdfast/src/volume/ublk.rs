//! A block device of the kernel's ublk driver, until stopped.

use super::loops::Sector;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::signals::{self, Signals};
use crate::{notify, preflight, screen};
use ::volume::device::Device;
use ::volume::ublk::{self, CONTROL, Failed, Server, Stop};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How often a device that is in use is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Refuses where there is no driver.
pub(super) fn need_driver() -> Outcome<()> {
    preflight::need_root(&preflight::Machine::look())?;
    ublk::need_driver(Path::new(CONTROL)).map_err(|error| refusal(&error))
}

/// Serves until a signal, and until nobody has a file system on it any more.
///
/// # Errors
/// The driver refuses.
pub(super) fn serve(device: Arc<Device>, sector: Sector) -> Outcome<()> {
    let server = Server::new(device, sector.bytes()).map_err(|error| refusal(&error))?;
    let (wake, woken) = channel();
    let signals = Signals::forward("the volume", move |signal| {
        let _ended = wake.send(signal);
    })?;
    let (path, stop) = (server.path(), server.stop());
    let line = format!("serving {}", path.display());
    let watched = std::thread::Builder::new()
        .name("stop".to_owned())
        .spawn(move || stop_when_asked(&path, &stop, &woken))
        .map_err(|error| Failure::unexpected("starting a thread", &error))?;
    let served = server.run(move || {
        // Where nobody reads it any more it serves all the same.
        let _unread = screen::print(&format!("{line}\n"));
        notify::ready(&line);
    });
    // The thread ends with the last signal that may come.
    drop(signals);
    let _panicked = watched.join();
    served.map_err(|error| refusal(&error))
}

/// Waits for a signal, then until nobody uses the device for itself: a file system on it would lose its
/// disk.
fn stop_when_asked(path: &Path, stop: &Stop, woken: &Receiver<i32>) {
    let Ok(signal) = woken.recv() else {
        return;
    };
    let _unread = screen::print(&format!("\nstopping ({})\n", signals::name(signal)));
    notify::stopping();
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let mut said = false;
    // Held to the end, so that nobody mounts it meanwhile.
    let _mine = loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::BUSY) => {}
            other => break other,
        }
        if !said {
            let _unread = screen::print(&format!(
                "{} is in use: serving until it is not; unmount what is on it\n",
                path.display()
            ));
            said = true;
        }
        std::thread::sleep(LOOK);
    };
    if let Err(error) = stop.stop() {
        tracing::error!(%error, "the device stays; a third signal ends this process at once");
    }
}

fn refusal(error: &Failed) -> Failure {
    let (exit, next) = match error {
        Failed::NoDriver => (
            Exit::NoUblk,
            "load it: `modprobe ublk_drv` (Linux 6.0 or later, CONFIG_BLK_DEV_UBLK)\n\
             without it: `holdfast volume serve DEVICE --file DIR --loop`, or --socket for NBD",
        ),
        Failed::Unusable(_) => (
            Exit::NoUblk,
            "look at the permissions of the device; a container needs it passed",
        ),
        Failed::Driver(_) => (
            Exit::NoUblk,
            "look at the kernel's messages; a kernel before 6.0 has no ublk, one before 6.5 may lack \
             what is asked of it",
        ),
    };
    Failure::refuse(exit, error.to_string(), next)
}
