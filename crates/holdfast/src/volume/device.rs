//! Files and block devices for volumes: what may be taken, and what is somebody else's.

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::units;
use ::volume::geometry::Geometry;
use env::errno::Errno;
use env::real::RealDir;
use env::{Dir, Disk, Open};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, makedev, statx};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes at both ends of a device that have to be zeros: file systems, partition tables and RAID
/// headers all write there.
const LOOK_BYTES: u64 = 1 << 20;

/// Files that were made; removed again unless they are kept.
#[derive(Default)]
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    /// Makes a file where there is nothing and a length was given.
    pub(super) fn make(&mut self, path: &Path, bytes: Option<u64>) -> Outcome<()> {
        if let Some(bytes) = bytes.filter(|_| !path.exists()) {
            make_file(path, bytes)?;
            self.0.push(path.to_path_buf());
        }
        Ok(())
    }

    /// They are in use from here on.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a new file stays behind");
            }
        }
    }
}

fn make_file(path: &Path, bytes: u64) -> Outcome<()> {
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

/// What two names have in common that mean the same file or device. A file system that does not answer is
/// not waited for where the kernel knows the file: somebody else's may be among those that are asked.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    Some(match kind.is_block_device() {
        true => (
            u64::MAX,
            makedev(found.stx_rdev_major, found.stx_rdev_minor),
        ),
        false => (
            makedev(found.stx_dev_major, found.stx_dev_minor),
            found.stx_ino,
        ),
    })
}

/// Refuses devices of which one is named twice.
pub(super) fn need_different(devices: &[PathBuf]) -> Outcome<()> {
    let mut seen = Vec::new();
    for path in devices {
        let identity = identity(path);
        if identity.is_some() && seen.contains(&identity) {
            return Err(Failure::refuse(
                Exit::Usage,
                format!("{} is named twice", path.display()),
                "name each file or device of the volume once",
            ));
        }
        seen.push(identity);
    }
    Ok(())
}

/// Refuses a file that a loop device shows, for what is on that would be written over.
pub(super) fn need_no_loop(path: &Path) -> Outcome<()> {
    let Some(wanted) = identity(path) else {
        return Ok(());
    };
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten();
    for device in devices.flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        if backing.is_ok_and(|file| identity(Path::new(file.trim_end())) == Some(wanted)) {
            let name = device.file_name();
            let name = name.to_string_lossy();
            return Err(Failure::refuse(
                Exit::DeviceInUse,
                format!("{} is shown by /dev/{name}", path.display()),
                format!("unmount what is on it, then `losetup -d /dev/{name}`"),
            ));
        }
    }
    Ok(())
}

/// Refuses a block device that cannot be, or has more bytes than the volume would have room for.
pub(super) fn need_room(disks: &[Arc<dyn Disk>], segment_blocks: u32, bytes: u64) -> Outcome<()> {
    const BLOCK: u64 = ::volume::BLOCK_BYTES as u64;
    if bytes == 0 || !bytes.is_multiple_of(BLOCK) {
        return Err(Failure::refuse(
            Exit::Usage,
            format!("a block device of {bytes} bytes is not one or more blocks of {BLOCK}"),
            "give --device-bytes as a multiple of 4K, or leave it out for all that fits",
        ));
    }
    let lengths = disks.iter().map(|disk| disk.len());
    let lengths = lengths.collect::<env::Result<Vec<u64>>>();
    let lengths = lengths.map_err(|errno| Failure::unexpected("asking for a length", &errno))?;
    let geometry = match segment_blocks {
        0 => None,
        blocks => Geometry::fit(&lengths, blocks),
    };
    // Where there is no volume of this shape, that is said when it is made.
    let most = geometry.map_or(u64::MAX, |shape| shape.capacity_blocks() * BLOCK);
    match bytes <= most {
        true => Ok(()),
        false => Err(Failure::refuse(
            Exit::DeviceRefused,
            format!(
                "a block device of {} does not fit: the volume would have room for {}",
                units::bytes(bytes),
                units::bytes(most)
            ),
            "give fewer --device-bytes, leave it out for all that fits, or take larger devices",
        )),
    }
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
        Errno::FBIG => (
            Exit::DeviceRefused,
            format!("{shown} would be longer than its file system allows"),
            "give fewer --file-bytes, or a place on another file system",
        ),
        other => (
            Exit::Failed,
            format!("{shown}: {other}"),
            "look at the kernel's messages about the device",
        ),
    };
    Failure::refuse(exit, what, next)
}
