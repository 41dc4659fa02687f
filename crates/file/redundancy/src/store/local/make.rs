//! Creating an object: whole and labelled, or not at all.

use super::attributes::decode_device;
use super::{LABEL_XATTR, Make};
use crate::label::Label;
use env::handle::{Handle, name_to_handle, proc_path};
use mount::{Errno, Kind, NewObject, Result};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;
const SET_ID: u32 = 0o6000;

/// What was created.
pub(super) struct Created {
    /// Its handle, and the id of the mount that it is on.
    pub(super) handle: (Handle, i32),
    /// Its attributes.
    pub(super) stat: Stat,
    /// A regular file, open for reading and writing.
    pub(super) file: Option<OwnedFd>,
}

/// Creates `name` in `dir` with owner, mode and label. After a failure `name` is not there.
pub(super) fn make(dir: BorrowedFd<'_>, name: &CStr, make: &Make<'_>) -> Result<Created> {
    let made = Made {
        file: create(dir, name, make)?,
        dir,
        name,
    };
    let finished = made
        .set_owner(make)
        .and_then(|()| made.set_label(&make.label))
        .and_then(|()| Ok((made.handle()?, made.stat()?)));
    let Made { file, .. } = made;
    let created = finished.map(|(handle, stat)| Created { handle, stat, file });
    if created.is_err() {
        let flags = match make.object {
            NewObject::Dir => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        // The first error is the one to report; an object left behind has no label and is swept.
        let _ = rustix::fs::unlinkat(dir, name, flags);
    }
    created
}

/// The file system below applies the umask or the default ACL, and the set-group-id rule.
fn create(dir: BorrowedFd<'_>, name: &CStr, make: &Make<'_>) -> Result<Option<OwnedFd>> {
    let mode = Mode::from_raw_mode(make.mode & 0o7777);
    env::umask::with(make.umask, || match make.object {
        NewObject::File => {
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(dir, name, flags, mode).map(Some)
        }
        NewObject::Dir => rustix::fs::mkdirat(dir, name, mode).map(|()| None),
        NewObject::Symlink(target) => rustix::fs::symlinkat(target, dir, name).map(|()| None),
        NewObject::Special(kind, device) => {
            let kind = match kind {
                Kind::Fifo => FileType::Fifo,
                Kind::Socket => FileType::Socket,
                Kind::CharDevice => FileType::CharacterDevice,
                Kind::BlockDevice => FileType::BlockDevice,
                Kind::File | Kind::Dir | Kind::Symlink => return Err(Errno::INVAL),
            };
            let device = decode_device(device);
            rustix::fs::mknodat(dir, name, kind, mode, device).map(|()| None)
        }
    })?
}

/// What has just been made, through its descriptor where there is one (that is quicker), else
/// through its name.
struct Made<'a> {
    file: Option<OwnedFd>,
    dir: BorrowedFd<'a>,
    name: &'a CStr,
}

impl Made<'_> {
    fn stat(&self) -> Result<Stat> {
        match &self.file {
            Some(file) => rustix::fs::fstat(file),
            None => rustix::fs::statat(self.dir, self.name, NOFOLLOW),
        }
    }

    fn handle(&self) -> Result<(Handle, i32)> {
        match &self.file {
            Some(file) => name_to_handle(file.as_fd(), c""),
            None => name_to_handle(self.dir, self.name),
        }
    }

    /// It belongs to this process's user and group, or to the group of a set-group-id directory.
    fn set_owner(&self, make: &Make<'_>) -> Result<()> {
        let own = |id: u32, own: u32| (id != own).then_some(id);
        let uid = own(make.uid, rustix::process::geteuid().as_raw());
        let mut gid = own(make.gid, rustix::process::getegid().as_raw());
        if gid.is_some() && rustix::fs::fstat(self.dir)?.st_mode & 0o2000 != 0 {
            gid = None;
        }
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        // The change of owner takes set-id bits away; the umask or an ACL has made the others.
        let mode = match make.object {
            NewObject::Symlink(_) | NewObject::Dir => None,
            _ if make.mode & SET_ID == 0 => None,
            _ => Some(Mode::from_raw_mode(self.stat()?.st_mode & 0o7777)),
        };
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        match &self.file {
            Some(file) => rustix::fs::fchown(file, uid, gid)?,
            None => rustix::fs::chownat(self.dir, self.name, uid, gid, NOFOLLOW)?,
        }
        match (mode, &self.file) {
            (None, _) => Ok(()),
            (Some(mode), Some(file)) => rustix::fs::fchmod(file, mode),
            (Some(mode), None) => rustix::fs::chmodat(self.dir, self.name, mode, AtFlags::empty()),
        }
    }

    fn set_label(&self, label: &Label) -> Result<()> {
        match &self.file {
            Some(file) => {
                let value = label.encode();
                rustix::fs::fsetxattr(file, LABEL_XATTR, &value, XattrFlags::empty())
            }
            None => set_label(self.dir, self.name, label),
        }
    }
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
