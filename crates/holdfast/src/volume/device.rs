//! Files and block devices for volumes: what may be taken, and what is somebody else's.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use env::errno::Errno;
use env::real::RealDir;
use env::{Dir, Disk, Open};
use std::path::Path;

/// Bytes at both ends of a device that have to be zeros: file systems, partition tables and RAID
/// headers all write there.
const LOOK_BYTES: u64 = 1 << 20;

/// Bytes with a unit: `65536`, `64K`, `10G`.
///
/// # Errors
/// What is wrong with the text.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits
        .parse()
        .map_err(|_| "want a number, such as 64K or 10G".to_owned())?;
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("the units are K, M, G and T, each 1024 of the one before".to_owned()),
    };
    number
        .checked_mul(1 << unit)
        .ok_or_else(|| "more bytes than there can be".to_owned())
}

/// Makes a file where there is nothing and a length was given.
pub(super) fn make_file(path: &Path, bytes: Option<u64>) -> Outcome<()> {
    let Some(bytes) = bytes.filter(|_| !path.exists()) else {
        return Ok(());
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let made = name.ok_or(Errno::INVAL).and_then(|name| {
        let dir = RealDir::open(parent)?;
        match dir.open(name, Open::Create(bytes)) {
            Ok(_) => dir.sync(),
            Err(errno) => {
                // Half a file is of no use to anybody.
                let _ = dir.remove(name);
                Err(errno)
            }
        }
    });
    made.map_err(|errno| unusable(path, errno))
}

/// Refuses a device that may hold something.
pub(super) fn need_blank(path: &Path, disk: &dyn Disk) -> Outcome<()> {
    if let Ok(found) = ::volume::identify(disk, 0) {
        return Err(Failure::refuse(
            Exit::DeviceRefused,
            format!(
                "{} is part of volume {} already",
                path.display(),
                found.volume
            ),
            "use that volume, or give --overwrite: then all that is on it is lost",
        ));
    }
    let failed = |errno| unusable(path, errno);
    let length = disk.len().map_err(failed)? / 4096 * 4096;
    let look = LOOK_BYTES.min(length);
    for start in [0, length - look] {
        // The end of this buffer is where a multiple of 4096 begins in memory.
        let mut room = vec![0; look as usize + 4096];
        let skip = room.as_ptr().align_offset(4096).min(4096);
        let Some(buffer) = room.get_mut(skip..skip + look as usize) else {
            continue;
        };
        disk.read_at(start, buffer).map_err(failed)?;
        if buffer.iter().any(|byte| *byte != 0) {
            return Err(Failure::refuse(
                Exit::DeviceRefused,
                format!("{} has content", path.display()),
                "check that it is the device that you mean (blkid shows what is on it), then give\n\
                 --overwrite: all that is on it is lost",
            ));
        }
    }
    Ok(())
}

/// Why a device cannot be opened.
pub(super) fn unusable(path: &Path, errno: Errno) -> Failure {
    let shown = path.display();
    let (exit, what, next) = match errno {
        Errno::AGAIN => (
            Exit::DeviceInUse,
            format!("another process has {shown} open as a volume"),
            "stop that process; `fuser -v DEVICE` names it",
        ),
        Errno::BUSY => (
            Exit::DeviceInUse,
            format!("{shown} is mounted, or otherwise in use"),
            "unmount it first; `lsblk` shows what uses it",
        ),
        Errno::NOENT => (
            Exit::NotAVolume,
            format!("{shown} does not exist"),
            "name a file or device; `holdfast volume create` makes a file with --file-bytes",
        ),
        Errno::ISDIR => (
            Exit::NotAVolume,
            format!("{shown} is a directory"),
            "name a file or a block device",
        ),
        Errno::ACCESS | Errno::PERM => (
            Exit::NoPermission,
            format!("{shown} may not be opened"),
            "run it as root, or as the owner of the device",
        ),
        Errno::NOSPC => (
            Exit::DeviceRefused,
            format!("there is no room for {shown}"),
            "give fewer --file-bytes, or a place on another disk",
        ),
        other => (
            Exit::Failed,
            format!("{shown}: {other}"),
            "look at the kernel's messages about the device",
        ),
    };
    Failure::refuse(exit, what, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_units_and_nothing_else() {
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("7"), Ok(7));
        for wrong in ["", "K", "1k", "1KB", "-1", "1.5G", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
