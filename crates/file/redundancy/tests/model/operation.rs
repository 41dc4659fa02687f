//! Operations on the tree: how one is chosen, run on the layer, and run on the model.

use anyhow::{Result, ensure};
use holdfast_redundancy::model::{Meta, NewNode, Tree};
use holdfast_redundancy::store::sim::{Choose, Rng};
use mount::{AllocateFlags, Caller, Errno, Ino, Kind, Layer, NewObject, RenameFlags, SetAttr};
use std::ffi::{OsStr, OsString};

/// Largest file, bytes.
const MOST_BYTES: u64 = 96 * 1024;
const UMASK: u32 = 0o022;

/// A place in the tree: directory and name.
pub(crate) type Place = (u64, OsString);

/// One call of the layer.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Make {
        at: Place,
        kind: Kind,
        mode: u32,
        uid: u32,
        gid: u32,
        target: OsString,
    },
    Link {
        ino: u64,
        at: Place,
    },
    Unlink {
        at: Place,
    },
    RemoveDir {
        at: Place,
    },
    Rename {
        from: Place,
        to: Place,
        flags: RenameFlags,
    },
    Write {
        ino: u64,
        offset: u64,
        length: u64,
        seed: u64,
    },
    Truncate {
        ino: u64,
        length: u64,
    },
    Zero {
        ino: u64,
        offset: u64,
        length: u64,
        flags: AllocateFlags,
    },
    CopyRange {
        from: u64,
        from_offset: u64,
        to: u64,
        to_offset: u64,
        length: u64,
    },
    Sync {
        ino: u64,
        data_only: bool,
    },
    SetMeta {
        ino: u64,
        meta: Meta,
    },
    SetXattr {
        ino: u64,
        name: OsString,
        value: Option<Vec<u8>>,
    },
    Read {
        ino: u64,
        offset: u64,
        length: u64,
    },
    List {
        dir: u64,
    },
    /// A call that must be refused in this way.
    Refused {
        call: Box<Operation>,
        errno: Errno,
    },
}

/// Kinds of operations, for the weights of a run.
pub(crate) const KINDS: usize = 22;

fn names(rng: &mut Rng) -> OsString {
    OsString::from(format!("n{}", rng.below(12)))
}

fn pick_of(tree: &Tree, rng: &mut Rng, kind: Option<Kind>) -> Option<u64> {
    let all: Vec<u64> = tree
        .named()
        .filter(|(_, o)| kind.is_none_or(|kind| o.made.kind == kind))
        .map(|(ino, _)| ino)
        .collect();
    rng.pick(&all).copied()
}

fn free_place(tree: &Tree, rng: &mut Rng) -> Option<Place> {
    let dir = pick_of(tree, rng, Some(Kind::Dir))?;
    let name = names(rng);
    tree.find(dir, &name).is_none().then_some((dir, name))
}

fn used_place(tree: &Tree, rng: &mut Rng, dirs: bool) -> Option<Place> {
    let mut all = Vec::new();
    for (ino, _) in tree.named().filter(|(_, o)| o.made.kind == Kind::Dir) {
        for (name, child) in tree.entries(ino) {
            let is_dir = tree.object(child).is_some_and(|o| o.made.kind == Kind::Dir);
            if is_dir == dirs {
                all.push((ino, name.to_owned()));
            }
        }
    }
    rng.pick(&all).cloned()
}

fn size(tree: &Tree, ino: u64) -> u64 {
    tree.object(ino).map_or(0, |o| o.content.now().len() as u64)
}

fn offset(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => rng.below(16) * 4096,
        1 => rng.below(128) * 512,
        _ => rng.below(MOST_BYTES / 2),
    }
}

fn length(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.between(1, 600),
        1 => 4096,
        2 => rng.between(1, 4) * 4096,
        _ => rng.between(1, 20_000),
    }
}

fn meta(rng: &mut Rng, kind: Kind) -> Meta {
    let set_group = if kind == Kind::Dir && rng.chance(1, 4) {
        0o2000
    } else {
        0
    };
    Meta {
        mode: rng.below(0o1000) as u16 | set_group,
        uid: rng.below(3) as u32,
        gid: rng.below(3) as u32,
    }
}

impl Operation {
    /// Chooses an operation of kind `kind` that makes sense in `tree`, or none. `held` are
    /// files without names that the kernel still knows.
    pub(crate) fn choose(
        tree: &Tree,
        held: &[u64],
        kind: usize,
        rng: &mut Rng,
    ) -> Option<Operation> {
        let file = |rng: &mut Rng| match held.is_empty() || rng.chance(5, 6) {
            true => pick_of(tree, rng, Some(Kind::File)),
            false => rng.pick(held).copied(),
        };
        let make = |rng: &mut Rng, kind: Kind| {
            let made = meta(rng, Kind::File);
            let target = match kind {
                Kind::Symlink => OsString::from(format!("../t{}", rng.below(9))),
                _ => OsString::new(),
            };
            Some(Operation::Make {
                at: free_place(tree, rng)?,
                kind,
                mode: made.mode.into(),
                uid: made.uid,
                gid: made.gid,
                target,
            })
        };
        let write = |ino: u64, offset: u64, rng: &mut Rng| {
            let length = length(rng).min(MOST_BYTES.saturating_sub(offset)).max(1);
            Operation::Write {
                ino,
                offset,
                length,
                seed: rng.next_u64(),
            }
        };
        match kind {
            0 | 1 => make(rng, Kind::File),
            2 => make(rng, Kind::Dir),
            3 => make(rng, Kind::Symlink),
            4 => {
                let kinds = [Kind::Fifo, Kind::Socket, Kind::CharDevice];
                let kind = *rng.pick(&kinds)?;
                make(rng, kind)
            }
            5 | 6 => {
                let ino = file(rng)?;
                let offset = offset(rng);
                Some(write(ino, offset, rng))
            }
            7 => {
                let ino = file(rng)?;
                let end = size(tree, ino);
                (end < MOST_BYTES).then(|| write(ino, end, rng))
            }
            8 => {
                let ino = file(rng)?;
                let end = size(tree, ino);
                let at = rng.below(end);
                (end > 0).then(|| write(ino, at, rng))
            }
            9 => {
                let ino = file(rng)?;
                let length = if rng.chance(1, 3) { 0 } else { offset(rng) };
                Some(Operation::Truncate { ino, length })
            }
            10 => {
                let flags = match rng.chance(2, 3) {
                    true => AllocateFlags::PUNCH_HOLE | AllocateFlags::KEEP_SIZE,
                    false => AllocateFlags::KEEP_SIZE,
                };
                let (offset, length) = (offset(rng), length(rng));
                Some(Operation::Zero {
                    ino: file(rng)?,
                    offset,
                    length,
                    flags,
                })
            }
            11 | 12 => Some(Operation::Sync {
                ino: file(rng)?,
                data_only: rng.chance(1, 3),
            }),
            13 => Some(Operation::Sync {
                ino: pick_of(tree, rng, Some(Kind::Dir))?,
                data_only: false,
            }),
            14 => {
                let dirs = rng.chance(1, 3);
                let from = used_place(tree, rng, dirs)?;
                let to = free_place(tree, rng)?;
                Self::rename(tree, from, to, RenameFlags::empty())
            }
            15 => {
                let dirs = rng.chance(1, 4);
                let from = used_place(tree, rng, dirs)?;
                let other = if rng.chance(1, 4) { !dirs } else { dirs };
                let to = used_place(tree, rng, other)?;
                let flags = [
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::EXCHANGE,
                    RenameFlags::NOREPLACE,
                ];
                Self::rename(tree, from, to, *rng.pick(&flags)?)
            }
            16 => {
                let at = used_place(tree, rng, false)?;
                let ino = tree.find(at.0, &at.1)?;
                Some(Operation::Link {
                    ino,
                    at: free_place(tree, rng)?,
                })
            }
            17 => Some(Operation::Unlink {
                at: used_place(tree, rng, false)?,
            }),
            18 => {
                let at = used_place(tree, rng, true)?;
                let ino = tree.find(at.0, &at.1)?;
                let call = Operation::RemoveDir { at };
                Some(match tree.entries(ino).next() {
                    Some(_) => call.refused(Errno::NOTEMPTY),
                    None => call,
                })
            }
            19 => {
                let ino = pick_of(tree, rng, None)?;
                let kind = tree.object(ino)?.made.kind;
                if kind == Kind::Symlink {
                    return None;
                }
                if rng.chance(1, 2) && matches!(kind, Kind::File | Kind::Dir) {
                    let name = OsString::from(format!("user.x{}", rng.below(3)));
                    let has = tree
                        .object(ino)?
                        .xattrs
                        .get(&name)
                        .is_some_and(|h| h.now().is_some());
                    let value = match has && rng.chance(1, 2) {
                        true => None,
                        false => {
                            Some(rng.next_u64().to_le_bytes()[..rng.below(9) as usize].to_vec())
                        }
                    };
                    return Some(Operation::SetXattr { ino, name, value });
                }
                Some(Operation::SetMeta {
                    ino,
                    meta: meta(rng, kind),
                })
            }
            20 => {
                if rng.chance(1, 4) {
                    return Some(Operation::List {
                        dir: pick_of(tree, rng, Some(Kind::Dir))?,
                    });
                }
                let (offset, length) = (offset(rng), length(rng));
                Some(Operation::Read {
                    ino: file(rng)?,
                    offset,
                    length,
                })
            }
            _ => {
                let (from, to) = (file(rng)?, file(rng)?);
                let (from_offset, to_offset) = (offset(rng), offset(rng));
                let length = length(rng);
                (from != to).then_some(Operation::CopyRange {
                    from,
                    from_offset,
                    to,
                    to_offset,
                    length,
                })
            }
        }
    }

    fn refused(self, errno: Errno) -> Operation {
        Operation::Refused {
            call: Box::new(self),
            errno,
        }
    }

    /// A rename, with the refusal that the rules of rename(2) call for.
    fn rename(tree: &Tree, from: Place, to: Place, flags: RenameFlags) -> Option<Operation> {
        let ino = tree.find(from.0, &from.1)?;
        let target = tree.find(to.0, &to.1);
        let is_dir = |ino: u64| tree.object(ino).is_some_and(|o| o.made.kind == Kind::Dir);
        let refusal = if is_dir(ino) && tree.is_within(to.0, ino) {
            Some(Errno::INVAL)
        } else {
            match target {
                None => None,
                Some(target) if flags == RenameFlags::EXCHANGE => {
                    (is_dir(target) && tree.is_within(from.0, target)).then_some(Errno::INVAL)
                }
                Some(_) if flags == RenameFlags::NOREPLACE => Some(Errno::EXIST),
                Some(target) if target == ino => None,
                // Several refusals would be right: the order is not laid down.
                Some(target) if is_dir(target) && tree.is_within(from.0, target) => return None,
                Some(target) if is_dir(ino) && !is_dir(target) => Some(Errno::NOTDIR),
                Some(target) if !is_dir(ino) && is_dir(target) => Some(Errno::ISDIR),
                Some(target) => (is_dir(target) && tree.entries(target).next().is_some())
                    .then_some(Errno::NOTEMPTY),
            }
        };
        // What is refused for two reasons may be refused for either.
        if refusal == Some(Errno::INVAL) && target.is_some() && flags != RenameFlags::EXCHANGE {
            return None;
        }
        let call = Operation::Rename { from, to, flags };
        Some(match refusal {
            Some(errno) => call.refused(errno),
            None => call,
        })
    }

    /// Runs it on the layer and compares what it answers. The inner error is the layer's; the
    /// inner value an inode number that the layer has chosen.
    pub(crate) fn run(&self, layer: &dyn Layer, tree: &Tree) -> Result<Result<Option<u64>, Errno>> {
        let nobody = Caller {
            uid: 0,
            gid: 0,
            pid: 1,
            umask: UMASK,
        };
        let done = |result: mount::Result<()>| Ok(result.map(|()| None));
        match self {
            Operation::Make {
                at,
                kind,
                mode,
                uid,
                gid,
                target,
            } => {
                let object = match kind {
                    Kind::File => NewObject::File,
                    Kind::Dir => NewObject::Dir,
                    Kind::Symlink => NewObject::Symlink(target),
                    kind => NewObject::Special(*kind, self.rdev()),
                };
                let caller = Caller {
                    uid: *uid,
                    gid: *gid,
                    ..nobody
                };
                match layer.make(&caller, Ino(at.0), &at.1, object, *mode) {
                    Err(errno) => Ok(Err(errno)),
                    Ok((ino, attr)) => {
                        ensure!(
                            tree.object(ino.0).is_none(),
                            "{ino:?} is used a second time"
                        );
                        let sized = *kind == Kind::Dir || attr.size == target.len() as u64;
                        ensure!(attr.kind == *kind && sized, "made {kind:?}, is {attr:?}");
                        Ok(Ok(Some(ino.0)))
                    }
                }
            }
            Operation::Link { ino, at } => match layer.link(Ino(*ino), Ino(at.0), &at.1) {
                Err(errno) => Ok(Err(errno)),
                Ok(attr) => {
                    let names = tree.object(*ino).map_or(0, |o| o.names.now().len());
                    ensure!(
                        attr.nlink as usize == names + 1,
                        "link count after link: {attr:?}"
                    );
                    Ok(Ok(None))
                }
            },
            Operation::Unlink { at } => done(layer.unlink(Ino(at.0), &at.1)),
            Operation::RemoveDir { at } => done(layer.remove_dir(Ino(at.0), &at.1)),
            Operation::Rename { from, to, flags } => {
                done(layer.rename(Ino(from.0), &from.1, Ino(to.0), &to.1, *flags))
            }
            Operation::Write { ino, offset, .. } => {
                done(layer.write(Ino(*ino), *offset, &self.data(tree)))
            }
            Operation::Truncate { ino, length } => {
                let change = SetAttr {
                    size: Some(*length),
                    ..SetAttr::default()
                };
                match layer.set_attr(&nobody, Ino(*ino), &change) {
                    Err(errno) => Ok(Err(errno)),
                    Ok(attr) => {
                        ensure!(attr.size == *length, "size after truncate: {attr:?}");
                        Ok(Ok(None))
                    }
                }
            }
            Operation::Zero {
                ino,
                offset,
                length,
                flags,
            } => done(layer.allocate(Ino(*ino), *offset, *length, *flags)),
            Operation::CopyRange {
                from,
                from_offset,
                to,
                to_offset,
                length,
            } => {
                let expected = self.data(tree).len() as u64;
                let (from, to) = (Ino(*from), Ino(*to));
                match layer.copy_range(from, *from_offset, to, *to_offset, *length) {
                    Err(errno) => Ok(Err(errno)),
                    Ok(count) => {
                        ensure!(count == expected, "copied {count} bytes of {expected}");
                        Ok(Ok(None))
                    }
                }
            }
            Operation::Sync { ino, data_only } => done(layer.sync(Ino(*ino), *data_only)),
            Operation::SetMeta { ino, meta } => {
                let change = SetAttr {
                    mode: Some(meta.mode.into()),
                    uid: Some(meta.uid),
                    gid: Some(meta.gid),
                    ..SetAttr::default()
                };
                match layer.set_attr(&nobody, Ino(*ino), &change) {
                    Err(errno) => Ok(Err(errno)),
                    Ok(attr) => {
                        ensure!(attr.perm == meta.mode, "mode after chmod: {attr:?}");
                        Ok(Ok(None))
                    }
                }
            }
            Operation::SetXattr {
                ino,
                name,
                value: Some(value),
            } => done(layer.set_xattr(Ino(*ino), name, value, 0)),
            Operation::SetXattr {
                ino,
                name,
                value: None,
            } => done(layer.remove_xattr(Ino(*ino), name)),
            Operation::Read {
                ino,
                offset,
                length,
            } => {
                let mut buffer = vec![0xA5; *length as usize];
                match layer.read(Ino(*ino), *offset, &mut buffer) {
                    Err(errno) => Ok(Err(errno)),
                    Ok(count) => {
                        ensure!(buffer[..count] == self.data(tree), "read something else");
                        Ok(Ok(None))
                    }
                }
            }
            Operation::List { dir } => match layer.list(Ino(*dir)) {
                Err(errno) => Ok(Err(errno)),
                Ok(listing) => {
                    let mut names: Vec<&OsStr> = (0..listing.len())
                        .filter_map(|i| Some(listing.get(i)?.0))
                        .collect();
                    names.sort();
                    let expected: Vec<&OsStr> = tree.entries(*dir).map(|(name, _)| name).collect();
                    ensure!(names == expected, "listed {names:?}, expected {expected:?}");
                    Ok(Ok(None))
                }
            },
            Operation::Refused { call, errno } => match call.run(layer, tree)? {
                Err(found) if found == *errno => Ok(Ok(None)),
                Err(found) => Ok(Err(found)),
                Ok(_) => anyhow::bail!("{call:?} was done, {errno:?} expected"),
            },
        }
    }

    fn rdev(&self) -> u32 {
        match self {
            Operation::Make {
                kind: Kind::CharDevice,
                ..
            } => 0x0103,
            _ => 0,
        }
    }

    /// The bytes that a write writes, a copy copies or a read must give.
    fn data(&self, tree: &Tree) -> Vec<u8> {
        let range = |ino: &u64, offset: u64, length: u64| {
            let now = tree.object(*ino).map_or(&[][..], |o| o.content.now());
            let start = (offset as usize).min(now.len());
            let end = ((offset + length) as usize).min(now.len());
            now[start..end].to_vec()
        };
        match self {
            Operation::Write { length, seed, .. } => {
                let mut data = vec![0; *length as usize];
                Rng::new(*seed).fill(&mut data);
                data
            }
            Operation::CopyRange {
                from,
                from_offset,
                length,
                ..
            } => range(from, *from_offset, *length),
            Operation::Read {
                ino,
                offset,
                length,
            } => range(ino, *offset, *length),
            _ => Vec::new(),
        }
    }

    /// Runs it on the model; `ino` is what the layer has chosen, `None` where it did not say.
    pub(crate) fn apply(&self, tree: &mut Tree, ino: Option<u64>) {
        match self {
            Operation::Make {
                at,
                kind,
                mode,
                uid,
                gid,
                target,
            } => {
                let parent = tree.object(at.0).map(|o| *o.meta.now());
                let set_group = parent.filter(|meta| meta.mode & 0o2000 != 0);
                let mut meta = Meta {
                    mode: (mode & !UMASK) as u16,
                    uid: *uid,
                    gid: *gid,
                };
                if *kind == Kind::Symlink {
                    meta.mode = 0o777;
                }
                if let Some(parent) = set_group {
                    meta.gid = parent.gid;
                    if *kind == Kind::Dir {
                        meta.mode |= 0o2000;
                    }
                }
                let made = NewNode {
                    kind: *kind,
                    meta,
                    rdev: self.rdev(),
                    target: target.clone(),
                };
                match ino {
                    Some(ino) => tree.make(at.0, &at.1, ino, made),
                    None => tree.make_perhaps(at.0, &at.1, made),
                }
            }
            Operation::Link { ino, at } => tree.link(*ino, at.0, &at.1),
            Operation::Unlink { at } | Operation::RemoveDir { at } => tree.unlink(at.0, &at.1),
            Operation::Rename { from, to, flags } => {
                let (from, to) = ((from.0, from.1.as_os_str()), (to.0, to.1.as_os_str()));
                if *flags == RenameFlags::EXCHANGE {
                    tree.exchange(from, to);
                } else {
                    tree.rename(from, to);
                }
            }
            Operation::Write { ino, offset, .. } => {
                let data = self.data(tree);
                tree.change_content(*ino, |file, at| file.write(at, *offset, &data));
            }
            Operation::CopyRange { to, to_offset, .. } => {
                let data = self.data(tree);
                tree.change_content(*to, |file, at| file.write(at, *to_offset, &data));
            }
            Operation::Truncate { ino, length } => {
                tree.change_content(*ino, |file, at| file.truncate(at, *length));
            }
            Operation::Zero {
                ino,
                offset,
                length,
                flags,
            } => {
                if flags.contains(AllocateFlags::PUNCH_HOLE) {
                    tree.change_content(*ino, |file, at| file.zero(at, *offset, *length));
                }
            }
            Operation::Sync { .. } | Operation::Read { .. } | Operation::List { .. } => {}
            Operation::SetMeta { ino, meta } => tree.set_meta(*ino, *meta),
            Operation::SetXattr { ino, name, value } => {
                tree.set_xattr(*ino, name, value.clone());
            }
            Operation::Refused { .. } => {}
        }
    }
}
