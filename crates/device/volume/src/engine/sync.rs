//! Making durable what is visible: one sync for everybody who waits.

use super::Volume;
use crate::error::{Result, VolumeError};
use crate::id::Flight;

impl Volume {
    /// Returns when everything that was visible before is durable.
    ///
    /// # Errors
    /// Of a disk: then it is not known, and the volume stops.
    pub fn sync(&self) -> Result<()> {
        #[cfg(test)]
        let settles = !self.planted(super::Plant::ForgetLeft);
        #[cfg(not(test))]
        let settles = true;
        if settles {
            self.settle()?;
        }
        let target = self.state.lock().applied_below;
        self.sync_below(target)
    }

    /// Returns when all flights below are durable; callers share one sync of the disks.
    pub(super) fn sync_below(&self, target: Flight) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.durable_below >= target {
                return Ok(());
            }
            state.check()?;
            if state.syncing {
                self.changed.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let reached = state.applied_below;
            let dirty = std::mem::take(&mut state.dirty);
            state.counters.syncs += u64::from(dirty.count_ones());
            drop(state);
            let synced = self.sync_disks(dirty);
            state = self.state.lock();
            state.syncing = false;
            match synced {
                Ok(()) => state.durable_below = state.durable_below.max(reached),
                Err(errno) => state.stop("syncing", errno),
            }
            self.changed.notify_all();
        }
    }

    /// Syncs the disks whose bits are set.
    fn sync_disks(&self, disks: u32) -> env::Result<()> {
        #[cfg(test)]
        if self.planted(super::Plant::ForgetSync) {
            return Ok(());
        }
        for (bit, disk) in self.disks.iter().enumerate() {
            if disks & 1 << bit != 0 {
                disk.sync()?;
            }
        }
        Ok(())
    }

    /// Syncs all disks, for a checkpoint.
    pub(super) fn sync_all_disks(&self) -> Result<()> {
        let synced = self.sync_disks(u32::MAX);
        let mut state = self.state.lock();
        state.counters.syncs += self.disks.len() as u64;
        synced.map_err(|errno| {
            state.stop("syncing", errno);
            VolumeError::io("syncing")(errno)
        })
    }
}
