//! The mount table of this process (`/proc/self/mountinfo`, proc(5)).

use crate::{Errno, MountError};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
pub(super) struct Entry {
    pub(super) path: PathBuf,
    /// Major and minor number of `st_dev`.
    pub(super) device: (u32, u32),
    pub(super) kind: String,
}

/// All mounts in the order in which they were made.
pub(super) fn mounts() -> Result<Vec<Entry>, MountError> {
    const FILE: &str = "/proc/self/mountinfo";
    let bytes = std::fs::read(FILE).map_err(|error| MountError::Io {
        operation: "read",
        path: Path::new(FILE).to_path_buf(),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
    })?;
    Ok(bytes
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
fn parse(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let path = unescape(fields.nth(1)?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Entry {
        path: PathBuf::from(OsString::from_vec(path)),
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: String::from_utf8_lossy(kind).into_owned(),
    })
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or(&[]);
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::path::Path;

    #[test]
    fn a_path_with_a_space_is_read() {
        let line = b"36 35 0:45 / /mnt/a\\040b\\134 rw shared:1 - fuse.holdfast holdfast rw,x";
        let entry = parse(line).expect("parses");
        assert_eq!(entry.path, Path::new("/mnt/a b\\"));
        assert_eq!(
            (entry.device, entry.kind.as_str()),
            ((0, 45), "fuse.holdfast")
        );
    }

    #[test]
    fn strange_lines_are_skipped() {
        for line in [&b""[..], b"1 2", b"1 2 x:y / / rw - a b", b"1 2 3:4 / / rw"] {
            assert!(parse(line).is_none());
        }
    }
}
