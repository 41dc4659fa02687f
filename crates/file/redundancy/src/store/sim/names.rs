//! What changes names.

use super::state::{State, check_name};
use super::tree::{Change, Inode};
use super::{acl, check_target, kind_of};
use crate::store::Make;
use mount::{Errno, Kind, NewObject, RenameFlags, Result};
use std::ffi::OsStr;
use std::sync::Arc;

/// Creates an object without its label.
pub(super) fn make(state: &mut State, dir: u64, name: &OsStr, make: &Make<'_>) -> Result<u64> {
    check_name(name)?;
    let now = state.now();
    let mut parent = state.touched_directory(dir)?;
    if state.journal.now.get(dir, name).is_some() {
        return Err(Errno::EXIST);
    }
    let (kind, rdev) = kind_of(&make.object);
    let mut inode = Inode::new(kind, (make.mode & 0o7777) as u16, now);
    inode.uid = make.uid;
    inode.gid = make.gid;
    inode.rdev = rdev;
    inode.parent = dir;
    if let NewObject::Symlink(target) = make.object {
        inode.target = check_target(target)?;
        inode.perm = 0o777;
    } else {
        acl::inherit(&parent, &mut inode, make.umask);
    }
    if parent.perm & 0o2000 != 0 {
        inode.gid = parent.gid;
        if kind == Kind::Dir {
            inode.perm |= 0o2000;
        }
    }
    if kind == Kind::Dir {
        parent.nlink += 1;
    }
    let ino = state.new_ino();
    state.journal.run(vec![
        Change::Inode(ino, Arc::new(inode)),
        Change::Entry(dir, name.to_owned(), Some(ino)),
        Change::Inode(dir, Arc::new(parent)),
    ]);
    Ok(ino)
}

pub(super) fn link(state: &mut State, ino: u64, dir: u64, name: &OsStr) -> Result<()> {
    check_name(name)?;
    let now = state.now();
    let parent = state.touched_directory(dir)?;
    if state.named(ino)?.kind == Kind::Dir {
        return Err(Errno::PERM);
    }
    if state.journal.now.get(dir, name).is_some() {
        return Err(Errno::EXIST);
    }
    let mut inode = state.draft(ino)?;
    inode.nlink += 1;
    inode.ctime = now;
    state.journal.run(vec![
        Change::Inode(ino, Arc::new(inode)),
        Change::Entry(dir, name.to_owned(), Some(ino)),
        Change::Inode(dir, Arc::new(parent)),
    ]);
    Ok(())
}

pub(super) fn unlink(state: &mut State, dir: u64, name: &OsStr) -> Result<()> {
    let now = state.now();
    let ino = state.find(dir, name)?;
    let parent = state.touched_directory(dir)?;
    let mut inode = state.draft(ino)?;
    if inode.kind == Kind::Dir {
        return Err(Errno::ISDIR);
    }
    inode.nlink = inode.nlink.saturating_sub(1);
    inode.ctime = now;
    state.journal.run(vec![
        Change::Inode(ino, Arc::new(inode)),
        Change::Entry(dir, name.to_owned(), None),
        Change::Inode(dir, Arc::new(parent)),
    ]);
    state.forget_if_unused(ino);
    Ok(())
}

pub(super) fn remove_dir(state: &mut State, dir: u64, name: &OsStr) -> Result<()> {
    let now = state.now();
    let ino = state.find(dir, name)?;
    let mut parent = state.touched_directory(dir)?;
    let mut inode = state.draft(ino)?;
    if inode.kind != Kind::Dir {
        return Err(Errno::NOTDIR);
    }
    if state.journal.now.list(ino).next().is_some() {
        return Err(Errno::NOTEMPTY);
    }
    inode.nlink = 0;
    inode.ctime = now;
    parent.nlink = parent.nlink.saturating_sub(1);
    state.journal.run(vec![
        Change::Inode(ino, Arc::new(inode)),
        Change::Entry(dir, name.to_owned(), None),
        Change::Inode(dir, Arc::new(parent)),
    ]);
    state.forget_if_unused(ino);
    Ok(())
}

/// Inodes that one rename changes, each once, whatever their parts in it.
struct Drafts<'a> {
    state: &'a mut State,
    drafts: Vec<(u64, Inode)>,
}

impl Drafts<'_> {
    fn of(&mut self, ino: u64) -> Result<&mut Inode> {
        let at = match self.drafts.iter().position(|(have, _)| *have == ino) {
            Some(at) => at,
            None => {
                let mut inode = self.state.draft(ino)?;
                inode.ctime = self.state.now();
                self.drafts.push((ino, inode));
                self.drafts.len() - 1
            }
        };
        Ok(&mut self.drafts[at].1)
    }

    fn entry_moved(&mut self, dir: u64) -> Result<()> {
        let inode = self.of(dir)?;
        inode.mtime = inode.ctime;
        Ok(())
    }
}

pub(super) fn rename(
    state: &mut State,
    (dir, name): (u64, &OsStr),
    (new_dir, new_name): (u64, &OsStr),
    flags: RenameFlags,
) -> Result<()> {
    let exchange = flags.contains(RenameFlags::EXCHANGE);
    let whiteout = flags.contains(RenameFlags::WHITEOUT);
    if exchange && flags != RenameFlags::EXCHANGE {
        return Err(Errno::INVAL);
    }
    check_name(new_name)?;
    let ino = state.find(dir, name)?;
    state.directory(new_dir)?;
    let target = state.journal.now.get(new_dir, new_name);
    let is_dir = |state: &State, ino| state.inode(ino).map(|inode| inode.kind == Kind::Dir);
    let moves_dir = is_dir(state, ino)?;
    if target.is_some() && flags.contains(RenameFlags::NOREPLACE) {
        return Err(Errno::EXIST);
    }
    if target.is_none() && exchange {
        return Err(Errno::NOENT);
    }
    if moves_dir && state.journal.now.is_within(new_dir, ino) {
        return Err(Errno::INVAL);
    }
    if let Some(target) = target {
        if target == ino {
            return Ok(());
        }
        let onto_dir = is_dir(state, target)?;
        if exchange {
            if onto_dir && state.journal.now.is_within(dir, target) {
                return Err(Errno::INVAL);
            }
        } else if onto_dir && state.journal.now.is_within(dir, target) {
            return Err(Errno::NOTEMPTY);
        } else if moves_dir && !onto_dir {
            return Err(Errno::NOTDIR);
        } else if !moves_dir && onto_dir {
            return Err(Errno::ISDIR);
        } else if onto_dir && state.journal.now.list(target).next().is_some() {
            return Err(Errno::NOTEMPTY);
        }
    }
    let mut drafts = Drafts {
        state,
        drafts: Vec::new(),
    };
    drafts.entry_moved(dir)?;
    drafts.entry_moved(new_dir)?;
    drafts.of(ino)?;
    if moves_dir {
        drafts.of(ino)?.parent = new_dir;
        drafts.of(dir)?.nlink -= 1;
        drafts.of(new_dir)?.nlink += 1;
    }
    let mut changes = Vec::new();
    if let Some(target) = target {
        let onto_dir = is_dir(drafts.state, target)?;
        if exchange {
            if onto_dir {
                drafts.of(target)?.parent = dir;
                drafts.of(new_dir)?.nlink -= 1;
                drafts.of(dir)?.nlink += 1;
            } else {
                drafts.of(target)?;
            }
        } else if onto_dir {
            drafts.of(target)?.nlink = 0;
            drafts.of(new_dir)?.nlink -= 1;
        } else {
            drafts.of(target)?.nlink -= 1;
        }
    }
    let left = if exchange {
        target
    } else if whiteout {
        let now = drafts.state.now();
        let whiteout = Inode {
            parent: dir,
            ..Inode::new(Kind::CharDevice, 0, now)
        };
        let ino = drafts.state.new_ino();
        changes.push(Change::Inode(ino, Arc::new(whiteout)));
        Some(ino)
    } else {
        None
    };
    changes.push(Change::Entry(dir, name.to_owned(), left));
    changes.push(Change::Entry(new_dir, new_name.to_owned(), Some(ino)));
    for (ino, inode) in drafts.drafts {
        changes.push(Change::Inode(ino, Arc::new(inode)));
    }
    state.journal.run(changes);
    if let Some(target) = target {
        state.forget_if_unused(target);
    }
    Ok(())
}
