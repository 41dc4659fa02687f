//! What an object carries besides its content.

use crate::entry::{Attributes, Meta, Time};
use crate::walk::{grown, is_carried, words};
use env::errno::Errno;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, futimens, utimensat,
};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// What could not be kept, in words.
pub(super) type Lost = Vec<String>;

/// Gives a file or directory all that it carries.
pub(super) fn to_open(file: impl AsFd, meta: &Meta) -> Result<Lost, Errno> {
    let file = file.as_fd();
    let mut lost = Lost::new();
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) != (meta.uid, meta.gid) {
        let (uid, gid) = owner(meta);
        note(&mut lost, "its owner", fchown(file, uid, gid))?;
    }
    // A change of owner clears setuid and setgid.
    note(&mut lost, "its permissions", fchmod(file, mode(meta)))?;
    attributes(file, meta, &mut lost)?;
    set_modified(file, meta.modified)?;
    Ok(lost)
}

/// Whether a file carries all that already: to set it again would make it dirty, and a sync of it
/// dear.
pub(super) fn is_kept(file: impl AsFd, wanted: &Meta) -> Result<bool, Errno> {
    Ok(of_open(file)? == *wanted)
}

/// What a file or directory carries.
pub(super) fn of_open(file: impl AsFd) -> Result<Meta, Errno> {
    let file = file.as_fd();
    Ok(Meta {
        attributes: read_attributes(file)?,
        ..crate::walk::meta(&fstat(file)?)
    })
}

/// Gives an object that cannot be opened what it carries, by its name in a directory that nobody
/// else writes to.
pub(super) fn to_name(
    dir: BorrowedFd<'_>,
    name: &CStr,
    meta: &Meta,
    link: bool,
) -> Result<Lost, Errno> {
    let mut lost = Lost::new();
    let (uid, gid) = owner(meta);
    let owned = chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
    note(&mut lost, "its owner", owned)?;
    if !link {
        let answer = chmodat(dir, name, mode(meta), AtFlags::empty());
        note(&mut lost, "its permissions", answer)?;
    }
    for (attribute, value) in &meta.attributes {
        let path = crate::walk::path_of(dir, name);
        let set = rustix::fs::lsetxattr(&path, &attribute[..], value, XattrFlags::empty());
        note(&mut lost, &attribute_words(attribute), set)?;
    }
    utimensat(dir, name, &times(meta.modified), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(lost)
}

fn attributes(file: BorrowedFd<'_>, meta: &Meta, lost: &mut Lost) -> Result<(), Errno> {
    for name in names_of_attributes(file)? {
        if !meta.attributes.iter().any(|(wanted, _)| *wanted == name) {
            note(lost, &attribute_words(&name), fremovexattr(file, &name[..]))?;
        }
    }
    for (name, value) in &meta.attributes {
        if !is_carried(name) {
            continue;
        }
        let set = fsetxattr(file, &name[..], value, XattrFlags::empty());
        note(lost, &attribute_words(name), set)?;
    }
    Ok(())
}

/// The names of those that are carried.
fn names_of_attributes(file: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let list = match grown(|buffer| flistxattr(file, buffer)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Vec::new(),
        list => list?,
    };
    let names = list.split(|b| *b == 0).filter(|name| is_carried(name));
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn read_attributes(file: BorrowedFd<'_>) -> Result<Attributes, Errno> {
    let mut found = Attributes::new();
    for name in names_of_attributes(file)? {
        let value = grown(|buffer| fgetxattr(file, &name[..], buffer))?;
        found.push((name, value));
    }
    found.sort();
    Ok(found)
}

/// What only a privileged receiver or another file system could keep is told and not fatal.
fn note(lost: &mut Lost, what: &str, answer: Result<(), Errno>) -> Result<(), Errno> {
    match answer {
        Ok(()) => Ok(()),
        Err(
            errno @ (Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::RANGE),
        ) => {
            lost.push(format!("{what} could not be kept: {}", words(errno)));
            Ok(())
        }
        // A value that the file system has no room for within the file's inode, as on ext4.
        Err(Errno::NOSPC | Errno::TOOBIG) if what.starts_with("attribute") => {
            lost.push(format!("{what} could not be kept: no room for it"));
            Ok(())
        }
        Err(errno) => Err(errno),
    }
}

/// Sets when the content last changed.
pub(super) fn set_modified(file: impl AsFd, modified: Time) -> Result<(), Errno> {
    futimens(file, &times(modified))
}

fn attribute_words(name: &[u8]) -> String {
    format!("attribute {}", name.escape_ascii())
}

fn owner(meta: &Meta) -> (Option<Uid>, Option<Gid>) {
    // The largest number stands for "as it is" (chown(2)).
    let uid = (meta.uid != u32::MAX).then(|| Uid::from_raw(meta.uid));
    let gid = (meta.gid != u32::MAX).then(|| Gid::from_raw(meta.gid));
    (uid, gid)
}

fn mode(meta: &Meta) -> Mode {
    Mode::from_raw_mode(meta.mode & 0o7777)
}

fn times(modified: Time) -> Timestamps {
    let Time {
        seconds,
        nanoseconds,
    } = modified;
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.min(999_999_999).into(),
        },
    }
}
