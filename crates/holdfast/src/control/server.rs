//! The answering side: a thread that accepts, and one for each connection, of which there are
//! at most [`CONNECTIONS_MAX`].

use super::{Answer, REQUEST_BYTES_MAX, Request, TIME_LIMIT, guard, parse, receive, send};
use crate::engine::{CheckReport, Comparing, Engine};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use parking_lot::{Condvar, Mutex};
use redundancy::status::Progress;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most connections that are served at once; more are told to come back.
pub const CONNECTIONS_MAX: usize = 16;

/// A request to stop, for the main thread. It answers on `reply`.
#[derive(Debug)]
pub struct Down {
    /// Also where programs use the mount.
    pub force: bool,
    /// Where the outcome goes.
    pub reply: Sender<Outcome<()>>,
}

/// Called with each request to stop.
pub type OnDown = Box<dyn Fn(Down) + Send + Sync>;

enum Comparison {
    None,
    Running(Progress),
    Ended(Outcome<CheckReport>),
}

struct Shared {
    engine: Arc<dyn Engine>,
    on_down: OnDown,
    comparison: Mutex<Comparison>,
    connections: Mutex<usize>,
    idle: Condvar,
    stopping: AtomicBool,
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    listener: UnixListener,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer on `listener`.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(
        listener: UnixListener,
        engine: Arc<dyn Engine>,
        on_down: OnDown,
    ) -> Outcome<Server> {
        let fault = |error: std::io::Error| Failure::unexpected("control socket", &error);
        let shared = Arc::new(Shared {
            engine,
            on_down,
            comparison: Mutex::new(Comparison::None),
            connections: Mutex::new(0),
            idle: Condvar::new(),
            stopping: AtomicBool::new(false),
        });
        let (for_thread, accepting) = (shared.clone(), listener.try_clone().map_err(fault)?);
        let thread = std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&accepting, &for_thread))
            .map_err(fault)?;
        Ok(Server {
            shared,
            listener,
            thread: Some(thread),
        })
    }

    /// Stops: no new request is taken, and those under way get their answer, for which this waits
    /// at most [`TIME_LIMIT`].
    pub fn stop(mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let shut = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let (Ok(()), Some(thread)) = (shut, self.thread.take()) {
            // A panic there was reported on standard error already.
            let _reported = thread.join();
        }
        let until = Instant::now() + TIME_LIMIT;
        let mut connections = self.shared.connections.lock();
        while *connections > 0 {
            if self
                .shared
                .idle
                .wait_until(&mut connections, until)
                .timed_out()
            {
                tracing::warn!(connections = *connections, "control connections left open");
                return;
            }
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        let stream = listener.accept();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match stream {
            Ok((stream, _)) => take(stream, shared),
            // Out of file descriptors, or the caller is gone: the next one may do better.
            Err(error) => {
                tracing::warn!(%error, "control connection not accepted");
                std::thread::park_timeout(Duration::from_millis(100));
            }
        }
    }
}

fn take(mut stream: UnixStream, shared: &Arc<Shared>) {
    let full = {
        let mut connections = shared.connections.lock();
        *connections += 1;
        *connections > CONNECTIONS_MAX
    };
    let for_thread = Guard(shared.clone());
    if full {
        let answer = Answer::Failed(Failure::refuse(
            Exit::NoAnswer,
            format!("{CONNECTIONS_MAX} commands are being answered"),
            "try again in a moment",
        ));
        // Whoever does not wait for the answer does not need it.
        let _gone = send(&mut stream, &answer);
        return;
    }
    let spawned = std::thread::Builder::new()
        .name("control request".to_owned())
        .spawn(move || {
            if let Err(error) = serve(stream, &for_thread.0) {
                tracing::debug!(%error, "control connection broke off");
            }
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for a control request");
    }
}

/// Counts a connection out when it ends, however it ends.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        *self.0.connections.lock() -= 1;
        self.0.idle.notify_all();
    }
}

fn serve(mut stream: UnixStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIME_LIMIT))?;
    stream.set_write_timeout(Some(TIME_LIMIT))?;
    let Some(line) = receive(&stream, REQUEST_BYTES_MAX)? else {
        return Ok(());
    };
    let answer = parse(&line)
        .and_then(|request| answer(request, shared))
        .unwrap_or_else(Answer::Failed);
    send(&mut stream, &answer)
}

fn answer(request: Request, shared: &Arc<Shared>) -> Outcome<Answer> {
    tracing::debug!(?request, "control request");
    match request {
        Request::Status => Ok(Answer::Status(Box::new(shared.engine.status()))),
        Request::Down { force } => {
            let (reply, outcome) = std::sync::mpsc::channel();
            (shared.on_down)(Down { force, reply });
            let gone = |_| Failure::unexpected("stopping", &"the main thread is gone");
            outcome.recv().map_err(gone)??;
            Ok(Answer::Done)
        }
        Request::Attach { path } => attach(&path, shared),
        Request::Detach { index } => detach(index, shared),
        Request::Check { how } => start_check(how, shared),
        Request::CheckProgress => match &*shared.comparison.lock() {
            Comparison::None => Err(Failure::refuse(
                Exit::NotRunning,
                "no comparison was started",
                "start one: `holdfast check`",
            )),
            Comparison::Running(progress) => Ok(Answer::Checking(progress.clone())),
            Comparison::Ended(outcome) => outcome.clone().map(Answer::Checked),
        },
    }
}

fn attach(path: &Path, shared: &Shared) -> Outcome<Answer> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    guard::attach(&shared.engine.status(), &real)?;
    let index = shared.engine.attach(path)?;
    Ok(Answer::Attached { index })
}

fn detach(index: u8, shared: &Shared) -> Outcome<Answer> {
    guard::detach(&shared.engine.status(), index)?;
    shared.engine.detach(index)?;
    Ok(Answer::Done)
}

fn start_check(how: Comparing, shared: &Arc<Shared>) -> Outcome<Answer> {
    let mut comparison = shared.comparison.lock();
    if let Comparison::Running(progress) = &*comparison {
        if how != Comparing::Check {
            return Err(Failure::refuse(
                Exit::Failed,
                "a comparison runs already",
                "wait until it has ended, and try again",
            ));
        }
        return Ok(Answer::Checking(progress.clone()));
    }
    let for_thread = shared.clone();
    std::thread::Builder::new()
        .name("check".to_owned())
        .spawn(move || {
            let shared = for_thread;
            let outcome = shared.engine.check(how, &mut |progress| {
                *shared.comparison.lock() = Comparison::Running(progress.clone());
                !shared.stopping.load(Ordering::Relaxed)
            });
            *shared.comparison.lock() = Comparison::Ended(outcome);
        })
        .map_err(|error| Failure::unexpected("check", &error))?;
    *comparison = Comparison::Running(Progress::default());
    Ok(Answer::Checking(Progress::default()))
}
