//! A mount and the threads that serve it.

use crate::device::{self, Mounted};
use crate::edge::{Edge, Shared, opens};
use crate::trimmer::{self, Means};
use crate::{Errno, Layer, MountError};
use fuser::{Config, SessionACL};
use parking_lot::{Condvar, Mutex};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that serve requests; at least 1.
    pub threads: usize,
    /// Name of the source in the mount table (`df` shows it).
    pub name: String,
    /// How far the kernel reads ahead, in bytes.
    pub read_ahead_bytes: u64,
    /// Inodes that the kernel should hold at most. More are kept only while they are in use.
    pub inode_limit: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 16,
            name: "holdfast".to_owned(),
            read_ahead_bytes: 1 << 20,
            inode_limit: 131_072,
        }
    }
}

/// Set once the mount is gone and every request thread has ended.
#[derive(Default)]
struct Ended {
    error: Mutex<Option<Option<std::io::Error>>>,
    changed: Condvar,
}

/// What serves a mount.
type Parts = (Arc<Shared>, Arc<Ended>, Arc<AtomicBool>, JoinHandle<()>);

/// A running mount. Dropping it unmounts: files in use keep working until they are closed, but
/// nobody finds the mount any more.
pub struct Session {
    mounted: Mounted,
    shared: Arc<Shared>,
    ended: Arc<Ended>,
    stop: Arc<AtomicBool>,
    trimmer: Option<JoinHandle<()>>,
}

impl Session {
    /// Mounts `layer` on the directory `mountpoint` and serves it. Needs root.
    ///
    /// # Errors
    /// Every [`MountError`] but `Busy`; nothing is mounted then.
    pub fn start(
        layer: Arc<dyn Layer>,
        mountpoint: &Path,
        options: &Options,
    ) -> Result<Session, MountError> {
        let (mounted, device) = device::mount(mountpoint, &options.name)?;
        match Session::serve(layer, device, mountpoint, options) {
            Ok((shared, ended, stop, trimmer)) => {
                mounted.set_read_ahead(options.read_ahead_bytes);
                Ok(Session {
                    mounted,
                    shared,
                    ended,
                    stop,
                    trimmer: Some(trimmer),
                })
            }
            Err(error) => {
                // Else the mount would outlive its device as a dead one.
                if let Err(error) = mounted.detach() {
                    tracing::warn!(%error, "the mount could not be taken away");
                }
                Err(error)
            }
        }
    }

    fn serve(
        layer: Arc<dyn Layer>,
        device: OwnedFd,
        mountpoint: &Path,
        options: &Options,
    ) -> Result<Parts, MountError> {
        let io = |operation| {
            let path = mountpoint.to_path_buf();
            move |error: std::io::Error| MountError::Io {
                operation,
                path,
                errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
            }
        };
        let raw = device
            .try_clone()
            .map_err(io("open a second /dev/fuse for"))?;
        let shared = Arc::new(Shared::new(layer, options.inode_limit));
        let edge = Edge {
            shared: Arc::clone(&shared),
        };
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = options.threads > 1;
        let session =
            fuser::Session::from_fd(edge, device, SessionACL::All, config).map_err(|error| {
                match shared.missing.get() {
                    Some(missing) => MountError::Kernel {
                        capability: missing.clone(),
                    },
                    None => io("agree with the kernel on")(error),
                }
            })?;
        let background = session.spawn().map_err(io("start the threads of"))?;
        let notifier = background.notifier();
        let _ = shared.notifier.set(notifier.clone());
        let (waiting, letting_go) = (shared.open.drops(), notifier.clone());
        std::thread::Builder::new()
            .name("mount-pages".to_owned())
            .spawn(move || opens::run(&letting_go, &waiting))
            .map_err(io("start the threads of"))?;
        let means = match shared.kernel.get() {
            Some(kernel) if kernel.prune => Means::Prune(raw),
            _ => Means::Invalidate(notifier),
        };
        let ended = Arc::new(Ended::default());
        let stop = Arc::new(AtomicBool::new(false));
        watch(background, &ended, &shared, &stop).map_err(io("start the threads of"))?;
        let trimmer =
            trim(&shared, means, options.inode_limit, &stop).map_err(io("start the threads of"))?;
        Ok((shared, ended, stop, trimmer))
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.path()
    }

    /// Number of inodes that the kernel holds.
    pub fn inodes(&self) -> usize {
        self.shared.table.len()
    }

    /// Whether the mount is gone and nothing is served any more.
    pub fn has_ended(&self) -> bool {
        self.ended.error.lock().is_some()
    }

    /// Waits until the mount is gone, whoever unmounts it, and the last request is answered.
    ///
    /// # Errors
    /// [`MountError::Io`] where the session ended because of an error of the FUSE device.
    pub fn wait(&self) -> Result<(), MountError> {
        let mut ended = self.ended.error.lock();
        loop {
            match &*ended {
                Some(None) => return Ok(()),
                // A mount that is gone is an end, also where the kernel says that it was cut off.
                Some(Some(error))
                    if Errno::from_io_error(error) == Some(Errno::CONNABORTED)
                        && matches!(self.mounted.is_there(), Ok(false)) =>
                {
                    return Ok(());
                }
                Some(Some(error)) => {
                    return Err(MountError::Io {
                        operation: "serve",
                        path: self.mountpoint().to_path_buf(),
                        errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
                    });
                }
                None => self.ended.changed.wait(&mut ended),
            }
        }
    }

    /// Unmounts and waits for the last request. Everything written has reached the layer then.
    /// `false` where the mount is gone from here but still alive after `patience`: another mount
    /// namespace (a container's) has a copy of it, which ends with this process.
    ///
    /// # Errors
    /// [`MountError::Busy`] while files below the mount are in use (it stays mounted), or
    /// [`MountError::Io`].
    pub fn unmount(&self, patience: Duration) -> Result<bool, MountError> {
        if !self.has_ended() {
            self.mounted.unmount()?;
        }
        self.wait_for(patience)
    }

    /// Waits at most `patience` for the end of the session; says whether it has ended.
    ///
    /// # Errors
    /// As [`Session::wait`].
    pub fn wait_for(&self, patience: Duration) -> Result<bool, MountError> {
        {
            let mut ended = self.ended.error.lock();
            let until = Instant::now() + patience;
            while ended.is_none() {
                if self.ended.changed.wait_until(&mut ended, until).timed_out() {
                    return Ok(ended.is_some());
                }
            }
        }
        self.wait().map(|()| true)
    }

    /// Takes the mount out of the tree at once. Who has files open in it goes on using them;
    /// [`Session::wait`] returns when the last one is closed.
    ///
    /// # Errors
    /// [`MountError::Io`].
    pub fn detach(&self) -> Result<(), MountError> {
        if self.has_ended() {
            return Ok(());
        }
        self.mounted.detach()
    }

    /// Takes away the mount that a dead Holdfast process has left on `path`, and says whether
    /// there was one. A mount that still answers, and one of another program, is left alone.
    ///
    /// # Errors
    /// [`MountError::Permission`] or [`MountError::Io`].
    pub fn clear_stale(path: &Path) -> Result<bool, MountError> {
        device::clear_stale(path)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::warn!(%error, "the mount could not be taken away");
        }
        self.stop.store(true, Ordering::Relaxed);
        self.shared.table.wake();
        if let Some(trimmer) = self.trimmer.take() {
            // A panic there has been reported on its own thread.
            let _ = trimmer.join();
        }
    }
}

/// Waits for the request threads on a thread of its own and reports their end.
fn watch(
    background: fuser::BackgroundSession,
    ended: &Arc<Ended>,
    shared: &Arc<Shared>,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let (ended, shared, stop) = (Arc::clone(ended), Arc::clone(shared), Arc::clone(stop));
    std::thread::Builder::new()
        .name("mount-watch".to_owned())
        .spawn(move || {
            let result = background.join();
            shared.open.end();
            stop.store(true, Ordering::Relaxed);
            shared.table.wake();
            *ended.error.lock() = Some(result.err());
            ended.changed.notify_all();
        })
        .map(drop)
}

fn trim(
    shared: &Arc<Shared>,
    means: Means,
    limit: usize,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<JoinHandle<()>> {
    let (shared, stop) = (Arc::clone(shared), Arc::clone(stop));
    std::thread::Builder::new()
        .name("mount-trim".to_owned())
        .spawn(move || trimmer::run(&shared.table, &shared.layer, &means, limit, &stop))
}
