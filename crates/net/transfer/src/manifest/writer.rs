//! Writing a manifest while objects are put in place.

use super::signature::Signer;
use super::text::digits;
use super::{FIRST_WORDS, Listed, Version};
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
    others: u64,
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
            others: 0,
        };
        let version = Version::Two.number();
        writer.take(format!("{FIRST_WORDS}{version}\n").as_bytes());
        for note in notes {
            writer.take(format!("note {}\n", note.replace(char::is_control, " ")).as_bytes());
        }
        writer
    }

    fn take(&mut self, line: &[u8]) {
        self.digest.update(line);
        self.buffer.extend_from_slice(line);
    }

    /// Takes an object.
    pub(crate) fn add(&mut self, listed: &Listed) -> Result<(), Errno> {
        self.take(&listed.to_line());
        match listed {
            Listed::File(proved) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(proved.bytes);
            }
            Listed::Object(_) | Listed::Name { .. } => self.others += 1,
        }
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
        let (files, bytes, others) = (self.files, self.bytes, self.others);
        self.take(format!("total {files} {bytes} {others}\n").as_bytes());
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
