//! The receiver's manifest, as it arrives.

use crate::content::write_range;
use crate::error::TransferError;
use crate::manifest;
use rustix::fs::{Mode, OFlags, fsync, open, rename};
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A manifest that is not in place yet.
pub(super) struct Incoming {
    file: OwnedFd,
    path: PathBuf,
    new: PathBuf,
    bytes: u64,
}

fn failed(errno: env::errno::Errno) -> TransferError {
    TransferError::Manifest(errno)
}

impl Incoming {
    /// Begins one beside `path`.
    pub(super) fn begin(path: &Path) -> Result<Incoming, TransferError> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = open(&new, flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
        Ok(Incoming {
            file,
            path: path.to_owned(),
            new: new.into(),
            bytes: 0,
        })
    }

    /// How much has arrived.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes what comes next of `all` bytes.
    pub(super) fn take(&mut self, piece: &[u8], all: u64) -> Result<(), TransferError> {
        let after = self.bytes + piece.len() as u64;
        if piece.is_empty() || after > all {
            return Err(TransferError::Violation("a manifest of another length"));
        }
        write_range(&self.file, self.bytes, piece, false).map_err(failed)?;
        self.bytes = after;
        Ok(())
    }

    /// Looks whether it is as it was written, and puts it in place.
    pub(super) fn finish(self) -> Result<(), TransferError> {
        fsync(&self.file).map_err(failed)?;
        let look = || File::open(&self.new).map_err(manifest::ManifestError::Io);
        let right = look().and_then(|file| manifest::read(BufReader::new(file), |_| ()));
        if right.is_err() {
            return Err(TransferError::Violation("a manifest that is none"));
        }
        rename(&self.new, &self.path).map_err(failed)?;
        let parent = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = open(parent.unwrap_or(Path::new(".")), flags, Mode::empty());
        dir.and_then(fsync).map_err(failed)
    }
}
