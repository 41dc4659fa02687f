//! Holding a tree against the manifest of a transfer, any day after it.

use crate::entry::TreePath;
use crate::error::TransferError;
use crate::level::Level;
use crate::manifest::{self, Listed, Manifest, ManifestError};
use parking_lot::Mutex;
use reader::Looked;
use rustix::fs::{Mode, OFlags, open};
use std::io::BufRead;
use std::path::Path;
use std::sync::{Arc, mpsc};

mod difference;
mod reader;

pub use difference::{Change, Difference};
pub(crate) use reader::Reader;

/// Objects that wait for a thread.
const WAITING_MAX: usize = 64;

/// Most differences that are named.
const NAMED_MAX: usize = 10_000;

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Files that are as the manifest says.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Other objects and further names that are.
    pub others: u64,
    /// Of these files, those of which the kernel kept something in memory, so that it need not
    /// have asked the device.
    pub from_cache: u64,
    /// What differs, in the order of paths; an object may differ in several ways.
    pub differences: Vec<(TreePath, Difference)>,
    /// How many more differences there are.
    pub differences_more: u64,
}

/// Looks at every object of a manifest below `dir`, and reads every file, `threads` at once. Each file
/// is dropped from the page cache before, so that it comes from the device.
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
    let (send, receive) = mpsc::sync_channel::<Listed>(WAITING_MAX);
    let (receive, found) = (Mutex::new(receive), Mutex::new(Verified::default()));
    let manifest = std::thread::scope(|scope| {
        let send = send;
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut reader = Reader::new(root.clone());
                loop {
                    let next = receive.lock().recv();
                    let Ok(listed) = next else { break };
                    let looked = reader.look(&listed);
                    found.lock().take(&listed, looked);
                }
            });
        }
        manifest::read(input, |listed| {
            progress(&found.lock());
            // The threads end only after this.
            let _taken = send.send(listed);
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
    fn take(&mut self, listed: &Listed, looked: Looked) {
        if looked.differences.is_empty() {
            match listed {
                Listed::File(proved) => {
                    self.files += 1;
                    self.bytes += proved.bytes;
                    self.from_cache += u64::from(looked.cached);
                }
                Listed::Object(_) | Listed::Name { .. } => self.others += 1,
            }
        }
        for difference in looked.differences {
            match self.differences.len() {
                NAMED_MAX => self.differences_more += 1,
                _ => self.differences.push((listed.path().clone(), difference)),
            }
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
