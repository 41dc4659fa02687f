//! What is mounted where, and who uses it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo` (proc(5)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system, such as `ext4` or `fuse.holdfast`.
    pub kind: String,
    /// What was mounted.
    pub source: String,
}

impl Mounted {
    /// Whether a holdfast process, living or dead, made this mount.
    pub fn is_ours(&self) -> bool {
        self.kind == "fuse.holdfast" || (self.kind == "fuse" && self.source == "holdfast")
    }
}

/// All mounts of `mountinfo`; lines that are not understood are left out.
pub fn parse(mountinfo: &[u8]) -> Vec<Mounted> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(line)
        .collect()
}

fn line(bytes: &[u8]) -> Option<Mounted> {
    let mut fields = bytes.split(|byte| *byte == b' ');
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let mut after = fields.skip_while(|field| *field != b"-").skip(1);
    let text = |bytes: &[u8]| String::from_utf8_lossy(&unescape(bytes)).into_owned();
    let kind = text(after.next()?);
    let source = text(after.next()?);
    Some(Mounted {
        point,
        kind,
        source,
    })
}

/// Undoes the octal escapes (`\040` is a space) of the kernel's seq_file.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match octal {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    plain
}

/// The topmost mount at exactly `point`.
pub fn at<'a>(mounts: &'a [Mounted], point: &Path) -> Option<&'a Mounted> {
    mounts.iter().rev().find(|mounted| mounted.point == point)
}

/// Processes that hold something below `point` open, as `name (pid)`, at most `limit`. Only
/// links under /proc are read, never the mount itself: it may not answer.
pub fn users(point: &Path, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return found;
    };
    for process in processes.flatten() {
        if found.len() == limit {
            break;
        }
        let name = process.file_name();
        let is_process = name.as_bytes().iter().all(u8::is_ascii_digit);
        if is_process && uses(&process.path(), point) {
            let command = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("{} ({})", command.trim(), name.to_string_lossy()));
        }
    }
    found
}

fn uses(process: &Path, point: &Path) -> bool {
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|to| to.starts_with(point));
    if below(process.join("cwd")) || below(process.join("root")) || below(process.join("exe")) {
        return true;
    }
    let Ok(open) = std::fs::read_dir(process.join("fd")) else {
        return false;
    };
    open.flatten().any(|entry| below(entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] = b"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        40 22 0:44 / /srv/hold\\040fast rw,nosuid shared:3 - fuse.holdfast holdfast rw,user_id=0\n\
        41 22 0:45 / /x rw - fuse.sshfs host: rw\nnonsense\n";

    #[test]
    fn mountinfo_is_understood() {
        let mounts = parse(SAMPLE);
        assert_eq!(mounts.len(), 3);
        let ours = at(&mounts, Path::new("/srv/hold fast")).expect("our mount");
        assert!(ours.is_ours());
        let other = at(&mounts, Path::new("/x")).expect("another mount");
        assert!(!other.is_ours());
        assert_eq!(at(&mounts, Path::new("/srv")), None);
    }

    #[test]
    fn this_process_uses_its_working_directory() {
        let here = std::env::current_dir().expect("a working directory");
        assert!(!users(&here, 1).is_empty());
    }
}
