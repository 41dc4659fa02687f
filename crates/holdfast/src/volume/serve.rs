//! `holdfast volume serve`: objects of a volume as block devices: by NBD, or one as a file.

use super::upkeep::Upkeep;
use super::{explain, open};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen;
use crate::signals::Signals;
use ::volume::Volume;
use ::volume::device::Device;
use ::volume::nbd::{self, Connection};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Most clients at once; more are turned away.
const CLIENTS_MAX: usize = 64;

/// How often the volume is asked whether it needs cleaning while nobody waits for that.
const UPKEEP: Duration = Duration::from_millis(200);

/// Options that say where a device is served; one has to be given.
const PLACES: &[&str] = &[
    "socket",
    "listen",
    "file",
    #[cfg(feature = "ublk")]
    "ublk",
];

/// Arguments of `holdfast volume serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(PLACES)))]
pub struct Args {
    /// The files or block devices of the volume, in order
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<PathBuf>,
    /// A Unix socket to listen at; who may open it may read and write the devices
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// A TCP address to listen at; whoever reaches it may read and write the devices, and what
    /// passes is not encrypted
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// An empty directory to mount on, in which the block device is the file `disk`
    #[arg(long, value_name = "DIR")]
    pub file: Option<PathBuf>,
    /// As a block device of the kernel's ublk driver; says which. Untested: the kernel that it was built
    /// on has no such driver
    #[cfg(feature = "ublk")]
    #[arg(long)]
    pub ublk: bool,
    /// How that file is shown
    #[command(flatten)]
    pub shown: super::file::Shown,
}

/// Where clients come from.
enum Door {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A client that is served; to be shut out at the end.
enum Client {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Door {
    fn open(args: &Args) -> Outcome<Door> {
        let failed = |place: &str, error: &io::Error| {
            Failure::refuse(
                Exit::Failed,
                format!("cannot listen at {place}: {}", crate::os::words(error)),
                "choose another place; a socket's directory has to exist, a port has to be free",
            )
        };
        if let Some(path) = &args.socket {
            let shown = path.display().to_string();
            // Who listens there answers; what nobody listens at is left from one that died.
            let stale = path
                .symlink_metadata()
                .is_ok_and(|at| at.file_type().is_socket())
                && UnixStream::connect(path).is_err();
            if stale {
                std::fs::remove_file(path).map_err(|error| failed(&shown, &error))?;
            }
            let listener = UnixListener::bind(path).map_err(|error| failed(&shown, &error))?;
            return Ok(Door::Unix(listener, path.clone()));
        }
        let place = args.listen.as_deref().unwrap_or_default();
        let listener = TcpListener::bind(place).map_err(|error| failed(place, &error))?;
        Ok(Door::Tcp(listener))
    }

    fn accept(&self) -> io::Result<(Client, Box<dyn Connection>)> {
        match self {
            Door::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                Ok((Client::Unix(stream.try_clone()?), Box::new(stream)))
            }
            Door::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are whole messages.
                stream.set_nodelay(true)?;
                Ok((Client::Tcp(stream.try_clone()?), Box::new(stream)))
            }
        }
    }

    /// What a client is to be told.
    fn uri(&self) -> Outcome<String> {
        match self {
            Door::Unix(_, path) => Ok(format!("nbd+unix:///?socket={}", path.display())),
            Door::Tcp(listener) => listener
                .local_addr()
                .map(|address| format!("nbd://{address}"))
                .map_err(|error| Failure::unexpected("listening", &error)),
        }
    }

    /// Makes an `accept` that waits return.
    fn knock(&self) {
        // Where it cannot be reached nobody waits in it.
        match self {
            Door::Unix(_, path) => drop(UnixStream::connect(path)),
            Door::Tcp(listener) => drop(listener.local_addr().map(TcpStream::connect)),
        }
    }
}

impl Client {
    fn shut_out(&self) {
        // One that has left already is no matter.
        let _ = match self {
            Client::Unix(stream) => stream.shutdown(Shutdown::Both),
            Client::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    clients: Mutex<HashMap<u64, Client>>,
    rest: Mutex<()>,
    stopped: Condvar,
}

impl Shared {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _rest = self.rest.lock();
        self.stopped.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// Serves until SIGINT or SIGTERM, a directory also until somebody unmounts it.
///
/// # Errors
/// The volume cannot be opened, nobody can listen at the place, or the volume cannot be closed.
pub(super) fn run(args: &Args) -> Outcome<()> {
    if args.shown.at_loop && args.file.is_none() {
        return Err(Failure::refuse(
            Exit::Usage,
            "--loop attaches a loop device to a file, and there is none",
            "give --file DIR too",
        ));
    }
    #[cfg(feature = "ublk")]
    if args.ublk {
        super::ublk::need_driver()?;
    }
    let volume = open(&args.devices, true)?;
    if ::volume::directory::is_tree(&volume) {
        return Err(Failure::refuse(
            Exit::NotAVolume,
            "the volume holds a directory, no block device",
            "mount it: `holdfast volume mount DEVICE DIR`",
        ));
    }
    if volume.objects().is_empty() {
        return Err(Failure::refuse(
            Exit::NotAVolume,
            "the volume has no object to serve",
            "make the volume with `holdfast volume create`, which makes one",
        ));
    }
    if let Some(directory) = &args.file {
        return serve_file(args, volume, directory);
    }
    #[cfg(feature = "ublk")]
    if args.ublk {
        return serve_ublk(args, volume);
    }
    let door = Door::open(args)?;
    let (wake, woken) = channel();
    let signals = Signals::forward("the volume", move |_| {
        let _ended = wake.send(());
    })?;
    screen::print(&format!("serving {}\n", door.uri()?))?;
    let shared = Shared::default();
    std::thread::scope(|scope| {
        let (stopped, knocked) = (&shared, &door);
        scope.spawn(move || {
            if woken.recv().is_ok() {
                stopped.stop();
                knocked.knock();
            }
        });
        scope.spawn(|| upkeep(&volume, &shared));
        accept(scope, &volume, &door, &shared);
        shared.stop();
        drop(signals);
        for client in shared.clients.lock().values() {
            client.shut_out();
        }
    });
    if let Door::Unix(_, path) = &door {
        remove(path);
    }
    volume
        .close()
        .map_err(|error| explain(&args.devices, &error))
}

/// Shows the first block device as one file.
fn serve_file(args: &Args, volume: Volume, directory: &Path) -> Outcome<()> {
    let files =
        |device| super::file::serve(directory, &args.shown, vec![("disk", Box::new(device))]);
    serve_first(args, volume, files)?;
    screen::print(&format!(
        "stopped: {} is unmounted, everything is on the volume\n",
        directory.display()
    ))
}

/// Shows the first block device as one of the kernel's.
#[cfg(feature = "ublk")]
fn serve_ublk(args: &Args, volume: Volume) -> Outcome<()> {
    let shown = |device| super::ublk::serve(Arc::new(device), args.shown.sector_bytes);
    serve_first(args, volume, shown)?;
    screen::print("stopped: everything is on the volume\n")
}

/// Has the first block device served to its end, then makes everything durable.
fn serve_first(
    args: &Args,
    volume: Volume,
    serve: impl FnOnce(Device) -> Outcome<()>,
) -> Outcome<()> {
    let refused = |error| explain(&args.devices, &error);
    let volume = Arc::new(volume);
    let object = volume
        .objects()
        .first()
        .map_or(super::DEVICE, |first| first.0);
    let device = Device::new(volume.clone(), object).map_err(refused)?;
    let upkeep = Upkeep::start(volume.clone())?;
    let served = serve(device);
    upkeep.stop();
    volume.checkpoint().map_err(refused)?;
    served
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "the socket stays behind");
    }
}

fn accept<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    volume: &'env Volume,
    door: &Door,
    shared: &'env Shared,
) {
    for number in 0.. {
        let (client, connection) = match door.accept() {
            _ if shared.is_stopping() => return,
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a client could not be accepted");
                // Mostly a lack of descriptors, which others give back.
                let mut rest = shared.rest.lock();
                shared.stopped.wait_for(&mut rest, UPKEEP);
                continue;
            }
        };
        let mut clients = shared.clients.lock();
        if clients.len() >= CLIENTS_MAX {
            tracing::warn!(most = CLIENTS_MAX, "too many clients, one is turned away");
            continue;
        }
        clients.insert(number, client);
        drop(clients);
        scope.spawn(move || {
            if let Err(error) = nbd::serve(volume, connection) {
                tracing::info!(%error, "a client was lost");
            }
            shared.clients.lock().remove(&number);
        });
    }
}

/// Cleans and checkpoints beside the work, until the end.
fn upkeep(volume: &Volume, shared: &Shared) {
    let mut rest = shared.rest.lock();
    while !shared.is_stopping() {
        let done = parking_lot::MutexGuard::unlocked(&mut rest, || volume.maintain());
        match done {
            Ok(true) => {}
            Ok(false) => drop(shared.stopped.wait_for(&mut rest, UPKEEP)),
            Err(error) => {
                tracing::error!(%error, "the volume takes no more writes");
                return;
            }
        }
    }
}
