//! The memory of a handle that a write or a sync has failed.

use crate::Result;
use crate::errno::{Errno, Fault, fault};
use std::sync::atomic::{AtomicI32, Ordering};

/// The first failure after which nothing is known about what a handle has written. From then on
/// the handle refuses writes, discards and syncs with the error number of that failure, as
/// [`Disk`](crate::Disk) says. Reads go on.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    /// The error number; 0 while there is none.
    errno: AtomicI32,
}

impl Poison {
    /// The error of the first failure, where there was one.
    pub(crate) fn check(&self) -> Result<()> {
        match self.errno.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// Passes on how a write or discard ended. Where the medium is to blame
    /// ([`Fault::Medium`]), the handle is poisoned.
    pub(crate) fn written(&self, result: Result<()>) -> Result<()> {
        result.inspect_err(|errno| {
            if fault(*errno) == Fault::Medium {
                self.set(*errno);
            }
        })
    }

    /// Passes on how a sync ended. Any failure poisons the handle.
    pub(crate) fn synced(&self, result: Result<()>) -> Result<()> {
        result.inspect_err(|errno| self.set(*errno))
    }

    fn set(&self, errno: Errno) {
        // The first failure is the one to report; a later one changes nothing.
        let _ = self.errno.compare_exchange(
            0,
            errno.raw_os_error(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stays_and_harmless_ones_do_not_count() {
        let poison = Poison::default();
        assert_eq!(poison.written(Err(Errno::NOSPC)), Err(Errno::NOSPC));
        assert_eq!(poison.written(Err(Errno::INTR)), Err(Errno::INTR));
        assert_eq!(poison.synced(Ok(())), Ok(()));
        assert_eq!(poison.check(), Ok(()));
        assert_eq!(poison.synced(Err(Errno::NOSPC)), Err(Errno::NOSPC));
        assert_eq!(poison.written(Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(poison.check(), Err(Errno::NOSPC));
    }
}
