//! Renaming.

use super::draft::Draft;
use super::folder::Named;
use super::inode::Inode;
use super::names::{bytes_of, damaged};
use super::{Tree, content_of};
use mount::{Errno, Ino, Kind, RenameFlags, Result, Timestamp};
use std::ffi::OsStr;

/// Where a name is.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) dir: Ino,
    pub(super) name: &'a OsStr,
}

impl Tree {
    pub(super) fn rename_name(&self, from: End<'_>, to: End<'_>, flags: RenameFlags) -> Result<()> {
        let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
        if flags.contains(RenameFlags::WHITEOUT) || flags.contains(both) {
            return Err(Errno::INVAL);
        }
        let (old, new) = (bytes_of(from.name)?, bytes_of(to.name)?);
        let now = (self.now)();
        let (moved, swapped, gone) = self.change(|draft| {
            draft.dir(from.dir)?;
            draft.dir(to.dir)?;
            let moved = (draft.find(content_of(from.dir), old)?).ok_or(Errno::NOENT)?;
            let target = draft.find(content_of(to.dir), new)?;
            if flags.contains(RenameFlags::EXCHANGE) {
                let target = target.ok_or(Errno::NOENT)?;
                exchange(draft, (from, old, moved), (to, new, target), now)?;
                return Ok((moved.ino, Some(target.ino), None));
            }
            if target.is_some() && flags.contains(RenameFlags::NOREPLACE) {
                return Err(Errno::EXIST);
            }
            if target.is_some_and(|target| target.ino == moved.ino) {
                return Ok((moved.ino, None, None));
            }
            if moved.kind == Kind::Dir {
                not_below(draft, to.dir, moved.ino)?;
            }
            let gone = match target {
                Some(target) => self.make_way(draft, moved.kind, target, to.dir, now)?,
                None => None,
            };
            draft.remove(content_of(from.dir), old)?;
            match target {
                Some(_) => draft.replace(content_of(to.dir), new, moved.ino, moved.kind)?,
                None => draft.insert(content_of(to.dir), new, moved.ino, moved.kind)?,
            }
            settle(draft, moved, from.dir, to.dir, now)?;
            for dir in [from.dir, to.dir] {
                let inode = draft.dir(dir)?;
                draft.names_changed(dir, inode, now, false)?;
            }
            Ok((moved.ino, None, gone))
        })?;
        self.note(moved, to.dir, to.name);
        if let Some(swapped) = swapped {
            self.note(swapped, from.dir, from.name);
        }
        if let Some((ino, inode)) = gone {
            self.note_gone(ino, &inode);
        }
        Ok(())
    }

    /// Takes away what a rename replaces; what it was, where that is all of it.
    fn make_way(
        &self,
        draft: &mut Draft<'_>,
        moved: Kind,
        target: Named,
        dir: Ino,
        now: Timestamp,
    ) -> Result<Option<(Ino, Inode)>> {
        match (moved == Kind::Dir, target.kind == Kind::Dir) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            (false, false) => self.lose_name(draft, target.ino, now),
            (true, true) => {
                if !draft.is_empty(content_of(target.ino))? {
                    return Err(Errno::NOTEMPTY);
                }
                let inode = draft.inode(target.ino).map_err(damaged)?;
                draft.erase(target.ino, &inode)?;
                let mut parent = draft.dir(dir)?;
                parent.links = parent.links.saturating_sub(1);
                draft.names_changed(dir, parent, now, true)?;
                Ok(Some((
                    target.ino,
                    Inode {
                        ctime: now,
                        ..inode
                    },
                )))
            }
        }
    }
}

type Place<'a> = (End<'a>, &'a [u8], Named);

fn exchange(
    draft: &mut Draft<'_>,
    (from, old, moved): Place<'_>,
    (to, new, target): Place<'_>,
    now: Timestamp,
) -> Result<()> {
    if moved.ino == target.ino {
        return Ok(());
    }
    if moved.kind == Kind::Dir {
        not_below(draft, to.dir, moved.ino)?;
    }
    if target.kind == Kind::Dir {
        not_below(draft, from.dir, target.ino)?;
    }
    draft.replace(content_of(from.dir), old, target.ino, target.kind)?;
    draft.replace(content_of(to.dir), new, moved.ino, moved.kind)?;
    settle(draft, moved, from.dir, to.dir, now)?;
    settle(draft, target, to.dir, from.dir, now)?;
    for dir in [from.dir, to.dir] {
        let inode = draft.dir(dir)?;
        draft.names_changed(dir, inode, now, false)?;
    }
    Ok(())
}

/// The inode of what moved, and the links of the directories that a directory moved between.
fn settle(draft: &mut Draft<'_>, moved: Named, from: Ino, to: Ino, now: Timestamp) -> Result<()> {
    let mut inode = draft.inode(moved.ino).map_err(damaged)?;
    inode.ctime = now;
    if inode.kind == Kind::Dir && from != to {
        inode.parent = to;
        let mut old = draft.dir(from)?;
        old.links = old.links.saturating_sub(1);
        draft.names_changed(from, old, now, true)?;
        let mut new = draft.dir(to)?;
        new.links = new.links.saturating_add(1);
        draft.names_changed(to, new, now, true)?;
    }
    draft.set(moved.ino, Some(inode))
}

/// EINVAL where directory `dir` is `top` or below it.
fn not_below(draft: &mut Draft<'_>, dir: Ino, top: Ino) -> Result<()> {
    let mut at = dir;
    loop {
        if at == top {
            return Err(Errno::INVAL);
        }
        if at == Ino::ROOT {
            return Ok(());
        }
        // A parent has a lower level, so this ends; a damaged tree might have a circle, which
        // `volume check` finds.
        let parent = draft.dir(at)?.parent;
        if parent == at {
            return Err(Errno::IO);
        }
        at = parent;
    }
}
