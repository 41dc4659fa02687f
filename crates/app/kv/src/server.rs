//! The server: sockets around an engine, on one thread.

use crate::config::Config;
use crate::engine::{Engine, LoadError, Loaded, Order, Saving, load};
use crate::journal::Policy;
use crate::session::Token;
use connection::{Connection, Stream};
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Waker};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod connection;

/// How a server works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
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

const WAKER: mio::Token = mio::Token(0);
/// Listeners have the tokens from here on.
const LISTENERS: usize = 1;
/// Connections have the tokens from here on: there are fewer listeners.
const CONNECTIONS: usize = 1024;

/// How often entries that are over are looked for, and other things that time brings.
const TICK: Duration = Duration::from_millis(100);

/// How often it is looked whether a save that waits for the disk may go on.
const SAVE_LOOK: Duration = Duration::from_millis(2);

/// How long a file that is compacted at a request is dead at least, in percent.
const COMPACT_DEAD_PERCENT: u32 = 10;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A server that listens, and has not begun to serve.
pub struct Server {
    poll: Poll,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    listeners: Vec<Listener>,
    engine: Engine,
    connections: Vec<Option<Connection>>,
    /// Connections with something to do before the next wait.
    busy: Vec<Token>,
    loading: Option<Receiver<Result<Loaded, LoadError>>>,
    /// Records that were read, while the log is read.
    progress: Arc<AtomicU64>,
    durable: Arc<AtomicBool>,
    compactor: Option<JoinHandle<()>>,
    accept_again: bool,
    saving: Saving,
    began: Instant,
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
            let listen = |error| ServeError::Listen {
                address: address.to_string(),
                error,
            };
            listeners.push(Listener::Tcp(TcpListener::bind(*address).map_err(listen)?));
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
                Listener::Tcp(listener) => {
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
        let mut server = Server {
            poll,
            waker: Arc::new(waker),
            stop: Arc::default(),
            listeners,
            engine: Engine::new(options.config.clone(), rng),
            connections: Vec::new(),
            busy: Vec::new(),
            loading: None,
            progress: Arc::default(),
            durable: Arc::default(),
            compactor: None,
            accept_again: false,
            saving: Saving::No,
            began: Instant::now(),
            next_tick: Instant::now(),
        };
        server.engine.config.fix_policy(options.policy);
        if let Some(Ok(address)) = server.addresses().into_iter().next() {
            server
                .engine
                .config
                .fix("port", &address.port().to_string());
        }
        server.engine.config.directory = options.directories.first().cloned();
        if let Some(directory) = options.directories.first() {
            server.engine.config.fix("dir", directory);
        }
        server.begin_load(options.clone());
        Ok(server)
    }

    /// Where it listens for TCP.
    pub fn addresses(&self) -> Vec<std::io::Result<SocketAddr>> {
        let listeners = self.listeners.iter();
        listeners
            .filter_map(|listener| match listener {
                Listener::Tcp(listener) => Some(listener.local_addr()),
                Listener::Unix(..) => None,
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
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                polled => polled.map_err(system("waiting for events"))?,
            }
            self.set_time();
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
            for event in &events {
                match event.token() {
                    WAKER => {}
                    mio::Token(at) if at < CONNECTIONS => self.accept(at - LISTENERS),
                    mio::Token(at) => {
                        let token = Token(at - CONNECTIONS);
                        if let Some(connection) = self.connection(token) {
                            connection.note(event);
                            self.busy.push(token);
                        }
                    }
                }
            }
            self.work();
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
        if !self.busy.is_empty() || self.engine.has_touched() {
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

    fn set_time(&mut self) {
        let process_us = self.began.elapsed().as_micros() as u64;
        self.engine.set_time(wall_ms(), process_us);
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        self.connections.get_mut(token.0).and_then(Option::as_mut)
    }

    fn accept(&mut self, listener: usize) {
        loop {
            let accepted = match self.listeners.get(listener) {
                Some(Listener::Tcp(listener)) => listener.accept().map(|(stream, from)| {
                    // A reply does not wait for more.
                    let _ = stream.set_nodelay(true);
                    let here = stream.local_addr().map(|address| address.to_string());
                    (
                        Stream::Tcp(stream),
                        [from.to_string(), here.unwrap_or_default()],
                    )
                }),
                Some(Listener::Unix(listener, path)) => listener.accept().map(|(stream, _)| {
                    let path = format!("{}:0", path.display());
                    (Stream::Unix(stream), [path.clone(), path])
                }),
                None => return,
            };
            match accepted {
                Ok((stream, address)) => self.welcome(stream, address),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "a client could not be taken; it is tried again");
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, mut stream: Stream, address: [String; 2]) {
        let Some(token) = self.engine.connect(address) else {
            stream.refuse(b"-ERR max number of clients reached\r\n");
            return;
        };
        let at = mio::Token(CONNECTIONS + token.0);
        if let Err(error) = stream.register(self.poll.registry(), at) {
            tracing::warn!(%error, "a client could not be taken");
            self.engine.disconnect(token);
            return;
        }
        if self.connections.len() <= token.0 {
            self.connections.resize_with(token.0 + 1, || None);
        }
        if let Some(place) = self.connections.get_mut(token.0) {
            *place = Some(Connection::new(stream));
        }
        self.busy.push(token);
    }

    /// Reads, runs and writes for all connections that have something to do.
    fn work(&mut self) {
        self.engine.end_waits();
        let mut again = Vec::new();
        let busy = std::mem::take(&mut self.busy);
        for token in &busy {
            if let Some(connection) = self.connections.get_mut(token.0).and_then(Option::as_mut)
                && connection.serve(&mut self.engine, *token)
            {
                again.push(*token);
            }
        }
        let touched = self.engine.take_touched();
        for token in busy.iter().chain(&touched) {
            let Some(connection) = self.connections.get_mut(token.0).and_then(Option::as_mut)
            else {
                continue;
            };
            match connection.flush(&mut self.engine, *token) {
                connection::After::Nothing => {}
                connection::After::Serve => again.push(*token),
                connection::After::Gone => {
                    if let Some(mut connection) =
                        self.connections.get_mut(token.0).and_then(Option::take)
                    {
                        connection.deregister(self.poll.registry());
                    }
                    self.engine.disconnect(*token);
                }
            }
        }
        again.sort_unstable();
        again.dedup();
        self.busy = again;
    }

    fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        self.engine.sweep();
        self.engine.end_idle();
        if std::mem::take(&mut self.accept_again) {
            (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        }
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
        for (at, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.flush(&mut self.engine, Token(at));
            }
        }
        for listener in &self.listeners {
            if let Listener::Unix(_, path) = listener {
                // It may be gone.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(closed?)
    }
}

/// Removes a socket that a dead process left; anything else stays in the way.
fn remove_dead_socket(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        // What cannot be removed is said by who listens there.
        let _ = std::fs::remove_file(path);
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
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
