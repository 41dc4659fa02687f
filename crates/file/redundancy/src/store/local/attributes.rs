//! Attributes and extended attributes of an object that is held by an O_PATH descriptor.

use super::is_ours;
use env::handle::{get_xattr, proc_path};
use mount::{Attr, Errno, Kind, Result, SetAttr, SetTime, Space, Timestamp};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use std::ffi::{CStr, OsStr};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

/// Longest value of an extended attribute and longest list of names (XATTR_SIZE_MAX and
/// XATTR_LIST_MAX in linux/limits.h).
const XATTR_BYTES_MAX: usize = 65536;

/// `None` where the file system does not say.
pub(super) fn kind_of(kind: FileType) -> Option<Kind> {
    Some(match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
    })
}

/// Attributes from the kernel's.
pub(super) fn attr_of(stat: &Stat) -> Attr {
    let time = |sec, nsec: u64| Timestamp {
        sec,
        nsec: u32::try_from(nsec).unwrap_or(0),
    };
    Attr {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(Kind::File),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: encode_device(stat.st_rdev),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// `new_encode_dev` of include/linux/kdev_t.h: 12 bits of major, 20 of minor.
fn encode_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
}

/// `new_decode_dev` of include/linux/kdev_t.h.
pub(super) fn decode_device(device: u32) -> u64 {
    rustix::fs::makedev(
        (device & 0xfff00) >> 8,
        (device & 0xff) | (device >> 12 & 0xfff00),
    )
}

/// Changes everything but the length. The order matters: a change of owner takes the set-id bits
/// away, as the kernel does for everybody, and a mode that comes with it decides.
pub(super) fn set(object: BorrowedFd<'_>, change: &SetAttr) -> Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        rustix::fs::chownat(object, c"", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = change.mode {
        let path = proc_path(object, c"")?;
        rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))?;
    }
    if change.atime.is_some() || change.mtime.is_some() {
        let times = Timestamps {
            last_access: timespec(change.atime),
            last_modification: timespec(change.mtime),
        };
        rustix::fs::utimensat(object, c"", &times, AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        Some(SetTime::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        Some(SetTime::To(time)) => Timespec {
            tv_sec: time.sec,
            tv_nsec: time.nsec.into(),
        },
    }
}

/// Value of an extended attribute.
pub(super) fn xattr(object: BorrowedFd<'_>, name: &CStr) -> Result<Vec<u8>> {
    // Most values are short: an ACL, a capability. The long buffer is for the rest.
    let mut short = [0; 512];
    match get_xattr(object, c"", name, &mut short) {
        Ok(length) => Ok(short.get(..length).ok_or(Errno::IO)?.to_vec()),
        Err(Errno::RANGE) => {
            let mut long = vec![0; XATTR_BYTES_MAX];
            let length = get_xattr(object, c"", name, &mut long)?;
            long.truncate(length);
            Ok(long)
        }
        Err(error) => Err(error),
    }
}

/// Names of the extended attributes but Holdfast's own.
pub(super) fn list_xattr(object: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let path = proc_path(object, c"")?;
    let mut names = vec![0; XATTR_BYTES_MAX];
    let length = rustix::fs::listxattr(path, names.as_mut_slice())?;
    names.truncate(length);
    let others = names
        .split_inclusive(|byte| *byte == 0)
        .filter(|name| !is_ours(OsStr::from_bytes(name)));
    Ok(others.flatten().copied().collect())
}

/// Capacity of the file system that `object` is on.
pub(super) fn space(object: BorrowedFd<'_>) -> Result<Space> {
    let vfs = rustix::fs::fstatvfs(object)?;
    Ok(Space {
        total_bytes: vfs.f_blocks.saturating_mul(vfs.f_frsize),
        free_bytes: vfs.f_bfree.saturating_mul(vfs.f_frsize),
        available_bytes: vfs.f_bavail.saturating_mul(vfs.f_frsize),
        files: vfs.f_files,
        files_free: vfs.f_ffree,
        name_max: u32::try_from(vfs.f_namemax).unwrap_or(255),
        block_bytes: u32::try_from(vfs.f_frsize).unwrap_or(4096),
    })
}
