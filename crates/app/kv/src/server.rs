//! The server: sockets around an engine, on one thread.

use crate::acl::{Acl, AclFileError};
use crate::config::Config;
use crate::engine::{Engine, LoadError, Loaded, Order, Saving, load};
use crate::journal::Policy;
use crate::script::Outside;
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Waker};
use sockets::{LISTENERS, Listener, Sockets, WAKER, wall_ms};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod connection;
mod sockets;
mod tls;

pub use tls::{ClientAuth, Tls, TlsError};

/// How a server works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Addresses to listen on for TLS, and what clients are shown there.
    pub tls: Option<(Vec<SocketAddr>, Tls)>,
    /// A path to listen on.
    pub unix_socket: Option<PathBuf>,
    /// Directories of the log, in their order.
    pub directories: Vec<String>,
    /// When replies to changes may go out.
    pub policy: Policy,
    /// Settings.
    pub config: Config,
    /// How the log works; its policy, lanes and waker are the server's.
    pub log: vlog::Options,
}

/// Why a server does not serve, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        address: String,
        /// Why.
        error: std::io::Error,
    },
    /// What is on disk cannot be served.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file of users cannot be used.
    #[error(transparent)]
    Acl(#[from] AclFileError),
    /// The log ended with an error.
    #[error(transparent)]
    Log(#[from] vlog::VlogError),
    /// The kernel.
    #[error("{doing}: {error}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> ServeError {
    move |error| ServeError::System { doing, error }
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Handle {
    /// Has the server end in good order.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // A server that is gone needs no waking.
        let _ = self.waker.wake();
    }
}

/// How often entries that are over are looked for, and other things that time brings.
const TICK: Duration = Duration::from_millis(100);

/// How often it is looked whether a save that waits for the disk may go on.
const SAVE_LOOK: Duration = Duration::from_millis(2);

/// How long a file that is compacted at a request is dead at least, in percent.
const COMPACT_DEAD_PERCENT: u32 = 10;

/// A server that listens, and has not begun to serve.
pub struct Server {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    /// A script that takes long has them meanwhile.
    sockets: Box<Sockets>,
    engine: Engine,
    loading: Option<Receiver<Result<Loaded, LoadError>>>,
    /// Records that were read, while the log is read.
    progress: Arc<AtomicU64>,
    durable: Arc<AtomicBool>,
    compactor: Option<JoinHandle<()>>,
    saving: Saving,
    next_tick: Instant,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// Nothing was changed on disk.
    pub fn bind(options: &Options) -> Result<Server, ServeError> {
        let poll = Poll::new().map_err(system("making an epoll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(system("making an eventfd"))?;
        let mut listeners = Vec::new();
        for address in &options.listen {
            listeners.push(Listener::Tcp(listen(*address)?));
        }
        if let Some((addresses, tls)) = &options.tls {
            for address in addresses {
                listeners.push(Listener::Tls(listen(*address)?, tls.clone()));
            }
        }
        if let Some(path) = &options.unix_socket {
            remove_dead_socket(path);
            let listener = UnixListener::bind(path).map_err(|error| ServeError::Listen {
                address: path.display().to_string(),
                error,
            })?;
            listeners.push(Listener::Unix(listener, path.clone()));
        }
        for (at, listener) in listeners.iter_mut().enumerate() {
            let token = mio::Token(LISTENERS + at);
            let registered = match listener {
                Listener::Tcp(listener) | Listener::Tls(listener, _) => {
                    poll.registry()
                        .register(listener, token, Interest::READABLE)
                }
                Listener::Unix(listener, _) => {
                    poll.registry()
                        .register(listener, token, Interest::READABLE)
                }
            };
            registered.map_err(system("waiting for clients"))?;
        }
        let rng = env::Rng::from_kernel()
            .map_err(|errno| std::io::Error::from_raw_os_error(errno.raw_os_error()))
            .map_err(system("random numbers"))?;
        let durable: Arc<AtomicBool> = Arc::default();
        let mut server = Server {
            waker: Arc::new(waker),
            stop: Arc::default(),
            sockets: Box::new(Sockets::new(poll, listeners, durable.clone())),
            engine: Engine::new(options.config.clone(), rng),
            loading: None,
            progress: Arc::default(),
            durable,
            compactor: None,
            saving: Saving::No,
            next_tick: Instant::now(),
        };
        server.engine.set_acl(Acl::open(&options.config)?);
        server.engine.config.fix_policy(options.policy);
        for (name, addresses) in [
            ("port", server.addresses()),
            ("tls-port", server.tls_addresses()),
        ] {
            let port = match addresses.first() {
                Some(Ok(address)) => address.port(),
                _ => 0,
            };
            server.engine.config.fix(name, &port.to_string());
        }
        server.engine.config.directory = options.directories.first().cloned();
        if let Some(directory) = options.directories.first() {
            server.engine.config.fix("dir", directory);
        }
        server.begin_load(options.clone());
        Ok(server)
    }

    /// Where it listens for TCP, in the clear.
    pub fn addresses(&self) -> Vec<std::io::Result<SocketAddr>> {
        let listeners = self.sockets.listeners.iter();
        listeners
            .filter_map(|listener| match listener {
                Listener::Tcp(listener) => Some(listener.local_addr()),
                Listener::Tls(..) | Listener::Unix(..) => None,
            })
            .collect()
    }

    /// Where it listens for TLS.
    pub fn tls_addresses(&self) -> Vec<std::io::Result<SocketAddr>> {
        let listeners = self.sockets.listeners.iter();
        listeners
            .filter_map(|listener| match listener {
                Listener::Tls(listener, _) => Some(listener.local_addr()),
                Listener::Tcp(_) | Listener::Unix(..) => None,
            })
            .collect()
    }

    /// What ends it.
    pub fn handle(&self) -> Handle {
        Handle {
            stop: self.stop.clone(),
            waker: self.waker.clone(),
        }
    }

    /// Records that the start has read so far.
    pub fn progress(&self) -> Arc<AtomicU64> {
        self.progress.clone()
    }

    /// The engine, for faults that tests plant.
    #[doc(hidden)]
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Reads the log on a thread of its own; clients are told that it is read.
    fn begin_load(&mut self, options: Options) {
        let (sender, receiver) = channel();
        let (waker, durable) = (self.waker.clone(), self.durable.clone());
        let progress = self.progress.clone();
        self.loading = Some(receiver);
        std::thread::spawn(move || {
            let always = options.policy == Policy::Always;
            let wake_on_durable = waker.clone();
            let wake: vlog::Wake = Arc::new(move |_lane| {
                durable.store(true, Ordering::Release);
                // The loop is gone: nobody waits.
                let _ = wake_on_durable.wake();
            });
            let log = vlog::Options {
                lanes: 1,
                sync: options.policy.sync(),
                wake: always.then_some(wake),
                ..options.log
            };
            let directories = || -> vlog::Result<Vec<vlog::Directory>> {
                options
                    .directories
                    .iter()
                    .map(|path| vlog::Directory::open(path))
                    .collect()
            };
            let loaded = load(directories, log, options.policy, &options.config, &progress);
            // The server may have ended meanwhile.
            let _ = sender.send(loaded);
            let _ = waker.wake();
        });
    }

    /// Serves until it is told to end, or cannot go on. `loaded` is called once all entries are there.
    ///
    /// # Errors
    /// What was durable is.
    pub fn run(mut self, mut loaded: impl FnMut(&Loaded)) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(1024);
        loop {
            let wait = self.wait();
            self.sockets
                .wait(&mut events, wait)
                .map_err(system("waiting for events"))?;
            self.sockets.set_time(&mut self.engine);
            if self.stop.load(Ordering::Acquire) {
                return self.end();
            }
            if let Some(result) = self
                .loading
                .as_ref()
                .and_then(|results| results.try_recv().ok())
            {
                let result = result?;
                loaded(&result);
                self.engine.serve(result);
                self.loading = None;
            }
            if self.durable.swap(false, Ordering::AcqRel) {
                self.engine.note_durable();
            }
            self.sockets.note(&events, &mut self.engine);
            self.sockets = self.sockets.work(&mut self.engine);
            self.saving = self.engine.save_slice();
            if self.next_tick <= Instant::now() {
                self.tick();
            }
            for order in self.engine.take_orders() {
                match order {
                    Order::Shutdown => return self.end(),
                    Order::Compact => self.compact(),
                }
            }
        }
    }

    fn wait(&self) -> Duration {
        if self.sockets.has_work() || self.engine.has_touched() {
            return Duration::ZERO;
        }
        let tick = match self.saving {
            Saving::Walking => return Duration::ZERO,
            Saving::Waiting => SAVE_LOOK,
            Saving::No => self.next_tick.saturating_duration_since(Instant::now()),
        };
        match self.engine.next_deadline_ms() {
            Some(at) => tick.min(Duration::from_millis(at.saturating_sub(wall_ms()).max(1))),
            None => tick,
        }
    }

    fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        self.engine.sweep();
        self.engine.end_idle();
        self.sockets.accept_again(&mut self.engine);
        self.sockets.end_handshakes();
        if self.compactor.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(compactor) = self.compactor.take()
        {
            // One that panicked has said so.
            let _ = compactor.join();
            self.engine.compacts = false;
        }
    }

    fn compact(&mut self) {
        if self.compactor.is_some() {
            return;
        }
        let Some(log) = self.engine.shared_log() else {
            return;
        };
        let stop = self.stop.clone();
        self.engine.compacts = true;
        self.compactor = Some(std::thread::spawn(move || {
            env::priority::give_way();
            while !stop.load(Ordering::Acquire)
                && matches!(log.compact(COMPACT_DEAD_PERCENT), Ok(Some(_)))
            {}
        }));
    }

    fn end(mut self) -> Result<(), ServeError> {
        self.stop.store(true, Ordering::Release);
        if let Some(compactor) = self.compactor.take() {
            let _ = compactor.join();
        }
        if let Some(results) = self.loading.take() {
            // The log is being read: what it has is not changed by that.
            drop(results);
        }
        let closed = self.engine.close();
        // Replies that waited for the log may go now.
        self.engine.note_durable();
        self.sockets.flush_all(&mut self.engine);
        for listener in &self.sockets.listeners {
            if let Listener::Unix(_, path) = listener {
                // It may be gone.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(closed?)
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).map_err(|error| ServeError::Listen {
        address: address.to_string(),
        error,
    })
}

/// Removes a socket that a dead process left; anything else stays in the way.
fn remove_dead_socket(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        // What cannot be removed is said by who listens there.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dead_sockets_are_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("listens");
        remove_dead_socket(&path);
        assert!(path.exists(), "somebody listens");
        drop(listener);
        remove_dead_socket(&path);
        assert!(!path.exists(), "nobody does");
        std::fs::write(&path, "a file of somebody").expect("writes");
        remove_dead_socket(&path);
        assert!(path.exists(), "it is no socket");
    }
}
