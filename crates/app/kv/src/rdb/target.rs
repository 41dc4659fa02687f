//! A file that is written beside its name, and gets it when it is whole.

use super::{Outlet, Pipe};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A file that is written. Dropped before [`Target::commit`] it leaves nothing.
#[derive(Debug)]
pub struct Target {
    file: File,
    beside: PathBuf,
    path: PathBuf,
    is_whole: bool,
}

impl Target {
    /// Begins a file that will be at a path.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<Target> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(beside);
        // It has all data, so nobody else may read it, as with the log.
        let mut how = File::options();
        let file = how.write(true).create(true).truncate(true).mode(0o600);
        let file = file.open(&beside)?;
        Ok(Target {
            file,
            beside,
            path: path.to_owned(),
            is_whole: false,
        })
    }

    /// Gives the file its name, in place of the one that has it, durably.
    ///
    /// # Errors
    /// The file that has the name is as it was, or the new one has it already.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.beside, &self.path)?;
        self.is_whole = true;
        let parent = self.path.parent().filter(|at| !at.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_whole {
            // It is a part of nothing; what cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}

/// A file that is written on a thread of its own.
#[derive(Debug)]
pub(crate) struct Background {
    queued: Arc<AtomicUsize>,
    is_whole: Arc<AtomicBool>,
    result: Receiver<io::Result<()>>,
}

impl Background {
    /// Begins a file; what is written into the pipe goes there.
    pub(crate) fn start(path: &Path) -> io::Result<(Background, Pipe)> {
        let target = Target::create(path)?;
        let (pipe, outlet) = Pipe::new();
        let (sender, result) = channel();
        let is_whole = Arc::<AtomicBool>::default();
        let background = Background {
            queued: pipe.queued(),
            is_whole: is_whole.clone(),
            result,
        };
        std::thread::Builder::new()
            .name("rdb".to_owned())
            .spawn(move || {
                // Nobody may be there any more to be told.
                let _ = sender.send(drain(target, &outlet, &is_whole));
            })?;
        Ok((background, pipe))
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Says that all was written into the pipe, which is dropped next.
    pub(crate) fn whole(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<io::Result<()>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let result = self.result.recv();
        result.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

fn drain(mut target: Target, outlet: &Outlet, is_whole: &AtomicBool) -> io::Result<()> {
    while let Some(piece) = outlet.next() {
        target.write_all(&piece)?;
    }
    match is_whole.load(Ordering::Acquire) {
        true => target.commit(),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}
