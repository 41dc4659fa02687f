//! The files of the simulated machine, by handle.

use super::image::{Event, Inode};
use super::trouble::{Effect, Operation};
use super::world::{Machine, World};
use crate::errno::Errno;
use crate::handle::Handle;
use crate::{Files, Result};
use std::ffi::CStr;
use std::sync::{Arc, MutexGuard};

/// Stands first in a handle, so that one of a real file system is never taken for ours.
const HANDLE_TYPE: u8 = 0x51;

/// The files of all directories of a [`World`], as if they were one file system. A handle is good
/// while the file has a name; numbers are never used again.
pub struct SimFiles {
    world: World,
    life: u64,
}

pub(super) fn handle_of(inode: Inode) -> Result<Handle> {
    let mut bytes = vec![HANDLE_TYPE];
    bytes.extend_from_slice(&inode.to_le_bytes());
    Handle::from_bytes(&bytes).ok_or(Errno::OVERFLOW)
}

impl SimFiles {
    pub(super) fn new(world: World, life: u64) -> SimFiles {
        SimFiles { world, life }
    }

    fn begin(&self, operation: Operation) -> Result<MutexGuard<'_, Machine>> {
        let mut machine = self.world.lock();
        match machine.begin(operation, self.life, "", "")? {
            Some(Effect::Fail(errno)) => Err(errno),
            _ => Ok(machine),
        }
    }

    fn change(&self, file: &Handle, name: &CStr, value: Option<&[u8]>) -> Result<()> {
        let mut machine = self.begin(Operation::SetAttribute)?;
        let inode = find(&machine, file)?;
        let old = machine.image.attribute(inode, name).map(|old| old.len());
        match (old, value) {
            (None, None) => return Err(Errno::NODATA),
            (_, Some(value)) => {
                let room = machine.attribute_bytes_max.unwrap_or(usize::MAX);
                let old = old.map_or(0, |old| old + name.count_bytes());
                let others = machine.image.attribute_bytes(inode).saturating_sub(old);
                if others + name.count_bytes() + value.len() > room {
                    return Err(Errno::NOSPC);
                }
            }
            _ => {}
        }
        machine.emit(Event::Attribute {
            inode,
            name: name.to_owned(),
            value: value.map(|value| Arc::new(value.to_vec())),
        });
        Ok(())
    }
}

/// ESTALE where no name leads to the file.
fn find(machine: &Machine, file: &Handle) -> Result<Inode> {
    let bytes = file.as_bytes().strip_prefix(&[HANDLE_TYPE]);
    let inode = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .map(Inode::from_le_bytes)
        .ok_or(Errno::STALE)?;
    if machine.image.has_name(inode) {
        Ok(inode)
    } else {
        Err(Errno::STALE)
    }
}

impl Files for SimFiles {
    fn attribute(&self, file: &Handle, name: &CStr) -> Result<Vec<u8>> {
        let machine = self.begin(Operation::Attribute)?;
        let inode = find(&machine, file)?;
        let value = machine.image.attribute(inode, name);
        value.map(|value| value.to_vec()).ok_or(Errno::NODATA)
    }

    fn set_attribute(&self, file: &Handle, name: &CStr, value: &[u8]) -> Result<()> {
        self.change(file, name, Some(value))
    }

    fn remove_attribute(&self, file: &Handle, name: &CStr) -> Result<()> {
        self.change(file, name, None)
    }

    fn sync_all(&self) -> Result<()> {
        self.begin(Operation::SyncAll)?.emit(Event::SyncAll);
        Ok(())
    }
}
