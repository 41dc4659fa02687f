//! Between the words of FUSE (through fuser) and those of a layer.

use crate::{Attr, Caller, Errno, Ino, Kind, SetTime, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use std::time::{Duration, SystemTime};

/// How long the kernel may keep names and attributes: for good, for nobody else changes them. The
/// kernel drops by itself what its own requests change.
pub(crate) const TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Inode numbers are never used again, so one generation is enough.
pub(crate) const GENERATION: fuser::Generation = fuser::Generation(0);

pub(crate) fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub(crate) fn caller(request: &Request, umask: u32) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        pid: request.pid(),
        umask,
    }
}

/// The kernel takes ENOSYS as "never ask again", so a layer's ENOSYS becomes EOPNOTSUPP.
pub(crate) fn errno(error: Errno) -> fuser::Errno {
    match error {
        Errno::NOSYS => fuser::Errno::EOPNOTSUPP,
        error => fuser::Errno::from_i32(error.raw_os_error()),
    }
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// Type bits of `mode` (S_IFMT) of a `mknod`; `None` for what it cannot make.
pub(crate) fn kind_of_mode(mode: u32) -> Option<Kind> {
    // The type numbers of sys/stat.h, which are the same on all Linux architectures.
    match mode & 0o170_000 {
        0o100_000 | 0 => Some(Kind::File),
        0o010_000 => Some(Kind::Fifo),
        0o140_000 => Some(Kind::Socket),
        0o020_000 => Some(Kind::CharDevice),
        0o060_000 => Some(Kind::BlockDevice),
        _ => None,
    }
}

/// Attributes for the kernel.
pub(crate) fn file_attr(ino: Ino, attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// An entry with node id 0 tells the kernel that there is no such name, and to remember it.
pub(crate) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The same instant; what no `SystemTime` can hold becomes the epoch.
fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.sec.unsigned_abs());
    let whole = if time.sec >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    };
    whole
        .and_then(|whole| whole.checked_add(Duration::from_nanos(time.nsec.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The time that the kernel sent.
///
/// fuser 0.18 turns (seconds, nanoseconds) before 1970 into epoch - |seconds| - nanoseconds where
/// epoch - |seconds| + nanoseconds was meant (its `system_time_from_time`). Both parts can be read
/// back from its answer, so the true time is restored here.
pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    let TimeOrNow::SpecificTime(time) = time else {
        return SetTime::Now;
    };
    let time = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timestamp {
            sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nsec: after.subsec_nanos(),
        },
        Err(before) => Timestamp {
            sec: 0i64.saturating_sub_unsigned(before.duration().as_secs()),
            nsec: before.duration().subsec_nanos(),
        },
    };
    SetTime::To(time)
}

#[cfg(test)]
mod tests {
    use super::{set_time, system_time};
    use crate::{SetTime, Timestamp};
    use fuser::TimeOrNow;
    use std::time::{Duration, SystemTime};

    /// What fuser 0.18 makes of a time from the kernel.
    fn from_kernel(sec: i64, nsec: u32) -> SystemTime {
        if sec >= 0 {
            SystemTime::UNIX_EPOCH + Duration::new(sec.unsigned_abs(), nsec)
        } else {
            SystemTime::UNIX_EPOCH - Duration::new(sec.unsigned_abs(), nsec)
        }
    }

    const TIMES: [(i64, u32); 8] = [
        (0, 0),
        (0, 1),
        (-1, 999_999_999),
        (-1, 0),
        (-2, 800_000_000),
        (-2_147_483_648, 5),
        (15_032_385_535, 999_999_999),
        (i64::MIN, 0),
    ];

    #[test]
    fn a_time_from_the_kernel_is_exact_before_1970_too() {
        for (sec, nsec) in TIMES {
            let time = TimeOrNow::SpecificTime(from_kernel(sec, nsec));
            assert_eq!(set_time(time), SetTime::To(Timestamp { sec, nsec }));
        }
        assert_eq!(set_time(TimeOrNow::Now), SetTime::Now);
    }

    #[test]
    fn a_time_to_the_kernel_is_exact_before_1970_too() {
        for (sec, nsec) in TIMES {
            let time = system_time(Timestamp { sec, nsec });
            let expected = i128::from(sec) * 1_000_000_000 + i128::from(nsec);
            let nanoseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => after.as_nanos().cast_signed(),
                Err(before) => -before.duration().as_nanos().cast_signed(),
            };
            assert_eq!(nanoseconds, expected);
        }
    }
}
