//! Creating an object: whole and labelled, or not at all.

use super::attributes::decode_device;
use super::{LABEL_XATTR, Make};
use crate::label::Label;
use env::handle::proc_path;
use mount::{Errno, Kind, NewObject, Result};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
const SET_ID: u32 = 0o6000;

/// Creates `name` in `dir` with owner, mode and label. After a failure `name` is not there.
pub(super) fn make(dir: BorrowedFd<'_>, name: &CStr, make: &Make<'_>) -> Result<()> {
    create(dir, name, make)?;
    let finished = set_owner(dir, name, make).and_then(|()| set_label(dir, name, &make.label));
    if finished.is_err() {
        let flags = match make.object {
            NewObject::Dir => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        // The first error is the one to report; an object left behind has no label and is swept.
        let _ = rustix::fs::unlinkat(dir, name, flags);
    }
    finished
}

/// The file system below applies the umask or the default ACL, and the set-group-id rule.
fn create(dir: BorrowedFd<'_>, name: &CStr, make: &Make<'_>) -> Result<()> {
    let mode = Mode::from_raw_mode(make.mode & 0o7777);
    env::umask::with(make.umask, || match make.object {
        NewObject::File => {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name, flags, mode).map(drop)
        }
        NewObject::Dir => rustix::fs::mkdirat(dir, name, mode),
        NewObject::Symlink(target) => rustix::fs::symlinkat(target, dir, name),
        NewObject::Special(kind, device) => {
            let kind = match kind {
                Kind::Fifo => FileType::Fifo,
                Kind::Socket => FileType::Socket,
                Kind::CharDevice => FileType::CharacterDevice,
                Kind::BlockDevice => FileType::BlockDevice,
                Kind::File | Kind::Dir | Kind::Symlink => return Err(Errno::INVAL),
            };
            rustix::fs::mknodat(dir, name, kind, mode, decode_device(device))
        }
    })?
}

fn set_owner(dir: BorrowedFd<'_>, name: &CStr, make: &Make<'_>) -> Result<()> {
    let made = rustix::fs::statat(dir, name, NOFOLLOW)?;
    let inherits_group = rustix::fs::fstat(dir)?.st_mode & 0o2000 != 0;
    let uid = (made.st_uid != make.uid).then(|| Uid::from_raw(make.uid));
    let gid = (!inherits_group && made.st_gid != make.gid).then(|| Gid::from_raw(make.gid));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    rustix::fs::chownat(dir, name, uid, gid, NOFOLLOW)?;
    let is_symlink = matches!(make.object, NewObject::Symlink(_));
    if made.st_mode & SET_ID != 0 && !is_symlink {
        // The change of owner has taken the set-id bits away.
        let mode = Mode::from_raw_mode(made.st_mode & 0o7777);
        rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?;
    }
    Ok(())
}

/// Sets the label of `name` in `dir`, or for an empty name of `dir` itself.
pub(super) fn set_label(dir: BorrowedFd<'_>, name: &CStr, label: &Label) -> Result<()> {
    let path = proc_path(dir, name)?;
    let value = label.encode();
    if name.is_empty() {
        rustix::fs::setxattr(path, LABEL_XATTR, &value, XattrFlags::empty())
    } else {
        rustix::fs::lsetxattr(path, LABEL_XATTR, &value, XattrFlags::empty())
    }
}
