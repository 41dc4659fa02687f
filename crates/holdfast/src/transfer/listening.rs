//! Over the network: `holdfast receive --listen`, and who sends to it.

use super::destination::Listening;
use super::security::{PORT, Peer, Security};
use super::{FAREWELL, ReceiveArgs, SendArgs, explain};
use crate::ca;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::signals::{self, Signals};
use crate::{notify, os, screen};
use ::transfer::manifest::Signer;
use ::transfer::{Options, Progress, Report, Settings};
use env::errno::Errno;
use env::real::{RealClock, RealNet};
use env::{Address, Clock, Listener, Moment, Net, Stream};
use rpc::{Connection, Limits, Role, RpcError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long two machines may take to find each other and to agree who they are.
const GREETING: Duration = Duration::from_secs(20);

/// How long who listens waits where the system has no room for one more connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Connections that are served at once; each takes at most 256 MiB.
const CONNECTIONS_MAX: usize = 16;

/// Sends to a machine that listens.
pub(super) fn send(
    args: &SendArgs,
    to: &Listening,
    options: &Options,
    show: &mut dyn FnMut(Progress),
) -> Outcome<Report> {
    let security = args.security.security(&to.host)?;
    let address = Address::new(to.host.clone(), args.port.unwrap_or(PORT));
    let deadline = RealClock.now().after(GREETING);
    let stream = RealNet.connect(&address, deadline).map_err(|errno| {
        let error = std::io::Error::from(errno);
        Failure::refuse(
            Exit::TransferRefused,
            format!("{address} cannot be reached: {}", os::words(&error)),
            format!(
                "see that `holdfast receive --listen` runs on {}, on that port",
                to.host
            ),
        )
    })?;
    let name = args.peer.as_deref().unwrap_or(&to.host);
    let connected = security.connect(stream, name, deadline).and_then(|stream| {
        let limits = Limits::default();
        let connection = Connection::start(stream, &RealNet, Role::Client, limits)?;
        // Only what the other side says shows that it accepts this one.
        connection.peer(deadline)?;
        Ok(connection)
    });
    let connection = connected.map_err(|error| explain(&error.into()))?;
    let options = Options {
        below: to.below.clone(),
        ..options.clone()
    };
    let sent = ::transfer::send(&args.source, &connection, &RealClock, &options, show);
    let _ended = connection.close(RealClock.now().after(FAREWELL));
    sent.map_err(|error| explain(&error))
}

/// What all connections share.
struct Service {
    security: Security,
    root: PathBuf,
    allowed: Vec<String>,
    signer: Option<Arc<Signer>>,
    connections: AtomicUsize,
}

/// Receives trees below a directory until it is told to stop.
pub(super) fn receive(args: &ReceiveArgs, at: &Address, root: &Path) -> Outcome<Exit> {
    let security = args.security.security(&at.host)?;
    if !root.is_dir() {
        return Err(Failure::refuse(
            Exit::TransferRefused,
            format!("{} is not a directory", root.display()),
            "make the directory below which trees are to be received",
        ));
    }
    let listener = RealNet.listen(at).map_err(|errno| {
        let error = std::io::Error::from(errno);
        Failure::refuse(
            Exit::TransferRefused,
            format!("nobody can listen on {at}: {}", os::words(&error)),
            "name an address of this machine, and a port that nobody has",
        )
    })?;
    let closing = listener.clone();
    let _signals = Signals::forward("the destination", move |signal| {
        tracing::info!("{}: no more trees are received", signals::name(signal));
        notify::stopping();
        closing.close();
    })?;
    let how = match &security {
        Security::Tls(own) => format!("as {}", own.name().unwrap_or_default()),
        Security::None => "in the clear".to_owned(),
    };
    screen::print(&format!("listening on {}, {how}\n", listener.address()))?;
    notify::ready(&format!("listening on {}", listener.address()));
    let signer = match (&security, &args.security.tls, &args.sign) {
        (Security::Tls(own), Some(dir), _) => Some(ca::signer_of(dir, own)?),
        (_, _, Some(dir)) => Some(ca::signer(dir)?),
        _ => None,
    };
    let service = Arc::new(Service {
        signer: signer.map(Arc::new),
        security,
        root: root.to_owned(),
        allowed: args.allow.clone(),
        connections: AtomicUsize::new(0),
    });
    accept_all(listener.as_ref(), &service)?;
    // What is under way ends with the process: what is in place is whole, and the rest goes on
    // with the next transfer.
    Ok(Exit::Done)
}

fn accept_all(listener: &dyn Listener, service: &Arc<Service>) -> Outcome<()> {
    loop {
        let stream = match listener.accept(Moment::NEVER) {
            Ok(stream) => stream,
            Err(Errno::CANCELED) => return Ok(()),
            // Connections that end give back what is missing.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                tracing::warn!("a connection could not be taken, and is tried again: {errno}");
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            }
            Err(errno) => {
                let error = std::io::Error::from(errno);
                return Err(Failure::unexpected("accepting connections", &error));
            }
        };
        let peer = stream.peer().clone();
        if service.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            service.connections.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!("{peer}: there are {CONNECTIONS_MAX} connections already");
            continue;
        }
        let serving = service.clone();
        let serve = move || {
            serving.serve(stream);
            serving.connections.fetch_sub(1, Ordering::AcqRel);
        };
        if let Err(errno) = RealNet.spawn("receive", Box::new(serve)) {
            service.connections.fetch_sub(1, Ordering::AcqRel);
            tracing::warn!("{peer}: no thread: {errno}");
        }
    }
}

impl Service {
    fn serve(&self, stream: Arc<dyn Stream>) {
        let at = stream.peer().to_string();
        match self.receive(stream) {
            Ok(name) => tracing::info!("{at} {name}: the transfer has ended"),
            Err(why) => tracing::warn!("{at}: {why}"),
        }
    }

    fn receive(&self, stream: Arc<dyn Stream>) -> Result<String, String> {
        let words = |error: RpcError| error.to_string();
        let deadline = RealClock.now().after(GREETING);
        let accepted = self.security.accept(stream, &self.allowed, deadline);
        let (stream, peer) = accepted.map_err(words)?;
        let connection = Connection::start(stream, &RealNet, Role::Server, Limits::default());
        let connection = connection.map_err(words)?;
        let name = match peer {
            Peer::Known(name) => name,
            Peer::Unknown => "anybody".to_owned(),
            Peer::NotAllowed(name) => {
                connection.refuse("this machine is not among those that may send here");
                let _ended = connection.close(deadline);
                return Err(format!("{name} is not allowed to send here"));
            }
        };
        let settings = Settings {
            signer: self.signer.clone(),
            ..Settings::default()
        };
        let destination = ::transfer::Destination::Below(&self.root);
        let received = ::transfer::receive(destination, &connection, &RealClock, &settings);
        let _ended = connection.close(RealClock.now().after(FAREWELL));
        match received {
            Ok(()) => Ok(name),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}
