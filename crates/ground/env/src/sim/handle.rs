//! What programs hold: simulated directories, files and disks.

use super::image::{Event, Inode};
use super::trouble::{Effect, Operation};
use super::world::{Machine, World};
use crate::batch::{Request, in_phases};
use crate::errno::Errno;
use crate::handle::Handle;
use crate::poison::Poison;
use crate::{Dir, Disk, Lock, Open, Result};
use std::sync::{Arc, MutexGuard};

mod batch;

/// A directory of a [`World`].
pub struct SimDir {
    world: World,
    dir: String,
    life: u64,
}

impl SimDir {
    pub(super) fn new(world: World, dir: &str, life: u64) -> SimDir {
        SimDir {
            world,
            dir: dir.to_owned(),
            life,
        }
    }

    fn begin(
        &self,
        operation: Operation,
        name: &str,
    ) -> Result<(MutexGuard<'_, Machine>, Option<Errno>)> {
        let mut machine = self.world.lock();
        let effect = machine.begin(operation, self.life, &self.dir, name)?;
        Ok((machine, failure(effect)))
    }

    fn find(&self, machine: &Machine, name: &str) -> Result<Inode> {
        check_name(name)?;
        machine.image.lookup(&self.dir, name).ok_or(Errno::NOENT)
    }

    fn disk(&self, name: &str, inode: Inode, how: Open) -> Arc<dyn Disk> {
        Arc::new(SimDisk {
            world: self.world.clone(),
            dir: self.dir.clone(),
            name: name.to_owned(),
            inode,
            life: self.life,
            how,
            grows: true,
            poison: Poison::default(),
        })
    }

    fn create(&self, name: &str, bytes: u64, syncs: bool) -> Result<Inode> {
        let (mut machine, fails) = self.begin(Operation::Create, name)?;
        check_name(name)?;
        if machine.image.lookup(&self.dir, name).is_some() {
            return Err(Errno::EXIST);
        }
        fails.map_or(Ok(()), Err)?;
        let bytes = usize::try_from(bytes).map_err(|_| Errno::FBIG)?;
        machine.reserve(bytes)?;
        let inode = machine.new_inode();
        machine.emit(Event::Make {
            dir: self.dir.clone(),
            name: name.to_owned(),
            inode,
        });
        machine.emit(Event::Length { inode, bytes });
        if syncs {
            machine.emit(Event::Sync { inode });
        }
        Ok(inode)
    }
}

/// A lock of a life of the machine.
struct Held {
    world: World,
    key: (String, String),
    life: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut machine = self.world.lock();
        if machine.life == self.life {
            machine.locks.remove(&self.key);
        }
    }
}

/// The error, where the effect is one that a call on names can have.
fn failure(effect: Option<Effect>) -> Option<Errno> {
    match effect {
        Some(Effect::Fail(errno)) => Some(errno),
        _ => None,
    }
}

/// EINVAL for what the real directory refuses.
fn check_name(name: &str) -> Result<()> {
    let plain = !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0'])
        && !name.ends_with('~');
    if plain { Ok(()) } else { Err(Errno::INVAL) }
}

impl Dir for SimDir {
    fn open(&self, name: &str, how: Open) -> Result<Arc<dyn Disk>> {
        let inode = match how {
            Open::Create(bytes) => self.create(name, bytes, true)?,
            Open::Allocate(bytes) => self.create(name, bytes, false)?,
            Open::Read | Open::Write | Open::WriteDurable => {
                let (machine, fails) = self.begin(Operation::Open, name)?;
                fails.map_or(Ok(()), Err)?;
                let inode = self.find(&machine, name)?;
                if how != Open::Read {
                    machine.check_writable()?;
                }
                inode
            }
        };
        Ok(self.disk(name, inode, how))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let (machine, fails) = self.begin(Operation::Read, name)?;
        let inode = self.find(&machine, name)?;
        fails.map_or(Ok(()), Err)?;
        Ok(machine.image.content(inode).cloned().unwrap_or_default())
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let (mut machine, fails) = self.begin(Operation::Replace, name)?;
        check_name(name)?;
        if fails.is_none() {
            machine.reserve(content.len())?;
        }
        if fails.is_some() && machine.rng.chance(1, 2) {
            return fails.map_or(Ok(()), Err);
        }
        let inode = machine.new_inode();
        machine.emit(Event::Put {
            dir: self.dir.clone(),
            name: name.to_owned(),
            inode,
            content: Arc::new(content.to_vec()),
        });
        fails.map_or(Ok(()), Err)?;
        machine.emit(Event::SyncDir {
            dir: self.dir.clone(),
        });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (mut machine, fails) = self.begin(Operation::Rename, from)?;
        self.find(&machine, from)?;
        check_name(to)?;
        if fails.is_some() && machine.rng.chance(1, 2) {
            return fails.map_or(Ok(()), Err);
        }
        if from != to {
            machine.emit(Event::Rename {
                dir: self.dir.clone(),
                from: from.to_owned(),
                to: to.to_owned(),
            });
        }
        fails.map_or(Ok(()), Err)?;
        machine.emit(Event::SyncDir {
            dir: self.dir.clone(),
        });
        Ok(())
    }

    fn rename_unsynced(&self, from: &str, to: &str) -> Result<()> {
        let (mut machine, fails) = self.begin(Operation::Rename, from)?;
        self.find(&machine, from)?;
        check_name(to)?;
        fails.map_or(Ok(()), Err)?;
        if from != to {
            machine.emit(Event::Rename {
                dir: self.dir.clone(),
                from: from.to_owned(),
                to: to.to_owned(),
            });
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let (mut machine, fails) = self.begin(Operation::Remove, name)?;
        self.find(&machine, name)?;
        fails.map_or(Ok(()), Err)?;
        machine.emit(Event::Remove {
            dir: self.dir.clone(),
            name: name.to_owned(),
        });
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let (machine, fails) = self.begin(Operation::List, "")?;
        fails.map_or(Ok(()), Err)?;
        Ok(machine.image.list(&self.dir))
    }

    fn sync(&self) -> Result<()> {
        let (mut machine, fails) = self.begin(Operation::SyncDir, "")?;
        fails.map_or(Ok(()), Err)?;
        machine.emit(Event::SyncDir {
            dir: self.dir.clone(),
        });
        Ok(())
    }

    fn make(&self, name: &str) -> Result<Arc<dyn Disk>> {
        let (mut machine, fails) = self.begin(Operation::Create, name)?;
        check_name(name)?;
        if machine.image.lookup(&self.dir, name).is_some() {
            return Err(Errno::EXIST);
        }
        fails.map_or(Ok(()), Err)?;
        let inode = machine.new_inode();
        machine.emit(Event::Make {
            dir: self.dir.clone(),
            name: name.to_owned(),
            inode,
        });
        drop(machine);
        Ok(self.disk(name, inode, Open::Write))
    }

    fn handle(&self, name: &str) -> Result<Handle> {
        let (machine, fails) = self.begin(Operation::Open, name)?;
        let inode = self.find(&machine, name)?;
        fails.map_or(Ok(()), Err)?;
        super::files::handle_of(inode)
    }

    fn lock(&self, name: &str) -> Result<Lock> {
        let (mut machine, fails) = self.begin(Operation::Open, name)?;
        check_name(name)?;
        fails.map_or(Ok(()), Err)?;
        let key = (self.dir.clone(), name.to_owned());
        if !machine.locks.insert(key.clone()) {
            return Err(Errno::AGAIN);
        }
        let life = machine.life;
        drop(machine);
        let world = self.world.clone();
        Ok(Lock::new(Held { world, key, life }))
    }
}

/// An open file of a [`SimDir`], or a disk.
pub struct SimDisk {
    world: World,
    dir: String,
    name: String,
    inode: Inode,
    life: u64,
    how: Open,
    /// Whether a write past the end makes it longer.
    grows: bool,
    poison: Poison,
}

/// When a durable write becomes durable.
enum Durable<'a> {
    /// When it returns.
    Now,
    /// When the list of ranges (offset, length) is flushed.
    Later(&'a mut Vec<(usize, usize)>),
}

impl SimDisk {
    /// A disk of fixed length with a volatile cache.
    pub(super) fn device(world: World, name: &str, inode: Inode, life: u64) -> SimDisk {
        SimDisk {
            world,
            dir: name.to_owned(),
            name: name.to_owned(),
            inode,
            life,
            how: Open::Write,
            grows: false,
            poison: Poison::default(),
        }
    }

    fn begin(&self, operation: Operation) -> Result<(MutexGuard<'_, Machine>, Option<Effect>)> {
        let mut machine = self.world.lock();
        let effect = machine.begin(operation, self.life, &self.dir, &self.name)?;
        Ok((machine, effect))
    }

    fn check_writable(&self) -> Result<()> {
        if self.how == Open::Read {
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Part of a write that fails: some of its sectors are changed, the length is not.
    fn write_some(&self, machine: &mut Machine, offset: usize, data: &[u8]) {
        let length = machine.image.content(self.inode).map_or(0, Vec::len);
        for (index, piece) in data.chunks(super::SECTOR_BYTES).enumerate() {
            let at = offset + index * super::SECTOR_BYTES;
            if at + piece.len() <= length && machine.rng.chance(1, 2) {
                self.emit_write(machine, at, piece);
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8], durable: Durable<'_>) -> Result<()> {
        self.poison.check()?;
        self.poison.written(self.try_write(offset, data, durable))
    }

    fn try_write(&self, offset: u64, data: &[u8], durable: Durable<'_>) -> Result<()> {
        self.check_writable()?;
        let (mut machine, effect) = self.begin(Operation::Write)?;
        let length = machine.image.content(self.inode).map_or(0, Vec::len);
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = start.checked_add(data.len()).ok_or(Errno::FBIG)?;
        if data.is_empty() {
            return Ok(());
        }
        if end > length && !self.grows {
            return Err(Errno::NOSPC);
        }
        let mut at = start;
        match effect {
            Some(Effect::Fail(errno)) => {
                self.write_some(&mut machine, start, data);
                return Err(errno);
            }
            Some(Effect::Lose) => return Ok(()),
            Some(Effect::Misdirect(bytes)) => {
                // It lands on the medium of this file, never past its end.
                let last = length.saturating_sub(data.len());
                at = start.saturating_add_signed(bytes as isize).min(last);
            }
            _ => {}
        }
        machine.reserve(end.saturating_sub(length))?;
        self.emit_write(&mut machine, at, data);
        if self.how == Open::WriteDurable {
            match durable {
                Durable::Now => machine.emit(Event::Flush {
                    inode: self.inode,
                    offset: at,
                    bytes: data.len(),
                }),
                Durable::Later(ranges) => ranges.push((at, data.len())),
            }
        }
        Ok(())
    }

    fn try_sync(&self) -> Result<()> {
        let (mut machine, effect) = self.begin(Operation::Sync)?;
        let inode = self.inode;
        if let Some(errno) = failure(effect) {
            let seed = machine.rng.next_u64();
            machine.emit(Event::FailSync { inode, seed });
            return Err(errno);
        }
        machine.emit(Event::Sync { inode });
        Ok(())
    }

    fn emit_write(&self, machine: &mut Machine, offset: usize, data: &[u8]) {
        let write = machine.new_write();
        machine.emit(Event::Write {
            inode: self.inode,
            write,
            offset,
            data: Arc::new(data.to_vec()),
        });
    }
}

impl Disk for SimDisk {
    fn len(&self) -> Result<u64> {
        let (machine, _) = self.begin(Operation::Read)?;
        Ok(machine.image.content(self.inode).map_or(0, Vec::len) as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (machine, effect) = self.begin(Operation::Read)?;
        failure(effect).map_or(Ok(()), Err)?;
        let start = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let end = start.checked_add(buffer.len()).ok_or(Errno::INVAL)?;
        let content = machine.image.content(self.inode).ok_or(Errno::INVAL)?;
        buffer.copy_from_slice(content.get(start..end).ok_or(Errno::INVAL)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write(offset, data, Durable::Now)
    }

    fn sync(&self) -> Result<()> {
        self.poison.check()?;
        self.poison.synced(self.try_sync())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.check_writable()?;
        self.poison.check()?;
        let (machine, effect) = self.begin(Operation::Discard)?;
        failure(effect).map_or(Ok(()), Err)?;
        let size = machine.image.content(self.inode).map_or(0, Vec::len) as u64;
        let end = offset.saturating_add(length).min(size);
        drop(machine);
        // Zeros, now or never: the strictest reading of "as zeros or as before".
        match usize::try_from(end.saturating_sub(offset)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(count) => self.write_at(offset, &vec![0; count]),
        }
    }

    fn submit(&self, batch: &mut [Request<'_>]) -> Vec<Result<()>> {
        in_phases(batch, |phase| self.run_phase(phase), || self.sync())
    }
}
