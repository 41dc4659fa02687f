//! The simulated machine.

use super::file::Fate;
use super::files::SimFiles;
use super::handle::{SimDir, SimDisk};
use super::image::{Event, Image, Inode};
use super::trouble::{Effect, Operation, Trouble};
use crate::clock::{Clock, Moment};
use crate::errno::Errno;
use crate::{Result, Rng};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A simulated machine; clones are the same machine. Everything that is left to chance follows
/// from the seed and the order of calls.
#[derive(Clone)]
pub struct World {
    machine: Arc<Mutex<Machine>>,
}

pub(super) struct Machine {
    pub(super) image: Image,
    trace: Option<Vec<Event>>,
    pub(super) rng: Rng,
    now: Moment,
    troubles: Vec<Trouble>,
    absent: BTreeSet<String>,
    capacity_bytes: Option<usize>,
    pub(super) attribute_bytes_max: Option<usize>,
    pub(super) locks: BTreeSet<(String, String)>,
    read_only: bool,
    /// Counts the lives of the machine; handles of an earlier one are dead.
    pub(super) life: u64,
    inodes: Inode,
    writes: u64,
}

impl World {
    /// A machine with nothing on it.
    pub fn new(seed: u64) -> World {
        World::with_image(Image::default(), seed)
    }

    pub(super) fn with_image(image: Image, seed: u64) -> World {
        let machine = Machine {
            inodes: image.inode_max(),
            image,
            trace: None,
            rng: Rng::new(seed),
            now: Moment(0),
            troubles: Vec::new(),
            absent: BTreeSet::new(),
            capacity_bytes: None,
            attribute_bytes_max: None,
            locks: BTreeSet::new(),
            read_only: false,
            life: 0,
            writes: 0,
        };
        World {
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    /// The directory of this name; it is made where there is none, durably.
    pub fn dir(&self, name: &str) -> Arc<SimDir> {
        let mut machine = self.lock();
        machine.emit(Event::Mount {
            dir: name.to_owned(),
        });
        let life = machine.life;
        drop(machine);
        Arc::new(SimDir::new(self.clone(), name, life))
    }

    /// All files of all directories.
    pub fn files(&self) -> Arc<SimFiles> {
        let life = self.lock().life;
        Arc::new(SimFiles::new(self.clone(), life))
    }

    /// The disk of this name; it is attached, with `bytes` zeros, where there is none.
    pub fn disk(&self, name: &str, bytes: u64) -> Arc<SimDisk> {
        let mut machine = self.lock();
        let inode = machine.image.disk(name).unwrap_or_else(|| {
            let inode = machine.new_inode();
            machine.emit(Event::Attach {
                disk: name.to_owned(),
                inode,
                bytes: bytes as usize,
            });
            inode
        });
        let life = machine.life;
        drop(machine);
        Arc::new(SimDisk::device(self.clone(), name, inode, life))
    }

    /// Cuts the power: of what was not synced the seed decides what is left, handles die, planned
    /// troubles stay planned.
    pub fn crash(&self) {
        let mut machine = self.lock();
        let mut rng = machine.rng.fork();
        machine.image = machine.image.after_crash(Fate::Mixed(&mut rng));
        machine.life += 1;
        machine.locks.clear();
    }

    /// Kills the process but not the machine: handles die, nothing is lost.
    pub fn kill(&self) {
        let mut machine = self.lock();
        machine.life += 1;
        machine.locks.clear();
    }

    /// Plans a fault.
    pub fn plan(&self, trouble: Trouble) {
        self.lock().troubles.push(trouble);
    }

    /// Forgets all planned faults.
    pub fn calm(&self) {
        self.lock().troubles.clear();
    }

    /// With `false` every call in directory or disk `name` answers ENODEV until it is set again.
    pub fn set_present(&self, name: &str, present: bool) {
        let mut machine = self.lock();
        if present {
            machine.absent.remove(name);
        } else {
            machine.absent.insert(name.to_owned());
        }
    }

    /// Limits the bytes of all files together; what would pass it fails with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity_bytes = bytes.map(|bytes| bytes as usize);
    }

    /// Limits the attributes of each file, names included; more fails with ENOSPC.
    pub fn set_attribute_room(&self, bytes: Option<u64>) {
        self.lock().attribute_bytes_max = bytes.map(|bytes| bytes as usize);
    }

    /// With `true` every change fails with EROFS.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// Flips bit `bit` of a byte on the medium; `false` where there is no such byte.
    pub fn rot(&self, dir: &str, name: &str, offset: u64, bit: u8) -> bool {
        let mut machine = self.lock();
        let Some(inode) = machine.image.lookup(dir, name) else {
            return false;
        };
        let offset = offset as usize;
        let there = machine
            .image
            .content(inode)
            .is_some_and(|content| offset < content.len());
        if there {
            machine.emit(Event::Rot { inode, offset, bit });
        }
        there
    }

    /// Flips a bit as chance has it, and says where: directory, file, offset. `None` where all
    /// files are empty.
    pub fn rot_somewhere(&self) -> Option<(String, String, u64)> {
        let mut machine = self.lock();
        let mut rng = machine.rng.fork();
        let files: Vec<_> = machine
            .image
            .named_files()
            .filter_map(|(dir, name, inode)| {
                let length = machine.image.content(inode)?.len();
                (length > 0).then(|| (dir.to_owned(), name.to_owned(), length))
            })
            .collect();
        let (dir, name, length) = files.get(rng.index(files.len()))?.clone();
        drop(machine);
        let offset = rng.below(length as u64);
        self.rot(&dir, &name, offset, rng.below(8) as u8);
        Some((dir, name, offset))
    }

    /// The machine's clock.
    pub fn clock(&self) -> SimClock {
        SimClock {
            world: self.clone(),
        }
    }

    /// A generator for the test's own choices.
    pub fn rng(&self) -> Rng {
        self.lock().rng.fork()
    }

    /// Starts to remember every event.
    pub(super) fn record(&self) {
        self.lock().trace = Some(Vec::new());
    }

    /// Events remembered so far.
    pub(super) fn recorded(&self) -> usize {
        self.lock().trace.as_ref().map_or(0, Vec::len)
    }

    /// Ends the recording.
    pub(super) fn take_trace(&self) -> Vec<Event> {
        self.lock().trace.take().unwrap_or_default()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Machine> {
        // A panic of the program under test does not harm the machine.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    pub(super) fn emit(&mut self, event: Event) {
        self.image.apply(&event);
        if let Some(trace) = &mut self.trace {
            trace.push(event);
        }
    }

    pub(super) fn new_inode(&mut self) -> Inode {
        self.inodes += 1;
        self.inodes
    }

    pub(super) fn new_write(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// What stands in the way of an operation: a dead handle, an absent store, a fault. Returns
    /// the effect that changes the operation itself, if one does.
    pub(super) fn begin(
        &mut self,
        operation: Operation,
        life: u64,
        dir: &str,
        name: &str,
    ) -> Result<Option<Effect>> {
        if life != self.life || self.absent.contains(dir) {
            return Err(Errno::NODEV);
        }
        let reads = [
            Operation::Open,
            Operation::Read,
            Operation::List,
            Operation::Attribute,
        ];
        let syncs = [Operation::Sync, Operation::SyncDir, Operation::SyncAll];
        if !reads.contains(&operation) && !syncs.contains(&operation) {
            self.check_writable()?;
        }
        let mut effect = None;
        for trouble in &mut self.troubles {
            match trouble.strikes(operation, dir, name) {
                Some(Effect::Stall(time)) => self.now = self.now.after(time),
                Some(other) => effect = effect.or(Some(other)),
                None => {}
            }
        }
        self.troubles.retain(|trouble| !trouble.is_over());
        Ok(effect)
    }

    /// EROFS where nothing may change.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            Err(Errno::ROFS)
        } else {
            Ok(())
        }
    }

    /// ENOSPC where `more` bytes do not fit.
    pub(super) fn reserve(&self, more: usize) -> Result<()> {
        let limit = self.capacity_bytes.unwrap_or(usize::MAX);
        let wanted = self.image.used_bytes().saturating_add(more);
        if more > 0 && wanted > limit {
            return Err(Errno::NOSPC);
        }
        Ok(())
    }
}

/// The clock of a [`World`]: it moves only when somebody sleeps or an operation stalls.
#[derive(Clone)]
pub struct SimClock {
    world: World,
}

impl SimClock {
    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let mut machine = self.world.lock();
        machine.now = machine.now.after(time);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        self.world.lock().now
    }

    fn sleep_until(&self, moment: Moment) {
        let mut machine = self.world.lock();
        machine.now = machine.now.max(moment);
    }
}
