//! A bell of threads of the operating system.

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::errno::Errno;
use crate::net::Bell;
use crate::real::RealClock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct RealBell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl RealBell {
    fn lock(&self) -> MutexGuard<'_, u64> {
        // A number is whole whatever happened to who held it.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell for RealBell {
    fn count(&self) -> u64 {
        *self.lock()
    }

    fn ring(&self) {
        *self.lock() += 1;
        self.rung.notify_all();
    }

    fn wait(&self, seen: u64, deadline: Moment) -> Result<()> {
        let mut rings = self.lock();
        while *rings <= seen {
            let left = deadline.since(RealClock.now());
            if left.is_zero() {
                return Err(Errno::TIMEDOUT);
            }
            let woken = self.rung.wait_timeout(rings, left);
            rings = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
