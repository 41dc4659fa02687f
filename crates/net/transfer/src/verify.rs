//! Holding a tree against the manifest of a transfer, any day after it.

use crate::content::{next_data, range_length, read_range, sums_of};
use crate::entry::TreePath;
use crate::error::TransferError;
use crate::level::Level;
use crate::manifest::{self, Manifest, ManifestError, Proved};
use crate::message::RANGE_BYTES;
use crate::receiver::{Root, drop_cache};
use crate::root_sum::Summing;
use crate::walk::{source_of, words};
use env::errno::Errno;
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::io::BufRead;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, mpsc};

/// Files that wait for a thread.
const WAITING_MAX: usize = 256;

/// Most differences that are named.
const NAMED_MAX: usize = 10_000;

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Difference {
    /// Nothing is there.
    #[error("it is not there")]
    Missing,
    /// Something that is no file, or a link on the way.
    #[error("it is no file any more")]
    NoFile,
    /// It was written since: length or time are others.
    #[error("it has been written since")]
    Written,
    /// Length and time are as they were, and the content is not.
    #[error("its content is another, though its length and time are not: it has rotted")]
    Rotten,
    /// It cannot be read.
    #[error("it cannot be read: {}", words(*.0))]
    Unreadable(Errno),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Files whose content is that of the manifest.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these files, those of which the kernel kept something in memory, so that it need not
    /// have asked the device.
    pub from_cache: u64,
    /// What differs, in the order of paths.
    pub differences: Vec<(TreePath, Difference)>,
    /// How many more differ.
    pub differences_more: u64,
}

/// Reads every file of a manifest below `dir`, `threads` at once. Each is dropped from the page
/// cache before, so that it comes from the device.
///
/// # Errors
/// The manifest cannot be believed, or the directory not be opened.
pub fn verify(
    input: impl BufRead,
    dir: &Path,
    threads: usize,
    mut progress: impl FnMut(&Verified),
) -> Result<(Manifest, Verified), VerifyError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = open(dir, flags, Mode::empty());
    let root = Arc::new(opened.map_err(TransferError::io("the directory"))?);
    let (send, receive) = mpsc::sync_channel::<Proved>(WAITING_MAX);
    let (receive, found) = (Mutex::new(receive), Mutex::new(Verified::default()));
    let manifest = std::thread::scope(|scope| {
        let send = send;
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut reader = Reader::new(root.clone());
                loop {
                    let next = receive.lock().recv();
                    let Ok(proved) = next else { break };
                    let outcome = reader.compare(&proved);
                    found.lock().take(proved, outcome);
                }
            });
        }
        manifest::read(input, |proved| {
            progress(&found.lock());
            // The threads end only after this.
            let _taken = send.send(proved);
        })
    })?;
    let mut found = found.into_inner();
    found.differences.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok((manifest, found))
}

/// Why a tree was not held against a manifest.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The manifest.
    #[error("the manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The directory.
    #[error(transparent)]
    Directory(#[from] TransferError),
}

impl Verified {
    fn take(&mut self, proved: Proved, outcome: Result<bool, Difference>) {
        match outcome {
            Ok(cached) => {
                self.files += 1;
                self.bytes += proved.bytes;
                self.from_cache += u64::from(cached);
            }
            Err(_) if self.differences.len() == NAMED_MAX => self.differences_more += 1,
            Err(difference) => self.differences.push((proved.path, difference)),
        }
    }

    /// Whether the tree is as the manifest says.
    pub fn is_right(&self) -> bool {
        self.differences.is_empty() && self.differences_more == 0
    }

    /// What was proved of all files.
    pub fn level(&self) -> Level {
        match self.from_cache {
            0 => Level::Device,
            _ => Level::Cache,
        }
    }
}

/// Reads files of one tree.
pub(crate) struct Reader {
    root: Root,
    buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(root: Arc<OwnedFd>) -> Reader {
        Reader {
            root: Root::new(root),
            buffer: vec![0; RANGE_BYTES],
        }
    }

    /// Forgets directories: names may have changed.
    pub(crate) fn forget(&mut self) {
        self.root.forget();
    }

    /// Reads a file from the device; whether the kernel kept some of it all the same.
    pub(crate) fn compare(&mut self, proved: &Proved) -> Result<bool, Difference> {
        let file = self.root.file(&proved.path).map_err(|errno| match errno {
            Errno::NOENT => Difference::Missing,
            Errno::LOOP | Errno::NOTDIR | Errno::NXIO => Difference::NoFile,
            errno => Difference::Unreadable(errno),
        })?;
        let unreadable = Difference::Unreadable;
        let stat = fstat(&file).map_err(unreadable)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Difference::NoFile);
        }
        let before = source_of(&file).map_err(unreadable)?;
        let written = before.bytes != proved.bytes || before.modified != proved.modified;
        if before.bytes != proved.bytes {
            return Err(Difference::Written);
        }
        // Who may not know what is in memory has to believe the kernel.
        let cached = drop_cache(&file, (0, 0)).unwrap_or(1) > 0;
        let sum = self.sum(&file, proved.bytes).map_err(unreadable)?.finish();
        if sum == proved.sum {
            return Ok(cached);
        }
        let now = source_of(&file).map_err(unreadable)?;
        match written || now != before {
            true => Err(Difference::Written),
            false => Err(Difference::Rotten),
        }
    }

    /// The sum of the first `length` bytes of a file, which more may be added to.
    pub(crate) fn sum(&mut self, file: impl AsFd, length: u64) -> Result<Summing, Errno> {
        let mut summing = Summing::new();
        let mut at = 0;
        while let Some((start, end)) = next_data(&file, at, length)? {
            let room = self.buffer.get_mut(..range_length(start, end));
            let room = room.ok_or(Errno::INVAL)?;
            let count = read_range(&file, start, room, true)?;
            let bytes = room.get(..count).unwrap_or_default();
            summing.add(start, count, &sums_of(bytes));
            if count < room.len() {
                break;
            }
            at = start + count as u64;
        }
        Ok(summing)
    }
}
