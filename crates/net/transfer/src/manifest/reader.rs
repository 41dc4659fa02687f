//! Reading a manifest, from its beginning to its signature.

use super::text::{hex, number};
use super::{FIRST_WORDS, LINE_BYTES_MAX, LineError, Listed, Signature, Version};
use ring::digest::{Context, SHA256};
use std::io::{self, BufRead, Read};

/// Most notes of one.
const NOTES_MAX: usize = 64;

/// What stands in a manifest besides its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Of which version it is.
    pub version: Version,
    /// What its maker says of it, for people.
    pub notes: Vec<String>,
    /// How many files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many other objects and further names; none in version 1.
    pub others: u64,
    /// Who has signed it; the signature fits.
    pub signature: Option<Signature>,
}

/// Why it cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It does not begin as one.
    #[error("it is no manifest")]
    None,
    /// It is of a version that is not known here.
    #[error("it is of version {0}, and this Holdfast reads none after 2")]
    Version(u32),
    /// A line is not what it has to be.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        why: LineError,
    },
    /// It ends too early, or something follows its end.
    #[error("line {0}: it does not end as it has to")]
    End(u64),
    /// It is not as it was written.
    #[error("its sum does not fit: it has been changed, or cut")]
    Sum,
    /// Who signed something else.
    #[error("its signature does not fit: it has been changed, or signed by somebody else")]
    Signature,
}

/// Reads all of a manifest, calling `each` for each object that it lists. What was called for counts
/// only where all of it turns out to be right.
///
/// # Errors
/// It is not as it was written.
pub fn read(input: impl BufRead, mut each: impl FnMut(Listed)) -> Result<Manifest, ManifestError> {
    let mut lines = Lines { input, number: 0 };
    let mut digest = Context::new(&SHA256);
    let first = lines.next()?.ok_or(ManifestError::None)?;
    let version = version(&first)?;
    let mut manifest = Manifest {
        version,
        notes: Vec::new(),
        files: 0,
        bytes: 0,
        others: 0,
        signature: None,
    };
    digest.update(&first);
    digest.update(b"\n");
    loop {
        let line = lines.next()?.ok_or(ManifestError::End(lines.number))?;
        digest.update(&line);
        digest.update(b"\n");
        if let Some(note) = line.strip_prefix(b"note ") {
            if manifest.notes.len() == NOTES_MAX {
                return Err(ManifestError::End(lines.number));
            }
            let note = String::from_utf8_lossy(note).into_owned();
            manifest.notes.push(note);
        } else if let Some(total) = line.strip_prefix(b"total ") {
            let Manifest {
                files,
                bytes,
                others,
                ..
            } = &manifest;
            let expected = match version {
                Version::One => format!("{files} {bytes}"),
                Version::Two => format!("{files} {bytes} {others}"),
            };
            if total != expected.as_bytes() {
                return Err(ManifestError::End(lines.number));
            }
            break;
        } else {
            let listed = Listed::parse(version, &line).map_err(|why| lines.wrong(why))?;
            match &listed {
                Listed::File(proved) => {
                    manifest.files += 1;
                    manifest.bytes = manifest.bytes.saturating_add(proved.bytes);
                }
                Listed::Object(_) | Listed::Name { .. } => manifest.others += 1,
            }
            each(listed);
        }
    }
    let digest = digest.finish();
    let sum = lines.next()?.ok_or(ManifestError::End(lines.number))?;
    let sum = sum.strip_prefix(b"sum ").and_then(hex::<32>);
    if sum.ok_or(ManifestError::End(lines.number))? != digest.as_ref() {
        return Err(ManifestError::Sum);
    }
    if let Some(signed) = lines.next()? {
        let words = signed.strip_prefix(b"signed ").and_then(text);
        let signature = words.and_then(Signature::parse);
        let signature = signature.ok_or(ManifestError::End(lines.number))?;
        if !signature.fits(digest.as_ref()) {
            return Err(ManifestError::Signature);
        }
        manifest.signature = Some(signature);
        if lines.next()?.is_some() {
            return Err(ManifestError::End(lines.number));
        }
    }
    Ok(manifest)
}

fn version(first: &[u8]) -> Result<Version, ManifestError> {
    let number = first.strip_prefix(FIRST_WORDS.as_bytes()).and_then(number);
    match number.ok_or(ManifestError::None)? {
        1 => Ok(Version::One),
        2 => Ok(Version::Two),
        later => Err(ManifestError::Version(later)),
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line, without its end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ManifestError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64);
        self.number += 1;
        limited.read_until(b'\n', &mut line)?;
        match line.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(line)),
            Some(_) => Err(ManifestError::End(self.number)),
        }
    }

    fn wrong(&self, why: LineError) -> ManifestError {
        let line = self.number;
        ManifestError::Line { line, why }
    }
}
