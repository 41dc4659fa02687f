//! The volume at work.

mod apply;
mod check;
mod clean;
mod commit;
mod group;
mod load;
mod odds;
mod open;
mod read;
mod recent;
mod recovery;
mod save;
mod state;
mod sums;
mod sync;

pub use check::{CheckReport, Damage};
pub use group::Change;
pub use open::identify;
pub use recovery::GivenUp;
pub use state::Stats;

use crate::error::Result;
use crate::geometry::Geometry;
use crate::id::{ObjectId, VolumeId};
use env::Disk;
use parking_lot::{Condvar, Mutex};
use state::State;
use std::sync::Arc;

/// Most flights that are being written at once.
pub const FLIGHTS_MAX: usize = 4;

/// What may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Blocks of a segment, for a new volume.
    pub segment_blocks: u32,
    /// Bytes of memory for checksums of blocks that were looked up: a thousandth of the data that
    /// is read often spares a read of 16 KiB before theirs.
    pub sums_bytes_max: usize,
    /// Whether blocks that compress well share blocks of the log. What is there is read either way.
    pub packs: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_blocks: 1024,
            sums_bytes_max: 32 << 20,
            packs: true,
        }
    }
}

/// A group on its way: what [`Volume::wait`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(pub(crate) u64);

/// Bugs that tests plant, to see that they are found.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// A sync says that it is done and does nothing.
    ForgetSync,
    /// What was written last is remembered when its object is gone.
    RememberRemoved,
    /// A sync does not write what was left.
    ForgetLeft,
    /// Recovery takes what it found of a group whose end is missing.
    HalfGroup,
    /// A segment is free as soon as nothing in it counts, before a checkpoint.
    EarlyReuse,
    /// Recovery does not look at the data of the last flights.
    TrustTail,
    /// The header of a checkpoint is written before its sheets are durable.
    HasteCheckpoint,
    /// Recovery does not look at the packs of the last flights.
    TrustPacks,
}

/// A volume that is open. All calls may come from several threads at once.
pub struct Volume {
    id: VolumeId,
    geometry: Geometry,
    disks: Vec<Arc<dyn Disk>>,
    read_only: bool,
    packs: bool,
    odds: odds::Odds,
    state: Mutex<State>,
    /// Signalled whenever a flight or a sync has ended, or a block is let go.
    changed: Condvar,
    /// Held by who cleans or checkpoints, also over I/O; taken before `state`.
    upkeep: Mutex<()>,
    #[cfg(test)]
    pub(crate) plant: Option<Plant>,
}

impl Volume {
    /// Which it is.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Length of an object in bytes; `None` where there is none.
    pub fn size(&self, object: ObjectId) -> Option<u64> {
        self.state.lock().map.size(object)
    }

    /// Every object and its length in bytes, in order.
    pub fn objects(&self) -> Vec<(ObjectId, u64)> {
        self.state.lock().map.objects().collect()
    }

    /// Commits several writes (object, offset in bytes, content) as one group, in their order:
    /// after a crash all of them are there or none is. They are visible when this returns, and
    /// durable after [`Volume::sync`]. Objects are made where they are missing.
    ///
    /// # Errors
    /// As [`Volume::commit`].
    pub fn atomic_write(&self, writes: &[(ObjectId, u64, &[u8])]) -> Result<()> {
        let changes: Vec<Change<'_>> = (writes.iter())
            .map(|(object, offset, bytes)| Change::Write {
                object: *object,
                offset: *offset,
                bytes,
            })
            .collect();
        self.commit(&changes)
    }

    /// Commits changes as one group, in their order. They are visible when this returns, and
    /// durable after [`Volume::sync`].
    ///
    /// # Errors
    /// [`crate::VolumeError::NoSpace`] and all errors of kind Misuse: nothing was changed. After
    /// an error of a disk it is not known whether the group will be there, and the volume stops.
    pub fn commit(&self, changes: &[Change<'_>]) -> Result<()> {
        let ticket = self.begin(changes)?;
        self.wait(ticket)
    }

    /// Ends: everything is durable and checkpointed, so that the next start has nothing to replay.
    ///
    /// # Errors
    /// Of the disk; what was synced before is safe.
    pub fn close(self) -> Result<()> {
        self.checkpoint()
    }

    #[cfg(test)]
    fn planted(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}

#[cfg(test)]
mod tests;
