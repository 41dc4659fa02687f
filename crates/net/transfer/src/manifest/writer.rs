//! Writing a manifest while files are proved.

use super::signature::{Signer, digits};
use super::{FIRST_LINE, Proved};
use crate::content::write_range;
use env::errno::Errno;
use ring::digest::{Context, SHA256};
use std::os::fd::OwnedFd;

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A manifest that grows in a file.
pub(crate) struct Writer {
    file: OwnedFd,
    at: u64,
    buffer: Vec<u8>,
    digest: Context,
    files: u64,
    bytes: u64,
}

impl Writer {
    /// Begins one in an empty file. `notes` are lines for people, without their ends.
    pub(crate) fn begin(file: OwnedFd, notes: &[String]) -> Writer {
        let mut writer = Writer {
            file,
            at: 0,
            buffer: Vec::new(),
            digest: Context::new(&SHA256),
            files: 0,
            bytes: 0,
        };
        writer.take(format!("{FIRST_LINE}\n").as_bytes());
        for note in notes {
            writer.take(format!("note {}\n", note.replace(char::is_control, " ")).as_bytes());
        }
        writer
    }

    fn take(&mut self, line: &[u8]) {
        self.digest.update(line);
        self.buffer.extend_from_slice(line);
    }

    /// Takes what was proved of a file.
    pub(crate) fn add(&mut self, proved: &Proved) -> Result<(), Errno> {
        self.take(&proved.to_line());
        self.files += 1;
        self.bytes = self.bytes.saturating_add(proved.bytes);
        match self.buffer.len() >= BUFFER_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        write_range(&self.file, self.at, &self.buffer, false)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends it; the file, and its length.
    pub(crate) fn finish(mut self, signer: Option<&Signer>) -> Result<(OwnedFd, u64), Errno> {
        let (files, bytes) = (self.files, self.bytes);
        self.take(format!("total {files} {bytes}\n").as_bytes());
        let digest = self.digest.clone().finish();
        let sum = format!("sum {}\n", digits(digest.as_ref()));
        self.buffer.extend_from_slice(sum.as_bytes());
        if let Some(signer) = signer {
            let signature = signer.sign(digest.as_ref()).to_words();
            self.buffer
                .extend_from_slice(format!("signed {signature}\n").as_bytes());
        }
        self.flush()?;
        Ok((self.file, self.at))
    }
}
